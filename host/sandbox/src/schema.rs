//! JSON Schemas of plugins, compiled in the host: bounded before anything of them is evaluated.
//!
//! A schema comes from a stranger and is evaluated outside every limit of the sandbox. So what it may cost is counted first:
//! references are followed as the validator would follow them, and one that takes too many steps is refused, as is one that
//! refers to itself or elsewhere. Patterns are matched in linear time. What the count doesn't foresee ends at a deadline.

use std::collections::BTreeMap;
use std::time::Duration;

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use crate::bounded::Bounded;

/// Time for compiling a schema and evaluating it once; what was counted takes milliseconds.
const EVALUATION_MAX: Duration = Duration::from_secs(5);
/// Schemas under evaluation at once, and so evaluations that may hang past their time, at most.
const EVALUATIONS_MAX: usize = 4;
static EVALUATIONS: Bounded = Bounded::new(EVALUATIONS_MAX);

/// Steps of evaluating a schema once with all references followed, at most.
const STEPS_MAX: usize = 20_000;
/// References that lead to references, at most.
const REFS_DEEP_MAX: usize = 8;
/// Longest pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 256;
/// Patterns of one schema, at most.
const PATTERNS_MAX: usize = 64;
/// Memory of one compiled pattern, in bytes.
const PATTERN_MEMORY_BYTES: usize = 1024 * 1024;
/// Dialects that are read, by what their names hold; without a name it is the first.
const DIALECTS: [&str; 3] = ["/2020-12/", "/2019-09/", "/draft-07/"];
/// What leads elsewhere than a pointer would, or anew for each place.
const UNBOUNDED: [&str; 5] = ["$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$anchor"];

/// Keywords that evaluate what they have on the same value: where one beside them looks for what they left, they do it again.
const IN_PLACE: [&str; 7] = ["allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas"];
/// Keywords whose schemas are evaluated again for that, but nothing below them.
const ON_PARTS: [&str; 4] = ["additionalProperties", "unevaluatedProperties", "unevaluatedItems", "contains"];
/// Keywords that look for what those beside them left.
const LEFT: [&str; 2] = ["unevaluatedProperties", "unevaluatedItems"];

/// Says what isn't taken of a schema. Blocks.
pub(crate) fn check(schema: &Value) -> Result<(), String> {
    let schema = schema.clone();
    evaluate(move || compile(&schema).map(|_| ()))
}

/// Where a value isn't as a schema says, if it isn't: the place, and why without the value, because somebody may have written a
/// secret where none belongs. An error if the schema isn't taken. Blocks.
pub(crate) fn first_error(schema: &Value, value: &Value) -> Result<Option<(String, String)>, String> {
    let (schema, value) = (schema.clone(), value.clone());
    evaluate(move || {
        let validator = compile(&schema)?;
        let told = validator
            .validate(&value)
            .err()
            .map(|error| (error.instance_path().as_str().to_owned(), error.masked_with("the value").to_string()));
        Ok(told)
    })
}

fn evaluate<T: Send + 'static>(work: impl FnOnce() -> Result<T, String> + Send + 'static) -> Result<T, String> {
    let done = EVALUATIONS.run(EVALUATION_MAX, work);
    done.map_err(|cause| format!("it can't be evaluated: {cause}")).flatten()
}

/// Compiles a schema, or says what isn't taken of it.
fn compile(schema: &Value) -> Result<Validator, String> {
    if let Some(dialect) = schema.get("$schema") {
        let name = dialect.as_str().map(|name| format!("{}/", name.trim_end_matches(['#', '/']))).unwrap_or_default();
        // `draft-07/schema` and `draft/2020-12/schema`.
        if !DIALECTS.iter().any(|known| name.contains(known)) {
            return Err(format!("$schema {dialect} isn't one of 2020-12, 2019-09 and draft-07"));
        }
    }
    let mut count = Count { root: schema, known: BTreeMap::new(), patterns: 0 };
    count.patterns_of(schema)?;
    count.steps(schema, 0)?;
    let patterns = PatternOptions::regex().size_limit(PATTERN_MEMORY_BYTES).dfa_size_limit(PATTERN_MEMORY_BYTES);
    jsonschema::options().with_pattern_options(patterns).build(schema).map_err(|error| error.to_string())
}

