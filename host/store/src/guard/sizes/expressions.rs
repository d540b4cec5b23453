//! Expressions, literals and operators.

use std::rc::Rc;

use surrealdb_expr::expr::statements::{ForeachStatement, IfelseStatement, OutputStatement, SetStatement};
use surrealdb_expr::expr::{BinaryOperator, Block, Expr, Kind, Literal, ObjectEntry, PostfixOperator, PrefixOperator};
use waybill_surreal::shape_weight;

use super::calls::{TEXT_TIMES, texts};
use super::scope::{Captured, Known};
use super::size::{Size, VALUE};
use super::work::FOR_ROUNDS;
use super::{Judged, Sizes};
use crate::guard::names::is_reserved;

/// Names that stand for the row, or for a part of it.
const OF_ROW: [&str; 9] = ["after", "before", "event", "input", "parent", "reference", "self", "this", "value"];
/// Bytes of what the database knows of a session.
const SESSION_BYTES: u64 = 4_096;

impl<'e> Sizes<'e> {
    pub(super) fn expr(&mut self, expr: &'e Expr) -> Judged {
        self.step()?;
        self.depth += 1;
        let size = self.looked_at(expr);
        self.depth -= 1;
        if let Ok(size) = &size {
            self.looks_at(&size.clone().and(Size::scalar()));
        }
        size
    }

    fn looked_at(&mut self, expr: &'e Expr) -> Judged {
        match expr {
            Expr::Literal(literal) => self.literal(literal),
            Expr::Param(param) if self.is_closure(expr) => {
                Err(format!("${} is a closure: call it, it can't be a part of a value", param.as_str()))
            }
            Expr::Param(param) => Ok(self.param(param.as_str())),
            Expr::Constant(_) | Expr::Break | Expr::Continue => Ok(Size::scalar()),
            Expr::Table(name) => {
                Ok(Size { ids: true, tables: true, ..Size::fixed(VALUE + name.as_str().len() as u64) })
            }
            Expr::Idiom(idiom) => self.idiom(idiom),
            Expr::Block(block) => self.block(block),
            Expr::Prefix { op, expr } => self.prefix(op, expr),
            Expr::Postfix { expr, op } => self.postfix(expr, op),
            Expr::Binary { left, op, right } => self.binary(left, op, right),
            Expr::FunctionCall(call) => self.call(call),
            // It would hold copies of all values around it.
            Expr::Closure(_) => {
                Err("a closure is taken as an argument or in a LET of a block, not as a value".to_owned())
            }
            Expr::Return(output) => {
                let OutputStatement { what, fetch } = &**output;
                let size = self.expr(what)?;
                let size = self.fetched(size, fetch.as_ref())?;
                self.returned = larger(std::mem::take(&mut self.returned), size.clone());
                Ok(size)
            }
            Expr::Throw(value) => self.expr(value),
            Expr::IfElse(choice) => self.choice(choice),
            Expr::Select(select) => self.select(select),
            Expr::Create(create) => self.create(create),
            Expr::Update(update) => self.update(update),
            Expr::Upsert(upsert) => self.upsert(upsert),
            Expr::Delete(delete) => self.delete(delete),
            Expr::Relate(relate) => self.relate(relate),
            Expr::Insert(insert) => self.insert(insert),
            Expr::Foreach(each) => self.foreach(each),
            Expr::Let(set) => self.set(set),
            Expr::Define(_) | Expr::Remove(_) | Expr::Rebuild(_) | Expr::Alter(_) | Expr::Info(_) => {
                Err("statements that change or show definitions aren't taken".to_owned())
            }
            Expr::Mock(_) | Expr::Sleep(_) | Expr::Explain { format: _, analyze: _, statement: _ } | Expr::Match(_) => {
                Err("what it makes can't be bounded".to_owned())
            }
        }
    }

    pub(super) fn param(&self, name: &str) -> Size {
        match self.scope.get(name) {
            Some(known) => known.size.clone(),
            None if OF_ROW.contains(&name) => self.this(),
            None if is_reserved(name) => Size::fixed(SESSION_BYTES),
            // Nobody has set it: it is NONE.
            None => Size::scalar(),
        }
    }

