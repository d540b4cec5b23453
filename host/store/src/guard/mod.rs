//! Which statements a caller may run: data statements on tables of their own.
//!
//! A statement is parsed by SurrealDB's own parser and walked with its own visitor, so nothing is matched as text. It passes
//! only if every table it can reach is known beforehand and isn't Waybill's: names and record ids are looked at wherever they
//! stand, and the ways to make a table or record id out of a text (`type::record`, casts, `INSERT INTO $name`) are taken only
//! with a text that stands in the statement or its bindings. Functions are taken from an allow list. A binding is JSON and so
//! never a record id itself.
//!
//! Behind this, statements run with an editor's rights (`Principal::Caller`): no users, no access, no other databases.
//! What it doesn't do: confine a caller to a tenant's rows of their own tables; look into functions and events that the
//! operator defined in the database.

mod functions;
mod shadows;
mod walk;

use std::collections::HashSet;

use surrealdb_expr::expr::visit::Visitor;
use surrealdb_expr::expr::{Expr, LogicalPlan, TopLevelExpr};
use waybill_core::port::store::StoreError;
use waybill_core::port::transact::Statement;

use walk::{Refusal, Walk};

/// Longest text of one statement, in bytes: values belong into bindings.
const STATEMENT_BYTES_MAX: usize = 256 * 1024;
/// What may stand at the top.
const KINDS: &str = "SELECT, CREATE, INSERT, UPDATE, UPSERT, DELETE, RELATE, LET and RETURN";

/// A statement that may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Checked {
    /// `LET $name = ...`: later statements see the name.
    Let(String),
    /// Any other.
    Plain,
}

/// Checks one statement. `lets` are the names that earlier statements of the transaction have set; they come before bindings.
pub fn check(statement: &Statement, number: usize, lets: &HashSet<String>) -> Result<Checked, StoreError> {
    let refuse = |cause: String| StoreError::Statement(format!("statement {number}: {cause}"));
    if statement.query.len() > STATEMENT_BYTES_MAX {
        let bytes = statement.query.len();
        return Err(refuse(format!(
            "it has {bytes} bytes, at most {STATEMENT_BYTES_MAX} are taken: put values into bindings"
        )));
    }
    let ast = surrealdb_syn::parse(&statement.query).map_err(|error| refuse(error.to_string()))?;
    let plan = LogicalPlan::from(ast);
    let [TopLevelExpr::Expr(expr)] = plan.expressions.as_slice() else {
        return Err(refuse(match plan.expressions.len() {
            0 => "it is empty".to_owned(),
            1 => format!("statements of its kind aren't taken, only {KINDS}"),
            count => format!("it holds {count} statements: give each as a statement of its own"),
        }));
    };
    let checked = match expr {
        Expr::Let(set) => Checked::Let(set.name.as_str().to_owned()),
        Expr::Select(_)
        | Expr::Create(_)
        | Expr::Insert(_)
        | Expr::Update(_)
        | Expr::Upsert(_)
        | Expr::Delete(_)
        | Expr::Relate(_)
        | Expr::Return(_) => Checked::Plain,
        _ => return Err(refuse(format!("statements of its kind aren't taken, only {KINDS}"))),
    };
    let shadowed = shadows::names_set_in(expr);
    let mut walk =
        Walk { bindings: &statement.bindings, hidden: &|name| lets.contains(name) || shadowed.contains(name) };
    walk.visit_expr(expr).map_err(|refusal| match refusal {
        Refusal::OwnTable(table) => StoreError::OwnTable { table },
        Refusal::Other(cause) => refuse(cause),
    })?;
    Ok(checked)
}

#[cfg(test)]
mod tests;
