//! What stays within its bounds: time, memory, wakes, attempts.

use super::*;
use crate::ids::Seq;
use crate::inbox::limits::{HOLD_MAX, ROW_BYTES_KEPT};
use crate::inbox::records::InboxRow;
use crate::outbox::suspicion::Suspect;

/// A message without a key, with an id and a payload of its own.
fn large(number: u64, bytes: usize) -> Arc<InboundMessage> {
    let of = message(&format!("m-{number}"), None, "");
    Arc::new(InboundMessage { payload: Bytes::from(vec![b'x'; bytes]), ..(*of).clone() })
}

/// A row that is due.
fn row(number: u64, message: &Arc<InboundMessage>) -> InboxRow {
    let consumer = ConsumerName::new("ship").unwrap();
    let secret = InboxShardRecord::default().secret;
    InboxRow {
        seq: Seq(number),
        fingerprint: secret.of_id(&consumer, &message.id),
        consumer,
        order: None,
        digest: Default::default(),
        message: Arc::clone(message),
        attempts: 1,
        last_error: None,
        due: UnixMillis(0),
        delay: Duration::ZERO,
        maybe_handled: true,
    }
}

fn restored(settings: InboxSettings, rows: &[InboxRow], suspects: &[usize]) -> InboxOwner {
    let config = owner_of(settings).config;
    let mut record = InboxShardRecord { token: 1, beat: 1, nonce: 1, last: Seq(1_000), ..InboxShardRecord::default() };
    for number in suspects {
        record.suspicion.suspects.insert(rows[*number].fingerprint, Suspect { crashes: 1, alone: 0 });
        record.suspicion.cautious = true;
    }
    let found = InboxTakeover { rows: rows.iter().map(InboxRow::head).collect(), takes: Vec::new() };
    InboxOwner::restore(config, record, found, now(0))
}

/// Answers what is asked to be read until nothing more is; how many rows that were.
fn load(owner: &mut InboxOwner, rows: &[InboxRow], at: u64) -> usize {
    let mut read = 0;
    loop {
        let seqs = owner.take_loads();
        if seqs.is_empty() {
            return read;
        }
        read += seqs.len();
        for seq in seqs {
            let row = rows.iter().find(|row| row.seq == seq).cloned().map(Arc::new);
            owner.loaded(seq, Ok(row), now(at));
        }
    }
}

#[test]
fn commits_in_quick_succession_lose_nothing_of_the_age() {
    let mut owner = owner();
    let before = owner.record().age;
    let at = |half: u64| Now { wall: UnixMillis(1), mono: Monotonic(Duration::from_micros(half * 500)) };
    let messages: Vec<_> = (0..40).map(|number| message(&format!("m-{number}"), None, "a")).collect();
    for (step, message) in (1..).zip(&messages) {
        owner.pulled(SOURCE, SESSION, vec![arrival("t", message)], true, at(step));
        for lookup in owner.take_lookups() {
            owner.looked_up(lookup.seq, None, at(step));
        }
        let call = owner.take_calls(at(step), Monotonic(Duration::from_secs(9))).remove(0);
        owner.answered(call.seq, processed(), at(step), 0.5);
        owner.build(at(step), step).unwrap();
        owner.committed(at(step));
        owner.take_settlements(SOURCE, at(step)).iter().for_each(|order| {
            owner.settled(order, SettleResult::Done, at(step));
        });
    }
    assert_eq!(owner.record().age.0 - before.0, 20, "forty commits, half a millisecond apart");
}

#[test]
fn of_thousands_of_rows_that_are_due_only_those_are_read_whose_turn_is_near() {
    const BYTES: usize = 1024 * 1024;
    let payload = large(0, BYTES);
    let rows: Vec<InboxRow> = (1..=300)
        .map(|number| {
            let id = InboundId::new(format!("m-{number}")).unwrap();
            row(number, &Arc::new(InboundMessage { id, ..(*payload).clone() }))
        })
        .collect();
    let mut owner = restored(settings(), &rows, &[]);
    let first = load(&mut owner, &rows, 1);
    assert!((16..=ROW_BYTES_KEPT / BYTES + 64).contains(&first), "{first}");
    let mut done = 0;
    for step in 1..100 {
        for call in calls(&mut owner, step) {
            owner.answered(call.seq, processed(), now(step), 0.5);
            done += 1;
        }
        if owner.build(now(step), 1_000 + step).is_some() {
            owner.committed(now(step));
        }
        load(&mut owner, &rows, step);
    }
    assert_eq!((done, owner.depths().rows), (300, 0), "and all of them have their turn");
}

