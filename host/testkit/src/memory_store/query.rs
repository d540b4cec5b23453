//! Reads for people.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use waybill_core::ids::{MessageId, Place, Seq, ShardId, Tenant};
use waybill_core::outbox::dead_groups::DeadGroups;
use waybill_core::outbox::dead_plan::DeadTally;
use waybill_core::outbox::filter::Filter;
use waybill_core::outbox::records::{DeadLetter, DeadState, IdRecord, Scheduled};
use waybill_core::port::query::{Counted, DeadGroup, Depth, Depths, Found, ListKind, Page, QueryStore, ReadPage};
use waybill_core::port::store::StoreError;
use waybill_core::time::UnixMillis;

use super::tables::{SegmentContent, id_key};
use super::{MemoryStore, Tables};

/// Most records looked at for one page.
const PAGE_READS_MAX: usize = 2_000;

/// Where an item lies in its list: the numbers of its key, then its text. A cursor is one of these, so paging goes on behind it
/// even when its record is gone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct At(pub(super) Vec<u64>, pub(super) String);

impl At {
    fn seq(shard: ShardId, seq: Seq) -> Self {
        Self(vec![u64::from(shard.0), seq.0], String::new())
    }
    fn to_cursor(&self) -> String {
        let numbers: Vec<String> = self.0.iter().map(u64::to_string).collect();
        format!("{}/{}", numbers.join("."), self.1)
    }
    fn from_cursor(cursor: &str) -> Option<Self> {
        let (numbers, text) = cursor.split_once('/')?;
        let numbers: Result<Vec<u64>, _> = numbers.split('.').map(str::parse).collect();
        Some(Self(numbers.ok()?, text.to_owned()))
    }
}

/// Turns all items of a list, in key order, into one page.
pub(super) fn page<T>(
    items: impl Iterator<Item = (At, T)>,
    takes: impl Fn(&T) -> bool,
    cursor: Option<&str>,
    limit: usize,
) -> Result<Page<T>, StoreError> {
    read_page(items, takes, cursor, limit).map(Page::from)
}

/// The same with how many items were read for it.
pub(super) fn read_page<T>(
    items: impl Iterator<Item = (At, T)>,
    takes: impl Fn(&T) -> bool,
    cursor: Option<&str>,
    limit: usize,
) -> Result<ReadPage<T>, StoreError> {
    ordered_page(items, |at, after| at <= after, takes, cursor, limit)
}

/// The same of a list in an order of its own: `is_before` says whether an item lies at a cursor's place or before it.
fn ordered_page<T>(
    items: impl Iterator<Item = (At, T)>,
    is_before: impl Fn(&At, &At) -> bool,
    takes: impl Fn(&T) -> bool,
    cursor: Option<&str>,
    limit: usize,
) -> Result<ReadPage<T>, StoreError> {
    let bad = || StoreError::Statement("the cursor isn't one of this list: begin without one".into());
    let after = cursor.map(|cursor| At::from_cursor(cursor).ok_or_else(bad)).transpose()?;
    let mut items = items.skip_while(|(at, _)| after.as_ref().is_some_and(|after| is_before(at, after))).peekable();
    let mut page = ReadPage { items: Vec::new(), next_cursor: None, reads: 0 };
    let mut last = None;
    for _ in 0..PAGE_READS_MAX {
        if page.items.len() >= limit {
            break;
        }
        let Some((at, item)) = items.next() else { return Ok(page) };
        last = Some(at);
        page.reads += 1;
        if takes(&item) {
            page.items.push(item);
        }
    }
    if items.peek().is_some() {
        page.next_cursor = last.map(|at| at.to_cursor());
    }
    Ok(page)
}

impl Tables {
    fn flowing(&self) -> impl Iterator<Item = (At, Found)> {
        self.segments.iter().flat_map(|((shard, first), content)| {
            let SegmentContent::Segment(segment) = content else { return Vec::new() };
            let open = self.shards.get(shard).and_then(|record| record.open.get(first));
            let here = segment.entries.iter().filter(|entry| open.is_none_or(|open| !open.is_gone(entry.index)));
            here.map(|entry| {
                let place = segment.place(*shard, entry);
                let found = Found::Flowing { place, entry: entry.clone(), claimed: open.is_some() };
                (At(vec![u64::from(shard.0), first.0, u64::from(entry.index)], String::new()), found)
            })
            .collect::<Vec<_>>()
        })
    }

