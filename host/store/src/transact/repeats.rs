//! Repeats of a transaction whose messages still lie on the doorstep: its statements must not run again, and nothing but the
//! doorstep knows of them before the owner of their shard takes them in.
//!
//! Two things together keep them out. Transactions with one id go one after the other ([`Repeats::begin`]), so that each begins
//! with the outcome of the one before in its snapshot. And in that snapshot the doorstep is looked through
//! ([`Attempt::refuse_waiting`]). Both are of this process: a transaction with statements needs an embedded store, which one
//! process has for itself.
//!
//! Rows that were taken in leave marks at the front of a doorstep until the database compacts them, as in the table of scheduled
//! messages. So the front is remembered: the stamp before which nothing of such a transaction lies or will come.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Mutex as Lane, OwnedMutexGuard};
use waybill_core::ids::{MessageId, ShardId, Tenant};
use waybill_core::limits::{DOOR_LOOK_BYTES_MAX, DOOR_LOOK_PAGE, DOOR_LOOK_ROWS_MAX};
use waybill_core::message::Message;
use waybill_core::port::store::StoreError;
use waybill_core::port::transact::DoorGroup;
use waybill_surreal::{Bound, Transaction};

use super::Stamps;
use crate::fault::store_error;
use crate::rows::door;
use crate::tables::{DOOR, door_start, part, shard_end};

type Identity = (Tenant, MessageId);

/// What this process knows of transactions whose messages have ids of their callers and came with statements.
#[derive(Debug, Default)]
pub struct Repeats {
    /// Of ids that a transaction has or waits for, and no others.
    turns: Mutex<HashMap<Identity, Turn>>,
    fronts: Mutex<Fronts>,
}

/// Whose turn it is with one id.
#[derive(Debug, Default)]
struct Turn {
    lane: Arc<Lane<()>>,
    /// Transactions that have it or wait for it.
    users: usize,
}

#[derive(Debug, Default)]
struct Fronts {
    /// By shard: nothing lies before this stamp. A shard that isn't in it is read from its beginning.
    of: HashMap<ShardId, u64>,
    /// The latest stamp that was given out when each open transaction began, with how many began then: their own are later.
    open: BTreeMap<u64, usize>,
    /// Rows that were put back so far: what was seen before the last of them says nothing.
    put_back: u64,
}

impl Repeats {
    /// Waits until no other transaction has one of these ids. One without such ids waits for nothing and costs nothing.
    pub async fn begin(&self, stamps: &Stamps, groups: &[DoorGroup]) -> Attempt<'_> {
        let messages = groups.iter().flat_map(|group| &group.messages).filter(|message| is_asked(message));
        let mut ids: Vec<Identity> = messages.map(|message| (message.tenant.clone(), message.id.clone())).collect();
        // In one order: two transactions with several ids don't wait for each other.
        ids.sort();
        ids.dedup();
        let mut attempt =
            Attempt { repeats: self, ids: Vec::new(), lanes: Vec::new(), since: None, looked: Vec::new() };
        for id in ids {
            let lane = self.line_up(&id);
            attempt.ids.push(id);
            attempt.lanes.push(lane.lock_owned().await);
        }
        if !attempt.ids.is_empty() {
            attempt.since = Some(self.open(stamps.latest()));
        }
        attempt
    }

    fn line_up(&self, id: &Identity) -> Arc<Lane<()>> {
        let mut turns = locked(&self.turns);
        let turn = turns.entry(id.clone()).or_default();
        turn.users += 1;
        Arc::clone(&turn.lane)
    }

    fn leave(&self, id: &Identity) {
        let mut turns = locked(&self.turns);
        let is_last = turns.get_mut(id).is_some_and(|turn| {
            turn.users = turn.users.saturating_sub(1);
            turn.users == 0
        });
        if is_last {
            turns.remove(id);
        }
    }

    /// Notes a transaction that begins after this stamp.
    fn open(&self, latest: u64) -> Since {
        let mut fronts = locked(&self.fronts);
        *fronts.open.entry(latest).or_default() += 1;
        let oldest = fronts.open.first_key_value().map_or(latest, |(oldest, _)| *oldest);
        Since { latest, oldest, put_back: fronts.put_back }
    }

    fn close(&self, latest: u64) {
        let mut fronts = locked(&self.fronts);
        let is_last = fronts.open.get_mut(&latest).is_some_and(|count| {
            *count = count.saturating_sub(1);
            *count == 0
        });
        if is_last {
            fronts.open.remove(&latest);
        }
    }

    /// Reads doorsteps from their beginnings again, because a row was put back where it lay.
    pub fn begin_anew(&self) {
        let mut fronts = locked(&self.fronts);
        fronts.put_back = fronts.put_back.saturating_add(1);
        fronts.of.clear();
    }

    fn front(&self, shard: ShardId) -> u64 {
        locked(&self.fronts).of.get(&shard).copied().unwrap_or(0)
    }
}