#[test]
fn a_suspect_that_waits_for_long_doesn_t_keep_its_owner_awake() {
    let later = InboxRow { due: UnixMillis(u64::MAX), delay: Duration::from_secs(36_000), ..row(0, &large(0, 1)) };
    let mut owner = restored(settings(), &[later], &[0]);
    let minutes = 5 * 60_000;
    owner.tick(now(minutes));
    commit(&mut owner, minutes);
    assert!(owner.is_cautious(), "its suspect isn't cleared");
    let due = owner.next_due().unwrap();
    assert!(due > Monotonic(Duration::from_millis(minutes)) + Duration::from_secs(30), "{due:?}");
}

#[test]
fn who_leaves_more_than_the_store_takes_dies_of_it_in_the_end() {
    let mut changed = settings();
    changed.consumers[0].retry.max_attempts = 2;
    let mut owner = owner_of(changed);
    bring(&mut owner, vec![arrival("t1", &message("m-1", None, "a"))], 1);
    for (attempt, at) in [(1, 10_000), (2, 2_000_000)] {
        let call = calls(&mut owner, at).remove(0);
        assert_eq!(call.attempt, attempt);
        owner.answered(call.seq, processed(), now(at), 0.5);
        // Until a commit holds one outcome, and that is too large, too.
        while owner.build(now(at), at).is_some() {
            let is_one = owner.outcomes_max == 1;
            owner.too_large(now(at));
            if is_one {
                break;
            }
        }
        let made = commit(&mut owner, at + 1);
        let is_dead = made.writes.iter().any(|write| matches!(write, InboxWrite::PutDead(_)));
        assert_eq!(is_dead, attempt == 2, "{:?}", made.writes);
    }
}

#[test]
fn without_a_seen_set_another_content_under_an_id_in_hand_is_another_message() {
    let mut changed = settings();
    changed.consumers[0].idempotent = false;
    let mut owner = owner_of(changed);
    let first = message("m-1", None, "a");
    let other = |content: &'static str, position: &str| {
        let (payload, position) = (Bytes::from_static(content.as_bytes()), Some(position.to_owned()));
        Arc::new(InboundMessage { payload, position, ..(*first).clone() })
    };
    let both =
        vec![arrival("t1", &first), arrival("t2", &other("b", "orders/2")), arrival("t3", &other("b", "orders/3"))];
    bring(&mut owner, both, 1);
    let called = calls(&mut owner, 1);
    assert_eq!(called.iter().map(|call| &call.message.payload[..]).collect::<Vec<_>>(), [b"a", b"b"]);
    called.iter().for_each(|call| owner.answered(call.seq, processed(), now(2), 0.5));
    let made = commit(&mut owner, 3);
    assert_eq!((made.done.len(), made.writes.len(), owner.counts().dead), (2, 0, 0));
    assert_eq!(acks(&mut owner, 4), ["t1", "t2", "t3"]);
}

/// An owner whose predecessor died with a taken message in hand: an orphan.
fn orphaned(settings: InboxSettings) -> InboxOwner {
    let mut owner = owner_of(settings);
    bring(&mut owner, vec![arrival("t1", &message("m-1", Some("k"), "a"))], 1);
    let made = commit(&mut owner, 2);
    let takes = made.writes.iter().find_map(|write| match write {
        InboxWrite::PutTakes(record) => Some(record.clone()),
        _ => None,
    });
    let found = InboxTakeover { rows: Vec::new(), takes: takes.into_iter().collect() };
    let record = InboxShardRecord { token: 2, beat: made.record.beat + 1, ..made.record };
    InboxOwner::restore(owner.config.clone(), record, found, now(0))
}

