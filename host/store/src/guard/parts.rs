//! Paths, graph lookups, record ids, and the clauses that hold paths.

use std::ops::Bound;

use surrealdb_expr::expr::field::Selector;
use surrealdb_expr::expr::lookup::{Lookup, LookupKind, LookupSubject};
use surrealdb_expr::expr::order::{Order, OrderList, Ordering};
use surrealdb_expr::expr::part::{DestructurePart, RecurseInstruction};
use surrealdb_expr::expr::{
    Field, Fields, Group, Groups, Idiom, Part, RecordIdKeyLit, RecordIdKeyRangeLit, RecordIdLit, Split, Splits,
};

use super::walk::{Walk, Walked, table};

impl Walk<'_> {
    pub(super) fn fields(&mut self, fields: &Fields) -> Walked {
        match fields {
            Fields::Value(selector) => self.selector(selector),
            Fields::Select(fields) => fields.iter().try_for_each(|field| match field {
                Field::All => Ok(()),
                Field::Single(selector) => self.selector(selector),
            }),
        }
    }

    fn selector(&mut self, selector: &Selector) -> Walked {
        let Selector { expr, alias } = selector;
        self.expr(expr)?;
        self.alias(alias.as_ref())
    }

    fn alias(&mut self, alias: Option<&Idiom>) -> Walked {
        alias.into_iter().try_for_each(|alias| self.idiom(alias))
    }

    pub(super) fn idiom(&mut self, Idiom(parts): &Idiom) -> Walked {
        parts.iter().try_for_each(|part| self.part(part))
    }

    fn part(&mut self, part: &Part) -> Walked {
        match part {
            Part::All
            | Part::Flatten
            | Part::Last
            | Part::First
            | Part::Field(_)
            | Part::Optional
            | Part::Doc
            | Part::RepeatRecurse => Ok(()),
            Part::Where(expr) | Part::Value(expr) | Part::Start(expr) => self.expr(expr),
            Part::Lookup(lookup) => self.lookup(lookup),
            Part::Method(name, arguments) => self.method(name.as_str(), arguments),
            Part::Destructure(parts) => self.destructured(parts),
            Part::Recurse(_, path, instruction) => {
                self.alias(path.as_ref())?;
                match instruction {
                    None
                    | Some(RecurseInstruction::Path { inclusive: _ } | RecurseInstruction::Collect { inclusive: _ }) => {
                        Ok(())
                    }
                    Some(RecurseInstruction::Shortest { expects, inclusive: _ }) => self.expr(expects),
                }
            }
        }
    }

    fn destructured(&mut self, parts: &[DestructurePart]) -> Walked {
        parts.iter().try_for_each(|part| match part {
            DestructurePart::All(_) | DestructurePart::Field(_) => Ok(()),
            DestructurePart::Aliased(_, idiom) => self.idiom(idiom),
            DestructurePart::Destructure(_, parts) => self.destructured(parts),
        })
    }

    fn lookup(&mut self, lookup: &Lookup) -> Walked {
        let Lookup { kind, expr, only: _, what, cond, split, group, order, limit, start, alias } = lookup;
        match kind {
            LookupKind::Graph(_) | LookupKind::Reference => {}
        }
        expr.iter().try_for_each(|fields| self.fields(fields))?;
        what.iter().try_for_each(|subject| match subject {
            LookupSubject::Table { table: name, referencing_field: _ } => table(name.as_str()),
            LookupSubject::Range { table: name, range, referencing_field: _ } => {
                table(name.as_str())?;
                self.key_range(range)
            }
        })?;
        self.cond(cond.as_ref())?;
        self.split(split.as_ref())?;
        self.group(group.as_ref())?;
        self.order(order.as_ref())?;
        self.limit(limit.as_ref())?;
        self.start(start.as_ref())?;
        self.alias(alias.as_ref())
    }

    pub(super) fn split(&mut self, split: Option<&Splits>) -> Walked {
        split.into_iter().flat_map(|Splits(splits)| splits).try_for_each(|Split(idiom)| self.idiom(idiom))
    }

    pub(super) fn group(&mut self, group: Option<&Groups>) -> Walked {
        group.into_iter().flat_map(|Groups(groups)| groups).try_for_each(|Group(idiom)| self.idiom(idiom))
    }

    pub(super) fn order(&mut self, order: Option<&Ordering>) -> Walked {
        match order {
            None | Some(Ordering::Random) => Ok(()),
            Some(Ordering::Order(OrderList(orders))) => orders.iter().try_for_each(|order| {
                let Order { value, collate: _, numeric: _, direction: _ } = order;
                self.idiom(value)
            }),
        }
    }

    pub(super) fn record_id(&mut self, id: &RecordIdLit) -> Walked {
        let RecordIdLit { table: name, key } = id;
        table(name.as_str())?;
        self.key(key)
    }

    fn key(&mut self, key: &RecordIdKeyLit) -> Walked {
        match key {
            RecordIdKeyLit::Number(_)
            | RecordIdKeyLit::String(_)
            | RecordIdKeyLit::Uuid(_)
            | RecordIdKeyLit::Generate(_) => Ok(()),
            RecordIdKeyLit::Array(items) => self.exprs(items),
            RecordIdKeyLit::Object(entries) => self.entries(entries),
            RecordIdKeyLit::Range(range) => self.key_range(range),
        }
    }

    fn key_range(&mut self, range: &RecordIdKeyRangeLit) -> Walked {
        let RecordIdKeyRangeLit { start, end } = range;
        for bound in [start, end] {
            match bound {
                Bound::Included(key) | Bound::Excluded(key) => self.key(key)?,
                Bound::Unbounded => {}
            }
        }
        Ok(())
    }
}
