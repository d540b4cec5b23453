//! Paths, graph lookups, record ids, and the clauses that hold paths.

use std::collections::HashSet;
use std::ops::Bound;

use surrealdb_expr::expr::field::Selector;
use surrealdb_expr::expr::lookup::{Lookup, LookupKind, LookupSubject};
use surrealdb_expr::expr::part::{DestructurePart, Recurse, RecurseInstruction};
use surrealdb_expr::expr::{
    Expr, Fetch, Fetchs, Field, Fields, Idiom, Part, RecordIdKeyLit, RecordIdKeyRangeLit, RecordIdLit,
};

use super::size::{ROWS, Size, VALUE};
use super::{Judged, Round, Sizes};

/// Steps of a recursion other than one that collects each record once.
const RECURSION_MAX: u32 = 8;

/// The field that a plain path begins with.
fn root(expr: &Expr) -> Option<&str> {
    let Expr::Idiom(Idiom(parts)) = expr else { return None };
    let plain = parts.iter().all(|part| match part {
        Part::All | Part::Flatten | Part::Last | Part::First | Part::Field(_) | Part::Optional | Part::Doc => true,
        Part::Where(_)
        | Part::Lookup(_)
        | Part::Value(_)
        | Part::Start(_)
        | Part::Method(_, _)
        | Part::Destructure(_)
        | Part::Recurse(_, _, _)
        | Part::RepeatRecurse => false,
    });
    match (parts.first(), plain) {
        (Some(Part::Field(name)), true) => Some(name.as_str()),
        _ => None,
    }
}

impl<'e> Sizes<'e> {
    /// What a row of the answer takes. Fields of other names share the row among them: all together are one row.
    pub(super) fn fields(&mut self, fields: &'e Fields) -> Judged {
        let fields = match fields {
            Fields::Value(selector) => return self.selector(selector),
            Fields::Select(fields) => fields,
        };
        let (mut all, mut roots, mut whole) = (Size::scalar(), HashSet::new(), false);
        for field in fields {
            let of = match field {
                Field::All => self.this(),
                Field::Single(Selector { expr, alias: _ }) => match root(expr) {
                    Some(name) if roots.insert(name) => {
                        whole = true;
                        Size::scalar()
                    }
                    Some(_) => self.this(),
                    None => self.expr(expr)?,
                },
            };
            if let Field::Single(Selector { expr: _, alias: Some(alias) }) = field {
                self.idiom(alias)?;
            }
            all = all.and(of).and(Size::scalar());
        }
        Ok(if whole { all.and(self.this()) } else { all })
    }

    fn selector(&mut self, Selector { expr, alias: _ }: &'e Selector) -> Judged {
        self.expr(expr)
    }

    pub(super) fn idiom(&mut self, Idiom(parts): &'e Idiom) -> Judged {
        let mut parts = parts.iter();
        let mut size = match parts.as_slice() {
            [Part::Start(start), ..] => {
                parts.next();
                self.expr(start)?
            }
            _ => self.this(),
        };
        let mut stepped = false;
        for part in parts {
            // A path behind a record id reads its row. Behind rows it is theirs that counts: each record that a path reads, further
            // on as well, is counted by the wall as often as it is read.
            if size.ids && !self.holds_rows(&size) {
                size = self.made("a path", size.and(Size::rows()))?;
            }
            self.looks_at(&size);
            size = self.part(size, part)?;
            stepped = true;
        }
        Ok(if stepped { Size { number: None, ..size } } else { size })
    }

    fn part(&mut self, size: Size, part: &'e Part) -> Judged {
        match part {
            Part::All | Part::Flatten | Part::Last | Part::First | Part::Field(_) | Part::Optional | Part::Doc => {
                Ok(size.part())
            }
            Part::RepeatRecurse => Err("a recursion that repeats itself (@) can't be bounded".to_owned()),
            Part::Start(expr) => {
                let start = self.expr(expr)?;
                Ok(size.and(start))
            }
            Part::Where(expr) | Part::Value(expr) => {
                let rounds = self.items(&size);
                self.within(size.clone(), rounds, |sizes| sizes.expr(expr))?;
                Ok(size.part())
            }
            Part::Lookup(lookup) => self.lookup(size, lookup),
            Part::Method(name, arguments) => self.method(name.as_str(), size, arguments),
            Part::Destructure(parts) => {
                let rounds = self.items(&size);
                self.within(size, rounds, |sizes| sizes.destructured(parts))
            }
            Part::Recurse(depth, path, instruction) => self.recursed(size, depth, path.as_ref(), instruction.as_ref()),
        }
    }

