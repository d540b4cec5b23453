//! No commit is larger than its bound, however much there is to do: the rest goes in the next one.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::BTreeSet;

use bytes::Bytes;

use super::*;
use crate::ids::{Key, KeyHash, Place};
use crate::message::Message;
use crate::new_message::{Draft, NewMessage};
use crate::outbox::records::{DeadState, Entry, OpenSegment, Segment};
use crate::outbox::suspicion::{Suspect, Suspicion};
use crate::port::store::{OwnerCommit, StoredSegment, Write};
use crate::route::{Pattern, Route};
use crate::time::UnixMillis;

const SHARD: ShardId = ShardId(0);
const COMMIT_BYTES: usize = 64 * 1024;
/// With the last thing that a commit takes.
const MOST_BYTES: usize = 2 * COMMIT_BYTES;
const WALL: UnixMillis = UnixMillis(1_800_000_000_000);

fn now() -> Now {
    Now { wall: WALL, mono: Monotonic(Duration::ZERO) }
}

fn draft(bytes: usize) -> Draft {
    let new =
        NewMessage { topic: "bus:orders".to_owned(), payload: Bytes::from(vec![7; bytes]), ..NewMessage::default() };
    new.check(WALL, 64 << 20).unwrap()
}

fn message(place: Place, bytes: usize) -> Arc<Message> {
    draft(bytes).finish(|| crate::ids::host_made_id(place))
}

fn config() -> OwnerConfig {
    OwnerConfig {
        shard: SHARD,
        host: "host-a".to_owned(),
        shards: 1,
        limits: SchedulerLimits { commit_bytes: COMMIT_BYTES, ..SchedulerLimits::default() },
        owner_ttl: Duration::from_secs(10),
        parked_per_tenant: 5_000,
        dead_holds_key: false,
        tx_events: false,
        weights: BTreeMap::new(),
        routing: Arc::new(Routing {
            routes: Routes(vec![Route::new(Pattern::parse("bus:**").unwrap(), "main")]),
            transports: vec!["main".to_owned()],
            lanes: vec![1],
            external: None,
        }),
        rates: Arc::default(),
        caution: Caution::default(),
        rules: Rules::default(),
    }
}

fn owner(parked: Vec<Arc<Parked>>) -> Owner {
    let record = ShardRecord { token: 1, beat: 1, ..ShardRecord::default() };
    Owner::new(config(), Adopted { record, parked, held: Vec::new() }, Monotonic(Duration::ZERO), now())
}

/// Parked messages of 10 KiB that are due.
fn parked(count: u64, claimed: bool) -> Vec<Arc<Parked>> {
    let row = |number: u64| {
        let place = Place { shard: SHARD, segment: Seq(1_000 + number), index: 0 };
        Arc::new(Parked {
            place,
            message: message(place, 10 * 1024),
            attempts: 1,
            due: WALL,
            delay: Duration::ZERO,
            first_attempt_at: WALL,
            claimed,
            history: Vec::new(),
        })
    };
    (0..count).map(row).collect()
}

/// An empty doorstep, looked at.
fn look_at_door(owner: &mut Owner) {
    if owner.in_door_pass() {
        owner.door_pass(0, 0, now());
        owner.door_page(DoorPage { rows: Vec::new(), complete: true, existing: Vec::new() });
    } else {
        owner.door_is_empty(now());
    }
}

/// Builds and applies commits until there is nothing to commit, each below the bound.
fn commits(owner: &mut Owner) -> Vec<OwnerCommit> {
    let mut commits = Vec::new();
    for nonce in 1..1_000 {
        look_at_door(owner);
        let Some(commit) = owner.build(now(), nonce).commit else { return commits };
        assert!(commit.weight() <= MOST_BYTES, "{} bytes", commit.weight());
        commits.push(commit);
        owner.committed(now());
        owner.check_invariants().unwrap();
    }
    unreachable!("there is always something to commit")
}

