//! Statements of a transaction, whose bindings become values: as they are read, what these take of memory is counted, since two
//! bytes of text can be a value of thirty and an object of seven bytes takes a hundred times that.

use std::cell::Cell;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use waybill_core::port::transact::Statement;

use crate::limits::{BINDINGS_BYTES_MAX, STATEMENTS_BYTES_MAX, STATEMENTS_MAX};
use crate::problem::Problem;

/// What a value takes in the list that it is in, which grows by doubling.
const VALUE_BYTES: usize = 2 * size_of::<Value>();
/// What a field takes beside its name and value.
const FIELD_BYTES: usize = 64;
/// What the smallest object takes that isn't empty: room for eleven fields.
const OBJECT_BYTES: usize = 640;
/// What a text takes beside its bytes.
const TEXT_BYTES: usize = 32;

/// Statements of a transaction; past the bound they are only counted.
#[derive(Debug, Default)]
pub struct Statements {
    list: Vec<Statement>,
    beyond: usize,
}

impl Statements {
    /// The statements, unless there are too many.
    pub fn bounded(self) -> Result<Vec<Statement>, Problem> {
        if self.beyond > 0 {
            let count = self.list.len() + self.beyond;
            let text = format!("{count} statements, at most {STATEMENTS_MAX} are taken");
            return Err(Problem::invalid(text).at("statements"));
        }
        Ok(self.list)
    }
}

impl<'de> Deserialize<'de> for Statements {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct StatementsVisitor;
        impl<'de> Visitor<'de> for StatementsVisitor {
            type Value = Statements;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a sequence of statements")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Statements, A::Error> {
                let mut statements = Statements::default();
                let mut left = STATEMENTS_BYTES_MAX;
                while statements.list.len() < STATEMENTS_MAX {
                    let Some(StatementIn { query, bindings }) = seq.next_element()? else { return Ok(statements) };
                    let bytes = query.len().saturating_add(bindings.bytes);
                    let Some(rest) = left.checked_sub(bytes) else {
                        return Err(de::Error::custom(format_args!(
                            "the statements take more than {STATEMENTS_BYTES_MAX} bytes of memory with their bindings: send them in \
                             several transactions"
                        )));
                    };
                    left = rest;
                    statements.list.push(Statement { query, bindings: bindings.values });
                }
                while seq.next_element::<IgnoredAny>()?.is_some() {
                    statements.beyond += 1;
                }
                Ok(statements)
            }
        }
        deserializer.deserialize_seq(StatementsVisitor)
    }
}

/// A statement as it is sent.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StatementIn {
    query: String,
    #[serde(default)]
    bindings: Bindings,
}

/// Values by their names, and what they take.
#[derive(Default)]
struct Bindings {
    values: Map<String, Value>,
    bytes: usize,
}

impl<'de> Deserialize<'de> for Bindings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BindingsVisitor;
        impl<'de> Visitor<'de> for BindingsVisitor {
            type Value = Bindings;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Bindings, A::Error> {
                let room = Room(Cell::new(BINDINGS_BYTES_MAX));
                let values = room.fields(map)?;
                Ok(Bindings { values, bytes: BINDINGS_BYTES_MAX - room.0.get() })
            }
        }
        deserializer.deserialize_map(BindingsVisitor)
    }
}

/// The memory that is left for the values of a statement.
struct Room(Cell<usize>);

impl Room {
    fn take<E: de::Error>(&self, bytes: usize) -> Result<(), E> {
        let left = self.0.get().checked_sub(bytes).ok_or_else(|| {
            E::custom(format_args!(
                "the bindings take more than {BINDINGS_BYTES_MAX} bytes of memory: send them in several transactions"
            ))
        })?;
        self.0.set(left);
        Ok(())
    }

    fn text<E: de::Error>(&self, text: &str) -> Result<(), E> {
        self.take(TEXT_BYTES.saturating_add(text.len()))
    }

