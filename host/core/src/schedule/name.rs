//! Names of schedules.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::limits::NAME_BYTES_MAX;
use crate::error::{InputError, InputResult};

/// Name of a schedule, one of its kind in a tenant: letters, digits, `-`, `_` and `.`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ScheduleName(Arc<str>);

impl ScheduleName {
    pub fn new(text: &str) -> InputResult<Self> {
        const RULE: &str = "isn't a name: use letters, digits, -, _ and ., beginning with a letter or a digit";
        if text.is_empty() {
            return Err(InputError::Empty { field: "name" });
        }
        if text.len() > NAME_BYTES_MAX {
            return Err(InputError::TooLong { field: "name", bytes: text.len(), bytes_max: NAME_BYTES_MAX });
        }
        let begins = text.starts_with(|letter: char| letter.is_ascii_alphanumeric());
        let goes_on = text.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.'));
        if begins && goes_on { Ok(Self(Arc::from(text))) } else { Err(InputError::name("name", text, RULE)) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ScheduleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for ScheduleName {
    type Error = InputError;
    fn try_from(text: String) -> InputResult<Self> {
        Self::new(&text)
    }
}

impl From<ScheduleName> for String {
    fn from(name: ScheduleName) -> Self {
        name.0.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_letters_digits_and_a_few_signs() {
        for good in ["nightly", "a", "7.close-of_day", &"x".repeat(NAME_BYTES_MAX)] {
            assert_eq!(ScheduleName::new(good).map(String::from), Ok(good.to_owned()));
        }
        for bad in ["", ".", "..", "-a", "a b", "a/b", "a~b", "a@b", "Größe", "a\n", &"x".repeat(NAME_BYTES_MAX + 1)]
        {
            assert!(ScheduleName::new(bad).is_err(), "{bad:?}");
        }
    }
}
