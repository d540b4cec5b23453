//! Data statements, taken apart field by field: a field that a later SurrealDB adds fails the build here.

use surrealdb_expr::expr::data::Assignment;
use surrealdb_expr::expr::statements::{
    CreateStatement, DeleteStatement, InsertStatement, RelateStatement, SelectStatement, UpdateStatement,
    UpsertStatement,
};
use surrealdb_expr::expr::{Cond, Data, Explain, Expr, Limit, Literal, Output, Start};

use super::walk::{Walk, Walked, other};

/// EXPLAIN at a statement's end.
fn explain(explain: Option<&Explain>) -> Walked {
    match explain {
        Some(Explain(_)) => other("EXPLAIN isn't taken"),
        None => Ok(()),
    }
}

impl Walk<'_> {
    pub(super) fn select(&mut self, select: &SelectStatement) -> Walked {
        let SelectStatement {
            fields,
            omit,
            only: _,
            what,
            // Names of indexes.
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
            explain: explained,
            tempfiles,
            for_update: _,
        } = select;
        if *tempfiles {
            return other("TEMPFILES isn't taken");
        }
        explain(explained.as_ref())?;
        self.fields(fields)?;
        omit.iter().try_for_each(|expr| self.path(expr))?;
        self.exprs(what)?;
        self.cond(cond.as_ref())?;
        self.split(split.as_ref())?;
        self.group(group.as_ref())?;
        self.order(order.as_ref())?;
        self.limit(limit.as_ref())?;
        self.start(start.as_ref())?;
        self.fetch(fetch.as_ref())?;
        self.expr(version)?;
        self.expr(timeout)
    }

    pub(super) fn create(&mut self, create: &CreateStatement) -> Walked {
        let CreateStatement { only: _, what, data, output, timeout } = create;
        self.exprs(what)?;
        self.data(data.as_ref())?;
        self.returned(output.as_ref())?;
        self.expr(timeout)
    }

    pub(super) fn insert(&mut self, insert: &InsertStatement) -> Walked {
        let InsertStatement { into, data, ignore: _, update, output, timeout, relation: _ } = insert;
        if let Some(into) = into {
            self.table_place(into)?;
        }
        self.exprs(into)?;
        self.data(Some(data))?;
        self.data(update.as_ref())?;
        self.returned(output.as_ref())?;
        self.expr(timeout)
    }

    pub(super) fn update(&mut self, update: &UpdateStatement) -> Walked {
        let UpdateStatement { only: _, what, with: _, data, cond, output, timeout, explain: explained } = update;
        explain(explained.as_ref())?;
        self.exprs(what)?;
        self.data(data.as_ref())?;
        self.cond(cond.as_ref())?;
        self.returned(output.as_ref())?;
        self.expr(timeout)
    }

    pub(super) fn upsert(&mut self, upsert: &UpsertStatement) -> Walked {
        let UpsertStatement { only: _, what, with: _, data, cond, output, timeout, explain: explained } = upsert;
        explain(explained.as_ref())?;
        self.exprs(what)?;
        self.data(data.as_ref())?;
        self.cond(cond.as_ref())?;
        self.returned(output.as_ref())?;
        self.expr(timeout)
    }

    pub(super) fn delete(&mut self, delete: &DeleteStatement) -> Walked {
        let DeleteStatement { only: _, what, with: _, cond, output, timeout, explain: explained } = delete;
        explain(explained.as_ref())?;
        self.exprs(what)?;
        self.cond(cond.as_ref())?;
        self.returned(output.as_ref())?;
        self.expr(timeout)
    }

    pub(super) fn relate(&mut self, relate: &RelateStatement) -> Walked {
        let RelateStatement { only: _, or_update: _, through, from, to, data, output, timeout } = relate;
        if !matches!(through, Expr::Literal(Literal::RecordId(_))) {
            self.table_place(through)?;
        }
        self.exprs([through, from, to])?;
        self.data(data.as_ref())?;
        self.returned(output.as_ref())?;
        self.expr(timeout)
    }

    fn data(&mut self, data: Option<&Data>) -> Walked {
        match data {
            None | Some(Data::EmptyExpression) => Ok(()),
            Some(Data::SetExpression(assignments) | Data::UpdateExpression(assignments)) => {
                assignments.iter().try_for_each(|assignment| {
                    let Assignment { place, operator: _, value } = assignment;
                    self.idiom(place)?;
                    self.expr(value)
                })
            }
            Some(Data::UnsetExpression(places)) => places.iter().try_for_each(|place| self.idiom(place)),
            Some(
                Data::PatchExpression(value)
                | Data::MergeExpression(value)
                | Data::ReplaceExpression(value)
                | Data::ContentExpression(value)
                | Data::SingleExpression(value),
            ) => self.expr(value),
            Some(Data::ValuesExpression(rows)) => rows.iter().flatten().try_for_each(|(place, value)| {
                self.idiom(place)?;
                self.expr(value)
            }),
        }
    }

    /// RETURN at a statement's end.
    fn returned(&mut self, output: Option<&Output>) -> Walked {
        match output {
            None | Some(Output::None | Output::Null | Output::Diff | Output::After | Output::Before) => Ok(()),
            Some(Output::Fields(fields)) => self.fields(fields),
        }
    }

    pub(super) fn cond(&mut self, cond: Option<&Cond>) -> Walked {
        cond.into_iter().try_for_each(|Cond(expr)| self.expr(expr))
    }

    pub(super) fn limit(&mut self, limit: Option<&Limit>) -> Walked {
        limit.into_iter().try_for_each(|Limit(expr)| self.expr(expr))
    }

    pub(super) fn start(&mut self, start: Option<&Start>) -> Walked {
        start.into_iter().try_for_each(|Start(expr)| self.expr(expr))
    }
}
