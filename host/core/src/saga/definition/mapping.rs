//! Input mappings: a JSON value whose strings may hold expressions, `"${ input.order.id }"`.
//!
//! A string that is one expression becomes its value; in any other string each expression's value is written into the text.
//! Expressions are CEL (Common Expression Language), which always ends. What bounds them: length and nesting of the source, one
//! way through a list (no comprehension in a comprehension) over bounded data, what they make on the way ([`super::bound`]), and the
//! size of what comes out.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use cel::common::ast::{EntryExpr, Expr, IdedExpr};
use cel::objects::{Key, Value as CelValue};
use cel::{Context, Program};

use super::bound::{self, Variables};
use super::document::{Node, Value};
use super::problem::{Position, Problem, Severity, nearest};
use crate::saga::json::Json;
use crate::saga::limits::{
    COMPREHENSION_VALUES_MAX, EXPRESSION_BYTES_MAX, MAPPED_BYTES_MAX, MAPPING_DEPTH_MAX, MAPPING_WORK_BYTES_MAX,
};

/// A checked mapping.
#[derive(Clone, Debug)]
pub struct Mapping {
    source: serde_json::Value,
    root: Piece,
    /// Steps whose outputs it reads.
    steps: BTreeSet<String>,
    comprehends: bool,
}

impl PartialEq for Mapping {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

/// A value in the making.
#[derive(Clone, Debug)]
enum Piece {
    Plain(serde_json::Value),
    Whole(Arc<Expression>),
    Text(Vec<Part>),
    List(Vec<Piece>),
    Object(Vec<(String, Piece)>),
}

/// A part of a text.
#[derive(Clone, Debug)]
enum Part {
    Plain(String),
    Value(Arc<Expression>),
}

#[derive(Debug)]
struct Expression {
    text: String,
    program: Program,
}

/// What expressions may name.
const VARIABLES: [&str; 3] = ["input", "steps", "saga"];

/// Reads mappings and collects what is wrong with them.
pub(super) struct Reading<'p> {
    pub problems: &'p mut Vec<Problem>,
    steps: BTreeSet<String>,
    comprehends: bool,
}

impl<'p> Reading<'p> {
    pub fn new(problems: &'p mut Vec<Problem>) -> Self {
        Self { problems, steps: BTreeSet::new(), comprehends: false }
    }

    pub fn mapping(mut self, node: &Node, path: &str) -> Mapping {
        let root = self.piece(node, path, 0);
        Mapping { source: plain(node), root, steps: self.steps, comprehends: self.comprehends }
    }

    fn problem(&mut self, at: Position, path: &str, what: String, fix: &str) {
        let (path, fix) = (path.to_owned(), fix.to_owned());
        self.problems.push(Problem { severity: Severity::Error, at, path, what, fix });
    }

    fn piece(&mut self, node: &Node, path: &str, depth: usize) -> Piece {
        if depth > MAPPING_DEPTH_MAX {
            self.problem(node.at, path, format!("it is nested deeper than {MAPPING_DEPTH_MAX}"), "flatten it");
            return Piece::Plain(serde_json::Value::Null);
        }
        match &node.value {
            Value::Text(text) if text.contains("${") => self.text(text, node.at, path),
            Value::List(items) => {
                let items = items.iter().enumerate();
                Piece::List(items.map(|(at, item)| self.piece(item, &format!("{path}[{at}]"), depth + 1)).collect())
            }
            Value::Table(entries) => {
                let mut members = Vec::with_capacity(entries.len());
                for entry in entries {
                    let piece = self.piece(&entry.node, &format!("{path}.{}", entry.name), depth + 1);
                    members.push((entry.name.clone(), piece));
                }
                Piece::Object(members)
            }
            _ => Piece::Plain(plain(node)),
        }
    }

    fn text(&mut self, text: &str, at: Position, path: &str) -> Piece {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            let (before, from) = rest.split_at(start);
            let body = from.get(2..).unwrap_or_default();
            let Some(end) = closing(body) else {
                self.problem(at, path, "an expression isn't closed".to_owned(), "end it with }");
                return Piece::Plain(serde_json::Value::Null);
            };
            let (source, after) = body.split_at(end);
            if !before.is_empty() {
                parts.push(Part::Plain(before.to_owned()));
            }
            match self.expression(source.trim(), at, path) {
                Some(expression) => parts.push(Part::Value(Arc::new(expression))),
                None => return Piece::Plain(serde_json::Value::Null),
            }
            rest = after.get(1..).unwrap_or_default();
        }
        if !rest.is_empty() {
            parts.push(Part::Plain(rest.to_owned()));
        }
        match parts.as_slice() {
            [Part::Value(whole)] => Piece::Whole(Arc::clone(whole)),
            _ => Piece::Text(parts),
        }
    }

    fn expression(&mut self, text: &str, at: Position, path: &str) -> Option<Expression> {
        if text.len() > EXPRESSION_BYTES_MAX {
            let what = format!("an expression has {} bytes, at most {EXPRESSION_BYTES_MAX} are taken", text.len());
            self.problem(at, path, what, "shorten it, or let the step compute it");
            return None;
        }
        let program = match Program::compile(text) {
            Ok(program) => program,
            Err(errors) => {
                let first = errors.errors.first().map_or_else(|| "it can't be read".to_owned(), |e| e.msg.clone());
                let column = errors.errors.first().map_or(1, |error| error.pos.1.max(0));
                let what = format!("expression {text:?}, at its character {}: {first}", column + 1);
                self.problem(at, path, what, "expressions are CEL, e.g. ${ input.order.id }");
                return None;
            }
        };
        let mut walk = Walk::default();
        walk.visit(program.expression(), 0, &mut Vec::new());
        if walk.nested {
            let what = format!("expression {text:?} goes through a list within going through a list");
            self.problem(at, path, what, "go through one list only, or let the step compute it");
        }
        for name in &walk.unknown {
            let near = nearest(name, VARIABLES).map(|near| format!("did you mean {near:?}? "));
            let fix = format!("{}known: input, steps.<name>.output, saga.id, saga.tenant", near.unwrap_or_default());
            self.problem(at, path, format!("expression {text:?} names {name:?}, which isn't known"), &fix);
        }
        if walk.all_steps {
            let what = format!("expression {text:?} reads `steps` as a whole");
            self.problem(at, path, what, "name the step: steps.<name>.output");
        }
        self.comprehends |= walk.comprehends;
        self.steps.extend(walk.steps);
        Some(Expression { text: text.to_owned(), program })
    }
}

