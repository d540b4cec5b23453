//! The inbox: the guard of its commits, takes, rows, dead letters, and what leaves by the doors.

use std::sync::Arc;

use waybill_core::ids::{Seq, ShardId, SourceName};
use waybill_core::inbox::direct::{DirectRecord, RowId};
use waybill_core::inbox::records::{InboxShardRecord, InboxTakeover, InboxWrite, SagaDoorGroup};
use waybill_core::outbox::records::DeadState;
use waybill_core::outbox::suspicion::Suspect;
use waybill_core::port::inbox_store::{InboxFilter, SagaDoorKey};
use waybill_core::port::store::StoreError;
use waybill_core::port::transact::DoorGroup;
use waybill_core::saga::records::SagaCommit;

use super::InboxPorts as Store;
use super::inbox_samples::{
    Writer, consumer, dead, full_inbound, full_record, inbound, inbound_id, row, signal, take, takes,
};
use super::sagas::next;
use super::samples::{SHARD, T0, message, tenant};

pub async fn an_inbox_without_a_record_is_the_default_record(store: &impl Store) {
    assert_eq!(store.inbox_shard(ShardId(5)).await.unwrap(), InboxShardRecord::default());
    assert_eq!(store.inbox_takeover(ShardId(5)).await.unwrap(), InboxTakeover::default());
}

pub async fn a_record_of_the_inbox_comes_back_as_it_was_written(store: &impl Store) {
    let mut writer = Writer::new();
    writer.commit(store, |commit| commit.record = full_record(4, 1)).await;
    assert_eq!(store.inbox_shard(SHARD).await.unwrap(), full_record(4, 1));
}

pub async fn a_stale_commit_of_the_inbox_changes_nothing(store: &impl Store) {
    let mut writer = Writer::new();
    writer.write(store, vec![InboxWrite::PutRow(Arc::new(row(1, inbound("a"))))]).await;
    for (token, beat) in [(0, 1), (1, 0), (2, 1)] {
        let mut stale = writer.next();
        (stale.expect_token, stale.expect_beat) = (token, beat);
        stale.record.beat = beat + 1;
        stale.writes = vec![InboxWrite::DeleteRow(Seq(1))];
        stale.messages = vec![DoorGroup { shard: SHARD, messages: vec![Arc::new(message("stale"))] }];
        stale.sagas = vec![SagaDoorGroup { shard: SHARD, items: vec![signal("s", "stale")] }];
        let error = store.commit_inbox(stale).await.unwrap_err();
        assert!(matches!(error, StoreError::Conflict(_)), "{error}");
    }
    assert_eq!(store.inbox_shard(SHARD).await.unwrap(), writer.record);
    assert_eq!(store.inbox_takeover(SHARD).await.unwrap().rows.len(), 1);
    assert!(store.saga_door(SHARD, 10).await.unwrap().is_empty());
    assert!(store.door(SHARD, 0, u64::MAX, None, 10).await.unwrap().is_empty());
}

pub async fn of_two_commits_of_the_inbox_at_once_exactly_one_goes_in(store: &impl Store) {
    let mut writer = Writer::new();
    for round in 0..10_u64 {
        let one = writer.next();
        let mut other = writer.next();
        other.record.nonce = 1_000_000 + round;
        let records = (one.record.clone(), other.record.clone());
        let (first, second) = futures::join!(store.commit_inbox(one), store.commit_inbox(other));
        assert!(first.is_ok() != second.is_ok(), "{first:?} {second:?}");
        writer.record = store.inbox_shard(SHARD).await.unwrap();
        assert_eq!(writer.record, if first.is_ok() { records.0 } else { records.1 });
    }
}

