//! Texts with `*` as a wildcard, as in filters and routes.

/// A text in which `*` stands for any run of characters, or one that stands for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    text: String,
    /// It has a `*` that stands for others.
    is_pattern: bool,
}

impl Glob {
    /// Takes a pattern; every text is one.
    pub fn new(pattern: impl Into<String>) -> Self {
        let text = pattern.into();
        Self { is_pattern: text.contains('*'), text }
    }
    /// Takes a text that matches only itself, whatever characters it has: a name that comes from elsewhere than a filter.
    pub fn literal(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_pattern: false }
    }
    /// Whether a text matches.
    pub fn matches(&self, text: &str) -> bool {
        if !self.is_pattern {
            return self.text == text;
        }
        if self.is_any() {
            return true;
        }
        let mut pieces = self.text.split('*');
        let Some(mut left) = pieces.next().and_then(|first| text.strip_prefix(first)) else { return false };
        let pieces: Vec<&str> = pieces.collect();
        let Some((last, middle)) = pieces.split_last() else { return left.is_empty() };
        for piece in middle {
            match left.find(piece) {
                Some(at) => left = left.get(at + piece.len()..).unwrap_or(""),
                None => return false,
            }
        }
        left.ends_with(last)
    }
    /// Whether every text matches.
    pub fn is_any(&self) -> bool {
        self.is_pattern && self.text == "*"
    }
    /// What matches the same as part of a regular expression, in which `any` stands for a character that a `*` takes.
    pub fn regex(&self, any: &str) -> String {
        let mut regex = String::with_capacity(self.text.len() + any.len() + 1);
        for character in self.text.chars() {
            match character {
                '*' if self.is_pattern => regex.extend([any, "*"]),
                plain if plain.is_ascii_alphanumeric() || !plain.is_ascii() => regex.push(plain),
                // Whatever it means there, by its number it stands for itself.
                other => regex.push_str(&format!("\\x{:02X}", u32::from(other))),
            }
        }
        regex
    }
    /// It as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
    /// The text itself when it has no wildcard.
    pub fn exact(&self) -> Option<&str> {
        (!self.is_pattern).then_some(self.text.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_run() {
        let matches = |pattern: &str, text: &str| Glob::new(pattern).matches(text);
        assert!(matches("*a*b", "xxaxxb") && !matches("*a*b", "xxbxxa"));
        assert!(matches("a", "a") && !matches("a", "ab") && matches("*", "") && matches("a*", "a"));
        assert!(!matches("ab*b", "ab"));
    }

    #[test]
    fn as_a_regular_expression_only_a_star_means_something() {
        assert_eq!(Glob::new("a-*.é").regex("[a-z]"), "a\\x2D[a-z]*\\x2Eé");
        assert_eq!(Glob::literal("(a*").regex("."), "\\x28a\\x2A");
    }

    #[test]
    fn a_literal_matches_itself_alone() {
        let star = Glob::literal("a*");
        assert!(star.matches("a*") && !star.matches("ab") && !star.matches("a"));
        assert_eq!((star.exact(), Glob::new("a*").exact()), (Some("a*"), None));
        assert_eq!(Glob::literal("a"), Glob::new("a"));
    }
}
