//! The audit trail: acts of operators and hosts in one table, events of messages, sagas and received messages in another, both under keys
//! that begin with the instant, so that the newest are read from the end and the oldest are removed from the front.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, Ordering};

use ulid::Ulid;
use waybill_core::audit::AuditQuery;
use waybill_core::ids::ShardId;
use waybill_core::port::query::Page;
use waybill_core::port::store::StoreError;
use waybill_core::port::transact::AuditEvent;
use waybill_core::time::UnixMillis;
use waybill_core::tx_event::{TxRecordKey, TxSubject};
use waybill_surreal::{Bound, RecordIdKey, Row, Transaction, int, key, text};

use crate::fault::store_error;
use crate::fronts::{PurgeFronts, Reached};
use crate::quarantine::Spoilt;
use crate::rows::{small, tx_event};
use crate::store::{SurrealStore, finish};
use crate::tables::{AUDIT, TX_EVENT, number, part, part_text};

/// Acts read in one piece.
const ACTS_PAGE: usize = 200;
/// Records of events read in one piece: each may hold some thousand.
const RECORDS_PAGE: usize = 32;
/// Acts and events looked at for one page: those of a quiet tenant may lie deep.
const READS_MAX: usize = 20_000;

/// Tells acts of one millisecond apart in the order they were written by this process.
static ORDER: AtomicI64 = AtomicI64::new(0);

pub async fn append(store: &SurrealStore, event: &AuditEvent) -> Result<(), StoreError> {
    let fields = small::of_json(event)?;
    let order = ORDER.fetch_add(1, Ordering::Relaxed);
    let id = key([number(event.at.0), int(order), text(Ulid::new().to_string())]);
    let transaction = store.begin(true).await?;
    let worked = transaction.create(AUDIT, id, fields).await.map_err(store_error);
    finish(transaction, worked).await
}

/// Where a line lies. In the list acts come before events of the same instant.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Act {
        at: u64,
        order: u64,
        ulid: String,
    },
    /// A record, and the index of the event in it.
    Event {
        record: TxRecordKey,
        index: u32,
    },
}

impl Place {
    fn of_act(row: &Row) -> Option<Self> {
        Some(Self::Act { at: part(&row.key, 0)?, order: part(&row.key, 1)?, ulid: part_text(&row.key, 2)?.to_owned() })
    }

    fn to_cursor(&self) -> String {
        match self {
            Self::Act { at, order, ulid } => format!("a.{at}.{order}.{ulid}"),
            Self::Event { record: TxRecordKey { at, shard, of, beat, part }, index } => {
                format!("e.{at}.{shard}.{of}.{beat}.{part}.{index}", at = at.0, of = of.number())
            }
        }
    }

    fn from_cursor(cursor: &str) -> Result<Self, StoreError> {
        let parts: Vec<&str> = cursor.split('.').collect();
        let place = match parts.as_slice() {
            ["a", at, order, ulid] => Self::act(at, order, ulid),
            ["e", at, shard, of, beat, part, index] => Self::event([at, shard, of, beat, part, index]),
            _ => None,
        };
        place.ok_or_else(|| StoreError::Statement("the cursor isn't one of this list: begin without one".into()))
    }

    fn act(at: &str, order: &str, ulid: &str) -> Option<Self> {
        Some(Self::Act { at: at.parse().ok()?, order: order.parse().ok()?, ulid: ulid.to_owned() })
    }

    fn event([at, shard, of, beat, part, index]: [&str; 6]) -> Option<Self> {
        let of = TxSubject::of_number(of.parse().ok()?)?;
        let (at, shard) = (UnixMillis(at.parse().ok()?), ShardId(shard.parse().ok()?));
        let record = TxRecordKey { at, shard, of, beat: beat.parse().ok()?, part: part.parse().ok()? };
        Some(Self::Event { record, index: index.parse().ok()? })
    }

    /// Up to where acts lie behind it.
    fn acts_until(&self) -> Bound {
        Bound::Excluded(match self {
            Self::Act { at, order, ulid } => key([number(*at), number(*order), text(ulid.as_str())]),
            Self::Event { record, .. } => key([number(record.at.0)]),
        })
    }

    /// Up to where records lie behind it, its own included: there may be more in that.
    fn records_until(&self) -> Bound {
        match self {
            Self::Act { at, .. } => Bound::Excluded(key([number(at.saturating_add(1))])),
            Self::Event { record, .. } => Bound::Included(tx_event::key_of(record)),
        }
    }

    /// Whether this event of a record lies on the page before.
    fn is_behind(&self, of: &TxRecordKey, at: u32) -> bool {
        matches!(self, Self::Event { record, index } if record == of && *index <= at)
    }
}

/// A table read from its end, in pieces.
struct Walk {
    table: &'static str,
    from: RecordIdKey,
    until: Bound,
    page: usize,
    rows: VecDeque<Row>,
    is_over: bool,
}

impl Walk {
    fn new(table: &'static str, query: &AuditQuery, until: Option<Bound>, page: usize) -> Self {
        let latest = query.until.map_or(int(i64::MAX), |until| number(until.0));
        Self {
            table,
            from: key([number(query.since.map_or(0, |since| since.0))]),
            until: until.unwrap_or(Bound::Excluded(key([latest]))),
            page,
            rows: VecDeque::new(),
            is_over: false,
        }
    }

