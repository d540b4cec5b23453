//! JSON Schemas of plugins, compiled in the host: bounded before anything of them is evaluated.
//!
//! A schema comes from a stranger and is evaluated outside every limit of the sandbox. So what it may cost is counted first:
//! references are followed as the validator would follow them, and one that takes too many steps is refused, as is one that
//! refers to itself or elsewhere. Patterns are matched in linear time.

use std::collections::BTreeMap;

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

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

/// Compiles a schema, or says what isn't taken of it.
pub(crate) fn compile(schema: &Value) -> Result<Validator, String> {
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
    known: BTreeMap<&'s str, Option<usize>>,
    patterns: usize,
}

impl<'s> Count<'s> {
    /// Steps of a value and all in it, references followed.
    fn steps(&mut self, value: &'s Value, refs: usize) -> Result<usize, String> {
        let mut steps = 1_usize;
        match value {
            Value::Object(members) => {
                if let Some(Value::String(target)) = members.get("$ref") {
                    steps = steps.saturating_add(self.referred(target, refs)?);
                }
                for member in members.values() {
                    steps = steps.saturating_add(self.steps(member, refs)?);
                }
            }
            Value::Array(items) => {
                for item in items {
                    steps = steps.saturating_add(self.steps(item, refs)?);
                }
            }
            _ => {}
        }
        if steps > STEPS_MAX {
            return Err(format!("with its references followed it has more than {STEPS_MAX} parts: write it shorter"));
        }
        Ok(steps)
    }

    fn referred(&mut self, target: &'s str, refs: usize) -> Result<usize, String> {
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
        let place = target.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer)).ok_or_else(|| {
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

    #[test]
    fn what_leads_elsewhere_is_refused() {
        for (schema, says) in [
            (json!({ "$ref": "http://127.0.0.1:9/schema" }), "leads nowhere"),
            (json!({ "$ref": "file:///etc/passwd" }), "leads nowhere"),
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
