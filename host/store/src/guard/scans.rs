//! Statements whose scan of a table doesn't hold all of the rows that it reads.
//!
//! SurrealDB (3.3.5) reads a table by one cursor, a page at a time, and hands a page over when what works on the one before is done
//! with it (the store turns its buffers and its overlapping off, `embedded/open.rs`). WHERE is applied to a page before anything
//! else sees it. So of a SELECT only those rows stay in memory that its WHERE lets through, and of one that counts them, none.
//! UPDATE and DELETE take one row after the other, and with RETURN NONE they keep nothing but what they write.
//!
//! What is taken here is little on purpose: statements at the top, of one table, in which nothing could read rows of that table
//! before the scan does, since the wall takes the table's first cursor for it. All else is held to what may be held.

use std::collections::HashMap;

use surrealdb_expr::expr::data::Assignment;
use surrealdb_expr::expr::field::Selector;
use surrealdb_expr::expr::statements::{DeleteStatement, SelectStatement, UpdateStatement};
use surrealdb_expr::expr::{
    BinaryOperator, Cond, Data, Expr, Field, Fields, Function, FunctionCall, Groups, Idiom, Limit, Literal,
    LogicalPlan, ObjectEntry, Output, Part, PrefixOperator, RecordIdKeyLit, RecordIdLit, Start, TopLevelExpr,
};
use waybill_surreal::{Comparison, Filter, Holds, Number, Scan, Value, from_json};

use super::functions::{Growth, growth};

/// Functions that, over all rows, keep a number.
const COUNTING: [&str; 5] = ["count", "math::max", "math::mean", "math::min", "math::sum"];

/// Most of them in a statement: SurrealDB takes the fields that they are about out of a whole page of rows before it counts any.
const COUNTED_MAX: usize = 8;

/// What the names of a statement stand for.
pub struct Names<'n> {
    /// Set by earlier statements; they come before bindings.
    pub lets: &'n HashMap<String, Value>,
    pub bindings: &'n serde_json::Map<String, serde_json::Value>,
}

/// The scan of a checked statement, if it has one that lets rows go.
pub fn scan_of(plan: &LogicalPlan, names: &Names<'_>) -> Option<Scan> {
    let Some(TopLevelExpr::Expr(expr)) = plan.expressions.first() else { return None };
    match expr {
        Expr::Select(select) => names.select(select),
        Expr::Let(set) => match &set.what {
            Expr::Select(select) => names.select(select),
            _ => None,
        },
        Expr::Update(update) => names.update(update),
        Expr::Delete(delete) => names.delete(delete),
        _ => None,
    }
}

