//! Topic names, filters and texts as the protocol allows them.

/// Longest text: its length has 16 bits.
pub const TEXT_BYTES_MAX: usize = 65_535;
/// Where the subscription of a group begins.
pub const SHARED: &str = "$share/";

/// Whether every server takes it as a text: short enough, and without control characters and noncharacters, for which a server
/// may end the connection.
pub fn is_text(text: &str) -> bool {
    let is_plain = |byte: u8| (0x20..0x7f).contains(&byte);
    text.len() <= TEXT_BYTES_MAX && (text.bytes().all(is_plain) || text.chars().all(is_taken))
}

fn is_taken(letter: char) -> bool {
    let number = u32::from(letter);
    !letter.is_control() && !(0xfdd0..=0xfdef).contains(&number) && number & 0xfffe != 0xfffe
}

/// Whether messages can be published to a topic of this name.
///
/// # Errors
/// Why not.
pub fn check_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        return Err("is empty");
    }
    if name.len() > TEXT_BYTES_MAX {
        return Err("is longer than 65535 bytes");
    }
    if name.contains(['+', '#']) {
        return Err("holds + or #, which only filters may");
    }
    if !is_text(name) {
        return Err("holds a control character");
    }
    Ok(())
}

/// Whether a filter can be subscribed to.
///
/// # Errors
/// Why not.
pub fn check_filter(filter: &str) -> Result<(), &'static str> {
    if filter.is_empty() {
        return Err("is empty");
    }
    if filter.len() > TEXT_BYTES_MAX || !is_text(filter) {
        return Err("is longer than 65535 bytes, or holds a control character");
    }
    if filter.starts_with(SHARED) {
        return Err("begins with $share/: write the group's name into `share`");
    }
    let mut levels = filter.split('/').peekable();
    while let Some(level) = levels.next() {
        if level.contains('+') && level != "+" {
            return Err("has a + beside other letters of its level");
        }
        if level.contains('#') && (level != "#" || levels.peek().is_some()) {
            return Err("has a # that isn't its last level");
        }
    }
    Ok(())
}

/// Whether the name of a group can be used.
///
/// # Errors
/// Why not.
pub fn check_group(group: &str) -> Result<(), &'static str> {
    if group.is_empty() {
        return Err("is empty");
    }
    if group.contains(['/', '+', '#']) || !is_text(group) {
        return Err("holds /, +, # or a control character");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_no_wildcards_and_filters_have_them_in_their_places() {
        for (name, is_name, is_filter) in [
            ("orders/created", true, true),
            ("orders.created", true, true),
            ("größe", true, true),
            ("/", true, true),
            ("orders/+", false, true),
            ("+/created/#", false, true),
            ("#", false, true),
            ("orders/#/created", false, false),
            ("orders#", false, false),
            ("orders/a+", false, false),
            ("", false, false),
            ("a\0", false, false),
            ("a\n", false, false),
            ("a\u{ffff}", false, false),
            ("$share/group/a", true, false),
        ] {
            assert_eq!((check_name(name).is_ok(), check_filter(name).is_ok()), (is_name, is_filter), "{name:?}");
        }
        assert!(check_name(&"a".repeat(TEXT_BYTES_MAX)).is_ok() && check_name(&"a".repeat(65_536)).is_err());
    }

    #[test]
    fn a_group_is_one_level() {
        assert!(check_group("billing").is_ok());
        for group in ["", "a/b", "+", "a\u{1}"] {
            assert!(check_group(group).is_err(), "{group:?}");
        }
    }
}
