//! Names that a statement sets itself: a binding of the same name isn't what they mean inside.

use std::collections::HashSet;
use std::convert::Infallible;

use surrealdb_expr::expr::visit::{Visit, Visitor};
use surrealdb_expr::expr::{ClosureExpr, Expr};

struct Names(HashSet<String>);

impl Visitor for Names {
    type Error = Infallible;

    fn visit_expr(&mut self, expr: &Expr) -> Result<(), Infallible> {
        match expr {
            Expr::Let(set) => {
                self.0.insert(set.name.as_str().to_owned());
            }
            Expr::Foreach(each) => {
                self.0.insert(each.param.clone().into_strand().as_str().to_owned());
            }
            _ => {}
        }
        expr.visit(self)
    }

    fn visit_closure(&mut self, closure: &ClosureExpr) -> Result<(), Infallible> {
        self.0.extend(closure.args.iter().map(|(param, _)| param.clone().into_strand().as_str().to_owned()));
        closure.visit(self)
    }
}

/// All names that are set by LET, FOR or a closure anywhere in an expression.
pub fn names_set_in(expr: &Expr) -> HashSet<String> {
    let mut names = Names(HashSet::new());
    match names.visit_expr(expr) {
        Ok(()) => names.0,
        Err(never) => match never {},
    }
}