pub async fn takes_come_back_by_beat_and_go(store: &impl Store) {
    let mut writer = Writer::new();
    writer.write(store, vec![takes(1, &[4, 6])]).await;
    writer.write(store, vec![takes(2, &[9])]).await;
    let found = store.inbox_takeover(SHARD).await.unwrap().takes;
    assert_eq!(found.iter().map(|record| record.beat).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(found[0].takes, [take(4), take(6)]);
    writer.write(store, vec![InboxWrite::DeleteTakes(1), InboxWrite::DeleteTakes(77)]).await;
    let found = store.inbox_takeover(SHARD).await.unwrap().takes;
    assert_eq!(found.iter().map(|record| record.beat).collect::<Vec<_>>(), [2]);
}

pub async fn rows_of_the_inbox_come_back_as_they_were_written_and_go(store: &impl Store) {
    let mut writer = Writer::new();
    let (full, small) = (row(8, full_inbound("full")), row(3, inbound("small")));
    let put = |row: &waybill_core::inbox::records::InboxRow| InboxWrite::PutRow(Arc::new(row.clone()));
    writer.write(store, vec![put(&full), put(&small)]).await;
    let heads = store.inbox_takeover(SHARD).await.unwrap().rows;
    assert_eq!(heads, [small.head(), full.head()], "by seq");
    let found = store.inbox_rows(SHARD, &[Seq(8), Seq(5), Seq(3)]).await.unwrap();
    assert_eq!(found, [Some(Arc::new(full.clone())), None, Some(Arc::new(small))]);
    let again = waybill_core::inbox::records::InboxRow { attempts: 9, last_error: None, ..full };
    writer.write(store, vec![put(&again), InboxWrite::DeleteRow(Seq(3)), InboxWrite::DeleteRow(Seq(4))]).await;
    let found = store.inbox_rows(SHARD, &[Seq(3), Seq(8)]).await.unwrap();
    assert_eq!(found, [None, Some(Arc::new(again))]);
    assert!(store.inbox_rows(ShardId(1), &[Seq(8)]).await.unwrap()[0].is_none(), "shards are apart");
}

pub async fn rows_of_the_inbox_are_filtered_and_paged(store: &impl Store) {
    let mut writer = Writer::new();
    let rows = (1..=5).map(|seq| InboxWrite::PutRow(Arc::new(row(seq, inbound(&format!("m-{seq}"))))));
    writer.write(store, rows.collect()).await;
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let page = store.inbox_list(&InboxFilter::default(), cursor.as_deref(), 2).await.unwrap();
        assert!(page.items.len() <= 2);
        found.extend(page.items.iter().map(|(shard, row)| (*shard, row.seq.0)));
        let Some(next) = page.next_cursor else { break };
        cursor = Some(next);
    }
    assert_eq!(found, (1..=5).map(|seq| (SHARD, seq)).collect::<Vec<_>>());
    let filters = [
        (InboxFilter { id: Some(inbound_id("m-4")), ..InboxFilter::default() }, 1),
        (InboxFilter { consumer: Some(consumer("bill")), ..InboxFilter::default() }, 0),
        (InboxFilter { tenant: Some(tenant("acme")), context: Some("sales".into()), ..InboxFilter::default() }, 5),
    ];
    for (filter, count) in filters {
        assert_eq!(store.inbox_list(&filter, None, 10).await.unwrap().items.len(), count, "{filter:?}");
    }
    let error = store.inbox_list(&InboxFilter::default(), Some("elsewhere"), 2).await.unwrap_err();
    assert!(matches!(error, StoreError::Statement(_)), "{error}");
}

