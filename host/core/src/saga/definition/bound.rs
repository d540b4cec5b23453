//! What an expression takes at most, reckoned from the values that it would read before it is worked out.
//!
//! Expressions share what they only name. What costs is what they make (texts and lists that are joined, objects) and what they
//! compare or search, for every item of the list they go through.

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue};
use serde_json::Value;

/// Bytes that one value takes beside the text in it.
const VALUE_BYTES: usize = 32;
/// Working out one part of an expression once counts as making so many bytes.
const PART_BYTES: usize = 8;
/// Comparing or searching so many bytes counts as making one.
const READS_PER_BYTE: usize = 16;
/// What a path finds where there is nothing: working it out fails then.
static MISSING: Value = Value::Null;
/// Functions that look at their arguments and make a number or a truth.
const LOOKS: [&str; 15] = [
    "_==_",
    "_!=_",
    "_<_",
    "_<=_",
    "_>_",
    "_>=_",
    "@in",
    "_&&_",
    "_||_",
    "!_",
    "@not_strictly_false",
    "size",
    "contains",
    "startsWith",
    "endsWith",
];
const RECKONS: [&str; 5] = ["_-_", "_*_", "_/_", "_%_", "-_"];

/// The values that expressions may name.
pub(super) struct Variables<'v> {
    pub input: &'v Value,
    pub steps: &'v Value,
    pub saga: &'v Value,
}

/// Takes from `room` what the expression makes at most. False when there isn't enough.
pub(super) fn take(expression: &IdedExpr, variables: &Variables<'_>, room: &mut usize) -> bool {
    Reckoning { variables, locals: Vec::new(), times: 1, room }.of(expression).is_some()
}

/// What a part of an expression may be, in all the times that it is worked out.
#[derive(Clone)]
enum Bound<'v> {
    /// One of the values that are there: always the same, or that of each item in turn.
    Known(Vec<&'v Value>),
    Made {
        /// Size, all times together.
        bytes: usize,
        /// Most items of a list or object in it.
        items: usize,
        /// Its items, if it is a list of values that are there.
        known: Option<Vec<&'v Value>>,
    },
}

impl Bound<'_> {
    fn made(bytes: usize, items: usize) -> Self {
        Self::Made { bytes, items, known: None }
    }

    fn items(&self) -> usize {
        match self {
            Self::Known(values) => values.iter().map(|value| longest(value)).max().unwrap_or(0),
            Self::Made { items, .. } => *items,
        }
    }
}

struct Reckoning<'v, 'e, 'r> {
    variables: &'r Variables<'v>,
    locals: Vec<(&'e str, Bound<'v>)>,
    /// How often the part is worked out.
    times: usize,
    room: &'r mut usize,
}

