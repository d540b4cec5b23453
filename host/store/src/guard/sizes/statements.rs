//! Data statements.

use surrealdb_expr::expr::data::Assignment;
use surrealdb_expr::expr::statements::{
    CreateStatement, DeleteStatement, InsertStatement, RelateStatement, SelectStatement, UpdateStatement,
    UpsertStatement,
};
use surrealdb_expr::expr::{AssignOperator, Cond, Data, Expr, Idiom, Limit, Output, Part, Start};

use super::size::{ROWS, Size, VALUE};
use super::{Judged, Sizes};

/// What may lie in a row: a range that is read from one would be far more items than it is counted with.
fn storable(size: Size) -> Judged {
    match size.ranges {
        true => Err("a range can't be written: write its two ends".to_owned()),
        false => Ok(size),
    }
}

/// Whether nothing but fields are removed. Of anything else two texts may be left to be compared, each letter with each other.
fn only_fields_go(data: Option<&Data>) -> bool {
    let plain = |Idiom(parts): &Idiom| parts.iter().all(|part| matches!(part, Part::Field(_)));
    matches!(data, Some(Data::UnsetExpression(places)) if places.iter().all(plain))
}

impl<'e> Sizes<'e> {
    pub(super) fn select(&mut self, select: &'e SelectStatement) -> Judged {
        let SelectStatement {
            fields,
            omit,
            only,
            what,
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
            explain: _,
            tempfiles: _,
            for_update: _,
        } = select;
        let source = self.source(what)?;
        let bound = self.limit(limit.as_ref())?.zip(self.start(start.as_ref())?);
        self.exprs([version, timeout])?;
        let whole = self.bytes(&source);
        let found = self.items(&source);
        let mut rows = found;
        if split.is_some() {
            // A row for every item of one of its fields.
            rows = rows.saturating_mul(whole / VALUE);
        }
        let answered = match bound {
            // Those that START leaves out are made as well, and all rows of SPLIT.
            Some((limit, start)) if group.is_none() && order.is_none() && split.is_none() => {
                rows.min(limit.saturating_add(start))
            }
            // All of them are grouped or put in order before some are left out.
            _ => rows,
        };
        self.within(source.clone(), found, |sizes| {
            sizes.judged(cond.as_ref(), found)?;
            Ok(Size::scalar())
        })?;
        let answer = self.within(source, answered, |sizes| {
            sizes.exprs(omit)?;
            sizes.fields(fields)
        })?;
        let answer = match split {
            // Each of them is as large as the row that it was split from.
            Some(_) => answer.and(Size::fixed(whole.saturating_mul(answered))),
            None => answer,
        };
        // The one of ONLY may be a list.
        let count = if *only { None } else { Some(answered) };
        let answer = Size { ids: true, tables: true, count, ..answer };
        let answer = self.made("the rows of SELECT", answer)?;
        self.fetched(answer, fetch.as_ref())
    }

    /// What the rows of these places take, and how many they are.
    fn source(&mut self, what: &'e [Expr]) -> Judged {
        let (mut all, mut rows) = (Size::default(), 0_u64);
        for expr in what {
            let one = self.expr(expr)?;
            let named = match (expr, one.tables) {
                (Expr::Table(_), _) => ROWS,
                (_, true) => self.items(&one).saturating_add(ROWS),
                (_, false) => self.items(&one),
            };
            rows = rows.saturating_add(named);
            all = all.and(one);
        }
        // Rows are counted once, however many records name them.
        if all.ids && !self.holds_rows(&all) {
            all = all.and(Size::rows());
        }
        Ok(Size { count: Some(rows), ..all })
    }

    pub(super) fn create(&mut self, create: &'e CreateStatement) -> Judged {
        let CreateStatement { only: _, what, data, output, timeout } = create;
        let source = self.source(what)?;
        // One row of a table that is named.
        let tables = what.iter().filter(|expr| matches!(expr, Expr::Table(_))).count() as u64;
        let rows = self.items(&source).saturating_sub(tables.saturating_mul(ROWS - 1));
        let source = Size { count: Some(rows), ..source };
        self.written(source, data.as_ref(), None, output.as_ref(), timeout)
    }

    pub(super) fn insert(&mut self, insert: &'e InsertStatement) -> Judged {
        let InsertStatement { into: _, data, ignore: _, update, output, timeout, relation: _ } = insert;
        let (rows, count) = match data {
            Data::ValuesExpression(rows) => (self.data(data)?, rows.len() as u64),
            Data::SingleExpression(value) => {
                let rows = self.expr(value)?;
                let count = self.items(&rows);
                (rows, count)
            }
            _ => {
                let rows = self.data(data)?;
                let count = self.items(&rows);
                (rows, count)
            }
        };
        // All rows at once: each is a part of it.
        let source = Size { count: Some(count), ..storable(rows)? };
        self.written(source, update.as_ref(), None, output.as_ref(), timeout)
    }

    pub(super) fn update(&mut self, update: &'e UpdateStatement) -> Judged {
        let UpdateStatement { only: _, what, with: _, data, cond, output, timeout, explain: _ } = update;
        let source = self.source(what)?;
        self.written(source, data.as_ref(), cond.as_ref(), output.as_ref(), timeout)
    }

