//! From text to a type, and from a failure to a problem that names path, line, column and a likely remedy.

use serde::Deserialize;
use serde::de::DeserializeSeed;
use waybill_core::code::Code;
use waybill_core::json_fault::fault;

use crate::aliases::{Field, HOST_KEPT};
use crate::problem::Problem;

/// Names differing more than this (Jaro-Winkler) aren't suggested.
const SUGGEST_MIN: f64 = 0.75;

/// The text of a body.
pub fn utf8(body: &[u8]) -> Result<&str, Problem> {
    std::str::from_utf8(body).map_err(|error| {
        Problem::new(Code::SCHEMA_JSON, format!("the body isn't UTF-8: the fault is at byte {}", error.valid_up_to()))
    })
}

/// Reads a value of a type that knows its own shape.
pub fn value<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, Problem> {
    seed(text, || std::marker::PhantomData)
}

/// Reads a value through a seed. A failure makes a second pass with another one, to learn the path.
pub fn seed<'de, S: DeserializeSeed<'de>>(text: &'de str, make: impl Fn() -> S) -> Result<S::Value, Problem> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let result = make().deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    result.map_err(|error| explain(text, make(), &error))
}

fn explain<'de, S: DeserializeSeed<'de>>(text: &'de str, seed: S, error: &serde_json::Error) -> Problem {
    let mut track = serde_path_to_error::Track::new();
    let mut reader = serde_json::Deserializer::from_str(text);
    let again = seed.deserialize(serde_path_to_error::Deserializer::new(&mut reader, &mut track));
    let path = if again.is_err() { track.path().to_string() } else { String::new() };
    let mut problem = if error.is_data() {
        Problem::invalid(remedy(&fault(error)))
    } else if text.trim_ascii().is_empty() {
        Problem::new(Code::SCHEMA_JSON, "the body is empty: send JSON")
    } else {
        Problem::new(Code::SCHEMA_JSON, format!("the body isn't JSON: {}", fault(error)))
    };
    problem.at.path = (error.is_data() && !path.is_empty() && path != "." && path != "?").then_some(path);
    problem.at.line = (error.line() > 0).then_some(error.line());
    problem.at.column = (error.line() > 0).then_some(error.column());
    problem
}

/// Says in words what readers of numbers say in types.
fn plain(message: &str) -> Option<String> {
    if matches!(message, "invalid digit found in string" | "cannot parse integer from empty string") {
        return Some("it isn't a whole number".to_owned());
    }
    if message.starts_with("number too ") {
        return Some("the number is out of range".to_owned());
    }
    let (found, wanted) = message.rsplit_once(", expected ")?;
    let wanted = match wanted {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more",
        "i8" | "i16" | "i32" | "i64" => "a whole number",
        "f32" | "f64" => "a number",
        _ => return None,
    };
    let found = found.replace("invalid type: ", "").replace("invalid value: ", "");
    let found = found.replace("floating point ", "").replace("integer ", "");
    Some(format!("it must be {wanted}, not {found}"))
}

/// Adds a suggestion to serde's text about an unknown name, and words for types.
pub fn remedy(message: &str) -> String {
    if let Some(plain) = plain(message) {
        return plain;
    }
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let [unknown, known @ ..] = quoted.as_slice() else { return message.to_owned() };
    let what = if message.contains("unknown field `") {
        "field"
    } else if message.contains("unknown variant `") {
        "value"
    } else {
        return message.to_owned();
    };
    if HOST_KEPT.contains(unknown) && known.starts_with(Field::NAMES) {
        return format!("{unknown:?} is kept by the host: leave it out");
    }
    let nearest = known
        .iter()
        .map(|name| (strsim::jaro_winkler(unknown, name), name))
        .filter(|(likeness, _)| *likeness >= SUGGEST_MIN)
        .max_by(|(a, _), (b, _)| a.total_cmp(b));
    let list = known.join(", ");
    match nearest {
        Some((_, name)) => format!("there is no {what} {unknown:?}: did you mean {name:?}? Known: {list}"),
        None if known.is_empty() => format!("there is no {what} {unknown:?}: none is taken here"),
        None => format!("there is no {what} {unknown:?}. Known: {list}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        #[expect(dead_code, reason = "only its reading matters")]
        note: String,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Outer {
        #[expect(dead_code, reason = "only its reading matters")]
        list: Vec<Inner>,
    }

    #[test]
    fn a_fault_has_path_line_column_and_remedy() {
        let problem = value::<Outer>("{\"list\":[{\"note\":\"a\"},\n {\"nota\":1}]}").unwrap_err();
        assert_eq!(problem.code.as_str(), "SCHEMA.VALIDATION_FAILED");
        assert_eq!(problem.at.path.as_deref(), Some("list[1].nota"));
        assert_eq!(problem.at.line, Some(2));
        assert!(problem.detail.contains("did you mean \"note\"?"), "{}", problem.detail);
        let problem = value::<Outer>("{\"list\":[{\"note\":7}]}").unwrap_err();
        assert_eq!(problem.at.path.as_deref(), Some("list[0].note"));
        assert!(!problem.detail.contains("at line"), "{}", problem.detail);
    }

    #[test]
    fn no_type_of_a_library_is_told() {
        for (text, told) in [
            ("invalid digit found in string", "it isn't a whole number"),
            ("number too large to fit in target type", "the number is out of range"),
            ("invalid type: floating point `1.5`, expected u32", "it must be a whole number, 0 or more, not `1.5`"),
            ("invalid value: integer `-1`, expected u32", "it must be a whole number, 0 or more, not `-1`"),
            (
                "invalid type: string \"a\", expected a text or an integer",
                "invalid type: string \"a\", expected a text or an integer",
            ),
        ] {
            assert_eq!(remedy(text), told);
        }
    }

    #[test]
    fn text_that_is_not_json_has_its_own_code() {
        for (text, line) in [("{", 1), ("{\"list\":[}", 1), ("{\"list\":[]} x", 1), ("{\n\"list\": nope}", 2)] {
            let problem = value::<Outer>(text).unwrap_err();
            assert_eq!((problem.code.as_str(), problem.at.line), ("SCHEMA.JSON", Some(line)), "{text}");
        }
        assert!(value::<Outer>("  ").unwrap_err().detail.contains("empty"));
        assert_eq!(utf8(b"{\xff}").unwrap_err().code.as_str(), "SCHEMA.JSON");
    }
}