/// When a transaction began, in stamps of doorstep rows.
#[derive(Clone, Copy, Debug)]
struct Since {
    /// The latest that was given out: its own are later.
    latest: u64,
    /// The same of the oldest transaction that was open then.
    oldest: u64,
    /// Rows that had been put back by then.
    put_back: u64,
}

/// A transaction that has the turn with all of its ids, until it is dropped.
#[derive(Debug)]
pub struct Attempt<'r> {
    repeats: &'r Repeats,
    ids: Vec<Identity>,
    lanes: Vec<OwnedMutexGuard<()>>,
    /// None = it has no ids.
    since: Option<Since>,
    /// Doorsteps that were looked through, each with the stamp of its first row.
    looked: Vec<(ShardId, u64)>,
}

impl Attempt<'_> {
    /// Fails with [`StoreError::Exists`] when one of the ids lies on the doorstep of its shard, and when so much lies there that
    /// it isn't known. Call it in the transaction itself: that can't begin before the outcome of every earlier one is decided.
    pub async fn refuse_waiting(
        &mut self,
        transaction: &dyn Transaction,
        groups: &[DoorGroup],
    ) -> Result<(), StoreError> {
        for group in groups {
            let asked = group.messages.iter().filter(|message| is_asked(message));
            let asked: HashSet<(&Tenant, &MessageId)> = asked.map(|message| (&message.tenant, &message.id)).collect();
            if asked.is_empty() {
                continue;
            }
            let front = self.repeats.front(group.shard);
            let first = look_through(transaction, group.shard, front, &asked).await?;
            self.looked.push((group.shard, first.unwrap_or(u64::MAX)));
        }
        Ok(())
    }

    /// Says that the transaction was committed: what it saw of the doorsteps holds. A commit never goes in behind one that failed,
    /// so by now it is decided what became of every transaction that ended before this one began.
    pub fn committed(&self) {
        let Some(since) = self.since else { return };
        let mut fronts = locked(&self.repeats.fronts);
        if fronts.put_back != since.put_back {
            return;
        }
        for (shard, first) in &self.looked {
            // What is open may still put a row there, with a stamp from its beginning on.
            let reached = since.oldest.min(*first);
            let front = fronts.of.entry(*shard).or_default();
            *front = reached.max(*front);
        }
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if let Some(since) = self.since {
            self.repeats.close(since.latest);
        }
        self.lanes.clear();
        for id in &self.ids {
            self.repeats.leave(id);
        }
    }
}

/// Whether a message's id says that statements have run.
fn is_asked(message: &Message) -> bool {
    message.caller_id && message.statements.is_some()
}

