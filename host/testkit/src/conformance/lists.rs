//! Reads for people.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use waybill_core::ids::{Place, Seq, ShardId};
use waybill_core::outbox::filter::Filter;
use waybill_core::outbox::records::{DeadLetter, DeadState, DoneEnd, OpenSegment, Parked, Scheduled};
use waybill_core::port::query::{Counted, Depth, Depths, Found, ListKind, Page};
use waybill_core::port::store::Write;
use waybill_core::time::UnixMillis;

use super::Store;
use super::samples::{Owner, T0, chunk, dead, done, message, parked, place, scheduled, segment, segment_of, seq};

/// More dead letters than there are.
const READS: usize = 1_000;
/// Longest until a count shows what was written: one that took long, as any on a busy machine, is kept for a while.
const SHOWN_WITHIN: Duration = Duration::from_secs(60);

fn filter(text: &str) -> Filter {
    Filter::parse(text, T0.plus(Duration::from_secs(1))).unwrap()
}

/// A first segment of four of which 0 is delivered and 1 has moved, and a second of two that isn't claimed.
async fn flowing(store: &impl Store) -> Owner {
    let mut owner = Owner::new();
    let mut open = OpenSegment::default();
    open.acked.insert(0);
    open.moved.insert(1);
    owner.record.open = BTreeMap::from([(seq(0, 0), open)]);
    owner.record.last = seq(1, 1);
    let writes = vec![
        Write::PutSegment(Arc::new(segment(seq(0, 0), 4))),
        Write::PutSegment(Arc::new(segment_of(seq(1, 0), 2, 4_000))),
        Write::PutHistory(Arc::new(chunk(seq(0, 0), 1, T0, vec![done(0, message("done"), DoneEnd::Delivered)]))),
        Write::PutParked(Arc::new(parked(seq(0, 0), 1))),
    ];
    owner.commit(store, writes).await;
    owner
}

pub async fn a_place_finds_its_message_in_whatever_state(store: &impl Store) {
    let mut owner = flowing(store).await;
    owner.commit(store, vec![Write::PutDead(Arc::new(dead(seq(0, 0), 9, "acme", "X")))]).await;
    assert!(matches!(store.at(place(seq(0, 0), 0)).await.unwrap(), Some(Found::Done(_, done)) if done.index == 0));
    assert!(
        matches!(store.at(place(seq(0, 0), 1)).await.unwrap(), Some(Found::Parked(parked)) if parked.place.index == 1)
    );
    assert!(matches!(
        store.at(place(seq(0, 0), 2)).await.unwrap(),
        Some(Found::Flowing { claimed: true, entry, .. }) if entry.index == 2
    ));
    assert!(matches!(store.at(place(seq(1, 0), 1)).await.unwrap(), Some(Found::Flowing { claimed: false, .. })));
    assert!(matches!(store.at(place(seq(0, 0), 9)).await.unwrap(), Some(Found::Dead(_))));
    assert_eq!(store.at(place(seq(0, 0), 7)).await.unwrap(), None);
    assert_eq!(store.at(place(seq(7, 0), 0)).await.unwrap(), None);
}

fn indices(page: &Page<Found>) -> Vec<(Seq, u16, bool)> {
    let found = page.items.iter().map(|found| match found {
        Found::Flowing { place, claimed, .. } => (place.segment, place.index, *claimed),
        other => unreachable!("{other:?}"),
    });
    found.collect()
}

pub async fn flowing_lists_leave_out_what_is_gone(store: &impl Store) {
    flowing(store).await;
    let page = store.list(ListKind::Flowing, &Filter::default(), None, 10).await.unwrap();
    let expected = [(seq(0, 0), 2, true), (seq(0, 0), 3, true), (seq(1, 0), 0, false), (seq(1, 0), 1, false)];
    assert_eq!(indices(&page), expected);
    assert_eq!(page.next_cursor, None);
    let pending = store.list(ListKind::Flowing, &filter("state=pending tenant=acme"), None, 10).await.unwrap();
    assert_eq!(indices(&pending), expected[2..]);
    let none = store.list(ListKind::Flowing, &filter("tenant=other"), None, 10).await.unwrap();
    assert!(none.items.is_empty());
}