impl<'v, 'e> Reckoning<'v, 'e, '_> {
    /// None when there is no room.
    fn of(&mut self, node: &'e IdedExpr) -> Option<Bound<'v>> {
        self.take(self.times.saturating_mul(PART_BYTES))?;
        match &node.expr {
            Expr::Literal(literal) => Some(self.literal(literal)),
            Expr::Ident(name) => Some(self.named(name)),
            Expr::Select(select) => {
                let operand = self.of(&select.operand)?;
                Some(if select.test { self.small() } else { field(operand, &select.field) })
            }
            Expr::Call(call) => self.call(call),
            Expr::List(list) => self.collection(list.elements.len(), list.elements.iter()),
            Expr::Map(map) => {
                self.collection(map.entries.len(), map.entries.iter().flat_map(|entry| parts(&entry.expr)))
            }
            Expr::Struct(object) => {
                self.collection(object.entries.len(), object.entries.iter().flat_map(|entry| parts(&entry.expr)))
            }
            Expr::Comprehension(inner) => self.comprehension(inner),
            Expr::Unspecified => Some(self.small()),
        }
    }

    fn literal(&self, literal: &LiteralValue) -> Bound<'v> {
        let bytes = match literal {
            LiteralValue::String(text) => text.inner().len(),
            LiteralValue::Bytes(bytes) => bytes.inner().len(),
            _ => 0,
        };
        Bound::made(self.times.saturating_mul(VALUE_BYTES + bytes), 0)
    }

    fn named(&self, name: &str) -> Bound<'v> {
        if let Some((_, bound)) = self.locals.iter().rev().find(|(local, _)| *local == name) {
            return bound.clone();
        }
        Bound::Known(vec![match name {
            "input" => self.variables.input,
            "steps" => self.variables.steps,
            _ => self.variables.saga,
        }])
    }

    fn call(&mut self, call: &'e CallExpr) -> Option<Bound<'v>> {
        let name = call.func_name.as_str();
        let mut parts = Vec::with_capacity(call.args.len() + 1);
        for part in call.target.as_deref().into_iter().chain(&call.args) {
            parts.push(self.of(part)?);
        }
        match (name, parts.as_slice(), call.args.as_slice()) {
            ("_?_:_", [_, yes, no], _) => {
                let bytes = self.bytes(yes).max(self.bytes(no));
                Some(Bound::made(bytes, yes.items().max(no.items())))
            }
            ("_[_]" | "_[?_]" | "_?._", [whole, _], [_, index]) => Some(self.part(whole, index)),
            ("_+_", [left, right], _) => {
                let once = self.times.saturating_mul(VALUE_BYTES);
                let bytes = self.bytes(left).saturating_add(self.bytes(right)).saturating_sub(once);
                self.take(bytes)?;
                Some(Bound::made(bytes, left.items().saturating_add(right.items())))
            }
            _ if RECKONS.contains(&name) => Some(self.small()),
            _ => {
                let bytes = parts.iter().fold(0_usize, |sum, part| sum.saturating_add(self.bytes(part)));
                if LOOKS.contains(&name) {
                    self.take(bytes / READS_PER_BYTE)?;
                    return Some(self.small());
                }
                self.take(bytes)?;
                let small = self.times.saturating_mul(VALUE_BYTES);
                Some(Bound::made(bytes.saturating_add(small), parts.iter().map(Bound::items).max().unwrap_or(0)))
            }
        }
    }

    /// A list or an object of parts. Parts that were made go into it, others are copied.
    fn collection(&mut self, len: usize, parts: impl Iterator<Item = &'e IdedExpr>) -> Option<Bound<'v>> {
        let (mut bytes, mut items) = (self.times.saturating_mul(VALUE_BYTES), len);
        for part in parts {
            let part = self.of(part)?;
            let size = self.bytes(&part);
            self.take(size)?;
            bytes = bytes.saturating_add(size);
            items = items.max(part.items());
        }
        Some(Bound::made(bytes, items))
    }

    fn comprehension(&mut self, inner: &'e ComprehensionExpr) -> Option<Bound<'v>> {
        let range = self.of(&inner.iter_range)?;
        let start = self.of(&inner.accu_init)?;
        let bytes = self.bytes(&range);
        self.take(bytes)?;
        let items = range.items();
        let (count, item) = match range {
            Bound::Known(values) => match values.as_slice() {
                [Value::Array(list)] => (list.len(), Bound::Known(list.iter().collect())),
                _ => (values.iter().map(|value| len(value)).max().unwrap_or(0), Bound::made(bytes, items)),
            },
            Bound::Made { known: Some(values), .. } => (values.len(), Bound::Known(values)),
            Bound::Made { .. } => (items, Bound::made(bytes, items)),
        };
        let known = match &item {
            Bound::Known(values) if keeps_items(inner) => Some(values.clone()),
            _ => None,
        };
        let (times, locals) = (self.times, self.locals.len());
        self.times = times.saturating_mul(count);
        self.locals.extend(inner.iter_var2.as_deref().map(|name| (name, item.clone())));
        self.locals.push((&inner.iter_var, item));
        self.locals.push((&inner.accu_var, Bound::made(0, 0)));
        self.of(&inner.loop_cond)?;
        let step = self.of(&inner.loop_step)?;
        let bytes = self.bytes(&start).saturating_add(self.bytes(&step));
        let items = start.items().saturating_add(count.saturating_mul(step.items()));
        self.times = times;
        self.locals.truncate(locals);
        self.locals.push((&inner.accu_var, Bound::Made { bytes, items, known }));
        let made = self.of(&inner.result);
        self.locals.truncate(locals);
        made
    }

    fn part(&self, whole: &Bound<'v>, index: &IdedExpr) -> Bound<'v> {
        let Bound::Known(values) = whole else { return whole.clone() };
        if let Expr::Literal(LiteralValue::String(name)) = &index.expr {
            return field(Bound::Known(values.clone()), name.inner());
        }
        let largest = |value: &&Value| match value {
            Value::Array(items) => items.iter().map(size).max().unwrap_or(0),
            Value::Object(members) => members.values().map(size).max().unwrap_or(0),
            _ => 0,
        };
        let bytes = values.iter().map(largest).fold(0, usize::saturating_add);
        Bound::made(bytes.saturating_mul(self.each(values.len())), whole.items())
    }

    /// Size, all times together.
    fn bytes(&self, bound: &Bound<'v>) -> usize {
        match bound {
            Bound::Made { bytes, .. } => *bytes,
            Bound::Known(values) => {
                let once = values.iter().map(|value| size(value)).fold(0, usize::saturating_add);
                once.saturating_mul(self.each(values.len()))
            }
        }
    }

    /// How often each of so many values comes.
    fn each(&self, values: usize) -> usize {
        self.times.checked_div(values).unwrap_or(0)
    }

    fn small(&self) -> Bound<'v> {
        Bound::made(self.times.saturating_mul(VALUE_BYTES), 0)
    }

    fn take(&mut self, bytes: usize) -> Option<()> {
        *self.room = self.room.checked_sub(bytes)?;
        Some(())
    }
}

fn field<'v>(operand: Bound<'v>, name: &str) -> Bound<'v> {
    match operand {
        Bound::Known(values) => {
            Bound::Known(values.into_iter().map(|value| value.get(name).unwrap_or(&MISSING)).collect())
        }
        Bound::Made { bytes, items, .. } => Bound::made(bytes, items),
    }
}

