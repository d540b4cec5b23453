//! What others wrote, for an operator's eyes.

/// A text as an operator may see it: short, on one line.
pub fn shown(text: &str) -> String {
    const CHARS: usize = 100;
    text.chars().take(CHARS).map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}
