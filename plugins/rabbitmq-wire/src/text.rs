//! Texts of others, and names that AMQP takes.

use crate::wire::SHORT_BYTES_MAX;

/// A text as an operator may see it: short, on one line.
pub fn shown(text: &str) -> String {
    const CHARS: usize = 200;
    text.chars().take(CHARS).map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

/// A name of an exchange, a queue or a routing key.
///
/// # Errors
/// What is wrong with it.
pub fn name(text: &str) -> Result<String, &'static str> {
    if text.len() > SHORT_BYTES_MAX {
        return Err("is longer than 255 bytes");
    }
    if text.chars().any(char::is_control) {
        return Err("holds a control character");
    }
    Ok(text.to_owned())
}
