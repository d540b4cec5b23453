//! What one lane does, step by step. Schedules are drawn by the model (`waybill_testkit::direct_model`).
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::code::Code;
use crate::port::transport::Fault;

const W: WorkerId = WorkerId(0);

fn at(seconds: u64) -> Monotonic {
    Monotonic(Duration::from_secs(seconds))
}

fn id(text: &str) -> RowId {
    RowId(Arc::from(text))
}

fn row(text: &str, aggregate: &str, position: usize, locked: bool) -> ClaimedRow {
    ClaimedRow { id: id(text), aggregate: Aggregate(Arc::from(aggregate)), position, locked, attempts: 0 }
}

fn table() -> DirectTable {
    let config = DirectConfig { batch: 4, ..DirectConfig::default() };
    DirectTable::new(config, DirectRecord::default().opened(), at(1))
}

/// Begins a transaction and lets its claim bring these rows.
fn claimed(table: &mut DirectTable, rows: Vec<ClaimedRow>, now: Monotonic) -> AfterClaim {
    table.begin(W, 0, now).unwrap();
    assert!(table.lock_answered(W, true, now));
    table.claim(W, now).unwrap();
    let seen = rows.len();
    table.claimed(W, Claimed { seen, unread: 0, rows }, now)
}

fn sent(table: &mut DirectTable, now: Monotonic) -> Vec<RowId> {
    match table.wave(W, now) {
        Wave::Send { rows, .. } => rows,
        other => panic!("{other:?}"),
    }
}

#[test]
fn of_each_aggregate_one_row_goes_and_the_next_when_it_was_acknowledged() {
    let mut table = table();
    let rows = vec![row("1", "a", 0, true), row("2", "a", 1, true), row("3", "b", 2, true)];
    assert_eq!(claimed(&mut table, rows, at(1)), AfterClaim::Send);
    assert_eq!(sent(&mut table, at(1)), [id("1"), id("3")]);
    table.row_answered(W, &id("1"), RowFate::Acknowledged);
    table.row_answered(W, &id("3"), RowFate::Retry(Fault::new("X", "x")));
    assert_eq!(sent(&mut table, at(2)), [id("2")]);
    table.row_answered(W, &id("2"), RowFate::Permanent(Fault::new("Y", "y")));
    assert_eq!(table.wave(W, at(2)), Wave::Mark);
    let marks = table.marks(W, at(2), 0.5);
    assert_eq!(marks.acknowledged, [id("1")]);
    let kinds: Vec<(RowId, bool, u32)> =
        marks.others.iter().map(|mark| (mark.row.clone(), mark.kind == MarkKind::Failed, mark.attempts)).collect();
    assert_eq!(kinds, [(id("3"), false, 1), (id("2"), true, 1)]);
}

#[test]
fn nothing_goes_behind_a_row_that_others_have_locked_and_its_aggregate_is_left_out_for_longer_each_time() {
    let mut table = table();
    let rows = || vec![row("1", "a", 0, false), row("2", "a", 1, true)];
    assert_eq!(claimed(&mut table, rows(), at(1)), AfterClaim::GiveUp);
    assert_eq!(table.held(), 1);
    let claim = |table: &mut DirectTable, now| {
        table.begin(W, 0, now).unwrap();
        table.lock_answered(W, true, now);
        table.claim(W, now).unwrap()
    };
    assert_eq!(claim(&mut table, at(3)).held, []);
    assert_eq!(table.claimed(W, Claimed { seen: 2, unread: 0, rows: rows() }, at(3)), AfterClaim::GiveUp);
    assert_eq!(claim(&mut table, Monotonic(Duration::from_millis(4_999))).held.len(), 1);
}

#[test]
fn after_direct_timeout_no_send_begins_and_what_was_acknowledged_is_marked() {
    let mut table = table();
    claimed(&mut table, vec![row("1", "a", 0, true), row("2", "a", 1, true)], at(1));
    assert_eq!(sent(&mut table, at(1)), [id("1")]);
    table.row_answered(W, &id("1"), RowFate::Acknowledged);
    assert_eq!(table.wave(W, at(10)), Wave::Mark);
    assert_eq!(table.marks(W, at(10), 0.5).acknowledged, [id("1")]);
}