pub async fn a_list_is_paged_to_its_end_without_repeats(store: &impl Store) {
    let mut owner = Owner::new();
    let writes = (0..40).map(|n| Write::PutSegment(Arc::new(segment(seq(n, 0), 3))));
    owner.commit(store, writes.collect()).await;
    let mut found = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let page = store.list(ListKind::Flowing, &filter("id=*-1"), cursor.as_deref(), 7).await.unwrap();
        assert!(page.items.len() <= 7);
        found.extend(indices(&page));
        match page.next_cursor {
            Some(next) => cursor = Some(next),
            None => break,
        }
    }
    assert_eq!(found, (0..40).map(|n| (seq(n, 0), 1, false)).collect::<Vec<_>>());
}

async fn letters(store: &impl Store) -> Owner {
    let mut owner = Owner::new();
    let writes = (0..30_u16).map(|index| {
        let tenant = if index % 3 == 0 { "acme" } else { "zeta" };
        let code = if index % 2 == 0 { "HTTP.400" } else { "HTTP.500" };
        let mut letter = dead(seq(0, 0), index, tenant, code);
        if index == 29 {
            letter.state = DeadState::Quarantined { note: "n".into(), at: T0 };
        }
        Write::PutDead(Arc::new(letter))
    });
    owner.commit(store, writes.collect()).await;
    owner
}

pub async fn dead_letters_are_filtered_and_paged_in_key_order(store: &impl Store) {
    letters(store).await;
    let mut found = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let page = store.dead_letters(&filter("tenant=acme code=HTTP.4*"), cursor.as_deref(), 2).await.unwrap();
        found.extend(page.items.iter().map(|letter| letter.place.index));
        match page.next_cursor {
            Some(next) => cursor = Some(next),
            None => break,
        }
    }
    assert_eq!(found, [0, 6, 12, 18, 24]);
    let all = store.dead_letters(&Filter::default(), None, 100).await.unwrap();
    assert_eq!((all.items.len(), all.next_cursor), (30, None));
    let fenced = store.dead_letters(&filter("state=quarantined"), None, 100).await.unwrap();
    assert_eq!(fenced.items.len(), 1);
    let one = store.dead_letters(&filter(&format!("id=dead-{}-4", seq(0, 0))), None, 100).await.unwrap();
    assert_eq!(one.items.len(), 1);
}

pub async fn the_latest_dead_letters_come_first_over_all_shards(store: &impl Store) {
    letters(store).await;
    let mut other = Owner::of(ShardId(3));
    let elsewhere = |index| {
        let letter = dead(seq(0, 0), index, "acme", "HTTP.400");
        let place = Place { shard: ShardId(3), ..letter.place };
        Write::PutDead(Arc::new(DeadLetter { place, ..letter }))
    };
    other.commit(store, [5, 40].map(elsewhere).into()).await;
    let mut found = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let page = store.latest_dead(&Filter::default(), cursor.as_deref(), 4).await.unwrap();
        found.extend(page.items.iter().map(|letter| (letter.place.index, letter.place.shard.0)));
        match page.next_cursor {
            Some(next) => cursor = Some(next),
            None => break,
        }
    }
    let mut expected: Vec<(u16, u16)> = (0..30).map(|index| (index, 0)).chain([(5, 3), (40, 3)]).collect();
    expected.sort_by(|one, other| other.cmp(one));
    assert_eq!(found, expected);
    let few = store.latest_dead(&filter("tenant=acme code=HTTP.4*"), None, 3).await.unwrap();
    assert_eq!(few.items.iter().map(|letter| letter.place.index).collect::<Vec<_>>(), [40, 24, 18]);
}

pub async fn paging_goes_on_behind_a_dead_letter_that_is_gone(store: &impl Store) {
    let mut owner = letters(store).await;
    let page = store.dead_letters(&Filter::default(), None, 10).await.unwrap();
    let cursor = page.next_cursor.unwrap();
    owner.commit(store, page.items.iter().map(|letter| Write::DeleteDead(letter.place.seq())).collect()).await;
    let rest = store.dead_letters(&Filter::default(), Some(&cursor), 100).await.unwrap();
    assert_eq!(rest.items.first().unwrap().place.index, 10);
    assert_eq!(rest.items.len(), 20);
}