    /// The row at hand.
    pub(super) fn this(&self) -> Size {
        match self.row.and_then(|level| self.levels.get(level).map(|found| (level, &found.source))) {
            Some((level, source)) => Self::item_of(source, level),
            None => Size::rows(),
        }
    }

    fn literal(&mut self, literal: &'e Literal) -> Judged {
        match literal {
            Literal::None | Literal::Null | Literal::Bool(_) | Literal::Float(_) | Literal::Decimal(_) => {
                Ok(Size::scalar())
            }
            Literal::UnboundedRange => Ok(Size::scalar().range(None)),
            Literal::Integer(number) => Ok(Size { number: Some(*number), ..Size::scalar() }),
            Literal::Duration(_) | Literal::Datetime(_) | Literal::Uuid(_) => Ok(Size::scalar()),
            Literal::String(text) => {
                self.made("a text", Size { count: Some(1), ..Size::fixed(VALUE + text.as_str().len() as u64) })
            }
            Literal::Bytes(bytes) => self.made("bytes", Size::fixed(VALUE + bytes.0.len() as u64)),
            Literal::Geometry(shape) => self.made("a shape", Size::fixed(VALUE.saturating_add(shape_weight(shape)))),
            Literal::File(_) => Err("files aren't taken".to_owned()),
            Literal::Regex(_) => Err("regular expressions aren't taken".to_owned()),
            Literal::RecordId(id) => self.record_id(id),
            Literal::Array(items) | Literal::Set(items) => {
                self.sets |= matches!(literal, Literal::Set(_));
                let all = self.exprs(items)?;
                let list = Size { count: Some(items.len() as u64), ..all.and(Size::scalar()) };
                self.made("an array", list)
            }
            Literal::Object(entries) => self.entries(entries),
        }
    }

    pub(super) fn entries(&mut self, entries: &'e [ObjectEntry]) -> Judged {
        let mut all = Size::scalar();
        for ObjectEntry { key, value } in entries {
            let name = Size::fixed(VALUE + key.as_str().len() as u64);
            all = all.and(self.expr(value)?).and(name);
        }
        self.made("an object", all)
    }

    /// A block: its names end with it.
    pub(super) fn block(&mut self, Block(exprs): &'e Block) -> Judged {
        let outside = self.names();
        let mut last = Size::scalar();
        for expr in exprs {
            last = self.expr(expr)?;
        }
        self.scope = outside;
        // A RETURN somewhere inside ends it early.
        Ok(larger(last, self.returned.clone()))
    }

    fn prefix(&mut self, op: &'e PrefixOperator, value: &'e Expr) -> Judged {
        let size = self.expr(value)?;
        match op {
            PrefixOperator::Not => Ok(Size::scalar()),
            PrefixOperator::Positive => Ok(size),
            PrefixOperator::Negate => Ok(Size { number: size.number.and_then(i64::checked_neg), ..size }),
            PrefixOperator::Range | PrefixOperator::RangeInclusive => Ok(size.range(None)),
            PrefixOperator::Cast(to) => {
                self.sets |= matches!(to, Kind::Set(_, _) | Kind::Either(_) | Kind::Any | Kind::Literal(_));
                let cast = self.cast(to, size);
                self.made("a cast", cast)
            }
        }
    }

