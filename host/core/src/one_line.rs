//! Texts of plugins, workers and receivers on one line, before they reach logs, history and terminals.

use std::borrow::Cow;

/// The text with what could begin another line of a log, draw on a terminal or turn its order around written as an escape:
/// `\n`, `\r`, `\u{1b}`. Everything else stays as it is.
pub fn one_line(text: &str) -> Cow<'_, str> {
    if !text.contains(moves) {
        return Cow::Borrowed(text);
    }
    let mut line = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        if moves(letter) {
            line.extend(letter.escape_default());
        } else {
            line.push(letter);
        }
    }
    Cow::Owned(line)
}

/// The same of an owned text.
pub fn into_one_line(text: String) -> String {
    match one_line(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(line) => line,
    }
}

/// Controls, separators of lines and paragraphs, and marks that set the direction of writing.
fn moves(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{61c}')
        || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_stays_on_its_line() {
        assert!(matches!(one_line("fine ünd clear"), Cow::Borrowed(_)));
        assert_eq!(
            one_line("a\r\n2026 ERROR b\u{1b}[1m\u{9b}\u{2028}\u{202e}"),
            "a\\r\\n2026 ERROR b\\u{1b}[1m\\u{9b}\\u{2028}\\u{202e}"
        );
        assert_eq!(into_one_line("a\tb".to_owned()), "a\\tb");
    }
}