#[test]
fn a_lost_transaction_leads_to_one_row_and_full_batches_double_it() {
    let mut table = table();
    let rows = || (0..4).map(|n| row(&n.to_string(), &n.to_string(), n, true)).collect::<Vec<_>>();
    claimed(&mut table, rows(), at(1));
    assert_eq!(sent(&mut table, at(1)).len(), 4);
    table.lost(W, at(2));
    for size in [1, 2, 4, 4] {
        claimed(&mut table, rows(), at(3));
        let out = sent(&mut table, at(3));
        assert_eq!(out.len(), size);
        out.iter().for_each(|row| table.row_answered(W, row, RowFate::Acknowledged));
        table.committed(W, at(3));
    }
}

#[test]
fn a_trap_costs_nothing_but_the_row_that_was_alone_and_that_goes_alone_from_then_on() {
    let mut table = table();
    claimed(&mut table, vec![row("1", "a", 0, true), row("2", "b", 1, true)], at(1));
    sent(&mut table, at(1));
    table.row_answered(W, &id("2"), RowFate::Acknowledged);
    table.trapped(W, Fault::new("T", "t"));
    assert_eq!(table.wave(W, at(1)), Wave::Mark);
    let marks = table.marks(W, at(1), 0.5);
    assert_eq!((marks.acknowledged.len(), marks.others.len()), (1, 0));
    table.committed(W, at(1));
    claimed(&mut table, vec![row("1", "a", 0, true)], at(2));
    sent(&mut table, at(2));
    table.trapped(W, Fault::new("T", "t"));
    assert_eq!(table.marks(W, at(2), 0.5).others.len(), 1);
    table.committed(W, at(2));
    let rows = vec![row("3", "c", 0, true), row("1", "a", 1, true)];
    claimed(&mut table, rows, at(3));
    assert_eq!(sent(&mut table, at(3)), [id("3")], "its lane goes on with one row");
}

#[test]
fn a_lock_that_is_refused_for_long_is_done_without_once_a_second() {
    let mut table = table();
    table.begin(W, 1, at(1)).unwrap();
    assert!(!table.lock_answered(W, false, at(1)));
    table.begin(W, 1, at(61)).unwrap();
    assert!(table.lock_answered(W, false, at(61)));
    table.lost(W, at(61));
    table.begin(W, 1, at(61)).unwrap();
    assert!(!table.lock_answered(W, false, at(61)));
    table.begin(W, 1, at(63)).unwrap();
    assert!(table.lock_answered(W, false, at(63)));
}

#[test]
fn a_mark_that_the_table_refuses_sets_a_row_apart_when_it_is_alone() {
    let mut table = table();
    claimed(&mut table, vec![row("1", "a", 0, true), row("2", "b", 1, true)], at(1));
    for row in sent(&mut table, at(1)) {
        table.row_answered(W, &row, RowFate::Acknowledged);
    }
    assert_eq!(table.mark_refused(W, at(1), 0.5), None);
    claimed(&mut table, vec![row("1", "a", 0, true), row("2", "b", 1, true)], at(2));
    assert_eq!(sent(&mut table, at(2)), [id("1")]);
    table.row_answered(W, &id("1"), RowFate::Acknowledged);
    assert_eq!(table.mark_refused(W, at(2), 0.5), Some(id("1")));
    assert_eq!((table.unmarkable(), table.held()), (vec![id("1")], 1));
}

#[test]
fn who_is_blocked_while_others_go_through_pays_an_attempt_and_waits_longer_each_time() {
    let mut table = table();
    let mut pauses = Vec::new();
    for times in 0..3_u64 {
        let now = at(100 * (times + 1));
        claimed(&mut table, vec![row("1", "a", 0, true)], now);
        sent(&mut table, now);
        table.row_answered(W, &id("1"), blocked_at("bus"));
        let marks = table.marks(W, now, 0.5);
        let [Mark { kind: MarkKind::Waits(pause), attempts: 0, .. }] = marks.others.as_slice() else {
            panic!("{marks:?}")
        };
        pauses.push(pause.as_secs());
        table.committed(W, now);
    }
    assert_eq!(pauses, [2, 4, 8]);
    through(&mut table, "9", "other", at(900));
    assert_eq!(ask(&mut table, "1", blocked_at("bus"), at(1_000)), 0, "another transport is no other row of its scope");
    through(&mut table, "9", "bus", at(1_100));
    assert_eq!(ask(&mut table, "1", blocked_at("bus"), at(1_200)), 1);
}

