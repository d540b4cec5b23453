//! `replayed>0`: how often a message was put back from the dead letters, as `replays` of its view counts.

use super::{Condition, FilterError};

/// How often it may have been put back, both bounds included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replays {
    least: u32,
    most: u32,
}

impl Replays {
    /// Takes up a condition beside those before it: of several the narrowest holds.
    ///
    /// # Errors
    /// It isn't a number, or none is less.
    pub(super) fn narrow(before: Option<Self>, condition: &Condition) -> Result<Self, FilterError> {
        let whole = || condition.refuse("it takes a whole number behind =, > or <, e.g. replayed>0");
        let number: u32 = condition.value.parse().map_err(|_| whole())?;
        let Self { least, most } = before.unwrap_or(Self { least: 0, most: u32::MAX });
        Ok(match condition.sign() {
            '>' => Self { least: least.max(number.saturating_add(1)), most },
            '<' => {
                let last =
                    number.checked_sub(1).ok_or_else(|| condition.refuse("nothing is replayed less than never"))?;
                Self { least, most: most.min(last) }
            }
            _ => Self { least: least.max(number), most: most.min(number) },
        })
    }

    /// Whether a message that was put back so often matches.
    pub fn take(self, replays: u32) -> bool {
        (self.least..=self.most).contains(&replays)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::Filter;
    use crate::message::Message;
    use crate::new_message::NewMessage;
    use crate::port::dead::DeadKind;
    use crate::time::UnixMillis;

    fn replayed(replays: u32) -> Message {
        let new = NewMessage { topic: "bus:x".to_owned(), ..NewMessage::default() };
        let message = new.check(UnixMillis(0), 0).unwrap().message;
        Message { replays, ..Arc::unwrap_or_clone(message) }
    }

    #[test]
    fn a_message_is_found_by_how_often_it_was_put_back() {
        for (text, wanted) in [
            ("replayed=0", [true, false, false]),
            ("replayed>0", [false, true, true]),
            ("replayed=2", [false, false, true]),
            ("replayed<2", [true, true, false]),
            ("replays>0 replayed<2", [false, true, false]),
            ("replayed=0 replayed>0", [false; 3]),
            ("topic=bus:y replayed=0", [false; 3]),
        ] {
            let filter = Filter::parse(text, UnixMillis(0)).unwrap();
            assert_eq!([0, 1, 2].map(|times| filter.takes_message(&replayed(times), UnixMillis(0))), wanted, "{text}");
        }
    }

    /// What isn't a message was never put back as one, so that isn't said of it either.
    #[test]
    fn it_is_a_condition_on_messages_only() {
        for text in ["replayed=0", "replayed>0"] {
            let filter = Filter::parse(text, UnixMillis(0)).unwrap();
            assert_eq!(
                DeadKind::ALL.map(|kind| filter.may_take(kind)),
                DeadKind::ALL.map(|kind| kind == DeadKind::Message)
            );
        }
    }

    #[test]
    fn what_is_no_number_is_refused_with_one() {
        for (text, part) in [
            ("replayed=yes", "e.g. replayed>0"),
            ("replayed=*", "e.g. replayed>0"),
            ("replayed>-1", "e.g. replayed>0"),
            ("replayed<0", "less than never"),
            ("key>1", "only age and replayed"),
            ("replaid=0", "did you mean \"replayed\"?"),
        ] {
            let error = Filter::parse(text, UnixMillis(0)).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