fn rows(commits: &[OwnerCommit], claimed: bool) -> BTreeSet<Seq> {
    let writes = commits.iter().flat_map(|commit| &commit.writes);
    let rows = writes.filter_map(|write| match write {
        Write::PutParked(parked) if parked.claimed == claimed => Some(parked.place.seq()),
        _ => None,
    });
    rows.collect()
}

#[test]
fn claims_of_many_due_messages_go_in_several_commits() {
    let mut owner = owner(parked(40, false));
    let commits = commits(&mut owner);
    assert_eq!(rows(&commits, true).len(), 40);
    assert!(commits.len() > 10, "{} commits", commits.len());
}

#[test]
fn claims_go_beside_requests_that_are_larger_than_a_commit_and_come_back_to_back() {
    let mut owner = owner(parked(20, false));
    let request_bytes = 2 * COMMIT_BYTES;
    for nonce in 1..=10 {
        let arrived = now().mono;
        owner.enqueue(DirectRequest { ticket: Ticket(nonce), messages: vec![draft(request_bytes)], arrived });
        look_at_door(&mut owner);
        let commit = owner.build(now(), nonce).commit.unwrap();
        assert!(commit.weight() <= request_bytes + MOST_BYTES, "{} bytes", commit.weight());
        assert!(!rows(std::slice::from_ref(&commit), true).is_empty(), "commit {nonce} claims nothing");
        assert_eq!(owner.committed(now()).enqueued.len(), 1);
        owner.check_invariants().unwrap();
    }
}

#[test]
fn a_request_that_the_store_refused_beside_claims_goes_without_them() {
    let mut owner = owner(parked(20, false));
    let arrived = now().mono;
    owner.enqueue(DirectRequest { ticket: Ticket(1), messages: vec![draft(2 * COMMIT_BYTES)], arrived });
    look_at_door(&mut owner);
    let crowded = owner.build(now(), 1).commit.unwrap();
    assert!(!rows(std::slice::from_ref(&crowded), true).is_empty());
    assert!(owner.too_large(now()).is_empty(), "it may fit by itself");
    look_at_door(&mut owner);
    let commit = owner.build(now(), 2).commit.unwrap();
    assert!(rows(std::slice::from_ref(&commit), true).is_empty());
    assert_eq!(owner.committed(now()).enqueued.len(), 1);
    assert_eq!(rows(&commits(&mut owner), true).len(), 20);
}

#[test]
fn what_a_takeover_finds_claimed_is_claimed_and_needs_no_commit() {
    let mut owner = owner(parked(40, true));
    assert!(rows(&commits(&mut owner), true).is_empty());
    let mut taken = 0;
    loop {
        let batch = owner.take(TransportId(0), 0, 100, usize::MAX, now());
        if batch.is_empty() {
            break;
        }
        taken += batch.len();
    }
    assert_eq!(taken, 40);
}

#[test]
fn claims_are_given_back_in_several_commits_and_the_last_one_says_so() {
    let mut owner = owner(parked(40, true));
    commits(&mut owner);
    owner.begin_release(now());
    let mut commits = Vec::new();
    while !owner.is_released() {
        let commit = owner.build(now(), 1_000 + commits.len() as u64).commit.unwrap();
        assert!(commit.weight() <= MOST_BYTES, "{} bytes", commit.weight());
        commits.push(commit);
        owner.committed(now());
    }
    assert_eq!(rows(&commits, false).len(), 40);
    assert!(commits.len() > 10, "{} commits", commits.len());
    assert_eq!(commits.iter().filter(|commit| commit.record.released).count(), 1);
}

