//! Names that a statement gives to values: of LET, FOR, closures' arguments and bindings.

const NAME_BYTES_MAX: usize = 64;

/// Names that SurrealDB sets itself, for every row or for the session: what a caller would set under one of them isn't what the
/// statement reads.
pub const RESERVED: [&str; 14] = [
    "access",
    "after",
    "auth",
    "before",
    "event",
    "input",
    "parent",
    "reference",
    "request",
    "self",
    "session",
    "this",
    "token",
    "value",
];

/// Whether SurrealDB sets a parameter of this name itself.
pub fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// Whether a value may be given this name: `[A-Za-z_][A-Za-z0-9_]{0,63}`, and none that SurrealDB sets.
pub fn check_name(name: &str) -> Result<(), String> {
    let first = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    if !first || name.len() > NAME_BYTES_MAX || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return Err(format!(
            "{name:?} can't be the name of a value: letters, digits and _ are taken, at most {NAME_BYTES_MAX}, no digit first"
        ));
    }
    match is_reserved(name) {
        true => Err(format!("${name} is set by the database itself: take another name")),
        false => Ok(()),
    }
}