    fn recursed(
        &mut self,
        size: Size,
        depth: &Recurse,
        path: Option<&'e Idiom>,
        instruction: Option<&'e RecurseInstruction>,
    ) -> Judged {
        let deepest = match depth {
            Recurse::Fixed(steps) => *steps,
            Recurse::Range(_, most) => most.unwrap_or(u32::MAX),
        };
        // Of those that find paths, each holds a record for every step.
        let (each_once, times) = match instruction {
            Some(RecurseInstruction::Collect { inclusive: _ }) => (true, 1),
            Some(RecurseInstruction::Shortest { expects, inclusive: _ }) => {
                self.expr(expects)?;
                (false, u64::from(deepest))
            }
            Some(RecurseInstruction::Path { inclusive: _ }) => (false, u64::from(deepest)),
            None => (false, 1),
        };
        if !each_once && deepest > RECURSION_MAX {
            return Err(format!(
                "a recursion is taken up to {RECURSION_MAX} deep: write {{1..{RECURSION_MAX}}}, or collect records once with \
                 {{..+collect}}"
            ));
        }
        if let Some(path) = path {
            let rounds = self.items(&size);
            self.within(size.clone(), rounds, |sizes| sizes.idiom(path))?;
        }
        self.made("a recursion", size.and(Size::rows()).times(times))
    }

    /// What an object made of parts of the row takes.
    fn destructured(&mut self, parts: &'e [DestructurePart]) -> Judged {
        let (mut all, mut whole) = (Size::scalar(), false);
        for part in parts {
            let of = match part {
                DestructurePart::Field(_) => {
                    whole = true;
                    Size::scalar()
                }
                DestructurePart::All(_) => self.this(),
                DestructurePart::Aliased(_, idiom) => self.idiom(idiom)?,
                DestructurePart::Destructure(_, parts) => self.destructured(parts)?,
            };
            all = all.and(of).and(Size::scalar());
        }
        Ok(if whole { all.and(self.this()) } else { all })
    }

    /// Looks at what is done with each of the rows of `source`; answers what all rounds make.
    pub(super) fn within(&mut self, source: Size, rounds: u64, inside: impl FnOnce(&mut Self) -> Judged) -> Judged {
        Ok(self.row_of(source, rounds, inside)?.kept(rounds))
    }

    /// Looks at what is done with each of the rows of `source`, so many rounds of work.
    pub(super) fn row_of(
        &mut self,
        source: Size,
        rounds: u64,
        inside: impl FnOnce(&mut Self) -> Judged,
    ) -> Result<Round, String> {
        self.each(source, rounds, |sizes, level| {
            let outside = sizes.row.replace(level);
            let made = inside(sizes);
            sizes.row = outside;
            made
        })
    }

    fn lookup(&mut self, from: Size, lookup: &'e Lookup) -> Judged {
        let Lookup { kind, expr, only: _, what, cond, split, group: _, order: _, limit, start, alias: _ } = lookup;
        match kind {
            LookupKind::Graph(_) | LookupKind::Reference => {}
        }
        if split.is_some() {
            return Err("SPLIT in a graph lookup can't be bounded".to_owned());
        }
        for subject in what {
            match subject {
                LookupSubject::Table { table: _, referencing_field: _ } => {}
                LookupSubject::Range { table: _, range, referencing_field: _ } => self.key_range(range)?,
            }
        }
        let found = match expr {
            None => from.clone(),
            // All edges that the statement reads are no more than that.
            Some(fields) => self.within(from.clone(), ROWS, |sizes| sizes.fields(fields))?,
        };
        self.within(from, ROWS, |sizes| {
            sizes.cond(cond.as_ref())?;
            sizes.limit(limit.as_ref())?;
            sizes.start(start.as_ref())?;
            Ok(Size::scalar())
        })?;
        Ok(Size { ids: true, ..found.part() })
    }

    /// A value with records fetched into it.
    pub(super) fn fetched(&mut self, size: Size, fetch: Option<&'e Fetchs>) -> Judged {
        let Some(fetch) = fetch else { return Ok(size) };
        for Fetch(what) in fetch.iter() {
            self.expr(what)?;
        }
        let count = size.count;
        let all = Size { count, ..size.and(Size::rows()) };
        self.made("FETCH", all)
    }

    pub(super) fn record_id(&mut self, RecordIdLit { table: _, key }: &'e RecordIdLit) -> Judged {
        let many = matches!(key, RecordIdKeyLit::Range(_));
        let key = self.key(key)?;
        Ok(Size { ids: true, tables: many, count: Some(1), ..key.and(Size::fixed(4 * VALUE)) })
    }

    fn key(&mut self, key: &'e RecordIdKeyLit) -> Judged {
        match key {
            RecordIdKeyLit::Number(_) | RecordIdKeyLit::Uuid(_) | RecordIdKeyLit::Generate(_) => Ok(Size::scalar()),
            RecordIdKeyLit::String(text) => Ok(Size::fixed(VALUE + text.as_str().len() as u64)),
            RecordIdKeyLit::Array(items) => self.exprs(items),
            RecordIdKeyLit::Object(entries) => self.entries(entries),
            RecordIdKeyLit::Range(range) => {
                self.key_range(range)?;
                Ok(Size::scalar())
            }
        }
    }

    fn key_range(&mut self, RecordIdKeyRangeLit { start, end }: &'e RecordIdKeyRangeLit) -> Result<(), String> {
        for bound in [start, end] {
            match bound {
                Bound::Included(key) | Bound::Excluded(key) => {
                    self.key(key)?;
                }
                Bound::Unbounded => {}
            }
        }
        Ok(())
    }
}
