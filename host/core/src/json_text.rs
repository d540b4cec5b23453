//! JSON that is kept as its text: whether every reader can read it, and reads the same.

use std::collections::HashSet;

use serde_json::value::RawValue;
use thiserror::Error;

/// Deepest nesting of a payload that is shown as JSON. Common readers stop at 128, and an answer nests it a few levels deeper.
const SHOWN_DEPTH_MAX: usize = 120;
/// Letters of a doubled name that are told.
const NAME_TOLD_MAX: usize = 60;
/// Names of one object that are compared one by one; more are hashed.
const NAMES_COMPARED_MAX: usize = 16;

/// Why readers of JSON refuse a text, or differ in what they read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unreadable {
    #[error("it is nested deeper than {depth_max}")]
    TooDeep { depth_max: usize },
    #[error(
        "{number} is out of range: a number past 64-bit floating point is read by hardly anybody; write it as a text"
    )]
    Number { number: String },
    #[error("{escape} is half of a surrogate pair, which no text may hold; write both halves, or leave it out")]
    Surrogate { escape: String },
    #[error("{name:?} stands twice in one object, and readers differ in which one they take: leave one out")]
    Doubled { name: String },
}

/// What makes JSON of a caller one that not every reader reads alike.
pub fn check(json: &str, depth_max: usize) -> Result<(), Unreadable> {
    Scan { json, depth_max, names: Some(Vec::new()) }.run()
}

/// Stored bytes as JSON that every reader can read; none = they aren't. Callers' are refused unless they are ([`check`]), but
/// earlier builds took others, brokers bring what they like, and doubled names are for the reader to judge.
pub fn readable(bytes: &[u8]) -> Option<&RawValue> {
    let json = serde_json::from_slice::<&RawValue>(bytes).ok()?;
    Scan { json: json.get(), depth_max: SHOWN_DEPTH_MAX, names: None }.run().ok().map(|()| json)
}

/// One pass over a text that is known to be JSON.
struct Scan<'j> {
    json: &'j str,
    depth_max: usize,
    /// Of each open array or object the names so far; none = they don't matter.
    names: Option<Vec<Names<'j>>>,
}