    /// What a value is as this type. A range becomes all of its numbers, bytes become numbers.
    fn cast(&self, to: &Kind, from: Size) -> Size {
        match to {
            Kind::Bool
            | Kind::Datetime
            | Kind::Decimal
            | Kind::Duration
            | Kind::Float
            | Kind::Int
            | Kind::Number
            | Kind::Uuid
            | Kind::None
            | Kind::Null => Size::scalar(),
            Kind::String | Kind::Regex | Kind::Bytes => texts(self, from, TEXT_TIMES),
            Kind::Array(_, _) | Kind::Set(_, _) | Kind::Either(_) | Kind::Any | Kind::Literal(_) => {
                // Ranges among its items may become lists as well.
                let items = if from.ranges && !from.numbers { u64::MAX } else { self.items(&from) };
                let (count, ranges) = if from.numbers { (Some(items), false) } else { (None, from.ranges) };
                let listed = Size::list(items, items.saturating_mul(VALUE));
                Size { count, ranges, ..from.times(VALUE).and(listed) }
            }
            Kind::Range => from.range(None),
            Kind::Record(_)
            | Kind::Table(_)
            | Kind::Object
            | Kind::Geometry(_)
            | Kind::File(_)
            | Kind::Function(_, _) => Size { ids: true, tables: true, ..from.part() },
        }
    }

    fn postfix(&mut self, value: &'e Expr, op: &'e PostfixOperator) -> Judged {
        match op {
            PostfixOperator::Range | PostfixOperator::RangeSkip => {
                let size = self.expr(value)?;
                Ok(size.range(None))
            }
            PostfixOperator::MethodCall(name, arguments) => {
                let of = self.expr(value)?;
                self.method(name, of, arguments)
            }
            PostfixOperator::Call(arguments) => {
                let given = arguments.iter().map(|argument| self.expr(argument)).collect::<Result<Vec<_>, _>>()?;
                let called = self.closure_of(value)?;
                self.invoke(&called, given)
            }
        }
    }

    fn binary(&mut self, left: &'e Expr, op: &BinaryOperator, right: &'e Expr) -> Judged {
        let (one, other) = (self.expr(left)?, self.expr(right)?);
        self.binary_works(&one, op, &other);
        match op {
            BinaryOperator::Add => {
                // Without a text or an item in either of them they are numbers, times, or empty.
                let plain = |size: &Size| size.fixed <= VALUE && size.of.iter().all(|count| *count == 0);
                match plain(&one) && plain(&other) {
                    true => Ok(Size::scalar()),
                    false => self.made("+", one.and(other)),
                }
            }
            BinaryOperator::Subtract => Ok(one.part()),
            BinaryOperator::Multiply
            | BinaryOperator::Divide
            | BinaryOperator::Remainder
            | BinaryOperator::Power
            | BinaryOperator::Equal
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
            | BinaryOperator::Outside
            | BinaryOperator::Intersects
            | BinaryOperator::Matches(_)
            | BinaryOperator::NearestNeighbor(_) => Ok(Size::scalar()),
            BinaryOperator::Or
            | BinaryOperator::And
            | BinaryOperator::NullCoalescing
            | BinaryOperator::TenaryCondition => Ok(larger(one, other)),
            BinaryOperator::Range
            | BinaryOperator::RangeInclusive
            | BinaryOperator::RangeSkip
            | BinaryOperator::RangeSkipInclusive => {
                let count = one
                    .number
                    .zip(other.number)
                    .map(|(from, until)| u64::try_from(i128::from(until) - i128::from(from) + 1).unwrap_or(0));
                Ok(one.and(other).range(count))
            }
        }
    }

    /// What an operator does more than to look at both of its values once.
    fn binary_works(&mut self, one: &Size, op: &BinaryOperator, other: &Size) {
        match op {
            BinaryOperator::ContainAll
            | BinaryOperator::ContainAny
            | BinaryOperator::ContainNone
            | BinaryOperator::AllInside
            | BinaryOperator::AnyInside
            | BinaryOperator::NoneInside
            | BinaryOperator::Outside
            | BinaryOperator::Intersects => self.compares(one, other),
            // Lists, sets and objects among them.
            BinaryOperator::Add | BinaryOperator::Subtract => self.may_compare(one, other),
            // Shapes: a list is looked through once.
            BinaryOperator::Contain
            | BinaryOperator::NotContain
            | BinaryOperator::Inside
            | BinaryOperator::NotInside
                if one.count.is_none() && other.count.is_none() =>
            {
                self.may_compare(one, other);
            }
            _ => {}
        }
    }

