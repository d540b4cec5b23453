//! Messages that stopped, and large payloads.

use std::sync::Arc;

use bytes::Bytes;
use waybill_core::ids::{Seq, ShardId};
use waybill_core::outbox::records::{DeadState, Parked};
use waybill_core::port::store::Write;
use waybill_core::time::UnixMillis;

use super::Store;
use super::samples::{Owner, SHARD, T0, dead, id, parked, scheduled, seq};

pub async fn parked_messages_come_back_as_they_were_written(store: &impl Store) {
    let written = [parked(seq(0, 0), 4), parked(seq(0, 0), 5)].map(Arc::new);
    Owner::new().commit(store, written.iter().cloned().map(Write::PutParked).collect()).await;
    assert_eq!(store.parked(SHARD, None, 10).await.unwrap(), written);
}

pub async fn parked_messages_are_paged_by_seq(store: &impl Store) {
    let written: Vec<Arc<Parked>> = (0..25).map(|index| Arc::new(parked(seq(0, 0), index))).collect();
    Owner::new().commit(store, written.iter().rev().cloned().map(Write::PutParked).collect()).await;
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let page = store.parked(SHARD, after, 10).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.place.seq());
        found.extend(page);
    }
    assert_eq!(found, written);
    assert!(store.parked(ShardId(1), None, 10).await.unwrap().is_empty());
}

pub async fn a_parked_message_is_replaced_and_removed(store: &impl Store) {
    let mut owner = Owner::new();
    owner.commit(store, vec![Write::PutParked(Arc::new(parked(seq(0, 0), 0)))]).await;
    let newer = Parked { attempts: 9, history: Vec::new(), ..parked(seq(0, 0), 0) };
    owner.commit(store, vec![Write::PutParked(Arc::new(newer.clone()))]).await;
    assert_eq!(store.parked(SHARD, None, 10).await.unwrap(), [Arc::new(newer)]);
    owner.commit(store, vec![Write::DeleteParked(seq(0, 0))]).await;
    assert!(store.parked(SHARD, None, 10).await.unwrap().is_empty());
}

fn later(ms: u64) -> UnixMillis {
    UnixMillis(T0.0 + ms)
}

