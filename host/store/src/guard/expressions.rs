//! Expressions, literals, operators and calls.
//!
//! Without a `_` arm and without `..` on purpose: what a later SurrealDB adds has to be judged before it is taken.

use surrealdb_expr::expr::statements::{ForeachStatement, IfelseStatement, OutputStatement, SetStatement};
use surrealdb_expr::expr::{
    BinaryOperator, Block, ClosureExpr, Expr, Fetch, Fetchs, Function, FunctionCall, Kind, Literal, ObjectEntry,
    PostfixOperator, PrefixOperator,
};

use super::functions::{Treatment, method_refusal, treatment};
use super::kinds::{cast_names_records, kind};
use super::walk::{Refusal, Walk, Walked, other, table, table_text};

impl Walk<'_> {
    pub fn expr(&mut self, expr: &Expr) -> Walked {
        match expr {
            Expr::Literal(literal) => self.literal(literal),
            Expr::Param(param) => self.reads(param.as_str()),
            Expr::Constant(_) | Expr::Break | Expr::Continue => Ok(()),
            Expr::Table(name) => table(name.as_str()),
            Expr::Idiom(idiom) => self.idiom(idiom),
            Expr::Block(block) => self.block(block),
            Expr::Prefix { op, expr } => self.prefix(op, expr),
            Expr::Postfix { expr, op } => self.postfix(expr, op),
            Expr::Binary { left, op, right } => {
                binary(op)?;
                self.expr(left)?;
                self.expr(right)
            }
            Expr::FunctionCall(call) => self.call(call),
            Expr::Closure(closure) => self.closure(closure),
            Expr::Return(output) => self.output(output),
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
                other("statements that change or show definitions aren't taken")
            }
            Expr::Mock(_) => other("|table:count| isn't taken: name the records"),
            Expr::Sleep(_) => other("SLEEP isn't taken"),
            Expr::Explain { format: _, analyze: _, statement: _ } => other("EXPLAIN isn't taken"),
            Expr::Match(_) => other("MATCH isn't taken"),
        }
    }

    fn literal(&mut self, literal: &Literal) -> Walked {
        match literal {
            Literal::None
            | Literal::Null
            | Literal::UnboundedRange
            | Literal::Bool(_)
            | Literal::Float(_)
            | Literal::Integer(_)
            | Literal::Decimal(_)
            | Literal::String(_)
            | Literal::Bytes(_)
            | Literal::Duration(_)
            | Literal::Datetime(_)
            | Literal::Uuid(_)
            | Literal::Geometry(_) => Ok(()),
            Literal::RecordId(id) => self.record_id(id),
            Literal::Array(items) | Literal::Set(items) => self.exprs(items),
            Literal::Object(entries) => self.entries(entries),
            Literal::File(_) => other("files aren't taken"),
            Literal::Regex(_) => other("regular expressions aren't taken"),
        }
    }

    pub(super) fn entries(&mut self, entries: &[ObjectEntry]) -> Walked {
        entries.iter().try_for_each(|ObjectEntry { key: _, value }| self.expr(value))
    }

    pub(super) fn block(&mut self, Block(exprs): &Block) -> Walked {
        self.exprs(exprs)
    }

    fn prefix(&mut self, op: &PrefixOperator, value: &Expr) -> Walked {
        match op {
            PrefixOperator::Not
            | PrefixOperator::Positive
            | PrefixOperator::Negate
            | PrefixOperator::Range
            | PrefixOperator::RangeInclusive => {}
            PrefixOperator::Cast(to) => self.cast(to, value)?,
        }
        self.expr(value)
    }

    fn postfix(&mut self, value: &Expr, op: &PostfixOperator) -> Walked {
        self.expr(value)?;
        match op {
            PostfixOperator::Range | PostfixOperator::RangeSkip => Ok(()),
            PostfixOperator::MethodCall(name, arguments) => self.method(name, arguments),
            PostfixOperator::Call(arguments) => self.exprs(arguments),
        }
    }

    /// A method: a function by another name, or a closure of the statement.
    pub(super) fn method(&mut self, name: &str, arguments: &[Expr]) -> Walked {
        if let Some(cause) = method_refusal(name) {
            return other(cause);
        }
        self.exprs(arguments)
    }

    fn cast(&mut self, to: &Kind, value: &Expr) -> Walked {
        kind(to)?;
        if !cast_names_records(to) {
            return Ok(());
        }
        if matches!(to, Kind::Record(_) | Kind::Table(_)) {
            match self.known_text(value) {
                Some(text) => return table_text(text),
                None if matches!(value, Expr::Literal(Literal::RecordId(_))) => return Ok(()),
                None => {}
            }
        }
        other("a cast to a record or table takes a text that stands there or in a binding, not a computed one")
    }

    fn closure(&mut self, closure: &ClosureExpr) -> Walked {
        let ClosureExpr { args, returns, body } = closure;
        for (param, of) in args {
            self.sets(param.as_str())?;
            coerced(of)?;
        }
        if let Some(of) = returns {
            coerced(of)?;
        }
        self.expr(body)
    }

    pub(super) fn output(&mut self, output: &OutputStatement) -> Walked {
        let OutputStatement { what, fetch } = output;
        self.expr(what)?;
        self.fetch(fetch.as_ref())
    }

    /// What has to be a path: a text that is computed would be parsed while the statement runs.
    pub(super) fn path(&mut self, expr: &Expr) -> Walked {
        match expr {
            Expr::Idiom(idiom) => self.idiom(idiom),
            _ => other("FETCH and OMIT take paths that stand there, not computed ones"),
        }
    }

    pub(super) fn fetch(&mut self, fetch: Option<&Fetchs>) -> Walked {
        fetch.into_iter().flat_map(Fetchs::iter).try_for_each(|Fetch(what)| self.path(what))
    }

    fn choice(&mut self, choice: &IfelseStatement) -> Walked {
        let IfelseStatement { exprs, close } = choice;
        for (condition, then) in exprs {
            self.expr(condition)?;
            self.expr(then)?;
        }
        self.exprs(close)
    }

    fn foreach(&mut self, each: &ForeachStatement) -> Walked {
        let ForeachStatement { param, range, block } = each;
        self.sets(param.as_str())?;
        self.expr(range)?;
        self.block(block)
    }

    fn set(&mut self, set: &SetStatement) -> Walked {
        let SetStatement { name, what, kind: of } = set;
        self.sets(name.as_str())?;
        if let Some(of) = of {
            coerced(of)?;
        }
        self.expr(what)
    }

    fn call(&mut self, call: &FunctionCall) -> Walked {
        let FunctionCall { receiver, arguments } = call;
        match receiver {
            Function::Normal(name) => match treatment(name) {
                Treatment::Allowed => {}
                Treatment::Naming => self.naming_call(arguments)?,
                Treatment::Refused(cause) => return other(format!("function {name} isn't taken: {cause}")),
            },
            Function::Custom(name) => {
                if name.split("::").next() == Some("waybill") {
                    return Err(Refusal::OwnTable(format!("fn::{name}")));
                }
                // Defined in the database by its operator, who answers for what it does.
            }
            Function::Script(_)
            | Function::Model(_)
            | Function::Module(_, _)
            | Function::Silo { org: _, pkg: _, major: _, minor: _, patch: _, sub: _ } => {
                return other("scripts, models and modules aren't taken");
            }
        }
        self.exprs(arguments)
    }

    /// A call of `type::record` or `type::table`.
    fn naming_call(&mut self, arguments: &[Expr]) -> Walked {
        let Some(first) = arguments.first() else { return Ok(()) };
        match self.known_text(first) {
            Some(text) => table_text(text),
            None if matches!(first, Expr::Literal(Literal::RecordId(_))) => Ok(()),
            None => other(
                "type::record and type::table take a table named where it stands or in a binding, not a computed one",
            ),
        }
    }
}

/// A type that values are held to, not made to: a text never becomes a record by it.
fn coerced(of: &Kind) -> Walked {
    kind(of)?;
    match of {
        Kind::Table(_) => other("a value can't be declared to be a table"),
        _ => Ok(()),
    }
}

/// Without a `_` arm: see the module.
fn binary(op: &BinaryOperator) -> Walked {
    match op {
        BinaryOperator::Subtract
        | BinaryOperator::Add
        | BinaryOperator::Multiply
        | BinaryOperator::Divide
        | BinaryOperator::Remainder
        | BinaryOperator::Power
        | BinaryOperator::Equal
        | BinaryOperator::ExactEqual
        | BinaryOperator::NotEqual
        | BinaryOperator::AllEqual
        | BinaryOperator::AnyEqual
        | BinaryOperator::Or
        | BinaryOperator::And
        | BinaryOperator::NullCoalescing
        | BinaryOperator::TenaryCondition
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
        | BinaryOperator::Range
        | BinaryOperator::RangeInclusive
        | BinaryOperator::RangeSkip
        | BinaryOperator::RangeSkipInclusive
        | BinaryOperator::Matches(_)
        | BinaryOperator::NearestNeighbor(_) => Ok(()),
    }
}
