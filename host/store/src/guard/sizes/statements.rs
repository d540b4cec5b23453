//! Data statements.

use surrealdb_expr::expr::data::Assignment;
use surrealdb_expr::expr::statements::{
    CreateStatement, DeleteStatement, InsertStatement, RelateStatement, SelectStatement, UpdateStatement,
    UpsertStatement,
};
use surrealdb_expr::expr::{Cond, Data, Expr, Limit, Output, Start};

use super::size::{ROWS, Size};
use super::{Judged, Sizes};

impl<'e> Sizes<'e> {
    pub(super) fn select(&mut self, select: &'e SelectStatement) -> Judged {
        let SelectStatement {
            fields,
            omit,
            only: _,
            what,
            with: _,
            cond,
            split,
            group: _,
            order: _,
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
        let bound = self.limit(limit.as_ref())?;
        self.start(start.as_ref())?;
        self.exprs([version, timeout])?;
        let whole = self.bytes(&source);
        let mut rows = source.items;
        if split.is_some() {
            // A row for every item of one of its fields.
            rows = rows.saturating_mul(whole / super::size::VALUE);
        }
        let answered = bound.map_or(rows, |bound| rows.min(bound));
        let answer = self.within(source, answered, |sizes| {
            sizes.cond(cond.as_ref())?;
            sizes.exprs(omit)?;
            sizes.fields(fields)
        })?;
        let answer = match split {
            // Each of them is as large as the row that it was split from.
            Some(_) => answer.and(Size::fixed(whole.saturating_mul(answered))),
            None => answer,
        };
        let answer = Size { items: answered.max(1), ids: true, ..answer };
        let answer = self.made("the rows of SELECT", answer)?;
        self.fetched(answer, fetch.as_ref())
    }

    /// What the rows of these places take, and how many they are.
    fn source(&mut self, what: &'e [Expr]) -> Judged {
        let (mut all, mut stored) = (Size::default(), false);
        for expr in what {
            let one = self.expr(expr)?;
            stored |= one.ids;
            let items = if matches!(expr, Expr::Table(_)) { ROWS } else { one.items };
            all = all.and(Size { items, ..one });
        }
        // Rows are counted once, however many records name them.
        let items = all.items;
        match stored && all.of.iter().all(|count| *count == 0) {
            true => Ok(Size { items, ..all.and(Size::rows()) }),
            false => Ok(all),
        }
    }

    pub(super) fn create(&mut self, create: &'e CreateStatement) -> Judged {
        let CreateStatement { only: _, what, data, output, timeout } = create;
        self.written(what, [data.as_ref(), None], None, output.as_ref(), timeout)
    }

    pub(super) fn insert(&mut self, insert: &'e InsertStatement) -> Judged {
        let InsertStatement { into: _, data, ignore: _, update, output, timeout, relation: _ } = insert;
        self.written(&[], [Some(data), update.as_ref()], None, output.as_ref(), timeout)
    }

    pub(super) fn update(&mut self, update: &'e UpdateStatement) -> Judged {
        let UpdateStatement { only: _, what, with: _, data, cond, output, timeout, explain: _ } = update;
        self.written(what, [data.as_ref(), None], cond.as_ref(), output.as_ref(), timeout)
    }

    pub(super) fn upsert(&mut self, upsert: &'e UpsertStatement) -> Judged {
        let UpsertStatement { only: _, what, with: _, data, cond, output, timeout, explain: _ } = upsert;
        self.written(what, [data.as_ref(), None], cond.as_ref(), output.as_ref(), timeout)
    }

    pub(super) fn delete(&mut self, delete: &'e DeleteStatement) -> Judged {
        let DeleteStatement { only: _, what, with: _, cond, output, timeout, explain: _ } = delete;
        self.written(what, [None, None], cond.as_ref(), output.as_ref(), timeout)
    }

    pub(super) fn relate(&mut self, relate: &'e RelateStatement) -> Judged {
        let RelateStatement { only: _, or_update: _, through, from, to, data, output, timeout } = relate;
        self.exprs([through, from, to])?;
        self.written(&[], [data.as_ref(), None], None, output.as_ref(), timeout)
    }

    /// A statement that writes. What it writes to one row is counted; rows that lie in the write buffer are bounded by the store, and
    /// what the statement answers of them is measured.
    fn written(
        &mut self,
        what: &'e [Expr],
        data: [Option<&'e Data>; 2],
        cond: Option<&'e Cond>,
        output: Option<&'e Output>,
        timeout: &'e Expr,
    ) -> Judged {
        let source = self.source(what)?;
        self.expr(timeout)?;
        let source = Size { items: source.items.max(1), ..source.and(Size::rows()) };
        let items = source.items;
        let answer = self.within(source, 1, |sizes| {
            sizes.cond(cond)?;
            let mut row = sizes.this();
            for data in data.into_iter().flatten() {
                row = row.and(sizes.data(data)?);
            }
            match output {
                Some(Output::None | Output::Null) => Ok(Size::scalar()),
                None | Some(Output::After | Output::Before) => Ok(row),
                Some(Output::Diff) => Ok(row.times(2)),
                Some(Output::Fields(fields)) => sizes.fields(fields),
            }
        })?;
        self.made("what is written", Size { items, ids: true, ..answer })
    }

    /// What is written to a row.
    fn data(&mut self, data: &'e Data) -> Judged {
        let mut all = Size::scalar();
        match data {
            Data::EmptyExpression => {}
            Data::SetExpression(assignments) | Data::UpdateExpression(assignments) => {
                for Assignment { place, operator: _, value } in assignments {
                    self.idiom(place)?;
                    all = all.and(self.expr(value)?).and(Size::scalar());
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

    /// The bound that a LIMIT sets, if it is a known number.
    pub(super) fn limit(&mut self, limit: Option<&'e Limit>) -> Result<Option<u64>, String> {
        let Some(Limit(expr)) = limit else { return Ok(None) };
        let number = self.expr(expr)?.number;
        Ok(number.and_then(|number| u64::try_from(number).ok()))
    }

    pub(super) fn start(&mut self, start: Option<&'e Start>) -> Result<(), String> {
        start.into_iter().try_for_each(|Start(expr)| self.expr(expr).map(|_| ()))
    }
}