pub async fn a_bad_cursor_is_refused(store: &impl Store) {
    for cursor in ["", "x", "1.2.3", "1.x/"] {
        store.dead_letters(&Filter::default(), Some(cursor), 10).await.unwrap_err();
        store.list(ListKind::Done, &Filter::default(), Some(cursor), 10).await.unwrap_err();
        store.newest(&[ListKind::Scheduled, ListKind::Done], &Filter::default(), Some(cursor), 10).await.unwrap_err();
    }
}

pub async fn dead_letters_are_counted_and_grouped(store: &impl Store) {
    letters(store).await;
    for (of, count) in [("", 30), ("tenant=zeta state=dead", 19), ("code=NONE", 0)] {
        assert_eq!(store.count_dead(&filter(of), READS).await.unwrap(), Counted { value: count, since: None }, "{of}");
    }
    let Counted { value: groups, since } = store.dead_groups(&Filter::default(), READS).await.unwrap();
    assert_eq!(since, None);
    let counts: Vec<_> = groups.iter().map(|group| (group.tenant.as_str(), group.code.as_str(), group.count)).collect();
    let expected =
        [("zeta", "HTTP.400", 10), ("zeta", "HTTP.500", 10), ("acme", "HTTP.400", 5), ("acme", "HTTP.500", 5)];
    assert_eq!(counts, expected);
    assert_eq!((groups[0].first_at, groups[0].latest_at), (T0.0 + 2, T0.0 + 28));
    assert_eq!(groups[0].signature, "answered # to \"…\"");
    assert_eq!(store.dead_groups(&filter("tenant=acme"), READS).await.unwrap().value.len(), 2);
}

pub async fn a_tally_of_dead_letters_tells_what_is_left_out_and_stops_where_a_count_does(store: &impl Store) {
    letters(store).await;
    let Counted { value, since } = store.tally_dead(&Filter::default(), READS, true).await.unwrap();
    let plan = value.plan();
    assert_eq!((plan.matched + plan.quarantined, since), (30, None));
    assert_eq!(plan.quarantined, 1);
    assert_eq!(plan.replayed_before, plan.matched, "the samples were all put back before");
    let all = store.tally_dead(&Filter::default(), READS, false).await.unwrap().value.plan();
    assert_eq!((all.matched, all.quarantined), (30, 0));
    let part = store.tally_dead(&Filter::default(), 10, true).await.unwrap();
    assert!(part.since.is_some() && part.value.plan().matched < 11, "{part:?}");
}

pub async fn counts_of_dead_letters_stop_after_so_many_and_say_how_far_they_got(store: &impl Store) {
    letters(store).await;
    // In another shard two that entered the order later.
    let later = |index| {
        let letter = dead(seq(7, 0), index, "acme", "HTTP.400");
        let place = Place { shard: ShardId(3), ..letter.place };
        Write::PutDead(Arc::new(DeadLetter { place, ..letter }))
    };
    Owner::of(ShardId(3)).commit(store, [0, 1].map(later).into()).await;
    let at = |ms| Some(UnixMillis(T0.0 + ms));
    let before = Filter { before: at(5), ..Filter::default() };
    for (of, reads, value, since) in [
        (&Filter::default(), 2, 2, at(7)),
        (&Filter::default(), 10, 10, at(0)),
        (&Filter::default(), 31, 31, at(0)),
        (&Filter::default(), 32, 32, None),
        (&filter("tenant=acme"), 10, 4, at(0)),
        (&filter("code=NONE"), 10, 0, at(0)),
        // What entered the order at that time or later isn't looked at, so the walk comes further.
        (&before, 10, 0, at(0)),
        (&before, 30, 5, None),
    ] {
        let counted = store.count_dead(of, reads).await.unwrap();
        assert_eq!(counted, Counted { value, since }, "{reads} reads of {of:?}");
    }
    let groups = store.dead_groups(&Filter::default(), 10).await.unwrap();
    assert_eq!((groups.value.iter().map(|group| group.count).sum::<u64>(), groups.since), (10, at(0)));
    let depths = store.depths(10).await.unwrap();
    let value = [depth(0, "acme", 2, 0, 0), depth(0, "zeta", 5, 1, 0), depth(3, "acme", 2, 0, 0)];
    assert_eq!(depths, Depths { of: value.into(), dead_since: at(0), scheduled_until: None });
    // Another bound is another count.
    assert_eq!(store.depths(READS).await.unwrap().dead_since, None);
}

