//! The walk over a statement's syntax tree.

use surrealdb_expr::expr::lookup::LookupSubject;
use surrealdb_expr::expr::operator::{PostfixOperator, PrefixOperator};
use surrealdb_expr::expr::statements::{InsertStatement, RelateStatement};
use surrealdb_expr::expr::visit::{Visit, Visitor};
use surrealdb_expr::expr::{Expr, Function, FunctionCall, Kind, Literal, Part, RecordIdLit};

use super::functions::{Treatment, method_names, treatment};
use crate::tables::OWN;

/// Why a statement may not run.
#[derive(Debug)]
pub enum Refusal {
    /// It touches a table of Waybill.
    OwnTable(String),
    /// Something else in it isn't taken.
    Other(String),
}

/// The state of a walk.
pub struct Walk<'s> {
    /// Values of the statement's `$names`.
    pub bindings: &'s serde_json::Map<String, serde_json::Value>,
    /// Names that don't mean their binding.
    pub hidden: &'s dyn Fn(&str) -> bool,
}

type Walked = Result<(), Refusal>;

fn other(cause: impl Into<String>) -> Walked {
    Err(Refusal::Other(cause.into()))
}

/// A table that is named.
fn table(name: &str) -> Walked {
    match OWN.contains(&name) {
        true => Err(Refusal::OwnTable(name.to_owned())),
        false => Ok(()),
    }
}

/// The table of a record id that is written as a text, as SurrealDB reads it.
fn record_text(text: &str) -> Walked {
    match surrealdb_syn::record_id(text) {
        Ok(id) => table(id.table.as_str()),
        // It isn't a record id: whatever it is cast to will fail, but a table's bare name is one too.
        Err(_) => table(text),
    }
}

impl Walk<'_> {
    /// The text of an expression that is one for certain: a literal, or a binding.
    fn known_text<'e>(&'e self, expr: &'e Expr) -> Option<&'e str> {
        match expr {
            Expr::Literal(Literal::String(text)) => Some(text.as_str()),
            Expr::Param(param) => {
                let name = param.as_str();
                if (self.hidden)(name) {
                    return None;
                }
                self.bindings.get(name)?.as_str()
            }
            _ => None,
        }
    }

    /// An expression that has to name a table.
    fn table_place(&self, expr: &Expr) -> Walked {
        match (expr, self.known_text(expr)) {
            (Expr::Table(name), _) => table(name.as_str()),
            (_, Some(text)) => table(text).and_then(|()| record_text(text)),
            _ => other("its table has to be named where it stands or in a binding, not computed"),
        }
    }

    /// A call of `type::record`, `type::table`, `type::thing`.
    fn naming_call(&self, arguments: &[Expr]) -> Walked {
        let known = arguments.first().and_then(|first| self.known_text(first));
        match (known, arguments.len()) {
            (Some(text), 1) => table(text).and_then(|()| record_text(text)),
            (Some(text), _) => table(text),
            (None, _) if matches!(arguments.first(), Some(Expr::Literal(Literal::RecordId(_)))) => Ok(()),
            (None, _) => other(
                "type::record and type::table take a table named where it stands or in a binding, not a computed one",
            ),
        }
    }

    fn cast(&self, kind: &Kind, value: &Expr) -> Walked {
        if !names_records(kind) {
            return Ok(());
        }
        match (kind, self.known_text(value)) {
            (Kind::Record(_) | Kind::Table(_), Some(text)) => table(text).and_then(|()| record_text(text)),
            (_, _) if matches!(value, Expr::Literal(Literal::RecordId(_))) => Ok(()),
            _ => {
                other("a cast to a record or table takes a text that stands there or in a binding, not a computed one")
            }
        }
    }

    fn method(&self, name: &str) -> Walked {
        match method_names(name) {
            true => other(format!("method {name} isn't taken: use type::record with a named table")),
            false => Ok(()),
        }
    }
}