struct Count<'s> {
    root: &'s Value,
    /// Steps of what a reference leads to; none while they are counted.
    known: BTreeMap<&'s str, Option<Steps>>,
    patterns: usize,
}

/// What evaluating a part of a schema takes.
#[derive(Clone, Copy, Debug, Default)]
struct Steps {
    once: usize,
    /// Besides, to find out what the part leaves unevaluated.
    again: usize,
    /// Both, of all that is in it: what an object of schemas by name takes again.
    inside: usize,
}

impl<'s> Count<'s> {
    /// Steps of a value and all in it, references followed.
    fn steps(&mut self, value: &'s Value, refs: usize) -> Result<Steps, String> {
        let mut steps = Steps { once: 1, ..Steps::default() };
        match value {
            Value::Object(members) => {
                if let Some(Value::String(target)) = members.get("$ref") {
                    let there = self.referred(target, refs)?;
                    steps.once = steps.once.saturating_add(there.once);
                    steps.again = steps.again.saturating_add(there.once).saturating_add(there.again);
                }
                for (word, member) in members {
                    let part = self.steps(member, refs)?;
                    let twice = part.once.saturating_add(part.again);
                    steps.once = steps.once.saturating_add(part.once);
                    steps.inside = steps.inside.saturating_add(twice);
                    if IN_PLACE.contains(&word.as_str()) {
                        steps.again = steps.again.saturating_add(twice.max(part.inside));
                    } else if ON_PARTS.contains(&word.as_str()) {
                        steps.again = steps.again.saturating_add(part.once);
                    }
                }
                let looks = LEFT.iter().filter(|word| members.contains_key(**word)).count();
                steps.once = steps.once.saturating_add(steps.again.saturating_mul(looks));
            }
            Value::Array(items) => {
                for item in items {
                    let part = self.steps(item, refs)?;
                    steps.once = steps.once.saturating_add(part.once);
                    steps.again = steps.again.saturating_add(part.again);
                }
            }
            _ => {}
        }
        if steps.once > STEPS_MAX {
            return Err(format!(
                "with its references followed, and what unevaluatedProperties and unevaluatedItems look at again, it has more \
                 than {STEPS_MAX} parts: write it shorter"
            ));
        }
        Ok(steps)
    }

    fn referred(&mut self, target: &'s str, refs: usize) -> Result<Steps, String> {
        match self.known.get(target) {
            Some(Some(steps)) => return Ok(*steps),
            Some(None) => return Err(format!("$ref {target:?} leads back to itself: write out how deep it goes")),
            None => {}
        }
        if refs >= REFS_DEEP_MAX {
            return Err(format!(
                "$ref {target:?} is the {}th in a row, at most {REFS_DEEP_MAX} are followed",
                refs + 1
            ));
        }
        // The validator decodes percent escapes and would come to another place than the count does.
        let plain = target.strip_prefix('#').filter(|pointer| !pointer.contains('%'));
        let place = plain.and_then(|pointer| self.root.pointer(pointer)).ok_or_else(|| {
            format!("$ref {target:?} leads nowhere in the schema: write a pointer into it, like \"#/$defs/name\"")
        })?;
        self.known.insert(target, None);
        let steps = self.steps(place, refs + 1)?;
        self.known.insert(target, Some(steps));
        Ok(steps)
    }

    /// Checks patterns, and that references are pointers from the root wherever they stand.
    fn patterns_of(&mut self, value: &Value) -> Result<(), String> {
        match value {
            Value::Object(members) => {
                if let Some(word) = UNBOUNDED.iter().find(|word| members.contains_key(**word)) {
                    return Err(format!("{word} isn't taken: refer by pointer, like \"#/$defs/name\""));
                }
                if members.contains_key("$id") && !std::ptr::eq(value, self.root) {
                    return Err("$id is taken at the top only: references are pointers from there".to_owned());
                }
                if let Some(Value::String(pattern)) = members.get("pattern") {
                    self.pattern(pattern)?;
                }
                if let Some(Value::Object(by_name)) = members.get("patternProperties") {
                    by_name.keys().try_for_each(|pattern| self.pattern(pattern))?;
                }
                members.values().try_for_each(|member| self.patterns_of(member))
            }
            Value::Array(items) => items.iter().try_for_each(|item| self.patterns_of(item)),
            _ => Ok(()),
        }
    }