pub async fn rows_of_the_inbox_are_listed_latest_first_over_all_shards(store: &impl Store) {
    // Shard, place, and how long after the first it was received: places of shards tell nothing of each other, and what was put back has a
    // new place.
    let written = [(0, 1, 10), (0, 2, 40), (0, 3, 20), (2, 700, 30), (2, 701, 50)];
    let mut writers = [Writer::of(ShardId(0)), Writer::of(ShardId(2))];
    for (shard, seq, ms) in written {
        let mut message = inbound(&format!("m-{seq}"));
        message.received_at.0 = T0.0 + ms;
        writers[usize::from(shard > 0)].write(store, vec![InboxWrite::PutRow(Arc::new(row(seq, message)))]).await;
    }
    for limit in [1, 2, 10] {
        let (mut found, mut cursor) = (Vec::new(), None);
        loop {
            let page = store.inbox_newest(&InboxFilter::default(), cursor.as_deref(), limit).await.unwrap();
            assert!(page.items.len() <= limit);
            found.extend(page.items.iter().map(|(shard, row)| (shard.0, row.seq.0)));
            let Some(next) = page.next_cursor else { break };
            cursor = Some(next);
        }
        assert_eq!(found, [(2, 701), (2, 700), (0, 3), (0, 2), (0, 1)], "pages of {limit}");
    }
    let filter = InboxFilter { id: Some(inbound_id("m-2")), ..InboxFilter::default() };
    let page = store.inbox_newest(&filter, None, 10).await.unwrap();
    assert_eq!((page.items.len(), page.items[0].1.seq, page.next_cursor), (1, Seq(2), None));
    let error = store.inbox_newest(&InboxFilter::default(), Some("0.1/"), 2).await.unwrap_err();
    assert!(matches!(error, StoreError::Statement(_)), "{error}");
}

pub async fn a_page_of_the_inbox_says_how_many_rows_were_read_for_it(store: &impl Store) {
    let mut writer = Writer::new();
    let rows = (1..=5).map(|seq| InboxWrite::PutRow(Arc::new(row(seq, inbound(&format!("m-{seq}"))))));
    let letters = (6..=8).map(|seq| InboxWrite::PutDead(Arc::new(dead(seq, inbound(&format!("d-{seq}")), "HTTP.422"))));
    writer.write(store, rows.chain(letters).collect()).await;
    let none = InboxFilter { tenant: Some(tenant("globex")), ..InboxFilter::default() };
    for filter in [none, InboxFilter::default()] {
        let listed = store.inbox_list(&filter, None, 10).await.unwrap();
        let newest = store.inbox_newest(&filter, None, 10).await.unwrap();
        let letters = store.inbox_dead(&filter, None, 10).await.unwrap();
        assert_eq!((listed.reads, newest.reads, letters.reads), (5, 5, 3), "{filter:?}");
        let cursors = (listed.next_cursor, newest.next_cursor, letters.next_cursor);
        assert_eq!(cursors, (None, None, None), "{filter:?}");
    }
    let first = store.inbox_list(&InboxFilter::default(), None, 2).await.unwrap();
    assert_eq!((first.items.len(), first.reads, first.next_cursor.is_some()), (2, 2, true));
}

pub async fn dead_letters_of_the_inbox_come_back_and_are_marked(store: &impl Store) {
    let mut writer = Writer::new();
    let (one, two) = (dead(2, full_inbound("one"), "HTTP.422"), dead(7, inbound("two"), "INBOX.ID_REUSED"));
    let writes = [&one, &two].map(|dead| InboxWrite::PutDead(Arc::new(dead.clone())));
    writer.write(store, writes.into()).await;
    assert_eq!(store.inbox_dead_letter(SHARD, Seq(2)).await.unwrap().as_deref(), Some(&one));
    let all = store.inbox_dead(&InboxFilter::default(), None, 10).await.unwrap().items;
    assert_eq!(all.iter().map(|(_, dead)| dead.seq.0).collect::<Vec<_>>(), [2, 7]);
    let state = DeadState::Quarantined { note: "look at it".into(), at: T0 };
    assert!(store.mark_inbox_dead(SHARD, Seq(7), &state).await.unwrap());
    assert!(!store.mark_inbox_dead(SHARD, Seq(8), &state).await.unwrap());
    assert_eq!(store.inbox_dead_letter(SHARD, Seq(7)).await.unwrap().unwrap().state, state);
    writer.write(store, vec![InboxWrite::DeleteDead(Seq(2))]).await;
    assert_eq!(store.inbox_dead_letter(SHARD, Seq(2)).await.unwrap(), None);
}