pub async fn scheduled_messages_are_due_in_order_with_the_next_instant(store: &impl Store) {
    let all = [(30, "c"), (10, "b"), (10, "a"), (40, "d")].map(|(ms, name)| Arc::new(scheduled(later(ms), name)));
    let mut owner = Owner::new();
    owner.commit(store, all.iter().cloned().map(Write::PutScheduled).collect()).await;
    let nothing = store.scheduled_due(SHARD, later(9), 10).await.unwrap();
    assert_eq!((nothing.due.len(), nothing.next), (0, Some(later(10))));
    let some = store.scheduled_due(SHARD, later(30), 10).await.unwrap();
    assert_eq!(some.due.iter().map(|row| row.message.id.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(some.next, Some(later(40)));
    assert_eq!(some.due[2], all[0]);
    assert_eq!(store.scheduled(SHARD, later(30), &id("c")).await.unwrap(), Some(Arc::clone(&all[0])));
    let gone = ["a", "b"].map(|name| Write::DeleteScheduled { due: later(10), id: id(name) });
    owner.commit(store, gone.into()).await;
    let rest = store.scheduled_due(SHARD, later(99), 10).await.unwrap();
    assert_eq!((rest.due.len(), rest.next), (2, None));
    assert_eq!(store.scheduled(SHARD, later(10), &id("a")).await.unwrap(), None);
}

pub async fn a_limit_on_scheduled_messages_tells_the_next_instant(store: &impl Store) {
    let all = (0..5).map(|n| Write::PutScheduled(Arc::new(scheduled(later(n), &format!("s{n}")))));
    Owner::new().commit(store, all.collect()).await;
    let found = store.scheduled_due(SHARD, later(99), 3).await.unwrap();
    assert_eq!((found.due.len(), found.next), (3, Some(later(3))));
}

pub async fn dead_letters_come_back_as_they_were_written(store: &impl Store) {
    let mut owner = Owner::new();
    let mut letter = dead(seq(0, 0), 3, "acme", "HTTP.400");
    owner.commit(store, vec![Write::PutDead(Arc::new(letter.clone()))]).await;
    assert_eq!(store.dead_letter(SHARD, seq(0, 3)).await.unwrap().as_deref(), Some(&letter));
    letter.state = DeadState::Quarantined { note: "poison, ask Ann".into(), at: later(7) };
    letter.holds_key = true;
    owner.commit(store, vec![Write::PutDead(Arc::new(letter.clone()))]).await;
    assert_eq!(store.dead_letter(SHARD, seq(0, 3)).await.unwrap().as_deref(), Some(&letter));
    owner.commit(store, vec![Write::DeleteDead(seq(0, 3))]).await;
    assert_eq!(store.dead_letter(SHARD, seq(0, 3)).await.unwrap(), None);
    assert_eq!(store.dead_letter(SHARD, Seq(1)).await.unwrap(), None);
}

/// Seqs go on from the highest when a clock that was ahead is set back: what died since has a seq of a time that hasn't come.
pub async fn dead_letters_are_old_by_their_death_where_the_clock_was_ahead(store: &impl Store) {
    let (year, now) = (31_536_000_000, later(100));
    let letters = [(seq(0, 0), 1), (seq(0, 1), 50), (seq(year, 0), 2), (seq(year, 1), 60), (seq(year, 2), 3)];
    let letters = letters.map(|(first, ms)| {
        let mut letter = dead(first, 0, "acme", "HTTP.400");
        letter.died_at = later(ms);
        Write::PutDead(Arc::new(letter))
    });
    Owner::new().commit(store, letters.into()).await;
    let old = async |after: Option<Seq>, limit: usize| {
        let places = store.dead_before(SHARD, after, later(10), now, limit).await.unwrap();
        places.into_iter().map(|place| place.segment).collect::<Vec<_>>()
    };
    assert_eq!(old(None, 10).await, [seq(0, 0), seq(year, 0), seq(year, 2)]);
    assert_eq!(old(None, 2).await, [seq(0, 0), seq(year, 0)]);
    assert_eq!(old(Some(seq(0, 0)), 10).await, [seq(year, 0), seq(year, 2)]);
    assert_eq!(old(Some(seq(year, 0)), 10).await, [seq(year, 2)]);
    assert!(old(Some(seq(year, 2)), 10).await.is_empty());
}

pub async fn held_keys_are_the_dead_letters_that_hold_one(store: &impl Store) {
    let mut owner = Owner::new();
    // Several pages, the last of them full.
    let letters = (0..1_500_u16).map(|index| {
        let mut letter = dead(seq(0, 0), index, "acme", "X");
        letter.holds_key = index % 499 == 0;
        Write::PutDead(Arc::new(letter))
    });
    owner.commit(store, letters.collect()).await;
    let held = store.held_keys(SHARD).await.unwrap();
    assert_eq!(held.iter().map(|letter| letter.place.index).collect::<Vec<_>>(), [0, 499, 998, 1_497]);
    assert!(store.held_keys(ShardId(3)).await.unwrap().is_empty());
}

pub async fn blobs_come_and_go(store: &impl Store) {
    let mut owner = Owner::new();
    let bytes = Bytes::from((0..200_000_u32).map(|n| (n % 251) as u8).collect::<Vec<u8>>());
    owner.commit(store, vec![Write::PutBlob { blob: "b-1".into(), bytes: bytes.clone() }]).await;
    assert_eq!(store.blob("b-1").await.unwrap(), Some(bytes));
    assert_eq!(store.blob("b-2").await.unwrap(), None);
    owner.commit(store, vec![Write::DeleteBlob("b-1".into())]).await;
    assert_eq!(store.blob("b-1").await.unwrap(), None);
}