    pub(super) fn upsert(&mut self, upsert: &'e UpsertStatement) -> Judged {
        let UpsertStatement { only: _, what, with: _, data, cond, output, timeout, explain: _ } = upsert;
        let source = self.source(what)?;
        self.written(source, data.as_ref(), cond.as_ref(), output.as_ref(), timeout)
    }

    pub(super) fn delete(&mut self, delete: &'e DeleteStatement) -> Judged {
        let DeleteStatement { only: _, what, with: _, cond, output, timeout, explain: _ } = delete;
        let source = self.source(what)?;
        self.written(source, None, cond.as_ref(), output.as_ref(), timeout)
    }

    pub(super) fn relate(&mut self, relate: &'e RelateStatement) -> Judged {
        let RelateStatement { only: _, or_update: _, through, from, to, data, output, timeout } = relate;
        let through = self.expr(through)?;
        // An edge for each pair.
        let (from, to) = (self.source(std::slice::from_ref(from))?, self.source(std::slice::from_ref(to))?);
        let edges = self.items(&from).saturating_mul(self.items(&to));
        let source = Size { count: Some(edges), ..from.and(to).and(through) };
        self.written(source, data.as_ref(), None, output.as_ref(), timeout)
    }

    /// A statement that writes to the rows of `source`. What it writes to one row is counted; how much all rows take is bounded by the
    /// wall, and what the statement answers of them is measured. Fields of its own in the answer are made for every row.
    fn written(
        &mut self,
        source: Size,
        data: Option<&'e Data>,
        cond: Option<&'e Cond>,
        output: Option<&'e Output>,
        timeout: &'e Expr,
    ) -> Judged {
        self.expr(timeout)?;
        let rows = self.items(&source);
        let worked = Self::row_rounds(&source, rows);
        let source = source.and(Size::rows());
        let round = self.row_of(source.clone(), worked, |sizes| {
            sizes.cond(cond)?;
            let row = sizes.this();
            match data {
                Some(data) => Ok(row.and(storable(sizes.data(data)?)?)),
                None => Ok(row),
            }
        })?;
        let answer = match output {
            Some(Output::None | Output::Null) => Size::scalar(),
            None | Some(Output::After | Output::Before) => round.kept(1),
            Some(Output::Diff) if only_fields_go(data) => round.kept(1).times(2),
            Some(Output::Diff) => {
                return Err("RETURN DIFF is taken with UNSET of fields only, since two long texts take too many steps: use RETURN \
                            BEFORE or AFTER"
                    .to_owned());
            }
            Some(Output::Fields(fields)) => {
                let written = source.and(round.kept(rows));
                self.within(written, rows, |sizes| sizes.fields(fields))?
            }
        };
        self.made("what is written", Size { ids: true, tables: true, ..answer.part() })
    }

    /// What is written to a row.
    fn data(&mut self, data: &'e Data) -> Judged {
        let mut all = Size::scalar();
        match data {
            Data::EmptyExpression => {}
            Data::SetExpression(assignments) | Data::UpdateExpression(assignments) => {
                for Assignment { place, operator, value } in assignments {
                    let (before, set) = (self.idiom(place)?, self.expr(value)?);
                    match operator {
                        AssignOperator::Assign => {}
                        AssignOperator::Add | AssignOperator::Subtract | AssignOperator::Extend => {
                            self.may_compare(&before, &set);
                        }
                    }
                    all = all.and(set).and(Size::scalar());
                }
            }
            Data::UnsetExpression(places) => {
                for place in places {
                    self.idiom(place)?;
                }
            }
            Data::PatchExpression(value)
            | Data::MergeExpression(value)
            | Data::ReplaceExpression(value)
            | Data::ContentExpression(value)
            | Data::SingleExpression(value) => all = all.and(self.expr(value)?),
            Data::ValuesExpression(rows) => {
                for (place, value) in rows.iter().flatten() {
                    self.idiom(place)?;
                    all = all.and(self.expr(value)?).and(Size::scalar());
                }
            }
        }
        Ok(all)
    }

    pub(super) fn cond(&mut self, cond: Option<&'e Cond>) -> Result<(), String> {
        cond.into_iter().try_for_each(|Cond(expr)| self.expr(expr).map(|_| ()))
    }

    /// A WHERE of a SELECT: its answers for a batch of rows are in memory together. Their parts that are of the row are no more than it.
    fn judged(&mut self, cond: Option<&'e Cond>, rows: u64) -> Result<(), String> {
        let Some(Cond(expr)) = cond else { return Ok(()) };
        let answer = self.expr(expr)?;
        self.made("the answers of WHERE", Size::fixed(answer.fixed.saturating_mul(rows))).map(|_| ())
    }

    /// The bound that a LIMIT sets, if it is a known number.
    pub(super) fn limit(&mut self, limit: Option<&'e Limit>) -> Result<Option<u64>, String> {
        let Some(Limit(expr)) = limit else { return Ok(None) };
        let number = self.expr(expr)?.number;
        Ok(number.and_then(|number| u64::try_from(number).ok()))
    }

    /// How many rows START leaves out, if that is known: none without it.
    pub(super) fn start(&mut self, start: Option<&'e Start>) -> Result<Option<u64>, String> {
        let Some(Start(expr)) = start else { return Ok(Some(0)) };
        let number = self.expr(expr)?.number;
        Ok(number.and_then(|number| u64::try_from(number).ok()))
    }
}
