//! Which of SurrealDB's functions a caller's statement may call.

/// First parts of the names of functions that only compute.
const FAMILIES: [&str; 23] = [
    "array", "bytes", "count", "crypto", "duration", "encoding", "geo", "math", "meta", "not", "object", "parse",
    "rand", "record", "search", "sequence", "set", "string", "time", "type", "value", "vector", "session",
];

/// Members of these families that do more, or make record ids out of data.
const EXCEPT: [&str; 3] = ["encoding::cbor::decode", "type::field", "type::fields"];

/// Functions that make a table or a record id out of their first argument.
const NAMING: [&str; 3] = ["type::record", "type::table", "type::thing"];

/// How a function is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// It may be called.
    Allowed,
    /// Its first argument has to be a text that is known and names no table of Waybill.
    Naming,
    /// It may not be called.
    Refused,
}

/// How a function of this name is treated.
pub fn treatment(name: &str) -> Treatment {
    if NAMING.contains(&name) {
        return Treatment::Naming;
    }
    let family = name.split("::").next().unwrap_or("");
    match FAMILIES.contains(&family) && !EXCEPT.contains(&name) {
        true => Treatment::Allowed,
        false => Treatment::Refused,
    }
}

/// Whether a method turns its value into a record id or table.
pub fn method_names(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    !name.starts_with("is_") && (name.contains("record") || name.contains("table") || name.contains("thing"))
}