/// Whether it is `filter`: what comes out are items of what it goes through.
fn keeps_items(inner: &ComprehensionExpr) -> bool {
    let Expr::Call(choice) = &inner.loop_step.expr else { return false };
    let [_, IdedExpr { expr: Expr::Call(adds), .. }, _] = choice.args.as_slice() else { return false };
    let [_, IdedExpr { expr: Expr::List(list), .. }] = adds.args.as_slice() else { return false };
    let is_item = |item: &IdedExpr| matches!(&item.expr, Expr::Ident(name) if *name == inner.iter_var);
    list.elements.iter().all(is_item)
}

fn parts(entry: &EntryExpr) -> impl Iterator<Item = &IdedExpr> {
    let (key, value) = match entry {
        EntryExpr::MapEntry(entry) => (Some(&entry.key), &entry.value),
        EntryExpr::StructField(field) => (None, &field.value),
    };
    key.into_iter().chain([value])
}

fn size(value: &Value) -> usize {
    VALUE_BYTES
        + match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(size).sum(),
            Value::Object(members) => members.iter().map(|(name, value)| VALUE_BYTES + name.len() + size(value)).sum(),
            _ => 0,
        }
}

fn len(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.len(),
        Value::Object(members) => members.len(),
        _ => 0,
    }
}

/// Most items of a list or object in it.
fn longest(value: &Value) -> usize {
    let below = match value {
        Value::Array(items) => items.iter().map(longest).max(),
        Value::Object(members) => members.values().map(longest).max(),
        _ => None,
    };
    len(value).max(below.unwrap_or(0))
}