#[test]
fn a_request_that_can_never_go_in_is_refused_and_the_others_go_on_in_smaller_commits() {
    let mut owner = owner(Vec::new());
    let arrived = now().mono;
    // One behind the other, so that the large one goes last, by itself.
    for (ticket, bytes) in [(1, 5 * 1024), (2, 5 * 1024), (3, 2 * COMMIT_BYTES)] {
        owner.enqueue(DirectRequest { ticket: Ticket(ticket), messages: vec![draft(bytes)], arrived });
    }
    look_at_door(&mut owner);
    let whole = owner.build(now(), 1).commit.unwrap().weight();
    assert!(owner.too_large(now()).is_empty(), "nothing of it is too large by itself");
    let mut refused = Vec::new();
    let mut done = Vec::new();
    for nonce in 2..100 {
        look_at_door(&mut owner);
        let Some(commit) = owner.build(now(), nonce).commit else { break };
        if commit.weight() > whole / 2 + 1024 {
            refused.extend(owner.too_large(now()));
        } else {
            done.extend(owner.committed(now()).enqueued.into_iter().map(|(ticket, _)| ticket));
        }
    }
    assert_eq!((done, refused), (vec![Ticket(1), Ticket(2)], vec![Ticket(3)]));
    assert!(!owner.has_waiting_directs());
}

#[test]
fn commits_that_were_cut_grow_again_when_the_store_takes_them() {
    let mut owner = owner(Vec::new());
    let arrived = now().mono;
    let (mut tickets, mut answered) = (0_u64, 0_u64);
    let mut weights = Vec::new();
    for nonce in 1..=132 {
        // More waits than two commits take.
        while (tickets - answered) * 4 * 1024 < 2 * COMMIT_BYTES as u64 {
            tickets += 1;
            owner.enqueue(DirectRequest { ticket: Ticket(tickets), messages: vec![draft(4 * 1024)], arrived });
        }
        look_at_door(&mut owner);
        let commit = owner.build(now(), nonce).commit.unwrap();
        if nonce <= 2 {
            assert!(owner.too_large(now()).is_empty());
        } else {
            weights.push(commit.weight());
            answered += owner.committed(now()).enqueued.len() as u64;
        }
    }
    let most = |of: std::ops::Range<usize>| weights[of].iter().copied().max().unwrap();
    let (quarter, half, whole) = (most(0..64), most(64..128), most(128..130));
    assert!(2 * half > 3 * quarter && 2 * whole > 3 * half, "{quarter}, then {half}, then {whole} bytes");
}

/// Claimed segments of 20 messages of 1 KiB, the first of each delivered.
fn claimed_segments(count: u64) -> (ShardRecord, BTreeMap<Seq, Arc<Segment>>) {
    let mut record = ShardRecord { owner: "host-b".to_owned(), token: 4, beat: 9, ..ShardRecord::default() };
    let mut segments = BTreeMap::new();
    for number in 1..=count {
        let first = Seq(number * 10_000);
        let entry = |index: u16| {
            let place = Place { shard: SHARD, segment: first, index };
            Entry { index, message: message(place, 1024) }
        };
        let mut open = OpenSegment::default();
        open.acked.insert(0);
        record.open.insert(first, open);
        let segment = Segment { first, tenant: Tenant::unnamed(), entries: (0..20).map(entry).collect() };
        segments.insert(first, Arc::new(segment));
    }
    (record, segments)
}

