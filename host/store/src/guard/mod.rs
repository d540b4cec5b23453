//! Which statements a caller may run: data statements on tables of their own.
//!
//! A statement is parsed by SurrealDB's own parser, once it is known that it holds no regular expression (`regexes`), and its syntax
//! tree is walked. What is run is such a tree, so no text is ever made out of it. It passes only if every table it can reach is known beforehand and isn't Waybill's: names and record ids are looked at
//! wherever they stand, and the ways to make a table or record id out of a text (`type::record`, casts, `INSERT INTO $name`) are
//! taken only with a text that stands in the statement or its bindings. Functions are taken from a list. A binding is JSON and so
//! never a record id itself.
//!
//! The walk takes every statement and expression apart by name and without `..`: a field that a later SurrealDB adds fails the build
//! here. SurrealDB's own visitor isn't used, because it leaves fields out (START and TIMEOUT, in 3.3.5).
//!
//! What passes is then measured (`sizes`): whatever may take more memory than a request is given isn't run. Of a scan of a whole
//! table it is told which rows the statement holds (`scans`), so that the wall counts those against that memory and no others.
//!
//! This is the first wall. Behind it, keys of Waybill's tables are refused below the query language
//! (`waybill-surreal`, `embedded/wall`), whatever a statement says. What neither does: confine a caller to a tenant's rows of their own
//! tables; look into functions and events that the operator defined in the database (they run behind the second wall too).

mod expressions;
mod functions;
mod kinds;
mod names;
mod parts;
mod regexes;
mod scans;
mod sizes;
mod statements;
mod walk;

use std::collections::HashSet;

use surrealdb_expr::expr::statements::OutputStatement;
use surrealdb_expr::expr::{Expr, LogicalPlan, Param, TopLevelExpr};
use waybill_core::port::store::StoreError;
use waybill_core::port::transact::Statement;

pub use scans::{Names, scan_of};
pub use sizes::Held;
use walk::{Refusal, Walk};

/// Longest text of one statement, in bytes: values belong into bindings.
const STATEMENT_BYTES_MAX: usize = 256 * 1024;
/// What may stand at the top.
const KINDS: &str = "SELECT, CREATE, INSERT, UPDATE, UPSERT, DELETE, RELATE, LET and RETURN";

/// A statement that may run.
#[derive(Clone, Debug)]
pub struct Checked {
    /// What was checked, and is run. A LET is followed by a RETURN of its name.
    pub plan: LogicalPlan,
    /// Of `LET $name = ...`: later statements see the name.
    pub sets: Option<String>,
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
    for name in statement.bindings.keys() {
        names::check_name(name).map_err(refuse)?;
    }
    regexes::refuse_regexes(&statement.query).map_err(refuse)?;
    let ast = surrealdb_syn::parse(&statement.query).map_err(|error| refuse(error.to_string()))?;
    let mut plan = LogicalPlan::from(ast);
    let [TopLevelExpr::Expr(expr)] = plan.expressions.as_slice() else {
        return Err(refuse(match plan.expressions.len() {
            0 => "it is empty".to_owned(),
            1 => format!("statements of its kind aren't taken, only {KINDS}"),
            count => format!("it holds {count} statements: give each as a statement of its own"),
        }));
    };
    let sets = match expr {
        Expr::Let(set) => Some(set.name.as_str().to_owned()),
        Expr::Select(_)
        | Expr::Create(_)
        | Expr::Insert(_)
        | Expr::Update(_)
        | Expr::Upsert(_)
        | Expr::Delete(_)
        | Expr::Relate(_)
        | Expr::Return(_) => None,
        _ => return Err(refuse(format!("statements of its kind aren't taken, only {KINDS}"))),
    };
    Walk::new(&statement.bindings, lets).whole(expr).map_err(|refusal| match refusal {
        Refusal::OwnTable(table) => StoreError::OwnTable { table },
        Refusal::Other(cause) => refuse(cause),
    })?;
    if let Some(name) = &sets {
        // Each statement has a scope of its own here, so the value is handed out and given to those that follow.
        let what = Expr::Param(Param::from(name.clone()));
        plan.expressions.push(TopLevelExpr::Expr(Expr::Return(Box::new(OutputStatement { what, fetch: None }))));
    }
    Ok(Checked { plan, sets })
}

#[cfg(test)]
pub use functions::tests::allowed;
#[cfg(test)]
mod tests;
