use bytes::Bytes;

use super::*;
use crate::saga::json::Json;
use crate::schedule::limits::WORK_BYTES_MAX;
use crate::schedule::{MessageWork, SagaWork};

/// 2026-01-05T00:00:00Z, which is a Monday.
const START: UnixMillis = UnixMillis(1_767_571_200_000);
const HOUR: u64 = 3_600_000;

fn hours(hours: u64) -> UnixMillis {
    UnixMillis(START.0 + hours * HOUR)
}

fn message() -> MessageWork {
    MessageWork {
        topic: "bus:shop.close_of_day".to_owned(),
        payload: Bytes::from_static(b"{\"day\": \xff}"),
        content_type: Some("application/octet-stream".to_owned()),
        key: Some("till-7".to_owned()),
        headers: vec![("x-till".to_owned(), "7".to_owned())],
        event_type: None,
    }
}

fn saga() -> Work {
    let input = Json::parse("{\"day\": 1}").unwrap();
    Work::Saga(SagaWork { definition: "close_of_day".to_owned(), version: None, input, headers: Vec::new() })
}

fn new(cron: &str, work: Work) -> NewSchedule {
    NewSchedule {
        key: ScheduleKey { tenant: Tenant::unnamed(), name: ScheduleName::new("nightly").unwrap() },
        cron: cron.to_owned(),
        zone: "utc".to_owned(),
        missed: Missed::All,
        work,
        is_paused: false,
        actor: "ops".to_owned(),
    }
}

fn schedule(work: Work) -> (Schedule, Calendar) {
    let schedule = new("0 * * * *", work).check(START).unwrap();
    let calendar = schedule.calendar().unwrap();
    (schedule, calendar)
}

#[test]
fn a_new_one_owes_nothing_of_the_time_before() {
    let (schedule, calendar) = schedule(Work::Message(message()));
    assert_eq!((schedule.revision, schedule.place, schedule.zone.as_str()), (1, START, "UTC"));
    assert_eq!(schedule.advance(&calendar, START), None);
    assert_eq!(schedule.upcoming(&calendar, START).len(), SHOWN_MAX);
    assert_eq!(schedule.upcoming(&calendar, hours(3)).first(), Some(&hours(4)));
}

#[test]
fn what_could_never_run_is_refused() {
    let message_of = |change: &dyn Fn(&mut MessageWork)| {
        let mut message = message();
        change(&mut message);
        Work::Message(message)
    };
    let large = Json::parse(&format!("\"{}\"", "x".repeat(WORK_BYTES_MAX))).unwrap();
    for (what, refused) in [
        ("no such day", new("0 0 31 2 *", saga())),
        ("no expression", new("0 0 * *", saga())),
        ("no zone", NewSchedule { zone: "Mars/Olympus".to_owned(), ..new("@daily", saga()) }),
        ("no topic", new("@daily", message_of(&|message| message.topic = "nowhere".to_owned()))),
        ("no header", new("@daily", message_of(&|message| message.headers = vec![("a b".to_owned(), String::new())]))),
        ("too large", new("@daily", message_of(&|message| message.payload = vec![0_u8; WORK_BYTES_MAX + 1].into()))),
        (
            "too large an input",
            new(
                "@daily",
                Work::Saga(SagaWork { definition: "a".to_owned(), version: None, input: large, headers: Vec::new() }),
            ),
        ),
    ] {
        assert!(refused.check(START).is_err(), "{what}");
    }
}

#[test]
fn runs_and_place_advance_in_one_record() {
    let (schedule, calendar) = schedule(Work::Message(message()));
    let Advance { next, runs, is_cut } = schedule.advance(&calendar, hours(2)).unwrap();
    assert_eq!(runs, [hours(1), hours(2)].map(|due| Run { due, by_hand: false }));
    assert_eq!((next.place, next.revision, next.runs, next.without_run, is_cut), (hours(2), 2, 2, 0, false));
    assert!(next.owed.is_empty(), "messages go in with the record");
    assert_eq!(next.last.as_ref().map(|last| last.id.as_str()), Some("nightly@2026-01-05T02:00:00.000Z"));
    assert_eq!(next.advance(&calendar, hours(2)), None);
}

#[test]
fn a_commit_has_as_many_messages_as_go_into_its_bytes() {
    let large = MessageWork { payload: vec![0_u8; WORK_BYTES_MAX].into(), ..message() };
    let (schedule, calendar) = schedule(Work::Message(large));
    let Advance { next, runs, is_cut } = schedule.advance(&calendar, hours(100)).unwrap();
    assert_eq!((runs.len(), is_cut, next.place), (15, true, hours(15)));
    let rest = next.advance(&calendar, hours(20)).unwrap();
    assert_eq!((rest.runs.len(), rest.is_cut), (5, false));
}