#[test]
fn a_takeover_goes_in_several_commits_and_the_first_has_all_that_the_death_leads_to() {
    let (mut record, segments) = claimed_segments(40);
    // On trial by itself for the third time, in the last segment.
    let poison = Seq(40 * 10_000 + 5);
    record.suspicion = Suspicion {
        unclean: 2,
        cautious: true,
        calling: [poison].into(),
        alone: Some(poison),
        suspects: [(poison, Suspect { crashes: 7, alone: 2 }), (Seq(7), Suspect { crashes: 1, alone: 0 })].into(),
        ..Suspicion::default()
    };
    let mut commits: Vec<OwnerCommit> = Vec::new();
    let mut lived = false;
    while !record.open.is_empty() {
        let asked = takeover_reads(&record);
        let stored = |first: &Seq| StoredSegment { first: *first, segment: Ok(Arc::clone(&segments[first])) };
        let input = TakeoverInput {
            shard: SHARD,
            host: "host-a".to_owned(),
            record: record.clone(),
            open: asked.iter().map(stored).collect(),
            claimed: Vec::new(),
            commit_bytes: COMMIT_BYTES,
            dead_holds_key: false,
            tx_events: false,
            lived,
            rules: Rules::default(),
        };
        let commit = takeover(input, WALL, 100 + commits.len() as u64);
        assert!(commit.weight() <= MOST_BYTES, "{} bytes", commit.weight());
        assert!(commit.record.open.len() < record.open.len());
        record = commit.record.clone();
        commits.push(commit);
        lived = true;
    }
    assert!(commits.len() > 5, "{} commits", commits.len());
    let is_dead = |write: &Write| matches!(write, Write::PutDead(dead) if dead.place.seq() == poison);
    assert!(commits[0].writes.iter().any(is_dead));
    for commit in &commits {
        assert_eq!(commit.record.suspicion.unclean, 3, "one death is counted once");
        assert!(!commit.record.suspicion.suspects.contains_key(&poison));
        assert!(commit.record.suspicion.suspects.contains_key(&Seq(7)));
    }
    let writes = || commits.iter().flat_map(|commit| &commit.writes);
    let rewritten: BTreeSet<Seq> = writes()
        .filter_map(|write| match write {
            Write::PutSegment(segment) => Some(segment.first),
            _ => None,
        })
        .collect();
    assert_eq!(rewritten.len(), 40);
    let delivered: usize = writes()
        .map(|write| match write {
            Write::PutHistory(chunk) => chunk.entries.len(),
            _ => 0,
        })
        .sum();
    assert_eq!(delivered, 40);
}

#[test]
fn a_host_that_dies_between_two_commits_of_its_takeover_forgets_nobody() {
    let (mut record, segments) = claimed_segments(20);
    record.suspicion.calling = [Seq(10_003)].into();
    let stored = |first: &Seq| StoredSegment { first: *first, segment: Ok(Arc::clone(&segments[first])) };
    let page = |record: &ShardRecord, nonce: u64| {
        let input = TakeoverInput {
            shard: SHARD,
            host: "host-a".to_owned(),
            record: record.clone(),
            open: takeover_reads(record).iter().map(stored).collect(),
            claimed: Vec::new(),
            commit_bytes: COMMIT_BYTES,
            dead_holds_key: false,
            tx_events: false,
            lived: false,
            rules: Rules::default(),
        };
        takeover(input, WALL, nonce).record
    };
    let first = page(&record, 1);
    assert!(!first.open.is_empty());
    let suspects = BTreeMap::from([(Seq(10_003), Suspect { crashes: 1, alone: 0 })]);
    assert_eq!((first.suspicion.unclean, &first.suspicion.suspects), (1, &suspects));
    let second = page(&first, 2);
    assert_eq!((second.suspicion.unclean, &second.suspicion.suspects), (2, &suspects));
}

#[test]
fn what_waits_is_what_the_depths_say_by_transport_alone() {
    let mut owner = owner(parked(3, false));
    commits(&mut owner);
    let depths: u64 = owner.depths().values().map(|depth| depth.ready + depth.parked).sum();
    let waits = owner.waits();
    assert_eq!((depths, waits[&Some(TransportId(0))].waiting, waits.len()), (3, 3, 1));
}

/// Parked messages of one key, `count` of them from segment 1,000 on, and the key.
fn of_one_key(count: u64) -> (Vec<Arc<Parked>>, KeyHash) {
    let rows = parked(count, false).into_iter().map(|row| {
        let new = NewMessage { topic: "bus:orders".to_owned(), key: Some("k".to_owned()), ..NewMessage::default() };
        let place = row.place;
        let message = new.check(WALL, 64 << 20).unwrap().finish(|| crate::ids::host_made_id(place));
        Arc::new(Parked { message, ..(*row).clone() })
    });
    let rows: Vec<_> = rows.collect();
    let message = Arc::clone(&rows[0].message);
    (rows, KeyHash::of(&message.tenant, message.key.as_ref().unwrap()))
}

