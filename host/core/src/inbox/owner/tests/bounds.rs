//! What stays within its bounds: time, memory, wakes, attempts.

use super::*;
use crate::ids::Seq;
use crate::inbox::limits::ROW_BYTES_KEPT;
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