/// Where an expression ends: at the first `}` that isn't in a string or closes a brace of its own.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut open = 0_usize;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(q), c) if c == q => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '{') => open += 1,
            (None, '}') if open == 0 => return Some(at),
            (None, '}') => open -= 1,
            _ => {}
        }
    }
    None
}

/// What an expression uses.
#[derive(Default)]
struct Walk {
    steps: BTreeSet<String>,
    unknown: BTreeSet<String>,
    all_steps: bool,
    comprehends: bool,
    nested: bool,
}

impl Walk {
    fn visit(&mut self, node: &IdedExpr, comprehensions: usize, locals: &mut Vec<String>) {
        match &node.expr {
            Expr::Ident(name) => self.ident(name, locals),
            Expr::Select(select) => match &select.operand.expr {
                Expr::Ident(name) if name == "steps" && !locals.contains(name) => {
                    self.steps.insert(select.field.clone());
                }
                _ => self.visit(&select.operand, comprehensions, locals),
            },
            Expr::Call(call) => {
                let named = match call.args.as_slice() {
                    [object, index] if call.func_name == "_[_]" => step_by_index(object, index),
                    _ => None,
                };
                if let Some(name) = named {
                    self.steps.insert(name);
                    return;
                }
                for part in call.target.as_deref().into_iter().chain(&call.args) {
                    self.visit(part, comprehensions, locals);
                }
            }
            Expr::List(list) => list.elements.iter().for_each(|item| self.visit(item, comprehensions, locals)),
            Expr::Map(map) => map.entries.iter().for_each(|entry| self.entry(&entry.expr, comprehensions, locals)),
            Expr::Struct(object) => {
                object.entries.iter().for_each(|entry| self.entry(&entry.expr, comprehensions, locals));
            }
            Expr::Comprehension(inner) => {
                self.comprehends = true;
                self.nested |= comprehensions > 0;
                self.visit(&inner.iter_range, comprehensions, locals);
                let known = locals.len();
                locals.push(inner.iter_var.clone());
                locals.push(inner.accu_var.clone());
                locals.extend(inner.iter_var2.clone());
                for part in [&inner.accu_init, &inner.loop_cond, &inner.loop_step, &inner.result] {
                    self.visit(part, comprehensions + 1, locals);
                }
                locals.truncate(known);
            }
            Expr::Literal(_) | Expr::Unspecified => {}
        }
    }

    fn ident(&mut self, name: &str, locals: &[String]) {
        if locals.iter().any(|local| local == name) || matches!(name, "input" | "saga") {
            return;
        }
        if name == "steps" {
            self.all_steps = true;
        } else {
            self.unknown.insert(name.to_owned());
        }
    }

    fn entry(&mut self, entry: &EntryExpr, comprehensions: usize, locals: &mut Vec<String>) {
        match entry {
            EntryExpr::MapEntry(entry) => {
                self.visit(&entry.key, comprehensions, locals);
                self.visit(&entry.value, comprehensions, locals);
            }
            EntryExpr::StructField(field) => self.visit(&field.value, comprehensions, locals),
        }
    }
}

/// `steps["name"]`, for names that aren't identifiers.
fn step_by_index(object: &IdedExpr, index: &IdedExpr) -> Option<String> {
    let is_steps = matches!(&object.expr, Expr::Ident(name) if name == "steps");
    match &index.expr {
        Expr::Literal(cel::common::ast::LiteralValue::String(text)) if is_steps => Some(text.inner().to_owned()),
        _ => None,
    }
}

/// A node as JSON.
pub(super) fn plain(node: &Node) -> serde_json::Value {
    match &node.value {
        Value::Null => serde_json::Value::Null,
        Value::Text(text) | Value::Date(text) => text.clone().into(),
        Value::Number(number) => number.clone().into(),
        Value::Bool(flag) => (*flag).into(),
        Value::List(items) => items.iter().map(plain).collect(),
        Value::Table(entries) => {
            serde_json::Value::Object(entries.iter().map(|entry| (entry.name.clone(), plain(&entry.node))).collect())
        }
    }
}

impl Mapping {
    /// As written, as JSON.
    pub fn source(&self) -> &serde_json::Value {
        &self.source
    }

    /// Steps whose outputs it reads.
    pub fn steps(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().map(String::as_str)
    }

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
