//! What assertions at compile time ask of files that have to name what a table has: pages, SurrealQL, the author's crate.

/// Whether a text begins so.
pub const fn begins(mut text: &[u8], mut start: &[u8]) -> bool {
    while let [wanted, start_rest @ ..] = start {
        match text {
            [found, text_rest @ ..] if *found == *wanted => (text, start) = (text_rest, start_rest),
            _ => return false,
        }
    }
    true
}

/// Whether a part occurs in a text.
pub const fn has(mut text: &[u8], part: &[u8]) -> bool {
    while !begins(text, part) {
        match text {
            [_, rest @ ..] => text = rest,
            [] => return false,
        }
    }
    true
}