    /// When the next row was written; none = there is none.
    async fn head(&mut self, transaction: &dyn Transaction) -> Result<Option<u64>, StoreError> {
        if self.rows.is_empty() && !self.is_over {
            let (from, until) = (Bound::Included(self.from.clone()), self.until.clone());
            let rows = transaction.scan_back(self.table, from, until, self.page).await.map_err(store_error)?;
            self.is_over = rows.len() < self.page;
            if let Some(last) = rows.last() {
                self.until = Bound::Excluded(last.key.clone());
            }
            self.rows = rows.into();
        }
        Ok(self.rows.front().map(|row| part(&row.key, 0).unwrap_or(0)))
    }
}

/// A page being filled.
struct Filling<'a> {
    query: &'a AuditQuery,
    limit: usize,
    after: Option<Place>,
    items: Vec<AuditEvent>,
    reads: usize,
    last: Option<Place>,
}

impl Filling<'_> {
    fn is_full(&self) -> bool {
        self.items.len() >= self.limit || self.reads >= READS_MAX
    }

    fn act(&mut self, row: Row, spoilt: &mut Spoilt) -> Result<(), StoreError> {
        self.reads += 1;
        self.last = Place::of_act(&row).or(self.last.take());
        let read = small::json::<AuditEvent>(AUDIT, row.fields);
        let event = spoilt.sift(AUDIT, &row.key, read)?;
        self.items.extend(event.filter(|event| self.query.takes(event)));
        Ok(())
    }

    /// The events of a record, the last one first, until the page is full.
    fn record(&mut self, row: &Row, spoilt: &mut Spoilt) -> Result<(), StoreError> {
        let Some(record) = spoilt.sift(TX_EVENT, &row.key, tx_event::record(row))? else { return Ok(()) };
        let is_in_time = self.query.is_in_time(record.key.at);
        for (index, event) in (0_u32..).zip(&record.events).collect::<Vec<_>>().into_iter().rev() {
            if self.is_full() {
                break;
            }
            if self.after.as_ref().is_some_and(|after| after.is_behind(&record.key, index)) {
                continue;
            }
            self.reads += 1;
            self.last = Some(Place::Event { record: record.key, index });
            let tenant = Some(event.tenant.as_str());
            let is_wanted = is_in_time
                && self.query.is_of(event.consumer.as_deref())
                && self.query.matches(record.actor(event), event.kind.as_str(), &event.id, tenant);
            if is_wanted {
                self.items.push(record.view(event));
            }
        }
        Ok(())
    }
}

/// Lines that are asked for, newest first.
pub async fn lines(
    store: &SurrealStore,
    query: &AuditQuery,
    cursor: Option<&str>,
    limit: usize,
) -> Result<Page<AuditEvent>, StoreError> {
    let after = cursor.map(Place::from_cursor).transpose()?;
    let transaction = store.begin(false).await?;
    let mut spoilt = Spoilt::default();
    let page = read(transaction.as_ref(), query, after, limit, &mut spoilt).await;
    store.set_aside(spoilt).await;
    page
}

async fn read(
    transaction: &dyn Transaction,
    query: &AuditQuery,
    after: Option<Place>,
    limit: usize,
    spoilt: &mut Spoilt,
) -> Result<Page<AuditEvent>, StoreError> {
    let mut acts = Walk::new(AUDIT, query, after.as_ref().map(Place::acts_until), ACTS_PAGE);
    let mut records = Walk::new(TX_EVENT, query, after.as_ref().map(Place::records_until), RECORDS_PAGE);
    records.is_over = !query.wants_tx_events();
    let mut page = Filling { query, limit, after, items: Vec::new(), reads: 0, last: None };
    loop {
        if page.is_full() {
            return Ok(Page { next_cursor: page.last.map(|last| last.to_cursor()), items: page.items });
        }
        let (act, record) = (acts.head(transaction).await?, records.head(transaction).await?);
        let is_act = act.is_some() && act >= record;
        let walk = if is_act { &mut acts } else { &mut records };
        match walk.rows.pop_front() {
            Some(row) if is_act => page.act(row, spoilt)?,
            Some(row) => page.record(&row, spoilt)?,
            None => return Ok(Page { items: page.items, next_cursor: None }),
        }
    }
}

/// Removes what was written before an instant.
pub async fn purge(store: &SurrealStore, before: UnixMillis, limit: usize) -> Result<usize, StoreError> {
    let Some(last) = before.0.checked_sub(1) else { return Ok(0) };
    let mut most = 0;
    for table in [AUDIT, TX_EVENT] {
        let transaction = store.begin(true).await?;
        let worked = purge_table(store.purge_fronts(), transaction.as_ref(), table, UnixMillis(last), limit).await;
        let rows = finish(transaction, worked).await?;
        store.purge_fronts().reached(table, Reached::of(&rows));
        most = most.max(rows.len());
    }
    Ok(most)
}

async fn purge_table(
    fronts: &PurgeFronts,
    transaction: &dyn Transaction,
    table: &'static str,
    last: UnixMillis,
    limit: usize,
) -> Result<Vec<Row>, StoreError> {
    let rows = fronts.scan(transaction, table, last, limit).await?;
    for row in &rows {
        transaction.delete(table, row.key.clone()).await.map_err(store_error)?;
    }
    Ok(rows)
}
