//! What a key may take: numbers, durations, sizes, texts, lists, choices, documents and secrets.

use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use super::document::Value;
use super::problem::{Origin, Problem};
use super::reader::{Found, Key, Raw, Section};

/// Longest duration a setting takes: a guard against slips such as seconds given as milliseconds, in days.
const DURATION_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// A value with where it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Set<T> {
    /// The value.
    pub value: T,
    /// Where it came from.
    pub origin: Origin,
}

impl Section<'_, '_> {
    pub(super) fn wrong_type(&mut self, found: &Found<'_>, expected: &str) {
        let kind = match &found.raw {
            Raw::Node(value) => value.kind(),
            Raw::Text(_) => "this text",
        };
        let problem = Problem::WrongType { key: found.name.clone(), expected: expected.to_owned(), found: kind };
        self.reader.problem(problem, found.origin.clone());
    }

    fn bad_value(&mut self, found: &Found<'_>, value: String, cause: String) {
        let problem = Problem::BadValue { key: found.name.clone(), value, cause };
        self.reader.problem(problem, found.origin.clone());
    }

    /// Notes that a value read by one of these methods can't be.
    pub fn refuse<T: ToString>(&mut self, key: &str, set: &Set<T>, cause: impl Into<String>) {
        let problem = Problem::BadValue {
            key: format!("{}.{key}", self.path),
            value: format!("{:?}", set.value.to_string()),
            cause: cause.into(),
        };
        self.reader.problem(problem, set.origin.clone());
    }

    /// An integer in a range.
    pub fn integer(&mut self, key: impl Into<Key>, default: u64, range: RangeInclusive<u64>) -> u64 {
        let key = key.into();
        self.optional_integer(key, Some(default), range).unwrap_or(default)
    }

    /// An integer in a range that may be left out.
    pub fn optional_integer(
        &mut self,
        key: impl Into<Key>,
        default: Option<u64>,
        range: RangeInclusive<u64>,
    ) -> Option<u64> {
        let key = key.into();
        let expected = format!("an integer from {} to {}", range.start(), range.end());
        self.catalogue(key, false, expected.clone(), default.map(|value| value.to_string()));
        let Some(found) = self.find(&key, false) else {
            self.show(key.name, default.into(), Origin::Default);
            return default;
        };
        let read = match &found.raw {
            Raw::Node(Value::Integer(number)) => u64::try_from(*number).ok(),
            Raw::Text(text) => text.trim().replace('_', "").parse().ok(),
            Raw::Node(_) => None,
        };
        match (read.and_then(|number| number.checked_mul(found.factor)), &found.raw) {
            (Some(number), _) if range.contains(&number) => {
                self.show(key.name, number.into(), found.origin);
                Some(number)
            }
            (Some(_), _) | (None, Raw::Node(Value::Integer(_))) => {
                let value = match &found.raw {
                    Raw::Node(Value::Integer(number)) => number.to_string(),
                    Raw::Text(text) => text.clone(),
                    Raw::Node(_) => String::new(),
                };
                self.bad_value(&found, value, format!("it takes {expected}"));
                default
            }
            (None, _) => {
                self.wrong_type(&found, &expected);
                default
            }
        }
    }

    /// A number in a range.
    pub fn number(&mut self, key: impl Into<Key>, default: f64, range: RangeInclusive<f64>) -> f64 {
        let key = key.into();
        let expected = format!("a number from {:?} to {:?}", range.start(), range.end());
        self.catalogue(key, false, expected.clone(), Some(format!("{default:?}")));
        let Some(found) = self.find(&key, false) else {
            self.show(key.name, default.into(), Origin::Default);
            return default;
        };
        let read = match &found.raw {
            Raw::Node(Value::Float(number)) => Some(*number),
            #[expect(clippy::cast_precision_loss, reason = "settings are small numbers")]
            Raw::Node(Value::Integer(number)) => Some(*number as f64),
            Raw::Text(text) => text.trim().parse().ok(),
            Raw::Node(_) => None,
        };
        match read {
            Some(number) if range.contains(&number) => {
                self.show(key.name, number.into(), found.origin);
                number
            }
            Some(number) => {
                self.bad_value(&found, number.to_string(), format!("it takes {expected}"));
                default
            }
            None => {
                self.wrong_type(&found, &expected);
                default
            }
        }
    }

    /// `true` or `false`.
    pub fn boolean(&mut self, key: impl Into<Key>, default: bool) -> bool {
        let key = key.into();
        self.catalogue(key, false, "true or false".into(), Some(default.to_string()));
        let Some(found) = self.find(&key, false) else {
            self.show(key.name, default.into(), Origin::Default);
            return default;
        };
        let read = match &found.raw {
            Raw::Node(Value::Bool(flag)) => Some(*flag),
            Raw::Text(text) => text.trim().parse().ok(),
            Raw::Node(_) => None,
        };
        match read {
            Some(flag) => {
                self.show(key.name, flag.into(), found.origin);
                flag
            }
            None => {
                self.wrong_type(&found, "true or false");
                default
            }
        }
    }