impl Names<'_> {
    fn select(&self, select: &SelectStatement) -> Option<Scan> {
        let SelectStatement {
            fields,
            omit,
            only: _,
            what,
            with: _,
            cond,
            split,
            group,
            order,
            limit,
            start,
            fetch,
            version,
            timeout,
            explain: _,
            tempfiles: _,
            for_update,
        } = select;
        let table = table(what)?;
        let bounds = limit.iter().map(|Limit(expr)| expr).chain(start.iter().map(|Start(expr)| expr));
        let alone = omit.iter().chain(bounds).chain([version, timeout]).all(is_plain);
        let judged = cond.iter().all(|Cond(expr)| judges(expr));
        if *for_update || fetch.is_some() || !alone || !judged {
            return None;
        }
        let all_rows = matches!(group, Some(Groups(groups)) if groups.is_empty());
        if all_rows && split.is_none() && order.is_none() && counts(fields) {
            return Some(Scan { table, holds: Holds::Nothing });
        }
        if !selectors(fields).all(|Selector { expr, alias: _ }| is_plain(expr)) {
            return None;
        }
        Some(Scan { table, holds: self.matching(cond.as_ref())? })
    }

    fn update(&self, update: &UpdateStatement) -> Option<Scan> {
        let UpdateStatement { only: _, what, with: _, data, cond, output, timeout, explain: _ } = update;
        let alone = is_plain(timeout) && data.iter().all(sets_plainly) && cond.iter().all(|Cond(expr)| is_plain(expr));
        let table = table(what)?;
        match output {
            _ if !alone => None,
            Some(Output::None) => Some(Scan { table, holds: Holds::Nothing }),
            None | Some(Output::Null | Output::Diff | Output::After | Output::Before) => {
                Some(Scan { table, holds: self.matching(cond.as_ref())? })
            }
            Some(Output::Fields(_)) => None,
        }
    }

    fn delete(&self, delete: &DeleteStatement) -> Option<Scan> {
        let DeleteStatement { only: _, what, with: _, cond, output, timeout, explain: _ } = delete;
        let alone = is_plain(timeout) && cond.iter().all(|Cond(expr)| is_plain(expr));
        let table = table(what)?;
        match output {
            _ if !alone => None,
            // Unless it is asked for, DELETE answers nothing.
            None | Some(Output::None) => Some(Scan { table, holds: Holds::Nothing }),
            Some(Output::Null | Output::Diff | Output::After | Output::Before) => {
                Some(Scan { table, holds: self.matching(cond.as_ref())? })
            }
            Some(Output::Fields(_)) => None,
        }
    }

    fn matching(&self, cond: Option<&Cond>) -> Option<Holds> {
        let Cond(expr) = cond?;
        Some(Holds::Matching(self.filter(expr)))
    }

    /// What can be told of a WHERE without SurrealDB.
    fn filter(&self, expr: &Expr) -> Filter {
        let Expr::Binary { left, op, right } = expr else { return Filter::Unknown };
        let comparison = match op {
            BinaryOperator::And => return Filter::All(vec![self.filter(left), self.filter(right)]),
            BinaryOperator::Or => return Filter::Any(vec![self.filter(left), self.filter(right)]),
            BinaryOperator::Equal | BinaryOperator::ExactEqual => Comparison::Equal,
            BinaryOperator::NotEqual => Comparison::NotEqual,
            BinaryOperator::LessThan => Comparison::Less,
            BinaryOperator::LessThanEqual => Comparison::LessEqual,
            BinaryOperator::MoreThan => Comparison::More,
            BinaryOperator::MoreThanEqual => Comparison::MoreEqual,
            _ => return Filter::Unknown,
        };
        match (field(left), self.constant(right)) {
            (Some(field), Some(value)) => Filter::Test { field: field.to_owned(), comparison, value },
            _ => Filter::Unknown,
        }
    }

    /// A number, a flag or a text that stands there or that a name stands for.
    fn constant(&self, expr: &Expr) -> Option<Value> {
        match expr {
            Expr::Literal(Literal::Bool(flag)) => Some(Value::Bool(*flag)),
            Expr::Literal(Literal::Integer(number)) => Some(Value::Number(Number::Int(*number))),
            Expr::Literal(Literal::String(text)) => Some(waybill_surreal::text(text.as_str())),
            Expr::Param(param) => match (self.lets.get(param.as_str()), self.bindings.get(param.as_str())) {
                (Some(value), _) if matches!(value, Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
                    Some(value.clone())
                }
                (None, Some(json)) if json.is_boolean() || json.is_number() || json.is_string() => {
                    Some(from_json(json.clone()))
                }
                _ => None,
            },
            _ => None,
        }
    }
}

/// The one table that a statement is about.
fn table(what: &[Expr]) -> Option<String> {
    match what {
        [Expr::Table(name)] => Some(name.as_str().to_owned()),
        _ => None,
    }
}

/// The field of the row that an expression is.
fn field(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Idiom(Idiom(parts)) => match parts.as_slice() {
            [Part::Field(name)] => Some(name.as_str()),
            _ => None,
        },
        _ => None,
    }
}

fn selectors(fields: &Fields) -> impl Iterator<Item = &Selector> {
    let (one, all) = match fields {
        Fields::Value(selector) => (Some(&**selector), <&[Field]>::default()),
        Fields::Select(fields) => (None, fields.as_slice()),
    };
    one.into_iter().chain(all.iter().filter_map(|field| match field {
        Field::All => None,
        Field::Single(selector) => Some(selector),
    }))
}

/// Whether all rows come to a few numbers.
fn counts(fields: &Fields) -> bool {
    let whole = matches!(fields, Fields::Select(fields) if fields.iter().any(|field| matches!(field, Field::All)));
    !whole
        && selectors(fields).count() <= COUNTED_MAX
        && selectors(fields).all(|Selector { expr, alias: _ }| {
            let Expr::FunctionCall(call) = expr else { return false };
            let FunctionCall { receiver: Function::Normal(name), arguments } = &**call else { return false };
            let counting = COUNTING.contains(&name.to_ascii_lowercase().as_str());
            counting && arguments.len() <= 1 && arguments.iter().all(|argument| field(argument).is_some())
        })
}