/// Looks for ids on a doorstep. Answers the stamp of its first row.
async fn look_through(
    transaction: &dyn Transaction,
    shard: ShardId,
    front: u64,
    asked: &HashSet<(&Tenant, &MessageId)>,
) -> Result<Option<u64>, StoreError> {
    let (mut from, until) = (Bound::Included(door_start(shard, front)), Bound::Excluded(shard_end(shard)));
    let (mut first, mut looked, mut bytes) = (None, 0, 0);
    loop {
        let rows = transaction.scan(DOOR, from, until.clone(), DOOR_LOOK_PAGE).await.map_err(store_error)?;
        let Some(last) = rows.last() else { return Ok(first) };
        from = Bound::Excluded(last.key.clone());
        let is_last = rows.len() < DOOR_LOOK_PAGE;
        looked += rows.len();
        for row in rows {
            first = first.or_else(|| part(&row.key, 1));
            let messages = match door::door(row) {
                Ok(row) => row.content.unwrap_or_default(),
                // Its owner moves what can't be read.
                Err(StoreError::Corrupt(_)) => continue,
                Err(error) => return Err(error),
            };
            bytes += messages.iter().map(|message| message.payload.len()).sum::<usize>();
            let is_taken =
                |message: &&Arc<Message>| message.caller_id && asked.contains(&(&message.tenant, &message.id));
            if let Some(message) = messages.iter().find(is_taken) {
                let (id, tenant) = (message.id.as_str(), message.tenant.as_str());
                return Err(StoreError::Exists(format!("id {id:?} of tenant {tenant:?}, on the doorstep")));
            }
        }
        if is_last {
            return Ok(first);
        }
        if looked >= DOOR_LOOK_ROWS_MAX || bytes >= DOOR_LOOK_BYTES_MAX {
            return Err(StoreError::Exists(format!(
                "{looked} rows and more lie on the doorstep of shard {shard}, so it isn't known whether the ids are taken"
            )));
        }
    }
}

/// What is behind a lock; a panic leaves it as good as it was.
fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use waybill_testkit::conformance::samples::{SHARD, full_message, message};

    use super::*;

    fn named(name: &str) -> Vec<DoorGroup> {
        vec![DoorGroup { shard: SHARD, messages: vec![Arc::new(full_message(name))] }]
    }

    #[tokio::test]
    async fn a_front_stays_behind_what_is_open() {
        let (repeats, stamps) = (Repeats::default(), Stamps::default());
        stamps.begin_after(100);
        let open = repeats.begin(&stamps, &named("a")).await;
        stamps.begin_after(200);
        let mut other = repeats.begin(&stamps, &named("b")).await;
        other.looked.push((SHARD, u64::MAX));
        assert_eq!(repeats.front(SHARD), 0, "it isn't committed");
        other.committed();
        assert_eq!(repeats.front(SHARD), 100, "the first one may put a row there yet");
        drop((open, other));
        for (first, front) in [(150, 150), (120, 150), (u64::MAX, 200)] {
            let mut attempt = repeats.begin(&stamps, &named("a")).await;
            attempt.looked.push((SHARD, first));
            attempt.committed();
            assert_eq!(repeats.front(SHARD), front);
        }
        let mut before = repeats.begin(&stamps, &named("a")).await;
        before.looked.push((SHARD, u64::MAX));
        repeats.begin_anew();
        assert_eq!(repeats.front(SHARD), 0);
        before.committed();
        assert_eq!(repeats.front(SHARD), 0, "it didn't see the row that was put back");
    }

    #[tokio::test]
    async fn turns_come_one_by_one_and_leave_nothing() {
        let (repeats, stamps) = (Repeats::default(), Stamps::default());
        let first = repeats.begin(&stamps, &named("a")).await;
        let mut second = Box::pin(async { repeats.begin(&stamps, &named("a")).await });
        assert!(futures::poll!(second.as_mut()).is_pending());
        // Another id waits for nobody, and ids that the host made ask for nothing.
        let other = repeats.begin(&stamps, &named("b")).await;
        let plain = vec![DoorGroup { shard: SHARD, messages: vec![Arc::new(message("a"))] }];
        assert!(repeats.begin(&stamps, &plain).await.ids.is_empty());
        drop(first);
        let second = second.await;
        // Who goes away while it waits gives its place up.
        let mut third = Box::pin(async { repeats.begin(&stamps, &named("a")).await });
        assert!(futures::poll!(third.as_mut()).is_pending());
        drop(third);
        drop((second, other));
        assert!(locked(&repeats.turns).is_empty());
        assert!(locked(&repeats.fronts).open.is_empty());
    }
}
