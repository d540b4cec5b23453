//! Reading keys: numbers, durations, sizes, texts, lists, choices and documents.
//!
//! The call that reads a key is its declaration: name and aliases, kind with range, default. `config show`, the catalogue that
//! `docs/configuration.md` is held against, and the check of unknown keys follow from it.

use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use waybill_core::document::Value;

use super::problem::{Origin, Problem};
use super::reader::{Found, Key, Raw, Section};
use super::scalar::{Flag, Kind, Real, Refused, Size, Text, Time, Whole, kind_of};

/// A value with where it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Set<T> {
    pub value: T,
    /// Where it came from.
    pub origin: Origin,
}

impl Section<'_, '_> {
    pub(super) fn wrong_type(&mut self, found: &Found<'_>, expected: &str) {
        let kind = match &found.raw {
            Raw::Node(value) => kind_of(value),
            Raw::Text(_) => "this text",
        };
        let problem = Problem::WrongType { key: found.name.clone(), expected: expected.to_owned(), found: kind };
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

    /// Reads a key. Where it is wrong the default stands in, so that reading goes on.
    fn key<K: Kind>(&mut self, key: Key, kind: &K, default: Option<K::Value>) -> Option<Set<K::Value>> {
        self.catalogue(key, K::MILLISECONDS, kind.takes(), default.as_ref().map(|default| kind.written(default)));
        let found = self.find(&key, K::MILLISECONDS);
        if let Some(found) = found {
            match kind.read(&key, &found) {
                Ok(value) => {
                    self.show(key.name, kind.shown(&value), found.origin.clone());
                    return Some(Set { value, origin: found.origin });
                }
                Err(Refused::Type(expected)) => self.wrong_type(&found, &expected),
                Err(Refused::Value { written, cause }) => {
                    let problem = Problem::BadValue { key: found.name, value: written, cause };
                    self.reader.problem(problem, found.origin);
                }
            }
        } else if default.is_some() || K::SHOWN_UNSET {
            let shown = default.as_ref().map(|default| kind.shown(default));
            self.show(key.name, shown.into(), Origin::Default);
        }
        default.map(|value| Set { value, origin: Origin::Default })
    }

    /// The same without where it came from.
    fn value<K: Kind>(&mut self, key: impl Into<Key>, kind: &K, default: Option<K::Value>) -> Option<K::Value> {
        self.key(key.into(), kind, default).map(|set| set.value)
    }

    /// An integer in a range.
    pub fn integer(&mut self, key: impl Into<Key>, default: u64, range: RangeInclusive<u64>) -> u64 {
        self.value(key, &Whole(range), Some(default)).unwrap_or(default)
    }

    /// An integer in a range that may be left out.
    pub fn optional_integer(&mut self, key: impl Into<Key>, range: RangeInclusive<u64>) -> Option<u64> {
        self.value(key, &Whole(range), None)
    }

    /// A number in a range.
    pub fn number(&mut self, key: impl Into<Key>, default: f64, range: RangeInclusive<f64>) -> f64 {
        self.value(key, &Real(range), Some(default)).unwrap_or(default)
    }

    /// A number in a range that may be left out.
    pub fn optional_number(&mut self, key: impl Into<Key>, range: RangeInclusive<f64>) -> Option<f64> {
        self.value(key, &Real(range), None)
    }

    pub fn boolean(&mut self, key: impl Into<Key>, default: bool) -> bool {
        self.value(key, &Flag, Some(default)).unwrap_or(default)
    }

    /// A boolean that may be left out.
    pub fn optional_boolean(&mut self, key: impl Into<Key>) -> Option<Set<bool>> {
        self.key(key.into(), &Flag, None)
    }

    /// A duration such as `"10s"`, or milliseconds by a name that ends in `_ms`.
    pub fn duration(&mut self, key: impl Into<Key>, default: Duration, least: Duration) -> Duration {
        self.value(key, &Time(least), Some(default)).unwrap_or(default)
    }

    /// A duration that may be left out.
    pub fn optional_duration(
        &mut self,
        key: impl Into<Key>,
        default: Option<Duration>,
        least: Duration,
    ) -> Option<Duration> {
        self.value(key, &Time(least), default)
    }

    /// A size in bytes: an integer, or text such as `"64MiB"`.
    pub fn size(&mut self, key: impl Into<Key>, default: u64, range: RangeInclusive<u64>) -> u64 {
        self.value(key, &Size(range), Some(default)).unwrap_or(default)
    }

    /// A size that may be left out.
    pub fn optional_size(&mut self, key: impl Into<Key>, range: RangeInclusive<u64>) -> Option<u64> {
        self.value(key, &Size(range), None)
    }

    /// A text, if set.
    pub fn optional_text(&mut self, key: impl Into<Key>, takes: &str) -> Option<Set<String>> {
        self.key(key.into(), &Text(takes), None)
    }

    /// A text with a default.
    pub fn text(&mut self, key: impl Into<Key>, takes: &str, default: &str) -> Set<String> {
        let normal = || Set { value: default.to_owned(), origin: Origin::Default };
        self.key(key.into(), &Text(takes), Some(default.to_owned())).unwrap_or_else(normal)
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
        self.list(key.into(), takes, default, false)
    }

    /// The same, or one text alone.
    pub fn text_or_texts(&mut self, key: impl Into<Key>, takes: &str, default: &[&str]) -> Vec<Set<String>> {
        self.list(key.into(), takes, default, true)
    }

    fn list(&mut self, key: Key, takes: &str, default: &[&str], may_be_alone: bool) -> Vec<Set<String>> {
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
                                found: kind_of(other),
                            };
                            self.reader.problem(problem, origin);
                        }
                    }
                }
            }
            Raw::Node(Value::Text(text)) if may_be_alone => {
                items.push(Set { value: text.clone(), origin: found.origin.clone() });
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
                found: kind_of(&node.value),
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
