//! What single values may be: whole numbers, numbers, flags, durations, sizes, texts.

use std::ops::RangeInclusive;
use std::time::Duration;

use waybill_core::document::Value;

use super::reader::{Found, Key, Raw};
use super::size::{format_size, parse_size};

/// Longest duration a setting takes: a guard against slips such as seconds given as milliseconds, in days.
const DURATION_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Why a value isn't taken.
pub(super) enum Refused {
    /// It is of another type than this.
    Type(String),
    Value {
        written: String,
        /// Why, and what may be written.
        cause: String,
    },
}

/// What a key takes.
pub(super) trait Kind {
    type Value;

    /// The key is also accepted with `_ms` behind its name.
    const MILLISECONDS: bool = false;
    /// `config show` has the key also where nobody set it and it has no default.
    const SHOWN_UNSET: bool = true;

    /// What it takes, for the catalogue.
    fn takes(&self) -> String;

    /// A value as `config show` has it.
    fn shown(&self, value: &Self::Value) -> serde_json::Value;

    /// A default as documented.
    fn written(&self, default: &Self::Value) -> String {
        match self.shown(default) {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        }
    }

    /// Reads what was found for the key.
    fn read(&self, key: &Key, found: &Found<'_>) -> Result<Self::Value, Refused>;
}

/// The integer that a value is.
pub(super) fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64(),
        _ => None,
    }
}

/// What a value is, for messages: TOML tells integers from other numbers.
pub(super) fn kind_of(value: &Value) -> &'static str {
    if integer(value).is_some() { "an integer" } else { value.kind() }
}

/// An integer in a range.
pub(super) struct Whole(pub RangeInclusive<u64>);

impl Kind for Whole {
    type Value = u64;

    fn takes(&self) -> String {
        format!("an integer from {} to {}", self.0.start(), self.0.end())
    }

    fn shown(&self, value: &u64) -> serde_json::Value {
        (*value).into()
    }

    fn read(&self, _: &Key, found: &Found<'_>) -> Result<u64, Refused> {
        let (read, written) = match &found.raw {
            Raw::Node(value) => match integer(value) {
                Some(number) => (u64::try_from(number).ok(), number.to_string()),
                None => return Err(Refused::Type(self.takes())),
            },
            Raw::Text(text) => match text.trim().replace('_', "").parse::<u64>() {
                Ok(number) if number.checked_mul(found.factor).is_some() => (Some(number), text.clone()),
                _ => return Err(Refused::Type(self.takes())),
            },
        };
        let number = read.and_then(|number| number.checked_mul(found.factor));
        number
            .filter(|number| self.0.contains(number))
            .ok_or_else(|| Refused::Value { written, cause: format!("it takes {}", self.takes()) })
    }
}

/// A number in a range.
pub(super) struct Real(pub RangeInclusive<f64>);

impl Kind for Real {
    type Value = f64;

    fn takes(&self) -> String {
        format!("a number from {:?} to {:?}", self.0.start(), self.0.end())
    }

    fn shown(&self, value: &f64) -> serde_json::Value {
        (*value).into()
    }

    fn written(&self, default: &f64) -> String {
        format!("{default:?}")
    }

    fn read(&self, _: &Key, found: &Found<'_>) -> Result<f64, Refused> {
        let read = match &found.raw {
            Raw::Node(Value::Number(number)) => number.as_f64(),
            Raw::Node(Value::OddNumber(text)) => Some(text.parse().unwrap_or(f64::NAN)),
            Raw::Text(text) => text.trim().parse().ok(),
            Raw::Node(_) => None,
        };
        let number = read.ok_or_else(|| Refused::Type(self.takes()))?;
        if self.0.contains(&number) {
            return Ok(number);
        }
        Err(Refused::Value { written: number.to_string(), cause: format!("it takes {}", self.takes()) })
    }
}

pub(super) struct Flag;

impl Kind for Flag {
    type Value = bool;

    fn takes(&self) -> String {
        "true or false".into()
    }

    fn shown(&self, value: &bool) -> serde_json::Value {
        (*value).into()
    }

