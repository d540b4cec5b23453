//! Cursors: where an item lies in its list. Paging goes on behind it, also when its record is gone.

use waybill_core::ids::{Seq, ShardId, Tenant};
use waybill_core::port::query::Page;
use waybill_core::port::store::StoreError;
use waybill_core::saga::id::{SagaId, SagaKey};

use super::{PAGE_BYTES_MAX, PAGE_READS_MAX};

/// A place in a list: the numbers of the key, then its text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct At {
    numbers: Vec<u64>,
    text: String,
}

impl At {
    /// A place with numbers and a text.
    pub fn new(shard: ShardId, numbers: &[u64], text: &str) -> Self {
        let mut all = vec![u64::from(shard.0)];
        all.extend_from_slice(numbers);
        Self { numbers: all, text: text.to_owned() }
    }

    pub fn shard(&self) -> ShardId {
        ShardId(self.numbers.first().and_then(|number| u16::try_from(*number).ok()).unwrap_or(0))
    }

    /// The `index`-th number behind the shard.
    pub fn number(&self, index: usize) -> u64 {
        self.numbers.get(index + 1).copied().unwrap_or(0)
    }

    /// The first number behind the shard as a seq.
    pub fn seq(&self) -> Seq {
        Seq(self.number(0))
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// The saga whose tenant and id are the text; the `index`-th number behind the shard is the length of the tenant.
    pub fn saga(&self, index: usize) -> Result<SagaKey, StoreError> {
        let length = usize::try_from(self.number(index)).ok();
        let parts = length.and_then(|length| self.text.split_at_checked(length));
        let key = parts
            .and_then(|(tenant, id)| Some(SagaKey { tenant: Tenant::new(tenant).ok()?, id: SagaId::new(id).ok()? }));
        key.ok_or_else(unusable)
    }

    /// The cursor that stands behind this place.
    pub fn to_cursor(&self) -> String {
        let numbers: Vec<String> = self.numbers.iter().map(u64::to_string).collect();
        format!("{}/{}", numbers.join("."), self.text)
    }

    /// Reads a cursor; `numbers` is how many it has to have, the shard included.
    pub fn from_cursor(cursor: &str, numbers: usize) -> Result<Self, StoreError> {
        let parsed = cursor.split_once('/').and_then(|(parts, text)| {
            let parts: Vec<u64> = parts.split('.').map(str::parse).collect::<Result<_, _>>().ok()?;
            (parts.len() == numbers).then(|| Self { numbers: parts, text: text.to_owned() })
        });
        parsed.ok_or_else(unusable)
    }
}

fn unusable() -> StoreError {
    StoreError::Statement("the cursor isn't one of this list: begin without one".into())
}

/// A page being filled.
pub struct Filling<T> {
    items: Vec<T>,
    limit: usize,
    reads: usize,
    /// Bytes of what was looked at.
    bytes: usize,
    after: Option<At>,
    last: Option<At>,
}

impl<T> Filling<T> {
    /// An empty page that begins behind a place.
    pub fn new(after: Option<At>, limit: usize) -> Self {
        Self { items: Vec::new(), limit, reads: 0, bytes: 0, after, last: None }
    }

    /// Whether another item may be looked at. When not, [`Filling::cut`] ends the page.
    pub fn has_room(&self) -> bool {
        self.items.len() < self.limit && self.reads < PAGE_READS_MAX && self.bytes < PAGE_BYTES_MAX
    }

    /// Counts the bytes of an item that is looked at.
    pub fn weigh(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Whether an item lies on an earlier page.
    pub fn is_before(&self, at: &At) -> bool {
        self.after.as_ref().is_some_and(|after| at <= after)
    }

    /// Counts an item that was looked at, and takes it if it matches.
    pub fn visit(&mut self, at: At, item: Option<T>) {
        self.reads += 1;
        self.last = Some(at);
        self.items.extend(item);
    }

    /// How many items were looked at.
    pub fn reads(&self) -> usize {
        self.reads
    }

    /// The page, with more behind it.
    pub fn cut(self) -> Page<T> {
        let next_cursor = self.last.or(self.after).map(|at| at.to_cursor());
        Page { items: self.items, next_cursor }
    }

    /// The page, which is the last one.
    pub fn end(self) -> Page<T> {
        Page { items: self.items, next_cursor: None }
    }
}