/// Whether an expression reads nothing but its row and the records that fields of it name, one at a time.
fn is_plain(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(literal) => is_plain_literal(literal),
        Expr::Param(_) | Expr::Constant(_) => true,
        Expr::Idiom(idiom) => is_plain_path(idiom),
        Expr::Prefix { op: PrefixOperator::Not | PrefixOperator::Positive | PrefixOperator::Negate, expr } => {
            is_plain(expr)
        }
        Expr::Binary { left, op, right } => {
            let searches = matches!(op, BinaryOperator::Matches(_) | BinaryOperator::NearestNeighbor(_));
            !searches && is_plain(left) && is_plain(right)
        }
        Expr::FunctionCall(call) => {
            let FunctionCall { receiver, arguments } = &**call;
            matches!(receiver, Function::Normal(_)) && arguments.iter().all(is_plain)
        }
        _ => false,
    }
}

fn is_plain_literal(literal: &Literal) -> bool {
    match literal {
        Literal::None
        | Literal::Null
        | Literal::Bool(_)
        | Literal::Float(_)
        | Literal::Integer(_)
        | Literal::Decimal(_)
        | Literal::String(_)
        | Literal::Bytes(_)
        | Literal::Duration(_)
        | Literal::Datetime(_)
        | Literal::Uuid(_)
        | Literal::Geometry(_) => true,
        Literal::RecordId(RecordIdLit { table: _, key }) => {
            matches!(key, RecordIdKeyLit::Number(_) | RecordIdKeyLit::String(_) | RecordIdKeyLit::Uuid(_))
        }
        Literal::Array(items) | Literal::Set(items) => items.iter().all(is_plain),
        Literal::Object(entries) => entries.iter().all(|ObjectEntry { key: _, value }| is_plain(value)),
        Literal::UnboundedRange | Literal::File(_) | Literal::Regex(_) => false,
    }
}

/// A path of the row itself.
fn is_plain_path(Idiom(parts): &Idiom) -> bool {
    let steps = |part: &Part| {
        matches!(part, Part::Field(_) | Part::All | Part::Flatten | Part::First | Part::Last | Part::Optional)
    };
    matches!(parts.first(), Some(Part::Field(_))) && parts.iter().all(steps)
}

/// Whether an expression answers a flag and nothing larger: answers for a page of rows are in memory together.
fn judges(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(Literal::Bool(_)) => true,
        Expr::Prefix { op: PrefixOperator::Not, expr } => is_plain(expr),
        Expr::Binary { left, op: BinaryOperator::And | BinaryOperator::Or, right } => judges(left) && judges(right),
        Expr::Binary { left, op, right } => compares(op) && is_plain(left) && is_plain(right),
        Expr::FunctionCall(call) => match &call.receiver {
            Function::Normal(name) => matches!(growth(name), Growth::Scalar) && is_plain(expr),
            _ => false,
        },
        _ => false,
    }
}

fn compares(op: &BinaryOperator) -> bool {
    matches!(
        op,
        BinaryOperator::Equal
            | BinaryOperator::ExactEqual
            | BinaryOperator::NotEqual
            | BinaryOperator::AllEqual
            | BinaryOperator::AnyEqual
            | BinaryOperator::LessThan
            | BinaryOperator::LessThanEqual
            | BinaryOperator::MoreThan
            | BinaryOperator::MoreThanEqual
            | BinaryOperator::Contain
            | BinaryOperator::NotContain
            | BinaryOperator::ContainAll
            | BinaryOperator::ContainAny
            | BinaryOperator::ContainNone
            | BinaryOperator::Inside
            | BinaryOperator::NotInside
            | BinaryOperator::AllInside
            | BinaryOperator::AnyInside
            | BinaryOperator::NoneInside
    )
}

/// Whether what is written to a row is made of that row.
fn sets_plainly(data: &Data) -> bool {
    match data {
        Data::EmptyExpression => true,
        Data::SetExpression(assignments) | Data::UpdateExpression(assignments) => {
            assignments.iter().all(|Assignment { place, operator: _, value }| is_plain_path(place) && is_plain(value))
        }
        Data::UnsetExpression(places) => places.iter().all(is_plain_path),
        Data::PatchExpression(value)
        | Data::MergeExpression(value)
        | Data::ReplaceExpression(value)
        | Data::ContentExpression(value)
        | Data::SingleExpression(value) => is_plain(value),
        Data::ValuesExpression(_) => false,
    }
}