    fn read(&self, _: &Key, found: &Found<'_>) -> Result<bool, Refused> {
        let read = match &found.raw {
            Raw::Node(Value::Bool(flag)) => Some(*flag),
            Raw::Text(text) => text.trim().parse().ok(),
            Raw::Node(_) => None,
        };
        read.ok_or_else(|| Refused::Type(self.takes()))
    }
}

/// A duration that is at least so long, such as `"10s"`; or milliseconds by a name that ends in `_ms`.
pub(super) struct Time(pub Duration);

fn time(duration: Duration) -> String {
    humantime::format_duration(duration).to_string().replace(' ', "")
}

impl Kind for Time {
    type Value = Duration;

    const MILLISECONDS: bool = true;

    fn takes(&self) -> String {
        "a duration, e.g. \"10s\"".into()
    }

    fn shown(&self, value: &Duration) -> serde_json::Value {
        time(*value).into()
    }

    fn read(&self, key: &Key, found: &Found<'_>) -> Result<Duration, Refused> {
        let by_number = |number: u64| number.checked_mul(found.factor).map(Duration::from_millis);
        let (read, written) = match (&found.raw, found.fixed_unit) {
            (Raw::Node(value), true) => match integer(value) {
                Some(number) => (u64::try_from(number).ok().and_then(by_number), number.to_string()),
                None => return Err(Refused::Type("an integer".into())),
            },
            (Raw::Text(text), true) => (text.trim().parse().ok().and_then(by_number), text.clone()),
            (Raw::Node(Value::Text(text)) | Raw::Text(text), false) => {
                (humantime::parse_duration(text).ok(), format!("{text:?}"))
            }
            (Raw::Node(_), false) => {
                return Err(Refused::Type(format!("a duration in quotes, e.g. \"10s\" (or {}_ms = 10000)", key.name)));
            }
        };
        let cause = match read {
            Some(duration) if (self.0..=DURATION_MAX).contains(&duration) => return Ok(duration),
            Some(_) => format!("it takes at least {} and at most {}", time(self.0), time(DURATION_MAX)),
            None => "a duration is a number with ms, s, m, h or d, e.g. \"90s\" or \"1h30m\"".into(),
        };
        Err(Refused::Value { written, cause })
    }
}

/// A size in bytes, in a range: an integer, or text such as `"64MiB"`.
pub(super) struct Size(pub RangeInclusive<u64>);

impl Kind for Size {
    type Value = u64;

    fn takes(&self) -> String {
        "a size, e.g. 262144 or \"64MiB\"".into()
    }

    fn shown(&self, value: &u64) -> serde_json::Value {
        format_size(*value).into()
    }

    fn read(&self, _: &Key, found: &Found<'_>) -> Result<u64, Refused> {
        let (read, written) = match &found.raw {
            Raw::Node(Value::Text(text)) | Raw::Text(text) => (parse_size(text), format!("{text:?}")),
            Raw::Node(value) => match integer(value) {
                Some(number) => (u64::try_from(number).ok(), number.to_string()),
                None => return Err(Refused::Type(self.takes())),
            },
        };
        let cause = match read {
            Some(bytes) if self.0.contains(&bytes) => return Ok(bytes),
            Some(_) => format!("it takes {} to {}", format_size(*self.0.start()), format_size(*self.0.end())),
            None => "a size is a whole number of bytes, or one with KiB, MiB or GiB".into(),
        };
        Err(Refused::Value { written, cause })
    }
}

/// A text that isn't empty, with what it means.
pub(super) struct Text<'a>(pub &'a str);

impl Kind for Text<'_> {
    type Value = String;

    const SHOWN_UNSET: bool = false;

    fn takes(&self) -> String {
        self.0.to_owned()
    }

    fn shown(&self, value: &String) -> serde_json::Value {
        value.clone().into()
    }

    fn read(&self, _: &Key, found: &Found<'_>) -> Result<String, Refused> {
        match &found.raw {
            Raw::Node(Value::Text(text)) | Raw::Text(text) if text.is_empty() => {
                let cause = "it is empty: leave the key out or give it a value".into();
                Err(Refused::Value { written: "\"\"".into(), cause })
            }
            Raw::Node(Value::Text(text)) | Raw::Text(text) => Ok(text.clone()),
            Raw::Node(_) => Err(Refused::Type("a string in quotes".into())),
        }
    }
}