fn place(transport: &str) -> Place {
    Place { transport: Arc::from(transport), destination: Arc::from("orders") }
}

fn blocked_at(transport: &str) -> RowFate {
    RowFate::Blocked { scope: Some(Scope::of_transport(&place(transport))), fault: Fault::new("B", "b") }
}

/// Lets a row go through somewhere.
fn through(table: &mut DirectTable, text: &str, transport: &str, now: Monotonic) {
    claimed(table, vec![row(text, text, 0, true)], now);
    assert_eq!(sent(table, now), [id(text)]);
    table.goes_to(W, &id(text), place(transport));
    table.row_answered(W, &id(text), RowFate::Acknowledged);
    table.marks(W, now, 0.5);
    table.committed(W, now);
}

/// Lets a row ask; the attempts that it pays.
fn ask(table: &mut DirectTable, text: &str, fate: RowFate, now: Monotonic) -> u32 {
    claimed(table, vec![row(text, text, 0, true)], now);
    assert_eq!(sent(table, now), [id(text)]);
    table.row_answered(W, &id(text), fate);
    let marks = table.marks(W, now, 0.5);
    table.committed(W, now);
    marks.others.iter().map(|mark| mark.attempts).sum()
}

#[test]
fn a_row_without_a_route_pays_nothing_for_what_goes_through_elsewhere() {
    let mut table = table();
    let routeless = || RowFate::Blocked { scope: None, fault: Fault::new(Code::OUTBOX_NO_ROUTE, "no route") };
    for times in 1..20 {
        assert_eq!(ask(&mut table, "1", routeless(), at(200 * times)), 0);
        through(&mut table, "9", "bus", at(200 * times + 100));
    }
}

#[test]
fn a_destination_that_is_down_slows_nothing_down_where_something_goes_through() {
    let mut table = table();
    let rows = || vec![row("1", "a", 0, true), row("2", "b", 1, true)];
    claimed(&mut table, rows(), at(1));
    sent(&mut table, at(1));
    table.row_answered(W, &id("1"), blocked_at("bus"));
    table.row_answered(W, &id("2"), RowFate::Acknowledged);
    table.marks(W, at(1), 0.5);
    table.committed(W, at(1));
    assert_eq!(table.begins_at(W), at(1));
    assert_eq!(ask(&mut table, "1", blocked_at("bus"), at(1)), 0);
    assert_eq!(table.begins_at(W), at(2), "nothing but what is blocked");
}

#[test]
fn what_failed_or_is_gone_is_no_longer_remembered() {
    let mut table = table();
    claimed(&mut table, vec![row("1", "a", 0, true)], at(1));
    sent(&mut table, at(1));
    table.row_answered(W, &id("1"), RowFate::Acknowledged);
    assert_eq!(table.mark_refused(W, at(1), 0.5), Some(id("1")));
    assert_eq!(table.unmarkable(), [id("1")]);
    ask(&mut table, "1", RowFate::Permanent(Fault::new("P", "p")), at(100));
    assert_eq!(table.unmarkable(), [], "it failed, and that could be marked");
    claimed(&mut table, vec![row("2", "b", 0, true)], at(200));
    sent(&mut table, at(200));
    table.row_answered(W, &id("2"), RowFate::Acknowledged);
    table.mark_refused(W, at(200), 0.5);
    assert_eq!(table.unmarkable(), [id("2")]);
    claimed(&mut table, Vec::new(), at(100_000));
    assert_eq!(table.unmarkable(), [], "others deleted it");
}