    /// A duration such as `"10s"`, or milliseconds by a name that ends in `_ms`.
    pub fn duration(&mut self, key: impl Into<Key>, default: Duration, least: Duration) -> Duration {
        let key = key.into();
        self.optional_duration(key, Some(default), least).unwrap_or(default)
    }

    /// A duration that may be left out.
    pub fn optional_duration(
        &mut self,
        key: impl Into<Key>,
        default: Option<Duration>,
        least: Duration,
    ) -> Option<Duration> {
        let key = key.into();
        let shown = |duration: Duration| humantime::format_duration(duration).to_string().replace(' ', "");
        self.catalogue(key, true, "a duration, e.g. \"10s\"".into(), default.map(shown));
        let Some(found) = self.find(&key, true) else {
            self.show(key.name, default.map(shown).into(), Origin::Default);
            return default;
        };
        let by_number = |number: u64| number.checked_mul(found.factor).map(Duration::from_millis);
        let (read, written) = match &found.raw {
            Raw::Node(Value::Integer(number)) if found.fixed_unit => {
                (u64::try_from(*number).ok().and_then(by_number), number.to_string())
            }
            Raw::Text(text) if found.fixed_unit => (text.trim().parse().ok().and_then(by_number), text.clone()),
            Raw::Node(Value::Text(text)) if !found.fixed_unit => {
                (humantime::parse_duration(text).ok(), format!("{text:?}"))
            }
            Raw::Text(text) => (humantime::parse_duration(text).ok(), format!("{text:?}")),
            Raw::Node(_) => {
                let expected = if found.fixed_unit {
                    "an integer".to_owned()
                } else {
                    format!("a duration in quotes, e.g. \"10s\" (or {}_ms = 10000)", key.name)
                };
                self.wrong_type(&found, &expected);
                return default;
            }
        };
        match read {
            Some(duration) if (least..=DURATION_MAX).contains(&duration) => {
                self.show(key.name, shown(duration).into(), found.origin);
                Some(duration)
            }
            Some(_) => {
                let cause = format!("it takes at least {} and at most {}", shown(least), shown(DURATION_MAX));
                self.bad_value(&found, written, cause);
                default
            }
            None => {
                let cause = "a duration is a number with ms, s, m, h or d, e.g. \"90s\" or \"1h30m\"";
                self.bad_value(&found, written, cause.into());
                default
            }
        }
    }

    /// A size in bytes: an integer, or text such as `"64MiB"`.
    pub fn size(&mut self, key: impl Into<Key>, default: u64, range: RangeInclusive<u64>) -> u64 {
        let key = key.into();
        self.optional_size(key, Some(default), range).unwrap_or(default)
    }

    /// A size that may be left out.
    pub fn optional_size(
        &mut self,
        key: impl Into<Key>,
        default: Option<u64>,
        range: RangeInclusive<u64>,
    ) -> Option<u64> {
        let key = key.into();
        let expected = "a size, e.g. 262144 or \"64MiB\"".to_owned();
        self.catalogue(key, false, expected.clone(), default.map(format_size));
        let Some(found) = self.find(&key, false) else {
            self.show(key.name, default.map(format_size).into(), Origin::Default);
            return default;
        };
        let (read, written) = match &found.raw {
            Raw::Node(Value::Integer(number)) => (u64::try_from(*number).ok(), number.to_string()),
            Raw::Node(Value::Text(text)) => (parse_size(text), format!("{text:?}")),
            Raw::Text(text) => (parse_size(text), format!("{text:?}")),
            Raw::Node(_) => {
                self.wrong_type(&found, &expected);
                return default;
            }
        };
        match read {
            Some(bytes) if range.contains(&bytes) => {
                self.show(key.name, format_size(bytes).into(), found.origin);
                Some(bytes)
            }
            Some(_) => {
                let cause = format!("it takes {} to {}", format_size(*range.start()), format_size(*range.end()));
                self.bad_value(&found, written, cause);
                default
            }
            None => {
                self.bad_value(
                    &found,
                    written,
                    "a size is a whole number of bytes, or one with KiB, MiB or GiB".into(),
                );
                default
            }
        }
    }

    /// A text, if set.
    pub fn optional_text(&mut self, key: impl Into<Key>, takes: &str) -> Option<Set<String>> {
        let key = key.into();
        self.catalogue(key, false, takes.to_owned(), None);
        let found = self.find(&key, false)?;
        let text = match &found.raw {
            Raw::Node(Value::Text(text)) => text.clone(),
            Raw::Text(text) => text.clone(),
            Raw::Node(_) => {
                self.wrong_type(&found, "a string in quotes");
                return None;
            }
        };
        if text.is_empty() {
            self.bad_value(&found, "\"\"".into(), "it is empty: leave the key out or give it a value".into());
            return None;
        }
        self.show(key.name, text.clone().into(), found.origin.clone());
        Some(Set { value: text, origin: found.origin })
    }