    fn fields<'de, A: MapAccess<'de>>(&self, mut map: A) -> Result<Map<String, Value>, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            if fields.is_empty() {
                self.take::<A::Error>(OBJECT_BYTES)?;
            }
            self.take::<A::Error>(FIELD_BYTES)?;
            self.text::<A::Error>(&name)?;
            fields.insert(name, map.next_value_seed(Counted(self))?);
        }
        Ok(fields)
    }
}

/// Reads a value as long as there is room.
#[derive(Clone, Copy)]
struct Counted<'r>(&'r Room);

impl<'de> DeserializeSeed<'de> for Counted<'_> {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Counted<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: de::Error>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Value, E> {
        Ok(Number::from_f64(number).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Value, E> {
        self.0.text::<E>(text)?;
        Ok(Value::String(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(self)? {
            // The first one makes room for four.
            self.0.take::<A::Error>(if items.is_empty() { 4 * VALUE_BYTES } else { VALUE_BYTES })?;
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Value, A::Error> {
        self.0.fields(map).map(Value::Object)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::json::decode;

    fn read(statements: &[String]) -> Result<Vec<Statement>, Problem> {
        decode::value::<Statements>(&format!("[{}]", statements.join(",")))?.bounded()
    }

    fn with(value: &str) -> String {
        format!("{{\"query\":\"RETURN 1\",\"bindings\":{{\"v\":{value}}}}}")
    }

    fn many(item: &str, count: usize) -> String {
        format!("[{}]", vec![item; count].join(","))
    }

    #[test]
    fn values_are_read_as_serde_json_reads_them() {
        let value = json!({
            "a": [1, -2, 1.5, 1e300, true, null, "x\n\u{1f600}", [], {}, u64::MAX, i64::MIN],
            "b": { "c": { "d": [[[]]] }, "": "" },
        });
        let read = read(&[with(&value.to_string()), "{\"query\":\"RETURN 2\"}".to_owned()]).unwrap();
        assert_eq!(read[0].bindings["v"], value);
        assert_eq!((read[1].query.as_str(), read[1].bindings.len()), ("RETURN 2", 0));
    }

    #[test]
    fn short_text_that_becomes_much_memory_is_refused() {
        for (item, fits, beyond) in [
            ("0", 100_000, 400_000),
            ("[]", 100_000, 400_000),
            ("{}", 100_000, 400_000),
            ("\"\"", 100_000, 400_000),
            ("[0]", 10_000, 100_000),
            ("{\"\":0}", 10_000, 40_000),
        ] {
            assert!(read(&[with(&many(item, fits))]).is_ok(), "{fits} of {item}");
            let problem = read(&[with(&many(item, beyond))]).unwrap_err();
            assert_eq!(problem.code.as_str(), "SCHEMA.VALIDATION_FAILED", "{beyond} of {item}");
            assert!(problem.detail.contains("bytes of memory"), "{item}: {}", problem.detail);
        }
        let fields: Vec<_> = (0..200_000).map(|n| format!("\"{n}\":0")).collect();
        assert!(read(&[with(&format!("{{{}}}", fields.join(",")))]).is_err());
        assert!(read(&[with(&format!("\"{}\"", "x".repeat(BINDINGS_BYTES_MAX)))]).is_err());
    }

    #[test]
    fn all_statements_together_are_bounded_too() {
        let one = with(&many("0", 100_000));
        assert!(read(&vec![one.clone(); 3]).is_ok());
        let problem = read(&vec![one; 8]).unwrap_err();
        assert!(problem.detail.contains("several transactions"), "{}", problem.detail);
        let short = "{\"query\":\"\"}".to_owned();
        assert_eq!(read(&vec![short.clone(); STATEMENTS_MAX]).unwrap().len(), STATEMENTS_MAX);
        let problem = read(&vec![short; STATEMENTS_MAX + 2]).unwrap_err();
        assert!(problem.detail.contains("1002 statements"), "{}", problem.detail);
    }
}
