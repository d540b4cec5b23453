//! What the inbox left at the door.

use super::{bench, done, key, step};
use crate::ids::ShardId;
use crate::inbox::records::SagaDoorItem;
use crate::port::inbox_store::{SagaDoorKey, SagaDoorRow};
use crate::saga::id::{SagaId, SagaKey};
use crate::saga::json::Json;
use crate::saga::limits::SIGNALS_MAX;
use crate::saga::state::SagaState;

fn at(number: u32) -> SagaDoorKey {
    SagaDoorKey { from: ShardId(0), beat: 1, number }
}

fn signal(number: u32, key: SagaKey, name: &str) -> SagaDoorRow {
    let (name, data) = (name.to_owned(), Json::parse("7").unwrap());
    SagaDoorRow { key: at(number), item: SagaDoorItem::Signal { key, name, data, by: "message m-1".into() } }
}

fn waits() -> String {
    step("a", "") + "[[steps]]\nname = \"w\"\naction = \"wait:paid\"\n"
}

#[test]
fn the_commit_that_holds_a_signal_removes_it_from_the_door() {
    let mut bench = bench(&waits());
    bench.start();
    bench.answer("a", done());
    bench.shard.take_in(signal(1, key(), "paid"), bench.now, 0.5).unwrap();
    bench.settle();
    assert_eq!(bench.commits.last().unwrap().door, [at(1)]);
    assert_eq!(bench.state(), SagaState::Completed);
}

#[test]
fn a_signal_in_a_commit_that_did_not_go_in_is_removed_by_the_next_one() {
    let mut bench = bench(&waits());
    bench.start();
    bench.shard.take_in(signal(1, key(), "paid"), bench.now, 0.5).unwrap();
    assert_eq!(bench.shard.build(1).unwrap().door, [at(1)]);
    bench.shard.take_in(signal(2, key(), "paid"), bench.now, 0.5).unwrap();
    let flight = bench.shard.commit_too_large();
    assert!(flight.is_some(), "alone, it stands still");
    bench.shard.take_in(signal(3, key(), "paid"), bench.now, 0.5).unwrap_err();
    assert!(bench.shard.build(2).is_none(), "what stays is removed by nobody");
}

#[test]
fn what_leads_to_nothing_goes_when_everything_that_waits_is_committed() {
    let mut bench = bench(&waits());
    bench.start();
    let gone = SagaKey { id: SagaId::root("gone").unwrap(), ..key() };
    let refused = bench.shard.take_in(signal(1, gone, "paid"), bench.now, 0.5).unwrap_err();
    assert!(!super::super::stays(&refused), "{refused}");
    bench.shard.take_in(signal(2, key(), "x"), bench.now, 0.5).unwrap();
    bench.settle();
    let mut door = bench.commits.last().unwrap().door.clone();
    door.sort_unstable();
    assert_eq!(door, [at(1), at(2)]);
    assert!(!bench.shard.has_work());
}

#[test]
fn a_signal_that_finds_no_room_stays_at_the_door() {
    let mut bench = bench(&step("a", ""));
    bench.start();
    for _ in 0..SIGNALS_MAX {
        bench.signal("x").unwrap();
    }
    let full = bench.shard.take_in(signal(1, key(), "x"), bench.now, 0.5).unwrap_err();
    assert!(super::super::stays(&full), "{full}");
    assert!(!bench.shard.has_work());
}