    /// A text with a default.
    pub fn text(&mut self, key: impl Into<Key>, takes: &str, default: &str) -> Set<String> {
        let key = key.into();
        let set = self.optional_text(key, takes);
        if let Some(info) = self.reader.keys.iter_mut().rfind(|info| info.key == key && info.section == self.documented)
        {
            info.default = Some(default.to_owned());
        }
        set.unwrap_or_else(|| {
            self.show(key.name, default.into(), Origin::Default);
            Set { value: default.to_owned(), origin: Origin::Default }
        })
    }

    /// A text that has to be there.
    pub fn required_text(&mut self, key: impl Into<Key>, takes: &str, example: &str) -> Option<Set<String>> {
        let key = key.into();
        let before = self.reader.problems.len();
        let set = self.optional_text(key, takes);
        if set.is_none() && self.reader.problems.len() == before {
            let problem = Problem::Missing {
                section: self.heading(),
                key: key.name.to_owned(),
                fix: format!("write {} = {example}", key.name),
            };
            let at = self.at.clone();
            self.reader.problem(problem, at);
        }
        set
    }

    /// One of some words.
    pub fn choice<T: Copy>(
        &mut self,
        key: impl Into<Key>,
        default: &'static str,
        words: &[(&'static str, T)],
    ) -> Option<T> {
        let key = key.into();
        let all = words.iter().map(|(word, _)| format!("\"{word}\"")).collect::<Vec<_>>().join(" or ");
        let set = self.text(key, &all, default);
        let hit = words.iter().find(|(word, _)| *word == set.value).map(|(_, choice)| *choice);
        if hit.is_none() {
            self.refuse(key.name, &set, format!("it takes {all}"));
        }
        hit
    }

    /// A list of texts; in the environment separated by commas.
    pub fn texts(&mut self, key: impl Into<Key>, takes: &str, default: &[&str]) -> Vec<Set<String>> {
        let key = key.into();
        self.catalogue(key, false, takes.to_owned(), Some(format!("{default:?}")));
        let Some(found) = self.find(&key, false) else {
            self.show(key.name, default.to_vec().into(), Origin::Default);
            return default.iter().map(|text| Set { value: (*text).to_owned(), origin: Origin::Default }).collect();
        };
        let mut items = Vec::new();
        match &found.raw {
            Raw::Node(Value::List(nodes)) => {
                for node in nodes {
                    let origin = self.reader.in_file(node.at);
                    match &node.value {
                        Value::Text(text) => items.push(Set { value: text.clone(), origin }),
                        other => {
                            let problem = Problem::WrongType {
                                key: format!("an element of {}", found.name),
                                expected: "a string in quotes".into(),
                                found: other.kind(),
                            };
                            self.reader.problem(problem, origin);
                        }
                    }
                }
            }
            Raw::Text(text) => items.extend(
                text.split(',')
                    .map(str::trim)
                    .filter(|item| !item.is_empty())
                    .map(|item| Set { value: item.to_owned(), origin: found.origin.clone() }),
            ),
            Raw::Node(_) => {
                self.wrong_type(&found, "an array of strings");
                return Vec::new();
            }
        }
        let shown: Vec<&str> = items.iter().map(|item| item.value.as_str()).collect();
        self.show(key.name, shown.into(), found.origin);
        items
    }

    /// A table that is handed on to a plugin as JSON; `{}` when left out.
    pub fn document(&mut self, key: impl Into<Key>) -> serde_json::Value {
        let key = key.into();
        self.catalogue(key, false, "a table, by the plugin's schema".into(), Some("{}".into()));
        let Some(node) = self.node(&key) else { return serde_json::Value::Object(serde_json::Map::new()) };
        if !matches!(node.value, Value::Table(_)) {
            let problem = Problem::WrongType {
                key: format!("{}.{}", self.path, key.name),
                expected: "a table".into(),
                found: node.value.kind(),
            };
            let at = self.reader.in_file(node.at);
            self.reader.problem(problem, at);
            return serde_json::Value::Object(serde_json::Map::new());
        }
        let document = node.value.to_json();
        let at = self.reader.in_file(node.at);
        self.show(key.name, document.clone(), at);
        document
    }
}

/// A path as written in a file, from that file's folder; absolute.
pub fn beside(file: &Path, path: &str) -> std::path::PathBuf {
    let joined = file.parent().map_or_else(|| path.into(), |folder| folder.join(path));
    std::path::absolute(&joined).unwrap_or(joined)
}

/// `"64MiB"`, `"4 KiB"`, `"1048576"`.
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.replace('_', "").parse().ok()?;
    let factor = match unit.trim() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(factor)
}

/// The shortest exact way to write a size.
pub fn format_size(bytes: u64) -> String {
    for (unit, shift) in [("GiB", 30), ("MiB", 20), ("KiB", 10)] {
        if bytes > 0 && bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written_exactly() {
        for (text, bytes) in [("64MiB", 64 << 20), ("4 KiB", 4096), ("262_144", 262_144), ("1GiB", 1 << 30), ("7", 7)] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        assert_eq!(format_size(262_144), "256KiB");
        assert_eq!(format_size(1001), "1001");
        for text in ["", "MiB", "1MB", "1.5MiB", "-1"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }
}
