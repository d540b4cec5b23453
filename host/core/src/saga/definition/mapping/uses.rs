//! What an expression uses: steps, names, and how it goes through lists.

use std::collections::BTreeSet;

use cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue};

/// What an expression uses.
#[derive(Default)]
pub(super) struct Walk {
    /// Steps whose outputs it reads.
    pub steps: BTreeSet<String>,
    /// Names that stand for nothing.
    pub unknown: BTreeSet<String>,
    /// It reads `steps` as a whole.
    pub all_steps: bool,
    /// It goes through a list.
    pub comprehends: bool,
    /// It does so within doing so.
    pub nested: bool,
}

impl Walk {
    pub fn visit(&mut self, node: &IdedExpr, comprehensions: usize, locals: &mut Vec<String>) {
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
        Expr::Literal(LiteralValue::String(text)) if is_steps => Some(text.inner().to_owned()),
        _ => None,
    }
}
