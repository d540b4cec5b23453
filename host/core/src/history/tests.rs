#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use super::*;

const WALL: u64 = 1_800_000_000_000;

fn mono(seconds: u64) -> Monotonic {
    Monotonic(Duration::from_secs(seconds))
}

/// The machine's clocks when it has run for so long.
fn now(seconds: u64) -> Now {
    Now { wall: UnixMillis(WALL + seconds * 1_000), mono: mono(seconds) }
}

fn delivered(total: u64) -> [(Series, Reading); 1] {
    [(Series::of_all(Measure::Delivered), Reading::Total(total))]
}

fn waiting(level: u64) -> [(Series, Reading); 1] {
    [(Series::of_all(Measure::Waiting), Reading::Level(level))]
}

fn points(history: &History, at: u64) -> Vec<Option<u32>> {
    let read = history.read(now(at), |_| true);
    assert_eq!(read.series.len(), 1, "{read:?}");
    read.series[0].points.clone()
}

#[test]
fn a_point_is_what_was_counted_in_its_step() {
    let mut history = History::new(mono(1_003));
    history.record(mono(1_003), delivered(0));
    for (at, total) in [(1_010, 7), (1_020, 7), (1_030, 19)] {
        history.record(mono(at), delivered(total));
    }
    history.record(mono(1_035), delivered(400));
    assert_eq!(
        points(&history, 1_036),
        [None, Some(7), Some(0), Some(12)],
        "a second look in one step counts for nothing"
    );
    let read = history.read(now(1_036), |_| true);
    assert_eq!((read.since, read.from), (now(1_003).wall, now(1_000).wall));
}

#[test]
fn a_gap_stays_a_gap_and_what_was_counted_across_it_is_told_of_no_step() {
    let mut history = History::new(mono(1_000));
    for (at, total) in [(1_000, 0), (1_010, 5), (1_050, 500), (1_060, 501)] {
        history.record(mono(at), delivered(total));
    }
    assert_eq!(points(&history, 1_061), [None, Some(5), None, None, None, None, Some(1)]);
    let mut history = History::new(mono(1_000));
    for (at, level) in [(1_000, 3), (1_040, 9)] {
        history.record(mono(at), waiting(level));
    }
    assert_eq!(
        points(&history, 1_041),
        [Some(3), None, None, None, Some(9)],
        "what is there now is known behind a gap"
    );
}

#[test]
fn a_host_that_stands_still_shows_a_gap_while_it_lasts() {
    let mut history = History::new(mono(1_000));
    history.record(mono(1_000), waiting(3));
    assert_eq!(points(&history, 1_019), [Some(3)], "a look may be under way");
    assert_eq!(points(&history, 1_045), [Some(3), None, None, None]);
}

#[test]
fn an_hour_is_kept_however_long_it_runs_or_sleeps() {
    let mut history = History::new(mono(0));
    for step in 0..1_000 {
        history.record(mono(step * 10), waiting(step));
    }
    let kept = points(&history, 9_990);
    assert_eq!((kept.len(), kept[0], kept[STEPS - 1]), (STEPS, Some(640), Some(999)));
    let read = history.read(now(9_990), |_| true);
    assert_eq!((read.since, read.from), (now(0).wall, now(6_400).wall));
    history.record(mono(1_000_000), waiting(1));
    let kept = points(&history, 1_000_000);
    assert!(kept[..STEPS - 1].iter().all(Option::is_none) && kept[STEPS - 1] == Some(1), "nothing of before is shown");
}

#[test]
fn a_series_that_comes_later_begins_at_zero_and_one_that_is_gone_leaves_after_an_hour() {
    let mut history = History::new(mono(0));
    let of = |transport: &str| Series::of_transport(Measure::Delivered, transport);
    history.record(mono(0), [(of("a"), Reading::Total(0))]);
    history.record(mono(10), [(of("a"), Reading::Total(1)), (of("b"), Reading::Total(4))]);
    let read = history.read(now(11), |series| *series == of("b"));
    assert_eq!(read.series, [Points { series: of("b"), points: vec![None, Some(4)] }]);
    for step in 2..STEPS as u64 + 2 {
        history.record(mono(step * 10), [(of("b"), Reading::Total(4))]);
    }
    assert_eq!(history.read(now(3_620), |_| true).series.len(), 1);
}

#[test]
fn all_of_it_stays_below_its_bound() {
    let mut history = History::new(mono(0));
    let name = |number: usize| format!("{number:0>width$}", width = SERIES_NAME_BYTES_MAX);
    let all = (0..SERIES_MAX + 7).map(|number| (Series::of_transport(Measure::Dead, &name(number)), Reading::Total(0)));
    let long = (Series::of_transport(Measure::Dead, &name(0).repeat(2)), Reading::Total(0));
    history.record(mono(0), all.chain([long]));
    assert_eq!((history.len(), history.read(now(0), |_| true).left_out), (SERIES_MAX, 8));
    let row = size_of::<u32>() * STEPS + SERIES_NAME_BYTES_MAX + size_of::<Series>() + size_of::<Row>();
    // Nodes of the map are half full at the worst.
    assert!(SERIES_MAX * (row + size_of::<Series>() + size_of::<Row>()) < HISTORY_BYTES_MAX);
}

#[test]
fn a_number_that_is_too_large_is_no_gap() {
    let mut history = History::new(mono(0));
    history.record(mono(0), waiting(u64::MAX));
    assert_eq!(points(&history, 1), [Some(u32::MAX - 1)]);
}

#[test]
fn the_next_step_begins_ten_seconds_behind_the_one_before() {
    let milliseconds = |ms| Monotonic(Duration::from_millis(ms));
    assert_eq!(until_next(milliseconds(0)), STEP);
    assert_eq!(until_next(milliseconds(19_999)), Duration::from_millis(1));
    assert_eq!(until_next(milliseconds(20_000)), STEP);
}

#[test]
fn each_measure_is_read_as_it_is_written() {
    for measure in Measure::ALL {
        assert_eq!(serde_json::to_value(measure).unwrap(), measure.as_str());
        assert_eq!(Measure::parse(measure.as_str()), Some(measure));
    }
    assert_eq!(Measure::parse("delivered "), None);
}