    fn pattern(&mut self, pattern: &str) -> Result<(), String> {
        self.patterns += 1;
        if self.patterns > PATTERNS_MAX {
            return Err(format!("it has more than {PATTERNS_MAX} patterns"));
        }
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(format!("a pattern has {} bytes, at most {PATTERN_BYTES_MAX} are taken", pattern.len()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use serde_json::json;

    fn refusal(schema: &Value) -> String {
        compile(schema).err().unwrap_or_else(|| "compiled".to_owned())
    }

    #[test]
    fn what_plugins_write_is_compiled() {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://a.example/config",
            "type": "object", "properties": { "a": { "$ref": "#/$defs/time" }, "b": { "$ref": "#/$defs/time" } },
            "$defs": { "time": { "type": "string", "pattern": "^[0-9]+ ?(ms|s|m|h)$" } },
        });
        let validator = compile(&schema).unwrap();
        assert!(validator.is_valid(&json!({ "a": "5 ms" })) && !validator.is_valid(&json!({ "b": "5 x" })));
        assert!(compile(&json!({ "$schema": "http://json-schema.org/draft-07/schema#" })).is_ok());
        assert!(compile(&json!(true)).is_ok());
    }

    /// Two references to the next, ten times and sixty: as many steps as two to the power of that.
    #[test]
    fn a_schema_that_unfolds_without_end_is_refused() {
        for (length, says) in [(60, "in a row"), (7, "compiled")] {
            let mut defs = serde_json::Map::new();
            for n in 0..length {
                let next = json!({ "$ref": format!("#/$defs/a{}", n + 1) });
                defs.insert(format!("a{n}"), json!({ "allOf": [next, next] }));
            }
            defs.insert(format!("a{length}"), json!({ "type": "integer" }));
            let schema = json!({ "$ref": "#/$defs/a0", "$defs": defs });
            assert!(refusal(&schema).contains(says), "{}", refusal(&schema));
        }
        let wide: Vec<Value> = (0..50).map(|_| json!({ "$ref": "#/$defs/b" })).collect();
        let defs = json!({ "a": { "anyOf": wide }, "b": { "anyOf": (0..500).map(|n| json!({ "const": n })).collect::<Vec<_>>() } });
        assert!(refusal(&json!({ "$ref": "#/$defs/a", "$defs": defs })).contains("parts"));
        assert!(refusal(&json!({ "allOf": [{ "$ref": "#" }, { "$ref": "#" }] })).contains("itself"));
        let around = json!({ "a": { "not": { "$ref": "#/$defs/b" } }, "b": { "not": { "$ref": "#/$defs/a" } } });
        assert!(refusal(&json!({ "$ref": "#/$defs/a", "$defs": around })).contains("itself"));
    }

    /// Each level evaluates the one below it twice, and is compiled as often.
    #[test]
    fn what_looks_for_the_unevaluated_again_and_again_is_refused() {
        let nested = |deep: usize, level: &dyn Fn(Value) -> Value| (0..deep).fold(json!(true), |inner, _| level(inner));
        let levels: [&dyn Fn(Value) -> Value; 7] = [
            &|inner| json!({ "unevaluatedProperties": { "type": "string" }, "anyOf": [inner] }),
            &|inner| json!({ "unevaluatedItems": false, "oneOf": [inner] }),
            &|inner| json!({ "unevaluatedProperties": false, "if": inner }),
            &|inner| json!({ "unevaluatedProperties": inner }),
            &|inner| json!({ "unevaluatedItems": false, "contains": inner }),
            &|inner| json!({ "unevaluatedProperties": false, "dependentSchemas": { "a": { "additionalProperties": inner } } }),
            &|inner| json!({ "unevaluatedProperties": false, "anyOf": [{ "properties": { "dependentSchemas": inner } }] }),
        ];
        for level in levels {
            assert!(refusal(&nested(28, level)).contains("parts"), "{}", level(json!(true)));
            assert_eq!(refusal(&nested(3, level)), "compiled", "{}", level(json!(true)));
        }
        let mut defs = serde_json::Map::new();
        for n in 0..8 {
            let next = json!([{ "$ref": format!("#/$defs/a{}", n + 1) }]);
            defs.insert(
                format!("a{n}"),
                json!({ "unevaluatedProperties": false, "unevaluatedItems": false, "allOf": next }),
            );
        }
        defs.insert("a8".to_owned(), json!({ "enum": (0..20).collect::<Vec<_>>() }));
        let schema = json!({ "properties": { "a": { "$ref": "#/$defs/a1" } }, "$defs": defs });
        assert!(refusal(&schema).contains("parts"), "{}", refusal(&schema));
    }

    #[test]
    fn what_is_put_together_may_be_closed() {
        let schema = json!({
            "allOf": [{ "$ref": "#/$defs/address" }, { "$ref": "#/$defs/limits" }],
            "properties": { "peers": { "type": "array", "items": {
                "$ref": "#/$defs/address", "unevaluatedProperties": false,
            } } },
            "unevaluatedProperties": false,
            "$defs": {
                "address": { "type": "object", "properties": { "host": { "type": "string" }, "port": { "type": "integer" } } },
                "limits": { "type": "object", "properties": { "rate": { "type": "integer", "minimum": 1 } } },
            },
        });
        assert_eq!(first_error(&schema, &json!({ "host": "a", "rate": 1, "peers": [{ "port": 1 }] })), Ok(None));
        let told = first_error(&schema, &json!({ "peers": [{ "password": "hunter2" }] })).unwrap().unwrap();
        assert!(told.0.starts_with("/peers/0") && !told.1.contains("hunter2"), "{told:?}");
        assert!(check(&json!({ "$dynamicRef": "#" })).is_err());
    }

    #[test]
    fn what_leads_elsewhere_is_refused() {
        for (schema, says) in [
            (json!({ "$ref": "http://127.0.0.1:9/schema" }), "leads nowhere"),
            (json!({ "$ref": "file:///etc/passwd" }), "leads nowhere"),
            (json!({ "$ref": "#/$defs/%64x", "$defs": { "%64x": true, "dx": { "enum": [1, 2] } } }), "leads nowhere"),
            (json!({ "$ref": "#name", "$defs": { "a": { "$anchor": "name" } } }), "$anchor"),
            (json!({ "$dynamicRef": "#" }), "$dynamicRef"),
            (json!({ "properties": { "a": { "$id": "http://other.example" } } }), "$id"),
            (json!({ "$schema": "http://json-schema.org/draft-04/schema#" }), "2020-12"),
            (json!({ "$schema": 5 }), "2020-12"),
        ] {
            assert!(refusal(&schema).contains(says), "{schema}: {}", refusal(&schema));
        }
    }

    #[test]
    fn patterns_are_short_few_and_linear() {
        let many: serde_json::Map<String, Value> = (0..65).map(|n| (format!("a{n}"), json!(true))).collect();
        for schema in [
            json!({ "pattern": "a".repeat(257) }),
            json!({ "patternProperties": many }),
            json!({ "pattern": "(a+)+\\1$" }),
            json!({ "pattern": "(?=a)b" }),
            json!({ "pattern": "((a{1,100}){1,100}){1,100}" }),
        ] {
            assert_ne!(refusal(&schema), "compiled", "{schema}");
        }
        // What takes a backtracking matcher for ever.
        let validator = compile(&json!({ "pattern": "^(a+)+$" })).unwrap();
        assert!(!validator.is_valid(&json!(format!("{}b", "a".repeat(50_000)))));
    }
}
