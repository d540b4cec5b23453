#![allow(clippy::unwrap_used)]
use waybill_plugin::source::SourceArgs;

use super::*;
use crate::member::Member;

fn place() -> Place {
    ("orders".to_owned(), 0)
}

fn reader(on_overtaken: Overtaken) -> Reader {
    let wants = SourceArgs { window: 10, window_bytes: 1_000, on_overtaken, attributes: Vec::new() };
    Reader::new(Member::new("billing", "host-0", &["orders".to_owned()], 30_000), &wants)
}

fn reading(on_overtaken: Overtaken, id: Uuid, position: i64) -> Reader {
    let mut reader = reader(on_overtaken);
    reader.shares.insert(place(), Share::new(place(), id, 1, position, position));
    reader
}

#[test]
fn a_source_that_was_overtaken_stops_again_and_again_and_commits_nothing() {
    let mut reader = reading(Overtaken::Stop, Uuid::nil(), 5);
    for _ in 0..2 {
        assert_eq!(reader.pass_over(&place(), 9).unwrap_err().fault.code, "SOURCE.OVERTAKEN");
        let share = reader.shares.get(&place()).unwrap();
        assert_eq!((share.position, share.upto(), share.committed), (5, 5, 5));
    }
}

#[test]
fn one_that_goes_on_counts_what_it_missed_once() {
    let mut reader = reading(Overtaken::GoOn, Uuid::nil(), 5);
    for _ in 0..2 {
        reader.pass_over(&place(), 9).unwrap();
    }
    assert_eq!((reader.overtaken, reader.shares.get(&place()).unwrap().position), (4, 9));
}

#[test]
fn a_topic_without_an_id_is_no_other_one_and_its_id_is_learned() {
    let (one, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
    assert!(is_another(one, other) && !is_another(one, one));
    assert!(!is_another(one, Uuid::nil()) && !is_another(Uuid::nil(), one));
    let mut reader = reading(Overtaken::Stop, Uuid::nil(), 5);
    reader.learn_ids(|_| one);
    reader.learn_ids(|_| other);
    assert_eq!(reader.shares.get(&place()).unwrap().topic, one);
}

#[test]
fn it_begins_behind_what_the_group_has_unless_the_topic_is_another_one() {
    let id = Uuid::from_u128(1);
    for (topic, position, made_anew) in
        [(None, 7, 0), (Some(Uuid::nil()), 7, 0), (Some(id), 7, 0), (Some(Uuid::from_u128(2)), 3, 1)]
    {
        let mut reader = reader(Overtaken::Stop);
        reader.unbegun.insert(place());
        reader.begin_at(&place(), id, 3, Some(&Committed { offset: 7, topic })).unwrap();
        let share = reader.shares.get(&place()).unwrap();
        assert_eq!((share.position, reader.made_anew, reader.unbegun.len()), (position, made_anew, 0), "{topic:?}");
    }
}

#[test]
fn what_was_removed_before_it_was_begun_stays_unbegun_where_that_stops() {
    let mut reader = reader(Overtaken::Stop);
    reader.unbegun.insert(place());
    let committed = Committed { offset: 1, topic: None };
    assert!(reader.begin_at(&place(), Uuid::nil(), 3, Some(&committed)).is_err());
    assert!(reader.shares.is_empty() && reader.unbegun.contains(&place()) && !reader.is_caught_up());
}
