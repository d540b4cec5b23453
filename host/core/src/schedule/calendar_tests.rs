use proptest::prelude::*;

use super::*;

/// Zones whose clocks change by an hour and by half of one, at night and at midnight, north and south, and never.
const ZONES: [&str; 8] = [
    "Europe/Berlin",
    "America/New_York",
    "America/St_Johns",
    "Africa/Cairo",
    "Australia/Lord_Howe",
    "Pacific/Chatham",
    "Asia/Kathmandu",
    "UTC",
];
const MINUTE: u64 = 60_000;

fn at(text: &str) -> UnixMillis {
    let instant: Timestamp = text.parse().unwrap();
    UnixMillis(u64::try_from(instant.as_millisecond()).unwrap())
}

fn upcoming(cron: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let found = Calendar::read(cron, zone).unwrap().upcoming(at(after), count);
    found.iter().map(|at| at.to_string().replace(":00.000Z", "Z")).collect()
}

#[test]
fn five_fields_and_nicknames_are_read() {
    for (cron, next) in [
        ("0 9 * * *", "2026-01-01T09:00Z"),
        ("*/15 * * * *", "2026-01-01T00:15Z"),
        ("0 9 * * MON-FRI", "2026-01-01T09:00Z"),
        ("  30 6 1,15 feb *", "2026-02-01T06:30Z"),
        ("0 0 L * *", "2026-01-31T00:00Z"),
        ("0 0 29 2 *", "2028-02-29T00:00Z"),
        ("0 0 * * 7", "2026-01-04T00:00Z"),
        ("@hourly", "2026-01-01T01:00Z"),
        ("@Daily", "2026-01-02T00:00Z"),
        ("@monthly", "2026-02-01T00:00Z"),
    ] {
        assert_eq!(upcoming(cron, "UTC", "2026-01-01T00:00:00Z", 1), [next], "{cron}");
    }
}

#[test]
fn what_is_no_expression_is_refused_with_what_is_wrong() {
    for (cron, says) in [
        ("", "it has 0 fields"),
        ("* * * *", "it has 4 fields"),
        ("0 0 9 * * *", "it has 6 fields"),
        ("0 0 9 * * * 2026", "it has 7 fields"),
        ("@reboot", "@hourly, @daily"),
        ("0 9 * * @daily", "@hourly, @daily"),
        ("60 * * * *", "60 * * * *"),
        ("* 24 * * *", "* 24 * * *"),
        ("a * * * *", "a * * * *"),
    ] {
        let error = Calendar::read(cron, "UTC").unwrap_err();
        assert!(matches!(error, InputError::Cron { .. }), "{cron}: {error}");
        assert!(error.to_string().contains(says), "{cron}: {error}");
        assert_eq!(error.code().as_str(), "SCHEMA.VALIDATION_FAILED");
    }
    let long = "0,".repeat(CRON_BYTES_MAX);
    assert!(matches!(Calendar::read(&long, "UTC"), Err(InputError::TooLong { field: "cron", .. })));
    assert!(matches!(Calendar::read("0 9\n* * *", "UTC"), Err(InputError::ControlCharacter { field: "cron" })));
}

#[test]
fn zones_are_those_of_the_database_that_is_brought() {
    assert_eq!(Calendar::read("@daily", "europe/berlin").unwrap().zone_name(), "Europe/Berlin");
    let error = Calendar::read("@daily", "Europe/Berlni").unwrap_err();
    assert!(error.to_string().ends_with("write it as Europe/Berlin"), "{error}");
    for bad in ["", "CEST", "+02:00", "../../etc/passwd", &"x".repeat(ZONE_BYTES_MAX + 1)] {
        assert!(Calendar::read("@daily", bad).is_err(), "{bad:?}");
    }
    for zone in ZONES {
        assert_eq!(Calendar::read("@daily", zone).unwrap().zone_name(), zone);
    }
}

/// On 29 March 2026 Berlin's clocks go from 02:00 to 03:00, at 01:00 UTC.
#[test]
fn an_hour_that_the_clocks_skip() {
    let of_fixed_time = upcoming("30 2 * * *", "Europe/Berlin", "2026-03-27T12:00:00Z", 3);
    assert_eq!(of_fixed_time, ["2026-03-28T01:30Z", "2026-03-29T01:00Z", "2026-03-30T00:30Z"]);
    let by_the_clocks = upcoming("*/30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", 2);
    assert_eq!(by_the_clocks, ["2026-03-30T00:00Z", "2026-03-30T00:30Z"]);
    let hourly = upcoming("0 * * * *", "Europe/Berlin", "2026-03-28T23:30:00Z", 3);
    assert_eq!(hourly, ["2026-03-29T00:00Z", "2026-03-29T01:00Z", "2026-03-29T02:00Z"]);
}