#[test]
fn a_runs_message_has_the_runs_id_and_happened_when_it_was_due() {
    let (schedule, _) = schedule(Work::Message(message()));
    let run = Run { due: hours(1), by_hand: false };
    let draft = message().draft(&schedule.key, run, hours(2)).unwrap();
    assert!(!draft.needs_id);
    let made = &draft.message;
    assert_eq!((made.id.as_str(), made.occurred_at), ("nightly@2026-01-05T01:00:00.000Z", hours(1)));
    assert_eq!((made.created_at, made.not_before), (hours(2), None));
    let by_hand = Run { by_hand: true, ..run };
    assert_ne!(run.id(&schedule.key), by_hand.id(&schedule.key));
}

#[test]
fn no_more_is_due_before_the_sagas_of_earlier_runs_are_started() {
    let (schedule, calendar) = schedule(saga());
    let next = schedule.advance(&calendar, hours(2)).unwrap().next;
    assert_eq!(next.owed.len(), 2);
    assert_eq!(next.advance(&calendar, hours(3)), None);
    let next = next.settled(Run { due: hours(1), by_hand: false }, None);
    let next = next.settled(Run { due: hours(2), by_hand: false }, Some("there is no such definition".to_owned()));
    assert_eq!((next.owed.len(), next.revision), (0, 4));
    assert!(next.error.is_some());
    assert_eq!(next.advance(&calendar, hours(3)).unwrap().runs.len(), 1);
}

#[test]
fn a_run_by_hand_leaves_the_place_and_is_made_of_a_paused_one_too() {
    let (schedule, calendar) = schedule(Work::Message(message()));
    let paused = schedule.paused().unwrap();
    let by_hand = paused.run_now(hours(1)).unwrap();
    assert_eq!(by_hand.runs, [Run { due: hours(1), by_hand: true }]);
    assert_eq!((by_hand.next.place, by_hand.next.runs, by_hand.next.is_paused), (START, 1, true));
    let next = schedule.run_now(hours(1)).unwrap().next;
    assert_eq!(next.advance(&calendar, hours(1)).unwrap().runs, [Run { due: hours(1), by_hand: false }]);
    let mut full = Schedule { work: saga(), ..schedule };
    for minute in 0..RUNS_MAX as u64 {
        full = full.run_now(UnixMillis(START.0 + minute)).unwrap().next;
    }
    assert_eq!(full.run_now(hours(1)), None);
}

#[test]
fn the_time_of_a_pause_is_not_made_up_for() {
    let (schedule, calendar) = schedule(Work::Message(message()));
    assert_eq!(schedule.resumed(hours(1)), None);
    let paused = schedule.paused().unwrap();
    assert_eq!((paused.advance(&calendar, hours(9)), paused.paused()), (None, None));
    assert!(paused.upcoming(&calendar, hours(9)).is_empty());
    let resumed = paused.resumed(hours(9)).unwrap();
    assert_eq!(resumed.advance(&calendar, hours(9)), None);
    assert_eq!(resumed.advance(&calendar, hours(10)).unwrap().runs, [Run { due: hours(10), by_hand: false }]);
}

#[test]
fn one_that_stands_ahead_of_a_clock_that_was_set_back_goes_on_when_it_is_resumed() {
    let (schedule, calendar) = schedule(Work::Message(message()));
    let ahead = Schedule { place: hours(9_000), ..schedule };
    assert_eq!(ahead.advance(&calendar, hours(2)), None);
    let resumed = ahead.paused().unwrap().resumed(hours(2)).unwrap();
    assert_eq!(resumed.advance(&calendar, hours(3)).unwrap().runs.len(), 1);
}

#[test]
fn a_record_comes_back_from_its_json_as_it_was() {
    for work in [Work::Message(message()), saga()] {
        let (schedule, calendar) = schedule(work);
        let next = schedule.advance(&calendar, hours(1)).unwrap().next;
        let json = serde_json::to_value(&next).unwrap();
        assert_eq!(serde_json::from_value::<Schedule>(json.clone()).unwrap(), next);
        let mut other = json;
        other["seconds"] = true.into();
        assert!(serde_json::from_value::<Schedule>(other).is_err(), "what nobody knows isn't left out");
    }
}
