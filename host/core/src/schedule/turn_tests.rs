use proptest::prelude::*;

use super::*;
use crate::schedule::limits::RUNS_MAX;

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
/// 2026-01-05T00:00:00Z, which is a Monday.
const START: UnixMillis = UnixMillis(1_767_571_200_000);

fn hourly() -> Calendar {
    Calendar::read("0 * * * *", "UTC").unwrap()
}

fn by_minute() -> Calendar {
    Calendar::read("* * * * *", "UTC").unwrap()
}

fn later(ms: u64) -> UnixMillis {
    UnixMillis(START.0 + ms)
}

/// All turns at one instant: the runs, what has none, and how many commits it took.
fn all_turns(
    calendar: &Calendar,
    policy: Missed,
    place: &mut UnixMillis,
    now: UnixMillis,
) -> (Vec<UnixMillis>, u64, u32) {
    let (mut runs, mut missed, mut commits) = (Vec::new(), 0, 0);
    while let Some(done) = turn(calendar, policy, *place, now, RUNS_MAX) {
        assert!(done.place > *place && done.runs.len() <= RUNS_MAX);
        *place = done.place;
        runs.extend(done.runs);
        missed += done.missed;
        commits += 1;
        if !done.is_cut {
            break;
        }
    }
    assert_eq!(turn(calendar, policy, *place, now, RUNS_MAX), None, "all is decided");
    (runs, missed, commits)
}

#[test]
fn before_its_instant_nothing_is_due_and_at_it_one_run_is() {
    for policy in Missed::ALL {
        assert_eq!(turn(&hourly(), policy, START, later(HOUR - 1), RUNS_MAX), None);
        let done = turn(&hourly(), policy, START, later(HOUR), RUNS_MAX).unwrap();
        assert_eq!(done, Turn { runs: vec![later(HOUR)], missed: 0, place: later(HOUR), is_cut: false });
        assert_eq!(turn(&hourly(), policy, done.place, later(HOUR), RUNS_MAX), None);
    }
}

#[test]
fn a_run_that_is_a_minute_late_is_not_missed() {
    let late = |ms| turn(&hourly(), Missed::Skip, START, later(HOUR + ms), RUNS_MAX).unwrap();
    assert_eq!((late(MINUTE).runs, late(MINUTE).missed), (vec![later(HOUR)], 0));
    assert_eq!((late(MINUTE + 1).runs, late(MINUTE + 1).missed), (vec![], 1));
}

#[test]
fn what_was_missed_goes_by_the_policy() {
    let hours = |hours: &[u64]| hours.iter().map(|hour| later(hour * HOUR)).collect::<Vec<_>>();
    for (policy, in_between, at_an_instant) in [
        (Missed::Skip, (hours(&[]), 3), (hours(&[3]), 2)),
        (Missed::Once, (hours(&[3]), 2), (hours(&[3]), 2)),
        (Missed::All, (hours(&[1, 2, 3]), 0), (hours(&[1, 2, 3]), 0)),
    ] {
        let done = turn(&hourly(), policy, START, later(3 * HOUR + HOUR / 2), RUNS_MAX).unwrap();
        assert_eq!((done.runs, done.missed), in_between, "{policy:?}");
        let done = turn(&hourly(), policy, START, later(3 * HOUR), RUNS_MAX).unwrap();
        assert_eq!((done.runs, done.missed), at_an_instant, "{policy:?}");
    }
}

#[test]
fn however_much_was_missed_each_commit_is_bounded() {
    let (days, now) = (30 * 24 * 60, later(30 * 24 * HOUR + 30_000));
    let mut place = START;
    let (runs, missed, commits) = all_turns(&by_minute(), Missed::Once, &mut place, now);
    assert_eq!((runs, missed), (vec![later(30 * 24 * HOUR)], days - 1), "one run, the latest instant's");
    assert_eq!(commits, 44);
    let mut place = START;
    let (runs, missed, _) = all_turns(&by_minute(), Missed::Skip, &mut place, now);
    assert_eq!((runs, missed), (vec![later(30 * 24 * HOUR)], days - 1));
    let mut place = START;
    let (runs, missed, _) = all_turns(&by_minute(), Missed::All, &mut place, now);
    assert_eq!((runs.len() as u64, missed), (7 * 24 * 60, 23 * 24 * 60), "a week is made up for");
}

#[test]
fn when_as_much_is_due_as_one_commit_decides_the_last_instant_has_its_run() {
    for due in [INSTANTS_MAX as u64 - 1, INSTANTS_MAX as u64, INSTANTS_MAX as u64 + 1] {
        let mut place = START;
        let (runs, missed, commits) = all_turns(&by_minute(), Missed::Once, &mut place, later(due * MINUTE));
        assert_eq!((runs, missed), (vec![later(due * MINUTE)], due - 1));
        assert_eq!(commits, if due > INSTANTS_MAX as u64 { 2 } else { 1 });
    }
}

#[test]
fn a_clock_that_is_set_back_repeats_nothing_and_goes_on_at_its_place() {
    let mut place = START;
    let (runs, ..) = all_turns(&hourly(), Missed::All, &mut place, later(5 * HOUR));
    assert_eq!(runs.len(), 5);
    for now in [START, later(2 * HOUR), later(5 * HOUR), later(6 * HOUR - 1)] {
        assert_eq!(turn(&hourly(), Missed::All, place, now, RUNS_MAX), None);
    }
    let (runs, ..) = all_turns(&hourly(), Missed::All, &mut place, later(6 * HOUR));
    assert_eq!(runs, [later(6 * HOUR)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// The clock is set ahead and back by up to two days; changes of Berlin's clocks lie in between.
    #[test]
    fn whatever_the_clock_does_each_instant_is_decided_once_and_in_order(
        policy in prop::sample::select(Missed::ALL.to_vec()),
        cron in prop::sample::select(vec!["*/20 * * * *", "30 2 * * *", "0 1-4 * * *"]),
        begin in prop::sample::select(vec![1_774_656_000_000_u64, 1_792_800_000_000]),
        steps in prop::collection::vec(-48 * 60_i64..48 * 60, 1..30),
    ) {
        let calendar = Calendar::read(cron, "Europe/Berlin").unwrap();
        let begin = UnixMillis(begin);
        let (mut place, mut clock, mut latest) = (begin, begin, begin);
        let (mut runs, mut missed) = (Vec::new(), 0);
        for minutes in steps {
            clock = UnixMillis(clock.0.saturating_add_signed(minutes * 60_000));
            latest = latest.max(clock);
            let (made, without, _) = all_turns(&calendar, policy, &mut place, clock);
            runs.extend(made);
            missed += without;
        }
        let all: Vec<UnixMillis> =
            std::iter::successors(calendar.next_after(begin), |at| calendar.next_after(*at)).take_while(|at| *at <= latest).collect();
        prop_assert!(runs.windows(2).all(|two| two[0] < two[1]), "each has one run, in order");
        prop_assert!(runs.iter().all(|run| all.contains(run)));
        prop_assert_eq!(runs.len() as u64 + missed, all.len() as u64);
        if policy == Missed::All {
            prop_assert_eq!(runs, all);
        }
    }
}
