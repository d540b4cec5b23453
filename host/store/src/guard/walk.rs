//! The walk over a statement's syntax tree: its state, and how tables may be named.

use std::collections::HashSet;

use surrealdb_expr::expr::{Expr, Literal};

use super::names::{check_name, is_reserved};
use super::regexes::refuse_regexes;
use crate::tables::OWN;

/// Why a statement may not run.
#[derive(Debug)]
pub enum Refusal {
    /// It touches a table of Waybill.
    OwnTable(String),
    /// Something else in it isn't taken.
    Other(String),
}

/// What looking at a part of a statement comes to.
pub type Walked = Result<(), Refusal>;

/// The state of a walk.
pub struct Walk<'s> {
    /// Values of the statement's `$names`.
    bindings: &'s serde_json::Map<String, serde_json::Value>,
    /// Names that earlier statements have set.
    lets: &'s HashSet<String>,
    /// Names that this statement sets anywhere.
    set: HashSet<String>,
    /// Bindings whose text was taken for the name of a table.
    trusted: HashSet<String>,
}

/// A refusal that isn't about one of Waybill's tables.
pub fn other(cause: impl Into<String>) -> Walked {
    Err(Refusal::Other(cause.into()))
}

/// A table that is named.
pub fn table(name: &str) -> Walked {
    match OWN.contains(&name) {
        true => Err(Refusal::OwnTable(name.to_owned())),
        false => Ok(()),
    }
}

/// A text that is read as a table or a record id.
pub fn table_text(text: &str) -> Walked {
    table(text)?;
    refuse_regexes(text).map_err(Refusal::Other)?;
    match surrealdb_syn::record_id(text) {
        Ok(id) => table(id.table.as_str()),
        // It isn't a record id: whatever it is made to will fail.
        Err(_) => Ok(()),
    }
}

impl<'s> Walk<'s> {
    /// A walk over a statement with these bindings, after statements that have set these names.
    pub fn new(bindings: &'s serde_json::Map<String, serde_json::Value>, lets: &'s HashSet<String>) -> Self {
        Self { bindings, lets, set: HashSet::new(), trusted: HashSet::new() }
    }

    pub fn whole(mut self, expr: &Expr) -> Walked {
        self.expr(expr)?;
        // A name may be set behind the place that reads it (in a loop, say), so this is known at the end only.
        match self.trusted.intersection(&self.set).next() {
            Some(name) => other(format!(
                "${name} names a table and is set by the statement itself: give the binding another name"
            )),
            None => Ok(()),
        }
    }

    /// A name of a value that the statement reads: one that nobody can give isn't read either.
    pub fn reads(&self, name: &str) -> Walked {
        if is_reserved(name) { Ok(()) } else { check_name(name).map_err(Refusal::Other) }
    }

    /// A name that the statement gives to a value.
    pub fn sets(&mut self, name: &str) -> Walked {
        check_name(name).map_err(Refusal::Other)?;
        self.set.insert(name.to_owned());
        Ok(())
    }

    /// The text of an expression that is one for certain: a literal, or a binding.
    pub fn known_text<'e>(&mut self, expr: &'e Expr) -> Option<&'e str>
    where
        's: 'e,
    {
        match expr {
            Expr::Literal(Literal::String(text)) => Some(text.as_str()),
            Expr::Param(param) => {
                let name = param.as_str();
                if is_reserved(name) || self.lets.contains(name) || self.set.contains(name) {
                    return None;
                }
                let text = self.bindings.get(name)?.as_str()?;
                self.trusted.insert(name.to_owned());
                Some(text)
            }
            _ => None,
        }
    }

    /// An expression that has to name a table.
    pub fn table_place(&mut self, expr: &Expr) -> Walked {
        if let Expr::Table(name) = expr {
            return table(name.as_str());
        }
        match self.known_text(expr) {
            Some(text) => table_text(text),
            None => other("its table has to be named where it stands or in a binding, not computed"),
        }
    }

    pub fn exprs<'e>(&mut self, exprs: impl IntoIterator<Item = &'e Expr>) -> Walked {
        exprs.into_iter().try_for_each(|expr| self.expr(expr))
    }
}