#[test]
fn neighbours_of_a_key_are_the_nearest_on_each_side() {
    let (rows, key) = of_one_key(20);
    let owner = owner(rows.clone());
    let ids = |side: &[Neighbour]| side.iter().map(|one| one.id.clone()).collect::<Vec<_>>();
    let wanted =
        |places: std::ops::Range<usize>| rows[places].iter().map(|row| row.message.id.clone()).collect::<Vec<_>>();
    let near = owner.neighbours(key, rows[10].place.seq(), now());
    assert_eq!((ids(&near.before), near.further_before), (wanted(5..10), 5));
    assert_eq!((ids(&near.behind), near.further_behind), (wanted(11..16), 4));
    assert!(matches!(near.behind[0].why, Some(WhyWaiting::Key(_))), "{:?}", near.behind[0]);
    let head = owner.neighbours(key, rows[0].place.seq(), now());
    assert_eq!((ids(&head.before), head.further_before, head.behind.len()), (vec![], 0, NEIGHBOURS_MAX));
    // One that isn't in memory any more has neighbours, too.
    let gone = owner.neighbours(key, Seq(rows[0].place.seq().0 - 1), now());
    assert_eq!(ids(&gone.behind), wanted(0..5));
    let other = KeyHash::of(&Tenant::unnamed(), &Key::new("other").unwrap());
    assert_eq!(owner.neighbours(other, rows[3].place.seq(), now()), Neighbours::default());
}

/// An owner of these rows, and of dead letters that hold their key.
fn owner_with_held(rows: Vec<Arc<Parked>>, dead: &[&Arc<Parked>]) -> Owner {
    let letter = |row: &&Arc<Parked>| {
        Arc::new(DeadLetter {
            place: row.place,
            message: Arc::clone(&row.message),
            attempts: 3,
            suspect: 0,
            code: "T.NO".to_owned(),
            reason: "no".to_owned(),
            died_at: WALL,
            holds_key: true,
            state: DeadState::Dead,
            history: Vec::new(),
        })
    };
    let record = ShardRecord { token: 1, beat: 1, ..ShardRecord::default() };
    let adopted = Adopted { record, parked: rows, held: dead.iter().map(letter).collect() };
    let config = OwnerConfig { dead_holds_key: true, ..config() };
    Owner::new(config, adopted, Monotonic(Duration::ZERO), now())
}

#[test]
fn dead_letters_that_hold_a_key_are_behind_a_message_too() {
    let (mut rows, key) = of_one_key(9);
    let (last, dead) = (rows.remove(8), rows.remove(2));
    let owner = owner_with_held(rows.clone(), &[&dead, &last]);
    let near = owner.neighbours(key, rows[0].place.seq(), now());
    let behind: Vec<_> = near.behind.iter().map(|one| (one.id.clone(), one.why.is_none())).collect();
    let mut wanted: Vec<_> = rows[1..5].iter().map(|row| (row.message.id.clone(), false)).collect();
    wanted.insert(1, (dead.message.id.clone(), true));
    assert_eq!((behind, near.further_behind), (wanted, 3));
    let of_dead = owner.neighbours(key, dead.place.seq(), now());
    assert_eq!((of_dead.before.len(), of_dead.behind.len(), of_dead.further_behind), (2, 5, 1));
}

#[test]
fn a_dead_letter_that_holds_a_key_is_before_all_behind_it() {
    let (mut rows, key) = of_one_key(8);
    let first = rows.remove(0);
    let owner = owner_with_held(rows.clone(), &[&first]);
    let near = owner.neighbours(key, rows[1].place.seq(), now());
    let before: Vec<_> = near.before.iter().map(|one| (one.id.clone(), one.why.is_none())).collect();
    assert_eq!(before, [(first.message.id.clone(), true), (rows[0].message.id.clone(), false)]);
    let last = owner.neighbours(key, rows[6].place.seq(), now());
    assert_eq!((last.before.len(), last.further_before, last.before[0].why.is_none()), (5, 2, false));
}
