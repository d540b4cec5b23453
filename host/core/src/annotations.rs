//! The annotations that one message has.

use std::fmt;

use crate::annotation::Annotation;
use crate::error::InputResult;

/// At most one text of each [`Annotation`]. Takes 16 bytes for each there may be, and no allocation for one that is absent.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Annotations([Option<Box<str>>; Annotation::COUNT]);

impl Annotations {
    pub fn get(&self, annotation: Annotation) -> Option<&str> {
        self.0.get(annotation as usize)?.as_deref()
    }

    /// Sets one, or takes it away.
    pub fn set<T: Into<Box<str>>>(&mut self, annotation: Annotation, text: Option<T>) {
        if let Some(slot) = self.0.get_mut(annotation as usize) {
            *slot = text.map(Into::into);
        }
    }

    /// The same with one more, or with another text.
    #[must_use]
    pub fn with<T: Into<Box<str>>>(mut self, annotation: Annotation, text: T) -> Self {
        self.set(annotation, Some(text));
        self
    }

    /// Takes one over from another message where it is absent and the text is one that it takes.
    pub fn inherit(&mut self, annotation: Annotation, text: Option<&str>) {
        if self.get(annotation).is_none() {
            self.set(annotation, text.filter(|text| annotation.check(text).is_ok()));
        }
    }

    /// Those there are, in the table's order.
    pub fn iter(&self) -> impl Iterator<Item = (Annotation, &str)> {
        Annotation::ALL.into_iter().filter_map(|annotation| Some((annotation, self.get(annotation)?)))
    }

    /// Whether each text is one that its annotation takes.
    pub fn check(&self) -> InputResult<()> {
        self.iter().try_for_each(|(annotation, text)| annotation.check(text))
    }
}

impl<T: Into<Box<str>>> FromIterator<(Annotation, T)> for Annotations {
    fn from_iter<I: IntoIterator<Item = (Annotation, T)>>(texts: I) -> Self {
        texts.into_iter().fold(Self::default(), |all, (annotation, text)| all.with(annotation, text))
    }
}

impl<T: Into<Box<str>>, const N: usize> From<[(Annotation, T); N]> for Annotations {
    fn from(texts: [(Annotation, T); N]) -> Self {
        texts.into_iter().collect()
    }
}

impl fmt::Debug for Annotations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(annotation, text)| (annotation.name(), text))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_there_and_what_is_taken_away_is_not() {
        let mut all: Annotations = Annotation::ALL.map(|annotation| (annotation, annotation.name())).into();
        assert!(Annotation::ALL.into_iter().all(|annotation| all.get(annotation) == Some(annotation.name())));
        all.set(Annotation::ReplyTo, None::<&str>);
        assert_eq!((all.get(Annotation::ReplyTo), all.iter().count()), (None, Annotation::COUNT - 1));
        all.inherit(Annotation::ReplyTo, Some(""));
        assert_eq!(all.get(Annotation::ReplyTo), None);
        all.inherit(Annotation::ReplyTo, Some("replies"));
        all.inherit(Annotation::ReplyTo, Some("others"));
        assert_eq!(all.get(Annotation::ReplyTo), Some("replies"));
        assert_eq!(format!("{:?}", Annotations::from([(Annotation::ReplyTo, "a")])), r#"{"reply_to": "a"}"#);
    }
}