    fn all(&self, kind: ListKind) -> Box<dyn Iterator<Item = (At, Found)> + '_> {
        match kind {
            ListKind::Flowing => Box::new(self.flowing()),
            ListKind::Parked => Box::new(
                self.parked.iter().map(|((shard, seq), row)| (At::seq(*shard, *seq), Found::Parked(Arc::clone(row)))),
            ),
            ListKind::Scheduled => Box::new(self.scheduled.iter().map(|((shard, due, id), row)| {
                (At(vec![u64::from(shard.0), due.0], id.clone()), Found::Scheduled(Arc::clone(row)))
            })),
            ListKind::Done => Box::new(self.history.iter().flat_map(|((shard, segment, beat), chunk)| {
                chunk.in_order().into_iter().map(move |done| {
                    let place = Place { shard: *shard, segment: *segment, index: done.index };
                    (
                        At(vec![u64::from(shard.0), segment.0, *beat, u64::from(done.index)], String::new()),
                        Found::Done(place, done.clone()),
                    )
                })
            })),
        }
    }

    /// All messages of some kinds by their places, scheduled ones above all others by when they are due.
    fn by_place(&self, kinds: &[ListKind]) -> Vec<(At, Found)> {
        let placed = |place: Place| {
            At(vec![0, place.segment.0, u64::from(place.shard.0), u64::from(place.index)], String::new())
        };
        let all = kinds.iter().flat_map(|kind| self.all(*kind)).map(|(_, found)| {
            let at = match &found {
                Found::Flowing { place, .. } | Found::Done(place, _) => placed(*place),
                Found::Parked(parked) => placed(parked.place),
                Found::Dead(dead) => placed(dead.place),
                Found::Scheduled(scheduled) => {
                    let numbers = vec![1, scheduled.due.0, u64::from(scheduled.shard.0)];
                    At(numbers, scheduled.message.id.as_str().to_owned())
                }
            };
            (at, found)
        });
        all.collect()
    }

    fn at(&self, place: Place) -> Option<Found> {
        let key = (place.shard, place.seq());
        if let Some(parked) = self.parked.get(&key) {
            return Some(Found::Parked(Arc::clone(parked)));
        }
        if let Some(dead) = self.dead.get(&key) {
            return Some(Found::Dead(Arc::clone(dead)));
        }
        let flowing =
            self.flowing().find(|(_, found)| matches!(found, Found::Flowing { place: at, .. } if *at == place));
        if let Some((_, found)) = flowing {
            return Some(found);
        }
        let done = self.all(ListKind::Done).find(|(_, found)| matches!(found, Found::Done(at, _) if *at == place));
        done.map(|(_, found)| found)
    }

    /// The latest `reads` dead letters of those that died before an instant, and how far that is if there are more.
    fn latest_dead(&self, before: Option<UnixMillis>, reads: usize) -> Counted<Vec<&Arc<DeadLetter>>> {
        let end = before.map_or(u64::MAX, |before| before.0.saturating_mul(1 << 20));
        let rows = self.dead.iter().filter(|((_, seq), _)| seq.0 < end);
        let mut rows: Vec<_> = rows.map(|((shard, seq), dead)| (*seq, *shard, dead)).collect();
        rows.sort_by_key(|row| std::cmp::Reverse((row.0, row.1)));
        let is_cut = rows.len() > reads;
        rows.truncate(reads);
        let since = rows.last().filter(|_| is_cut).map(|(seq, _, _)| UnixMillis(seq.0 >> 20));
        Counted { value: rows.into_iter().map(|(_, _, dead)| dead).collect(), since }
    }

    fn depths(&self, reads: usize) -> Depths {
        let mut depths: BTreeMap<(ShardId, String), Depth> = BTreeMap::new();
        let mut of = |shard: ShardId, tenant: &Tenant, count: fn(&mut Depth) -> &mut u64| {
            let tenant = tenant.as_str().to_owned();
            let depth = depths.entry((shard, tenant.clone())).or_insert(Depth { shard, tenant, ..Depth::default() });
            *count(depth) += 1;
        };
        let Counted { value: latest, since: dead_since } = self.latest_dead(None, reads);
        for dead in latest {
            let (shard, tenant) = (dead.place.shard, &dead.message.tenant);
            match dead.state {
                DeadState::Dead => of(shard, tenant, |depth| &mut depth.dead),
                DeadState::Quarantined { .. } => of(shard, tenant, |depth| &mut depth.quarantined),
            }
        }
        let mut soonest: Vec<_> =
            self.scheduled.iter().map(|((shard, due, _), scheduled)| (*due, *shard, scheduled)).collect();
        soonest.sort_by_key(|(due, shard, _)| (*due, *shard));
        let scheduled_until = soonest.get(reads).map(|(due, _, _)| *due);
        for (_, shard, scheduled) in soonest.into_iter().take(reads) {
            of(shard, &scheduled.message.tenant, |depth| &mut depth.scheduled);
        }
        Depths { of: depths.into_values().collect(), dead_since, scheduled_until }
    }
}

