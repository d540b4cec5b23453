//! What a form says.

/// Members of a form as they were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given(pub Vec<(String, String)>);

impl Given {
    /// Empty where it isn't there.
    pub fn text(&self, name: &str) -> &str {
        self.0.iter().find(|(of, _)| of == name).map_or("", |(_, value)| value.as_str())
    }

    /// It is there, be it empty.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(of, _)| of == name)
    }

    pub fn set(&mut self, name: &str, value: String) {
        match self.0.iter_mut().find(|(of, _)| of == name) {
            Some((_, present)) => *present = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// With line ends as they were before a browser sent them.
    pub fn lines(&self, name: &str) -> String {
        self.text(name).replace("\r\n", "\n").replace('\r', "\n")
    }

    pub fn is_set(&self, name: &str) -> bool {
        !self.text(name).is_empty()
    }
}