/// Whether a cast to this kind can make record ids or tables.
fn names_records(kind: &Kind) -> bool {
    match kind {
        Kind::Record(_) | Kind::Table(_) => true,
        Kind::Either(kinds) => kinds.iter().any(names_records),
        Kind::Set(inner, _) | Kind::Array(inner, _) => names_records(inner),
        Kind::None
        | Kind::Null
        | Kind::Bool
        | Kind::Bytes
        | Kind::Datetime
        | Kind::Decimal
        | Kind::Duration
        | Kind::Float
        | Kind::Int
        | Kind::Number
        | Kind::Object
        | Kind::String
        | Kind::Uuid
        | Kind::Regex
        | Kind::Geometry(_)
        | Kind::Range
        | Kind::Any => false,
        // What isn't known is as dangerous as the worst that is.
        _ => true,
    }
}

impl Visitor for Walk<'_> {
    type Error = Refusal;

    /// Without a `_` arm on purpose: a new kind of expression has to be judged before it is taken.
    fn visit_expr(&mut self, expr: &Expr) -> Walked {
        match expr {
            Expr::Table(name) => table(name.as_str()),
            Expr::Mock(_) => other("|table:count| isn't taken: name the records"),
            Expr::Define(_) | Expr::Remove(_) | Expr::Rebuild(_) | Expr::Alter(_) | Expr::Info(_) => {
                other("statements that change or show definitions aren't taken")
            }
            Expr::Sleep(_) => other("SLEEP isn't taken"),
            Expr::Explain { .. } => other("EXPLAIN isn't taken"),
            Expr::Match(_) => other("MATCH isn't taken"),
            Expr::Prefix { op, expr: inner } => {
                if let PrefixOperator::Cast(kind) = op {
                    self.cast(kind, inner)?;
                }
                expr.visit(self)
            }
            Expr::Postfix { op, .. } => {
                if let PostfixOperator::MethodCall(name, _) = op {
                    self.method(name)?;
                }
                expr.visit(self)
            }
            Expr::Literal(_)
            | Expr::Param(_)
            | Expr::Idiom(_)
            | Expr::Block(_)
            | Expr::Constant(_)
            | Expr::Binary { .. }
            | Expr::FunctionCall(_)
            | Expr::Closure(_)
            | Expr::Break
            | Expr::Continue
            | Expr::Throw(_)
            | Expr::Return(_)
            | Expr::IfElse(_)
            | Expr::Select(_)
            | Expr::Create(_)
            | Expr::Update(_)
            | Expr::Delete(_)
            | Expr::Relate(_)
            | Expr::Insert(_)
            | Expr::Upsert(_)
            | Expr::Foreach(_)
            | Expr::Let(_) => expr.visit(self),
        }
    }

    fn visit_record_id(&mut self, id: &RecordIdLit) -> Walked {
        table(id.table.as_str())?;
        id.visit(self)
    }

    fn visit_lookup_subject(&mut self, subject: &LookupSubject) -> Walked {
        match subject {
            LookupSubject::Table { table: name, .. } | LookupSubject::Range { table: name, .. } => {
                table(name.as_str())?
            }
        }
        subject.visit(self)
    }

    fn visit_part(&mut self, part: &Part) -> Walked {
        if let Part::Method(name, _) = part {
            self.method(name.as_str())?;
        }
        part.visit(self)
    }

    fn visit_insert(&mut self, insert: &InsertStatement) -> Walked {
        if let Some(into) = &insert.into {
            self.table_place(into)?;
        }
        insert.visit(self)
    }

    fn visit_relate(&mut self, relate: &RelateStatement) -> Walked {
        if !matches!(relate.through, Expr::Literal(Literal::RecordId(_))) {
            self.table_place(&relate.through)?;
        }
        relate.visit(self)
    }

    fn visit_function_call(&mut self, call: &FunctionCall) -> Walked {
        match &call.receiver {
            Function::Normal(name) => match treatment(name) {
                Treatment::Allowed => {}
                Treatment::Naming => self.naming_call(&call.arguments)?,
                Treatment::Refused => return other(format!("function {name} isn't taken")),
            },
            Function::Custom(name) if name.split("::").next() == Some("waybill") => {
                return Err(Refusal::OwnTable(format!("fn::{name}")));
            }
            // Defined in the database by its operator, who answers for what it does.
            Function::Custom(_) => {}
            Function::Script(_) | Function::Model(_) | Function::Module(..) | Function::Silo { .. } => {
                return other("scripts, models and modules aren't taken");
            }
        }
        call.visit(self)
    }
}
