//! The port for reading what is in the outbox, for people and the API. Nothing here is on the way of a delivery.

use std::sync::Arc;

use async_trait::async_trait;

use crate::ids::{MessageId, Place, ShardId, Tenant};
use crate::outbox::dead_plan::DeadTally;
use crate::outbox::filter::Filter;
use crate::outbox::records::{DeadLetter, Done, Entry, IdRecord, Parked, Scheduled};
use crate::port::quarantine::QuarantineStore;
use crate::port::store::StoreError;
use crate::time::UnixMillis;

/// Where a message was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// In a segment; `claimed` while its segment is open.
    Flowing {
        place: Place,
        entry: Entry,
        /// Its segment is claimed.
        claimed: bool,
    },
    /// Waiting for a retry.
    Parked(Arc<Parked>),
    /// Waiting for its time.
    Scheduled(Arc<Scheduled>),
    Dead(Arc<DeadLetter>),
    Done(Place, Done),
}

/// One page of a list, with the cursor that goes on after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Opaque; none at the end.
    pub next_cursor: Option<String>,
}

/// A page, and what it cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadPage<T> {
    pub items: Vec<T>,
    /// Opaque; none at the end.
    pub next_cursor: Option<String>,
    /// Rows that were read for it, those among them that don't match.
    pub reads: usize,
}

impl<T> From<ReadPage<T>> for Page<T> {
    fn from(page: ReadPage<T>) -> Self {
        Self { items: page.items, next_cursor: page.next_cursor }
    }
}

/// What was counted by a walk that looks at so many dead letters and no more, the latest in the order first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted<T> {
    /// Counts; at least so many when `since` is set.
    pub value: T,
    /// The walk ended before the end: of what entered the order before this instant nothing was counted. None = all was. Received messages and
    /// events are walked by their places: a walk among them that ended early has the instant of the count.
    pub since: Option<UnixMillis>,
}

/// A count of dead letters with the same tenant, code, error signature and kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadGroup {
    pub kind: crate::port::dead::DeadKind,
    pub tenant: String,
    pub code: String,
    /// Error signature: the reason with numbers and ids taken out.
    pub signature: String,
    /// A topic of the group; of stuck sagas `saga:<definition>/<step>`, of received messages a subject.
    pub topic: String,
    pub count: u64,
    /// First death, Unix milliseconds.
    pub first_at: u64,
    /// Latest death, Unix milliseconds.
    pub latest_at: u64,
    /// When they died, of the hour before that.
    pub minutes: crate::outbox::dead_groups::DeadMinutes,
    /// An id of the group.
    pub example: String,
}

/// Kinds of messages to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// In segments, claimed or not.
    Flowing,
    /// Waiting for a retry.
    Parked,
    /// Waiting for their time.
    Scheduled,
    Done,
}

/// How messages of all kinds are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListOrder {
    /// By what they wait for, each part in key order.
    #[default]
    State,
    /// The latest in the order first, before them what waits for its time.
    Newest,
}

/// Depths of one tenant in one shard, counted from the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    pub shard: ShardId,
    pub tenant: String,
    /// Dead letters not quarantined.
    pub dead: u64,
    pub quarantined: u64,
    pub scheduled: u64,
}

/// Depths of all tenants, and how far the counting got.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Depths {
    /// By shard and tenant.
    pub of: Vec<Depth>,
    /// Of dead letters that entered the order before this instant none was counted. None = all were.
    pub dead_since: Option<UnixMillis>,
    /// Of scheduled messages due at this instant or later not all were counted. None = all were.
    pub scheduled_until: Option<UnixMillis>,
}

#[async_trait]
pub trait QueryStore: QuarantineStore {
    /// The row of the id index.
    async fn id(&self, tenant: &Tenant, id: &MessageId) -> Result<Option<IdRecord>, StoreError>;
    /// What lies at a place: looks at parked, dead letters, the segment and the history, in this order.
    async fn at(&self, place: Place) -> Result<Option<Found>, StoreError>;
    async fn scheduled(
        &self,
        shard: ShardId,
        due: UnixMillis,
        id: &MessageId,
    ) -> Result<Option<Arc<Scheduled>>, StoreError>;
    /// Messages of one kind that match, in key order, at most `limit`; it reads at most a bounded number of records and then
    /// answers a cursor even when the page isn't full.
    async fn list(
        &self,
        kind: ListKind,
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Found>, StoreError>;
    /// Messages of these kinds that match, newest first: scheduled ones, the last due first, then those with a place in the order, the
    /// latest commit first and of one commit the last message first. Bounded like `list`.
    async fn newest(
        &self,
        kinds: &[ListKind],
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Found>, StoreError>;
    /// Dead letters that match, in key order (so each key in its order).
    async fn dead_letters(
        &self,
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Arc<DeadLetter>>, StoreError>;
    /// The same, the latest in the order first: what people look at. It reads a bounded number of records and then answers a cursor
    /// even when the page isn't full.
    async fn latest_dead(
        &self,
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Arc<DeadLetter>>, StoreError>;
    /// How many match. It looks at `reads` dead letters at most, the latest in the order first.
    async fn count_dead(&self, filter: &Filter, reads: usize) -> Result<Counted<u64>, StoreError>;
    /// Dead letters that match, by tenant, code and error signature, largest group first; bounded like `count_dead`.
    async fn dead_groups(&self, filter: &Filter, reads: usize) -> Result<Counted<Vec<DeadGroup>>, StoreError>;
    /// What a bulk act on the dead letters that match would concern; bounded like `count_dead`. `spares_quarantined`: those that are
    /// fenced off are only counted as left out.
    async fn tally_dead(
        &self,
        filter: &Filter,
        reads: usize,
        spares_quarantined: bool,
    ) -> Result<Counted<DeadTally>, StoreError>;
    /// Depths per tenant. It looks at `reads` dead letters at most, the latest in the order first, and at as many scheduled messages, the
    /// soonest due first.
    async fn depths(&self, reads: usize) -> Result<Depths, StoreError>;
}
