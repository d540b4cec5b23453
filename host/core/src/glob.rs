//! Texts with `*` as a wildcard, as in filters and routes.

/// A text in which `*` stands for any run of characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(String);

impl Glob {
    /// Takes a pattern; every text is one.
    pub fn new(pattern: impl Into<String>) -> Self {
        Self(pattern.into())
    }
    /// Whether a text matches.
    pub fn matches(&self, text: &str) -> bool {
        let mut pieces = self.0.split('*');
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
    /// The text itself when it has no wildcard.
    pub fn exact(&self) -> Option<&str> {
        (!self.0.contains('*')).then_some(self.0.as_str())
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
}