#[test]
fn a_cautious_host_names_what_it_sends_and_a_suspect_goes_when_nothing_else_is_out() {
    let mut record = DirectRecord::default().opened();
    record.calling.insert(id("7"));
    let record = record.opened();
    let config = DirectConfig { batch: 4, ..DirectConfig::default() };
    let mut table = DirectTable::new(config, record, at(1));
    assert!(table.is_cautious());
    table.begin(WorkerId(1), 1, at(1)).unwrap();
    assert_eq!(claimed(&mut table, vec![row("7", "a", 0, true)], at(1)), AfterClaim::GiveUp);
    table.lost(WorkerId(1), at(1));
    assert_eq!(claimed(&mut table, vec![row("7", "a", 0, true), row("8", "b", 1, true)], at(2)), AfterClaim::Name);
    assert_eq!(table.record().calling, [id("7")].into());
    assert_eq!(sent(&mut table, at(2)), [id("7")]);
    assert!(table.begin(WorkerId(1), 1, at(2)).is_none(), "nobody else begins meanwhile");
    table.row_answered(W, &id("7"), RowFate::Acknowledged);
    table.committed(W, at(3));
    assert_eq!(table.suspects(), []);
}

#[test]
fn what_was_not_tried_is_left_out_for_its_time_and_nothing_is_marked() {
    let mut table = table();
    claimed(&mut table, vec![row("1", "a", 0, true), row("2", "a", 1, true)], at(1));
    assert_eq!(sent(&mut table, at(1)), [id("1")]);
    table.row_answered(W, &id("1"), RowFate::Later(Duration::from_secs(9)));
    assert_eq!(table.wave(W, at(1)), Wave::Mark, "nothing goes behind it");
    assert!(table.marks(W, at(1), 0.5).is_empty());
    table.committed(W, at(1));
    let held = |table: &mut DirectTable, now| {
        table.begin(W, 0, now).unwrap();
        assert!(table.lock_answered(W, true, now));
        let held = table.claim(W, now).unwrap().held.len();
        table.gave_up(W, now);
        held
    };
    assert_eq!((held(&mut table, at(9)), held(&mut table, at(11))), (1, 0));
}

#[test]
fn a_window_does_not_grow_because_a_claim_had_no_room_for_what_it_saw() {
    let mut table = table();
    for _ in 0..5 {
        table.begin(W, 0, at(1)).unwrap();
        assert!(table.lock_answered(W, true, at(1)));
        assert_eq!(table.claim(W, at(1)).unwrap().window, 4);
        let rows = vec![row("1", "a", 3, true)];
        assert_eq!(table.claimed(W, Claimed { seen: 4, unread: 3, rows }, at(1)), AfterClaim::Send);
        table.lost(W, at(1));
    }
}

#[test]
fn who_found_nothing_begins_when_its_pause_is_over_or_something_new_is_told() {
    let mut table = table();
    assert_eq!(claimed(&mut table, Vec::new(), at(1)), AfterClaim::GiveUp);
    assert_eq!(table.begins_at(W), at(2));
    assert!(table.begin(W, 0, at(1)).is_none());
    table.wake();
    assert!(table.begins_at(W) <= at(1) && table.begin(W, 0, at(1)).is_some());
}

#[test]
fn the_first_worker_goes_through_all_lanes_while_a_suspect_is_to_go_alone() {
    let mut record = DirectRecord::default().opened();
    record.calling.insert(id("7"));
    let mut table = DirectTable::new(DirectConfig::default(), record.opened(), at(1));
    let lanes = |table: &mut DirectTable, worker, now| (0..4).map(|_| table.lane_for(worker, now)).collect::<Vec<_>>();
    assert_eq!(lanes(&mut table, W, at(1)), [0, 0, 0, 0]);
    table.begin(W, 0, at(1)).unwrap();
    table.begin(WorkerId(2), 2, at(1)).unwrap();
    let rows = vec![row("7", "a", 0, true)];
    assert_eq!(table.claimed(WorkerId(2), Claimed { seen: 1, unread: 0, rows }, at(1)), AfterClaim::GiveUp);
    table.lost(W, at(2));
    assert!(table.begin(WorkerId(2), 2, at(2)).is_none(), "its own worker doesn't begin now");
    let mut all = lanes(&mut table, W, at(2));
    all.sort_unstable();
    assert_eq!(all, [0, 1, 2, 3], "so the first one has to come by");
    assert_eq!(lanes(&mut table, WorkerId(2), at(2)), [2, 2, 2, 2]);
    assert_eq!(lanes(&mut table, W, at(60)), [0, 0, 0, 0]);
}