fn depth(shard: u16, tenant: &str, dead: u64, quarantined: u64, scheduled: u64) -> Depth {
    Depth { shard: ShardId(shard), tenant: tenant.into(), dead, quarantined, scheduled }
}

async fn depths(store: &impl Store) -> Vec<Depth> {
    let counted = store.depths(READS).await.unwrap();
    assert_eq!((counted.dead_since, counted.scheduled_until), (None, None));
    counted.of
}

/// Waits until the depths are these.
async fn shows(store: &impl Store, expected: &[Depth]) {
    let began = Instant::now();
    while depths(store).await != expected && began.elapsed() < SHOWN_WITHIN {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(depths(store).await, expected);
}

pub async fn depths_follow_what_is_written(store: &impl Store) {
    assert!(depths(store).await.is_empty());
    let mut owner = letters(store).await;
    let mut other = Owner::of(ShardId(2));
    shows(store, &[depth(0, "acme", 10, 0, 0), depth(0, "zeta", 19, 1, 0)]).await;
    owner.commit(store, vec![Write::DeleteDead(seq(0, 0)), Write::PutScheduled(Arc::new(scheduled(T0, "s")))]).await;
    other.commit(store, vec![Write::PutScheduled(Arc::new(scheduled(T0, "s")))]).await;
    let expected = [depth(0, "acme", 9, 0, 1), depth(0, "zeta", 19, 1, 0), depth(2, "acme", 0, 0, 1)];
    shows(store, &expected).await;
    assert_eq!(depths(store).await, expected);
    // Of scheduled messages a bounded number is looked at as well: the soonest due, whichever shards they are of.
    let later = UnixMillis(T0.0 + 1_000);
    let more = ["a", "b"].map(|name| Write::PutScheduled(Arc::new(scheduled(later, name))));
    owner.commit(store, more.into()).await;
    for (reads, counted, until) in
        [(1, [1, 0], Some(T0)), (2, [1, 1], Some(later)), (3, [2, 1], Some(later)), (4, [3, 1], None)]
    {
        let found = store.depths(reads).await.unwrap();
        let of = [0, 2].map(|shard| {
            let of_shard = found.of.iter().filter(|depth| depth.shard == ShardId(shard));
            of_shard.map(|depth| depth.scheduled).sum::<u64>()
        });
        assert_eq!((of, found.scheduled_until), (counted, until), "{reads} reads");
    }
}

/// What is listed newest first in pages of this size: each with its shard, the end of its segment's seq and its index.
async fn newest(store: &impl Store, kinds: &[ListKind], of: &str, limit: usize) -> Vec<String> {
    let (mut found, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let page = store.newest(kinds, &filter(of), cursor.as_deref(), limit).await.unwrap();
        assert!(page.items.len() <= limit);
        found.extend(page.items.iter().map(|found| match found {
            Found::Flowing { place, .. } => {
                format!("flowing {}.{}.{}", place.shard.0, place.segment.0 & 0xff, place.index)
            }
            Found::Done(place, _) => format!("done {}.{}.{}", place.shard.0, place.segment.0 & 0xff, place.index),
            Found::Parked(parked) => {
                let place = parked.place;
                format!("parked {}.{}.{}", place.shard.0, place.segment.0 & 0xff, place.index)
            }
            Found::Scheduled(scheduled) => format!("scheduled {}", scheduled.message.id.as_str()),
            Found::Dead(dead) => format!("dead {}", dead.message.id.as_str()),
        }));
        match page.next_cursor {
            Some(next) => cursor = Some(next),
            None => return found,
        }
    }
}

pub async fn the_newest_messages_come_first_over_all_kinds_and_shards(store: &impl Store) {
    // Segments of one millisecond whose seqs end in 0, 16 and 32; of the first, each message is somewhere else, and its history was
    // written in two commits.
    let (first, second, third) = (seq(0, 0), seq(0, 16), seq(0, 32));
    let mut owner = Owner::new();
    let mut open = OpenSegment::default();
    for index in [0, 3, 4] {
        open.acked.insert(index);
    }
    open.moved.insert(1);
    owner.record.open = BTreeMap::from([(first, open)]);
    let chunks = [(1, vec![3, 0]), (2, vec![4])].map(|(beat, indices)| {
        let entries = indices.into_iter().map(|index| done(index, message("done"), DoneEnd::Delivered));
        Write::PutHistory(Arc::new(chunk(first, beat, T0, entries.collect())))
    });
    let mut writes = vec![
        Write::PutSegment(Arc::new(segment(first, 6))),
        Write::PutSegment(Arc::new(segment(third, 2))),
        Write::PutParked(Arc::new(parked(first, 1))),
    ];
    writes.extend(chunks);
    writes.extend([1, 2].map(|n| Write::PutScheduled(Arc::new(scheduled(UnixMillis(T0.0 + n), &format!("s{n}"))))));
    owner.commit(store, writes).await;
    let mut other = Owner::of(ShardId(3));
    let late = |row: Parked| Parked { place: Place { shard: ShardId(3), ..row.place }, ..row };
    let scheduled = Scheduled { shard: ShardId(3), ..scheduled(UnixMillis(T0.0 + 1), "elsewhere") };
    let writes = vec![
        Write::PutSegment(Arc::new(segment(second, 1))),
        Write::PutParked(Arc::new(late(parked(third, 2)))),
        Write::PutScheduled(Arc::new(scheduled)),
    ];
    other.commit(store, writes).await;
    let all = [ListKind::Scheduled, ListKind::Parked, ListKind::Flowing, ListKind::Done];
    let expected = [
        "scheduled s2",
        "scheduled elsewhere",
        "scheduled s1",
        "parked 3.32.2",
        "flowing 0.32.1",
        "flowing 0.32.0",
        "flowing 3.16.0",
        "flowing 0.0.5",
        "done 0.0.4",
        "done 0.0.3",
        "flowing 0.0.2",
        "parked 0.0.1",
        "done 0.0.0",
    ];
    for limit in [1, 2, 5, 100] {
        assert_eq!(newest(store, &all, "", limit).await, expected, "pages of {limit}");
    }
    let done = [ListKind::Done];
    assert_eq!(newest(store, &done, "state=done", 2).await, ["done 0.0.4", "done 0.0.3", "done 0.0.0"]);
    assert_eq!(newest(store, &all, "id=s1", 2).await, ["scheduled s1"]);
    // A page goes on behind a message that is gone meanwhile.
    let page = store.newest(&all, &Filter::default(), None, 4).await.unwrap();
    other.commit(store, vec![Write::DeleteParked(third.plus(2))]).await;
    let rest = store.newest(&all, &Filter::default(), page.next_cursor.as_deref(), 1).await.unwrap();
    assert!(
        matches!(&rest.items[0], Found::Flowing { place, .. } if (place.shard, place.index) == (ShardId(0), 1)),
        "{rest:?}"
    );
}

/// How many there are when each page holds one.
async fn one_by_one(store: &impl Store, kind: ListKind) -> usize {
    let (mut found, mut cursor) = (0, None::<String>);
    loop {
        let page = store.list(kind, &Filter::default(), cursor.as_deref(), 1).await.unwrap();
        found += page.items.len();
        match page.next_cursor {
            Some(next) => cursor = Some(next),
            None => return found,
        }
    }
}

pub async fn scheduled_parked_and_done_messages_are_listed(store: &impl Store) {
    let mut owner = flowing(store).await;
    let writes = (0..3).map(|n| Write::PutScheduled(Arc::new(scheduled(T0, &format!("s{n}")))));
    owner.commit(store, writes.collect()).await;
    for (kind, count) in [(ListKind::Scheduled, 3), (ListKind::Parked, 1), (ListKind::Done, 1)] {
        assert_eq!(one_by_one(store, kind).await, count, "{kind:?}");
    }
    // What stopped and was sent later stands in its chunk before those with lower numbers that were sent at once.
    let late = [7, 2, 5].map(|index| done(index, message("late"), DoneEnd::Delivered));
    let late = chunk(seq(8, 0), 900, T0, late.to_vec());
    owner.commit(store, vec![Write::PutHistory(Arc::new(late))]).await;
    assert_eq!(one_by_one(store, ListKind::Done).await, 4, "no page skips one");
    let failed = store.list(ListKind::Parked, &filter("code=NATS.*"), None, 10).await.unwrap();
    assert!(failed.items.is_empty(), "its latest attempt had no code");
    let sent = store.list(ListKind::Done, &filter("state=sent"), None, 10).await.unwrap();
    assert_eq!(sent.items.len(), 4);
    assert_eq!(store.list(ListKind::Done, &filter("state=expired"), None, 10).await.unwrap().items.len(), 0);
}