/// On 25 October 2026 Berlin's clocks go from 03:00 back to 02:00, at 01:00 UTC.
#[test]
fn an_hour_that_the_clocks_show_twice() {
    let of_fixed_time = upcoming("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 2);
    assert_eq!(of_fixed_time, ["2026-10-25T00:30Z", "2026-10-26T01:30Z"]);
    let between = upcoming("30 2 * * *", "Europe/Berlin", "2026-10-25T00:45:00Z", 1);
    assert_eq!(between, ["2026-10-26T01:30Z"], "the second 02:30 of the night is none of its instants");
    let by_the_clocks = upcoming("30 2,3 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 3);
    assert_eq!(by_the_clocks, ["2026-10-25T00:30Z", "2026-10-25T01:30Z", "2026-10-25T02:30Z"]);
    let hourly = upcoming("0 * * * *", "Europe/Berlin", "2026-10-24T23:30:00Z", 3);
    assert_eq!(hourly, ["2026-10-25T00:00Z", "2026-10-25T01:00Z", "2026-10-25T02:00Z"]);
}

#[test]
fn clocks_that_change_at_midnight_or_by_half_an_hour() {
    // 26 April 2024 began at 01:00 in Cairo.
    let midnight = upcoming("0 0 * * *", "Africa/Cairo", "2024-04-25T12:00:00Z", 2);
    assert_eq!(midnight, ["2024-04-25T22:00Z", "2024-04-26T21:00Z"]);
    // On 5 April 2026 the clocks of Lord Howe Island go from 02:00 back to 01:30.
    let half = upcoming("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00:00Z", 2);
    assert_eq!(half, ["2026-04-04T14:45Z", "2026-04-05T15:15Z"]);
}

#[test]
fn what_never_matches_has_no_next_instant() {
    let never = Calendar::read("0 0 31 2 *", "UTC").unwrap();
    assert_eq!(never.next_after(at("2026-01-01T00:00:00Z")), None);
    let daily = Calendar::read("@daily", "UTC").unwrap();
    assert_eq!(daily.next_after(UnixMillis(u64::MAX)), None);
    assert_eq!(daily.next_after(UnixMillis(0)), Some(UnixMillis(24 * 60 * MINUTE)));
}

#[test]
fn an_instant_is_shown_as_the_clocks_of_the_zone_show_it() {
    let calendar = Calendar::read("@daily", "Europe/Berlin").unwrap();
    assert_eq!(calendar.local(at("2026-03-29T01:00:00Z")), "2026-03-29T03:00:00+02:00[Europe/Berlin]");
}

/// The first minute behind an instant at which the clocks show one of these hours and minutes: of every minute it is asked.
fn minute_by_minute(calendar: &Calendar, after: UnixMillis, matches: impl Fn(i8, i8) -> bool) -> Option<UnixMillis> {
    let first = (after.0 / MINUTE + 1) * MINUTE;
    (0..3 * 24 * 60).map(|minute| UnixMillis(first + minute * MINUTE)).find(|at| {
        let instant = Timestamp::from_millisecond(i64::try_from(at.0).unwrap()).unwrap();
        let shown = instant.to_zoned(calendar.zone.clone());
        matches(shown.hour(), shown.minute())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Most starts lie within two days of a change of the clocks.
    #[test]
    fn an_expression_without_a_fixed_time_goes_by_what_the_clocks_show(
        zone in prop::sample::select(ZONES.to_vec()),
        (cron, hours, minutes) in prop::sample::select(vec![
            ("*/15 * * * *", 0..=23_i8, vec![0_i8, 15, 30, 45]),
            ("5,35 1-3 * * *", 1..=3_i8, vec![5_i8, 35]),
            ("* 2 * * *", 2..=2_i8, (0..60).collect::<Vec<i8>>()),
            ("20 0-2 * * *", 0..=2_i8, vec![20_i8]),
        ]),
        near in prop::sample::select(vec![
            "2026-03-29T01:00:00Z", "2026-10-25T01:00:00Z", "2026-03-08T07:00:00Z", "2026-11-01T06:00:00Z",
            "2024-04-25T22:00:00Z", "2026-04-04T15:00:00Z", "2026-10-03T15:30:00Z", "2026-07-01T00:00:00Z",
        ]),
        offset in 0_u64..4 * 24 * 3_600_000,
    ) {
        let calendar = Calendar::read(cron, zone).unwrap();
        let mut from = UnixMillis(at(near).0 - 2 * 24 * 3_600_000 + offset);
        for _ in 0..5 {
            let expected = minute_by_minute(&calendar, from, |hour, minute| hours.contains(&hour) && minutes.contains(&minute));
            prop_assert_eq!(calendar.next_after(from), expected, "{} in {} behind {}", cron, zone, from);
            from = expected.unwrap();
        }
    }

    #[test]
    fn an_expression_of_fixed_time_runs_once_on_each_day(
        zone in prop::sample::select(ZONES.to_vec()),
        hour in 0..24,
        minute in 0..60,
        days in 0_u64..365,
    ) {
        let calendar = Calendar::read(&format!("{minute} {hour} * * *"), zone).unwrap();
        let from = UnixMillis(at("2026-01-01T12:00:00Z").0 + days * 24 * 3_600_000);
        let dates: Vec<_> = calendar.upcoming(from, 60).iter().map(|at| {
            Timestamp::from_millisecond(i64::try_from(at.0).unwrap()).unwrap().to_zoned(calendar.zone.clone()).date()
        }).collect();
        prop_assert_eq!(dates.len(), 60);
        for two in dates.windows(2) {
            prop_assert_eq!(two[0].tomorrow().unwrap(), two[1]);
        }
    }
}
