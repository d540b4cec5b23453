//! The value of a mapping, within its bounds.

use std::fmt::Write as _;
use std::sync::Arc;

use cel::Context;
use cel::objects::{Key, Value as CelValue};

use super::super::bound::{self, Variables};
use super::{Expression, Mapping, Part, Piece};
use crate::saga::json::Json;
use crate::saga::limits::{COMPREHENSION_VALUES_MAX, MAPPED_BYTES_MAX, MAPPING_WORK_BYTES_MAX};

impl Mapping {
    /// The value of a mapping. `outputs` are those of the steps so far. The error says which expression failed and why.
    pub fn evaluate<'a>(
        &self,
        input: &Json,
        outputs: impl Iterator<Item = (&'a str, &'a Json)>,
        id: &str,
        tenant: &str,
    ) -> Result<Json, String> {
        let mut steps = serde_json::Map::new();
        for (name, output) in outputs.filter(|(name, _)| self.steps.contains(*name)) {
            let output =
                output.value().map_err(|error| format!("the output of step {name:?} can't be read: {error}"))?;
            steps.insert(name.to_owned(), serde_json::json!({ "output": output }));
        }
        let input = input.value().map_err(|error| format!("the saga's input can't be read: {error}"))?;
        let steps = serde_json::Value::Object(steps);
        let values = if self.comprehends { count(&input) + count(&steps) } else { 0 };
        if values > COMPREHENSION_VALUES_MAX {
            return Err(format!(
                "an expression goes through a list, and input and outputs have {values} values: at most \
                 {COMPREHENSION_VALUES_MAX} are taken for that"
            ));
        }
        let saga = serde_json::json!({ "id": id, "tenant": tenant });
        let variables = Variables { input: &input, steps: &steps, saga: &saga };
        let mut context = Context::default();
        for (name, value) in [("input", &input), ("steps", &steps), ("saga", &saga)] {
            context.add_variable_from_value(name, cel_of(value));
        }
        let mut making = Making { variables, context, room: MAPPED_BYTES_MAX, work: MAPPING_WORK_BYTES_MAX };
        Ok(Json::of(&making.make(&self.root)?))
    }
}

/// One mapping while its value is made.
struct Making<'v> {
    variables: Variables<'v>,
    context: Context<'static, 'static>,
    /// Bytes that the value may still get.
    room: usize,
    /// Bytes that expressions may still make on the way to it.
    work: usize,
}

impl Making<'_> {
    fn make(&mut self, piece: &Piece) -> Result<serde_json::Value, String> {
        Ok(match piece {
            Piece::Plain(value) => value.clone(),
            Piece::Whole(expression) => self.evaluate(expression)?,
            Piece::Text(parts) => {
                let mut text = String::new();
                for part in parts {
                    match part {
                        Part::Plain(plain) => text.push_str(plain),
                        Part::Value(expression) => match self.evaluate(expression)? {
                            serde_json::Value::String(value) => text.push_str(&value),
                            other => write!(text, "{other}").map_err(|error| error.to_string())?,
                        },
                    }
                }
                text.into()
            }
            Piece::List(items) => {
                let items = items.iter().map(|item| self.make(item));
                serde_json::Value::Array(items.collect::<Result<_, _>>()?)
            }
            Piece::Object(members) => {
                let members = members.iter().map(|(name, piece)| Ok((name.clone(), self.make(piece)?)));
                serde_json::Value::Object(members.collect::<Result<_, String>>()?)
            }
        })
    }

    fn evaluate(&mut self, expression: &Expression) -> Result<serde_json::Value, String> {
        let refuse = |cause: String| format!("expression {:?}: {cause}", expression.text);
        if !bound::take(expression.program.expression(), &self.variables, &mut self.work) {
            return Err(refuse(format!(
                "with this input and these outputs, the expressions of the mapping could make more than \
                 {MAPPING_WORK_BYTES_MAX} bytes on the way: join fewer or smaller values, or let the step compute it"
            )));
        }
        let value = expression.program.execute(&self.context).map_err(|error| refuse(error.to_string()))?;
        json_of(&value, &mut self.room).map_err(refuse)
    }
}

/// Values in a value, itself included.
fn count(value: &serde_json::Value) -> usize {
    match value {
        serde_json::Value::Array(items) => 1 + items.iter().map(count).sum::<usize>(),
        serde_json::Value::Object(members) => 1 + members.values().map(count).sum::<usize>(),
        _ => 1,
    }
}

/// JSON as CEL has it: whole numbers are `int` wherever they fit, so that they can be reckoned with.
fn cel_of(value: &serde_json::Value) -> CelValue {
    match value {
        serde_json::Value::Null => CelValue::Null,
        serde_json::Value::Bool(flag) => CelValue::Bool(*flag),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => CelValue::Int(number),
            (None, Some(number)) => CelValue::UInt(number),
            _ => CelValue::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        serde_json::Value::String(text) => CelValue::String(Arc::new(text.clone())),
        serde_json::Value::Array(items) => CelValue::List(Arc::new(items.iter().map(cel_of).collect())),
        serde_json::Value::Object(members) => {
            let members = members.iter();
            let map = members.map(|(name, value)| (Key::String(Arc::new(name.clone())), cel_of(value))).collect();
            CelValue::Map(cel::objects::Map { map: Arc::new(map) })
        }
    }
}

/// A value as JSON, as long as there is room: values are shared, so a few of them could become very large.
fn json_of(value: &CelValue, room: &mut usize) -> Result<serde_json::Value, String> {
    let bytes = match value {
        CelValue::String(text) => text.len(),
        CelValue::Bytes(bytes) => bytes.len() * 4 / 3,
        _ => 0,
    };
    *room = room.checked_sub(bytes + 8).ok_or_else(|| format!("it makes more than {MAPPED_BYTES_MAX} bytes"))?;
    Ok(match value {
        CelValue::List(items) => {
            let items = items.iter().map(|item| json_of(item, room));
            serde_json::Value::Array(items.collect::<Result<_, _>>()?)
        }
        CelValue::Map(map) => {
            let mut members: Vec<(&Key, &CelValue)> = map.map.iter().collect();
            members.sort_by_key(|(key, _)| key.to_string());
            let members = members.into_iter().map(|(key, value)| Ok((key.to_string(), json_of(value, room)?)));
            serde_json::Value::Object(members.collect::<Result<_, String>>()?)
        }
        CelValue::Int(number) => (*number).into(),
        CelValue::UInt(number) => (*number).into(),
        CelValue::Float(number) => serde_json::Number::from_f64(*number)
            .map(serde_json::Value::Number)
            .ok_or("it makes a number that JSON doesn't have")?,
        CelValue::String(text) => serde_json::Value::String((**text).clone()),
        CelValue::Bool(flag) => (*flag).into(),
        CelValue::Null => serde_json::Value::Null,
        CelValue::Bytes(bytes) => {
            use base64::Engine;
            base64::engine::general_purpose::STANDARD.encode(bytes.as_slice()).into()
        }
        other => return Err(format!("it makes {}, which isn't JSON", other.type_of())),
    })
}