/// Orphans that were given up by then.
fn expired(owner: &mut InboxOwner, at: u64) -> u64 {
    if owner.build(now(at), 1_000 + at).is_some() {
        owner.committed(now(at));
    }
    owner.counts().orphans_expired
}

#[test]
fn no_orphan_is_given_up_while_nothing_could_bring_it() {
    let mut owner = orphaned(settings());
    bring(&mut owner, Vec::new(), 1_000);
    assert_eq!(expired(&mut owner, 100_000), 0, "nobody has pulled since");
    bring(&mut owner, Vec::new(), 100_100);
    assert_eq!(expired(&mut owner, 100_200), 1);
}

#[test]
fn an_orphan_is_awaited_from_where_its_source_is_pulled_again() {
    let mut owner = orphaned(settings());
    bring(&mut owner, Vec::new(), 1_000);
    owner.restarted(SOURCE, SESSION + 1);
    owner.pulled(SOURCE, SESSION + 1, Vec::new(), true, now(70_000));
    assert_eq!(expired(&mut owner, 70_100), 0, "its broker was away until now");
    owner.pulled(SOURCE, SESSION + 1, Vec::new(), true, now(131_000));
    assert_eq!(expired(&mut owner, 131_100), 1);
}

#[test]
fn what_a_source_said_before_it_fell_silent_does_not_count() {
    let mut owner = orphaned(settings());
    bring(&mut owner, Vec::new(), 1_000);
    bring(&mut owner, Vec::new(), 70_000);
    owner.silent(SOURCE);
    assert_eq!(expired(&mut owner, 70_100), 0);
}

#[test]
fn an_orphan_is_awaited_for_twice_what_its_source_tells_unless_it_is_configured() {
    let told = SourceAbilities { settle_within: Some(Duration::from_secs(120)), ..SourceAbilities::default() };
    let mut owner = orphaned(settings());
    owner.opened(SOURCE, told);
    bring(&mut owner, Vec::new(), 1_000);
    bring(&mut owner, Vec::new(), 200_000);
    assert_eq!(expired(&mut owner, 200_100), 0);
    bring(&mut owner, Vec::new(), 242_000);
    assert_eq!(expired(&mut owner, 242_100), 1);
    let mut settings = settings();
    settings.sources[0].orphan_wait = Some(Duration::from_secs(10));
    let mut owner = orphaned(settings);
    owner.opened(SOURCE, told);
    bring(&mut owner, Vec::new(), 1_000);
    bring(&mut owner, Vec::new(), 12_000);
    assert_eq!(expired(&mut owner, 12_100), 1);
}

#[test]
fn with_rows_at_their_bound_an_orphan_is_given_up_after_four_times_its_wait() {
    let mut changed = settings();
    changed.consumers[0].stored_max = 1;
    changed.consumers[0].retry.base_ms = 3_600_000;
    changed.sources[0].orphan_wait = Some(Duration::from_secs(10));
    for is_full in [true, false] {
        let mut owner = orphaned(changed.clone());
        bring(&mut owner, vec![arrival("t2", &message("m-2", None, "b"))], 1);
        if is_full {
            let call = calls(&mut owner, 2).remove(0);
            owner.answered(call.seq, Verdict::Failed(Fault::new("X", "x")), now(3), 0.5);
            commit(&mut owner, 4);
            assert_eq!(owner.room(SOURCE), 0, "nothing can bring it any more");
        }
        assert_eq!(expired(&mut owner, 39_000), 0);
        assert_eq!(expired(&mut owner, 41_000), u64::from(is_full));
    }
}

#[test]
fn nobody_asks_for_a_longer_backoff_than_a_hold() {
    let mut owner = owner();
    bring(&mut owner, vec![arrival("t1", &message("m-1", None, "a"))], 1);
    let call = calls(&mut owner, 1).remove(0);
    let year = Fault { after: Some(Duration::from_secs(365 * 24 * 3_600)), ..Fault::new("X", "x") };
    owner.answered(call.seq, Verdict::Failed(year), now(2), 0.5);
    let made = commit(&mut owner, 3);
    let [InboxWrite::PutRow(row)] = made.writes.as_slice() else { panic!("{:?}", made.writes) };
    assert_eq!(row.delay, HOLD_MAX);
}