#[async_trait]
impl QueryStore for MemoryStore {
    async fn id(&self, tenant: &Tenant, id: &MessageId) -> Result<Option<IdRecord>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| tables.ids.get(&id_key(tenant, id)).cloned()))
    }

    async fn at(&self, place: Place) -> Result<Option<Found>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| tables.at(place)))
    }

    async fn scheduled(
        &self,
        shard: ShardId,
        due: UnixMillis,
        id: &MessageId,
    ) -> Result<Option<Arc<Scheduled>>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| tables.scheduled.get(&(shard, due, id.as_str().to_owned())).cloned()))
    }

    async fn list(
        &self,
        kind: ListKind,
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Found>, StoreError> {
        self.check()?;
        self.read(|tables| page(tables.all(kind), |found| filter.takes_found(found), cursor, limit))
    }

    async fn newest(
        &self,
        kinds: &[ListKind],
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Found>, StoreError> {
        self.check()?;
        self.read(|tables| {
            let mut all = tables.by_place(kinds);
            all.sort_by(|(one, _), (other, _)| other.cmp(one));
            let takes = |found: &Found| filter.takes_found(found);
            ordered_page(all.into_iter(), |at, after| at >= after, takes, cursor, limit).map(Page::from)
        })
    }

    async fn dead_letters(
        &self,
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Arc<DeadLetter>>, StoreError> {
        self.check()?;
        self.read(|tables| {
            let rows = tables.dead.iter().map(|((shard, seq), dead)| (At::seq(*shard, *seq), Arc::clone(dead)));
            page(rows, |dead| filter.takes_dead(dead), cursor, limit)
        })
    }

    async fn latest_dead(
        &self,
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Arc<DeadLetter>>, StoreError> {
        self.check()?;
        self.read(|tables| {
            // Upside down: a page goes on behind the highest place that it has.
            let of = |shard: &ShardId, seq: &Seq| At(vec![!seq.0, u64::from(!shard.0)], String::new());
            let mut rows: Vec<_> =
                tables.dead.iter().map(|((shard, seq), dead)| (of(shard, seq), Arc::clone(dead))).collect();
            rows.sort_by(|(one, _), (other, _)| one.cmp(other));
            page(rows.into_iter(), |dead| filter.takes_dead(dead), cursor, limit)
        })
    }

    async fn count_dead(&self, filter: &Filter, reads: usize) -> Result<Counted<u64>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| {
            let Counted { value: latest, since } = tables.latest_dead(filter.before, reads);
            Counted { value: latest.into_iter().filter(|dead| filter.takes_dead(dead)).count() as u64, since }
        }))
    }

    async fn dead_groups(&self, filter: &Filter, reads: usize) -> Result<Counted<Vec<DeadGroup>>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| {
            let Counted { value: latest, since } = tables.latest_dead(filter.before, reads);
            let mut groups = DeadGroups::default();
            latest.into_iter().filter(|dead| filter.takes_dead(dead)).for_each(|dead| groups.add(dead));
            Counted { value: groups.finish(), since }
        }))
    }

    async fn tally_dead(
        &self,
        filter: &Filter,
        reads: usize,
        spares_quarantined: bool,
    ) -> Result<Counted<DeadTally>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| {
            let Counted { value: latest, since } = tables.latest_dead(filter.before, reads);
            let mut tally = DeadTally::new(spares_quarantined);
            latest.into_iter().filter(|dead| filter.takes_dead(dead)).for_each(|dead| tally.add(dead));
            Counted { value: tally, since }
        }))
    }

    async fn depths(&self, reads: usize) -> Result<Depths, StoreError> {
        self.check()?;
        Ok(self.read(|tables| tables.depths(reads)))
    }
}