impl<'j> Scan<'j> {
    fn run(mut self) -> Result<(), Unreadable> {
        let bytes = self.json.as_bytes();
        let (mut at, mut depth) = (0, 0_usize);
        while let Some(byte) = bytes.get(at) {
            match byte {
                b'"' => {
                    let end = self.text_end(at)?;
                    self.note_name(at, end)?;
                    at = end;
                    continue;
                }
                b'{' | b'[' => {
                    depth += 1;
                    if depth > self.depth_max {
                        return Err(Unreadable::TooDeep { depth_max: self.depth_max });
                    }
                    self.names.iter_mut().for_each(|open| open.push(Names::Few(Vec::new())));
                }
                b'}' | b']' => {
                    depth = depth.saturating_sub(1);
                    self.names.iter_mut().for_each(|open| drop(open.pop()));
                }
                b'-' | b'0'..=b'9' => {
                    at = self.number_end(at)?;
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
        Ok(())
    }

    /// The place behind a text that begins there.
    fn text_end(&self, begin: usize) -> Result<usize, Unreadable> {
        let bytes = self.json.as_bytes();
        let mut at = begin + 1;
        loop {
            match bytes.get(at) {
                None => return Ok(at),
                Some(b'"') => return Ok(at + 1),
                Some(b'\\') if bytes.get(at + 1) == Some(&b'u') => at = self.escape_end(at)?,
                Some(b'\\') => at += 2,
                Some(_) => at += 1,
            }
        }
    }

    /// The place behind an escape `\uXXXX`, or behind the two of a surrogate pair.
    fn escape_end(&self, at: usize) -> Result<usize, Unreadable> {
        let unit = |at: usize| {
            let escape = self.json.get(at..at + 6)?;
            u16::from_str_radix(escape.strip_prefix("\\u")?, 16).ok()
        };
        match (unit(at), unit(at + 6)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => Ok(at + 12),
            (Some(0xD800..=0xDFFF), _) => {
                Err(Unreadable::Surrogate { escape: self.json.get(at..at + 6).unwrap_or_default().to_owned() })
            }
            _ => Ok(at + 6),
        }
    }

    /// The place behind a number that begins there.
    fn number_end(&self, begin: usize) -> Result<usize, Unreadable> {
        let rest = self.json.get(begin..).unwrap_or_default();
        let length =
            rest.bytes().take_while(|byte| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')).count();
        let number = rest.get(..length).unwrap_or_default();
        if number.parse::<f64>().is_ok_and(f64::is_infinite) {
            let number = number.chars().take(NAME_TOLD_MAX).collect();
            return Err(Unreadable::Number { number });
        }
        Ok(begin + length.max(1))
    }

    /// Notes a text that is the name of a member.
    fn note_name(&mut self, begin: usize, end: usize) -> Result<(), Unreadable> {
        let Some(open) = self.names.as_mut().and_then(|names| names.last_mut()) else { return Ok(()) };
        let behind = self.json.get(end..).unwrap_or_default();
        let Some(quoted) = self.json.get(begin..end).filter(|_| behind.trim_ascii_start().starts_with(':')) else {
            return Ok(());
        };
        match open.insert(quoted) {
            true => Ok(()),
            false => {
                let name: String = serde_json::from_str(quoted).unwrap_or_else(|_| quoted.to_owned());
                Err(Unreadable::Doubled { name: name.chars().take(NAME_TOLD_MAX).collect() })
            }
        }
    }
}

/// Names of one object. Most have few, and comparing those is cheaper than hashing.
enum Names<'j> {
    Few(Vec<Name<'j>>),
    Many(HashSet<Name<'j>>),
}

/// A name without its quotes. Escapes may write the same one in several ways.
type Name<'j> = std::borrow::Cow<'j, str>;

impl<'j> Names<'j> {
    /// Whether it wasn't there yet.
    fn insert(&mut self, quoted: &'j str) -> bool {
        let name: Name<'j> = match quoted.contains('\\') {
            true => serde_json::from_str::<String>(quoted).unwrap_or_else(|_| quoted.to_owned()).into(),
            false => quoted.trim_matches('"').into(),
        };
        match self {
            Self::Few(names) if names.len() < NAMES_COMPARED_MAX => {
                let is_new = !names.contains(&name);
                names.push(name);
                is_new
            }
            Self::Few(names) => {
                let mut many: HashSet<Name<'j>> = names.drain(..).collect();
                let is_new = many.insert(name);
                *self = Self::Many(many);
                is_new
            }
            Self::Many(names) => names.insert(name),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn refused(json: &str) -> String {
        check(json, 5).unwrap_err().to_string()
    }

    #[test]
    fn what_every_reader_reads_alike_is_taken() {
        let many: Vec<String> = (0..40).map(|n| format!("\"k{n}\":{n}")).collect();
        for json in [
            "null",
            "{\"a\":1.10,\"b\":[1,2,{\"a\":-1e308}]}",
            "12345678901234567890123456789",
            "1e-999",
            r#""\ud83d\ude00 \\ud800 \" \u0041""#,
            r#"{"a":"a","b":["a","a"],"c":{"a":{"a":1}}} "#,
            r#"[{"a":1},{"a":1}]"#,
            "[[[[[1]]]]]",
            r#"["[[[[[[[[", "]"]"#,
            &format!("{{{}}}", many.join(",")),
        ] {
            assert_eq!(check(json, 5), Ok(()), "{json}");
            assert!(serde_json::from_str::<serde_json::Value>(json).is_ok(), "{json}");
            assert!(readable(json.as_bytes()).is_some(), "{json}");
        }
    }

    #[test]
    fn what_strict_readers_refuse_is_refused_with_what_to_write() {
        for json in
            ["1e999", "[-1.5E+400]", r#"{"a":"\ud800"}"#, r#"{"\uDC00":1}"#, r#"["\ud800\u0041"]"#, r#""\udc00\ud800""#]
        {
            assert!(check(json, 5).is_err(), "{json}");
            assert!(serde_json::from_str::<serde_json::Value>(json).is_err(), "{json}");
            assert!(readable(json.as_bytes()).is_none(), "{json}");
        }
        assert!(refused("[1e999]").contains("1e999 is out of range"));
        assert!(refused(r#""\uD800""#).contains(r"\uD800 is half of a surrogate pair"));
        assert_eq!(refused("[[[[[[1]]]]]]"), "it is nested deeper than 5");
        assert!(readable("1".repeat(400).as_bytes()).is_none(), "digits alone may be too many");
    }

    #[test]
    fn a_name_stands_once_in_an_object() {
        let many: Vec<String> = (0..40).map(|n| format!("\"k{}\":{n}", n % 39)).collect();
        for json in [
            r#"{"z":1,"a":2,"z":3}"#,
            r#"[{"b":{"z":1,"\u007a":2}}]"#,
            r#"{"z" :1,"z" :2}"#,
            &format!("{{{}}}", many.join(",")),
        ] {
            assert!(refused(json).contains("stands twice in one object"), "{json}");
            assert!(readable(json.as_bytes()).is_some(), "it was stored, and readers read it: {json}");
        }
    }

    #[test]
    fn what_is_nested_as_deep_as_is_shown_fits_an_answer() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let shown = nested(SHOWN_DEPTH_MAX);
        assert!(readable(shown.as_bytes()).is_some());
        let answer = format!("{{\"items\":[{{\"message\":{{\"payload\":{shown}}}}}]}}");
        assert!(serde_json::from_str::<serde_json::Value>(&answer).is_ok());
        assert!(readable(nested(SHOWN_DEPTH_MAX + 1).as_bytes()).is_none());
        assert!(readable(b"{\"a\":").is_none() && readable(b"\"\xff\"").is_none());
    }
}