pub async fn messages_of_the_inbox_reach_the_doorstep_whatever_their_ids(store: &impl Store) {
    let mut writer = Writer::new();
    for _ in 0..2 {
        // The outbox's owner finds what is there already; the commit never fails for it.
        let group = DoorGroup { shard: ShardId(1), messages: vec![Arc::new(message("same")), Arc::new(message("b"))] };
        writer.commit(store, |commit| commit.messages = vec![group]).await;
    }
    let rows = store.door(ShardId(1), 0, u64::MAX, None, 10).await.unwrap();
    let ids: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.content.as_ref().unwrap().iter().map(|message| message.id.to_string()).collect())
        .collect();
    assert_eq!(ids, [["same", "b"], ["same", "b"]]);
    assert!(store.door(SHARD, 0, u64::MAX, None, 10).await.unwrap().is_empty());
}

pub async fn what_is_left_for_sagas_comes_in_order_until_it_is_removed(store: &impl Store) {
    let (mut one, mut two) = (Writer::new(), Writer::of(ShardId(3)));
    let group = |shard, items: &[(&str, &str)]| SagaDoorGroup {
        shard,
        items: items.iter().map(|(id, name)| signal(id, name)).collect(),
    };
    one.commit(store, |commit| {
        commit.sagas = vec![group(SHARD, &[("a", "first"), ("a", "second")]), group(ShardId(1), &[("b", "other")])];
    })
    .await;
    two.commit(store, |commit| commit.sagas = vec![group(SHARD, &[("c", "from another")])]).await;
    one.commit(store, |commit| commit.sagas = vec![group(SHARD, &[("a", "third")])]).await;
    let rows = store.saga_door(SHARD, 10).await.unwrap();
    let of_one: Vec<_> = rows.iter().filter(|row| row.key.from == SHARD).map(|row| row.item.clone()).collect();
    assert_eq!(of_one, [signal("a", "first"), signal("a", "second"), signal("a", "third")]);
    assert!(rows.is_sorted_by_key(|row| row.key), "{rows:?}");
    assert_eq!(rows.len(), 4);
    assert_eq!(store.saga_door(SHARD, 2).await.unwrap().len(), 2);
    assert_eq!(store.saga_door(ShardId(1), 10).await.unwrap().len(), 1);
    let keys: Vec<SagaDoorKey> = rows.iter().take(3).map(|row| row.key).collect();
    for _ in 0..2 {
        let record = store.saga_shard(SHARD).await.unwrap();
        store.commit_sagas(SagaCommit { door: keys.clone(), ..next(&record) }).await.unwrap();
        assert_eq!(store.saga_door(SHARD, 10).await.unwrap(), rows[3..]);
    }
}

pub async fn a_consumer_is_bound_to_its_first_home(store: &impl Store) {
    let name = consumer("ship");
    assert_eq!(store.bind_inbox_consumer(&name, "shop").await.unwrap(), "shop");
    assert_eq!(store.bind_inbox_consumer(&name, "mail").await.unwrap(), "shop");
    store.unbind_inbox_consumer(&name).await.unwrap();
    assert_eq!(store.bind_inbox_consumer(&name, "mail").await.unwrap(), "mail");
}

pub async fn what_a_host_knows_of_a_table_comes_back_as_it_was_written(store: &impl Store) {
    let (shop, mail) = (SourceName::new("shop").unwrap(), SourceName::new("mail").unwrap());
    assert_eq!(store.direct_record("host-1", &shop).await.unwrap(), DirectRecord::default());
    let row = |id: &str| RowId(Arc::from(id));
    let record = DirectRecord {
        open: true,
        unclean: 2,
        calling: [row("17"), row("größe/18")].into(),
        suspects: [(row("17"), Suspect { crashes: 3, alone: 1 })].into(),
    };
    for record in [&record, &record.clone().closed()] {
        store.put_direct_record("host-1", &shop, record).await.unwrap();
        assert_eq!(store.direct_record("host-1", &shop).await.unwrap(), *record);
    }
    assert_eq!(store.direct_record("host-2", &shop).await.unwrap(), DirectRecord::default());
    assert_eq!(store.direct_record("host-1", &mail).await.unwrap(), DirectRecord::default());
}