    fn choice(&mut self, choice: &'e IfelseStatement) -> Judged {
        let IfelseStatement { exprs, close } = choice;
        let mut result = Size::scalar();
        for (condition, then) in exprs {
            self.expr(condition)?;
            let then = self.expr(then)?;
            result = larger(result, then);
        }
        if let Some(other) = close {
            let other = self.expr(other)?;
            result = larger(result, other);
        }
        Ok(result)
    }

    /// A loop keeps nothing of its rounds but what they set: that may not become larger from round to round.
    fn foreach(&mut self, each: &'e ForeachStatement) -> Judged {
        let ForeachStatement { param, range, block } = each;
        let source = self.expr(range)?;
        let outside = self.names();
        let rounds = self.items(&source).min(FOR_ROUNDS);
        let round = self.each(source, rounds, |sizes, level| {
            let item = sizes.levels.get(level).map(|level| level.source.clone()).unwrap_or_default();
            let item = Self::item_of(&item, level);
            sizes.scope.set(param.as_str(), Known::value(item.clone()));
            sizes.round(block)?;
            let (held, first) = (sizes.bytes, sizes.names());
            // Once more with what the first round has set.
            sizes.scope.set(param.as_str(), Known::value(item));
            sizes.round(block)?;
            sizes.bytes = held;
            for (name, before) in first.sizes() {
                let after = sizes.scope.get(name).map_or(0, |known| sizes.bytes(&known.size));
                if after > sizes.bytes(before) {
                    return Err(format!("${name} may become larger in every round of FOR: make it without a loop"));
                }
            }
            Ok(Size::scalar())
        });
        self.scope = outside;
        round.map(|_| Size::scalar())
    }

    /// A round of a loop, whose names are left set.
    fn round(&mut self, Block(exprs): &'e Block) -> Result<(), String> {
        exprs.iter().try_for_each(|expr| self.expr(expr).map(|_| ()))
    }

    fn set(&mut self, set: &'e SetStatement) -> Judged {
        // Its type only refuses values, it makes none.
        let SetStatement { name, what, kind: _ } = set;
        let closure = self.found_closure(what);
        // A closure holds copies of all values around it.
        let size = match &closure {
            Some(closure) => closure.scope.sizes().fold(Size::scalar(), |all, (_, size)| all.and(size.clone())),
            None => self.expr(what)?,
        };
        let size = self.made("a LET", size)?;
        self.scope.set(name.as_str(), Known { size, closure });
        Ok(Size::scalar())
    }

    /// The closure that an expression is.
    pub(super) fn closure_of(&self, expr: &'e Expr) -> Result<Rc<Captured<'e>>, String> {
        self.found_closure(expr)
            .ok_or_else(|| "it calls a closure that doesn't stand there or in a LET of the same block".to_owned())
    }

    fn found_closure(&self, expr: &'e Expr) -> Option<Rc<Captured<'e>>> {
        match expr {
            Expr::Closure(closure) => Some(Rc::new(Captured { closure, scope: self.scope.clone() })),
            Expr::Param(param) => self.scope.get(param.as_str()).and_then(|known| known.closure.clone()),
            _ => None,
        }
    }

    /// Whether an expression is a closure.
    pub(super) fn is_closure(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Closure(_) => true,
            Expr::Param(param) => self.scope.get(param.as_str()).is_some_and(|known| known.closure.is_some()),
            _ => false,
        }
    }
}

/// One of them, and nobody knows which.
pub(super) fn larger(one: Size, other: Size) -> Size {
    let ids = one.ids || other.ids;
    let tables = one.tables || other.tables;
    let count = one.count.zip(other.count).map(|(one, other)| one.max(other));
    let number = if one.number == other.number { one.number } else { None };
    let mut of = one.of.clone();
    of.resize(one.of.len().max(other.of.len()), 0);
    for (mine, other) in of.iter_mut().zip(&other.of) {
        *mine = (*mine).max(*other);
    }
    let ranges = one.ranges || other.ranges;
    let numbers = one.numbers && other.numbers;
    Size { fixed: one.fixed.max(other.fixed), of, count, number, ids, tables, ranges, numbers }
}
