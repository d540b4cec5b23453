#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::time::UnixMillis;

const HOST: &str = "host-1";
const PACE: Pace = Pace { after: Duration::from_secs(30), clear_after: Duration::from_secs(120) };

/// What a round sees of one transport.
fn round(second: u64, level: Level) -> Observations {
    let found =
        Observation { rule: Rule::BreakerOpen, subject: "bus".to_owned(), level, detail: format!("it is {level:?}") };
    Observations { now: UnixMillis(second * 1_000), known: [Rule::BreakerOpen].into(), found: vec![found] }
}

/// Goes on, and takes what is to be sent for sent; the phases of it.
fn step(incidents: &mut Incidents, seen: &Observations) -> Vec<Phase> {
    incidents.observe(HOST, seen, PACE);
    let due = incidents.due();
    due.iter().for_each(|notice| incidents.sent(notice));
    due.into_iter().map(|notice| notice.phase).collect()
}

fn restarted(incidents: &Incidents) -> Incidents {
    serde_json::from_str(&serde_json::to_string(incidents).unwrap()).unwrap()
}

#[test]
fn an_incident_is_told_once_at_its_beginning_and_once_at_its_end() {
    let mut incidents = Incidents::default();
    assert!(step(&mut incidents, &round(0, Level::Past)).is_empty(), "it may be over in a moment");
    assert!(step(&mut incidents, &round(29, Level::Past)).is_empty());
    assert_eq!(step(&mut incidents, &round(30, Level::Past)), [Phase::Begin]);
    assert!(step(&mut incidents, &round(45, Level::Past)).is_empty());
    assert!(step(&mut incidents, &round(60, Level::Within)).is_empty(), "it may come back in a moment");
    assert!(step(&mut incidents, &round(120, Level::Between)).is_empty());
    assert!(step(&mut incidents, &round(200, Level::Within)).is_empty(), "it is well anew");
    assert!(step(&mut incidents, &round(319, Level::Within)).is_empty());
    assert_eq!(step(&mut incidents, &round(320, Level::Within)), [Phase::End]);
    assert_eq!((incidents.open().count(), incidents.due().len()), (0, 0));
}

#[test]
fn what_is_gone_before_it_lasted_is_told_nobody() {
    let mut incidents = Incidents::default();
    for second in 0..200 {
        let level = if second % 20 == 19 { Level::Between } else { Level::Past };
        assert!(step(&mut incidents, &round(second, level)).is_empty(), "{second}");
    }
}

#[test]
fn a_full_disk_is_told_at_once() {
    let mut incidents = Incidents::default();
    let found =
        Observation { rule: Rule::DiskLow, subject: String::new(), level: Level::Past, detail: "1 MiB".to_owned() };
    let seen = Observations { now: UnixMillis(5), known: [Rule::DiskLow].into(), found: vec![found] };
    assert_eq!(step(&mut incidents, &seen), [Phase::Begin]);
}

#[test]
fn what_a_round_does_not_know_stays_as_it_is() {
    let mut incidents = Incidents::default();
    step(&mut incidents, &round(0, Level::Past));
    step(&mut incidents, &round(30, Level::Past));
    let nothing_known = |second: u64| Observations { now: UnixMillis(second * 1_000), ..Observations::default() };
    for second in [100, 1_000, 10_000] {
        assert!(step(&mut incidents, &nothing_known(second)).is_empty());
    }
    assert_eq!(incidents.open().count(), 1);
    // A transport that is there no more is well.
    let gone = |second: u64| Observations { known: [Rule::BreakerOpen].into(), ..nothing_known(second) };
    assert!(step(&mut incidents, &gone(20_000)).is_empty());
    assert_eq!(step(&mut incidents, &gone(20_120)), [Phase::End]);
}

#[test]
fn a_message_that_is_not_out_keeps_its_id_over_a_restart_and_goes_before_the_end() {
    let mut incidents = Incidents::default();
    incidents.observe(HOST, &round(0, Level::Past), PACE);
    assert!(incidents.observe(HOST, &round(30, Level::Past), PACE), "the record has to be written");
    let [begin]: [Notice; 1] = incidents.due().try_into().unwrap();
    let mut again = restarted(&incidents);
    again.observe(HOST, &round(40, Level::Within), PACE);
    assert!(again.observe(HOST, &round(160, Level::Within), PACE));
    let [same]: [Notice; 1] = again.due().try_into().unwrap();
    assert_eq!((&same, same.id()), (&begin, begin.id()));
    again.sent(&same);
    let [end]: [Notice; 1] = restarted(&again).due().try_into().unwrap();
    assert_eq!((end.phase, end.since, end.until), (Phase::End, UnixMillis(0), Some(UnixMillis(40_000))));
    assert_ne!(end.id(), begin.id());
    again.sent(&end);
    assert_eq!(again, Incidents::default());
}

#[test]
fn there_are_only_so_many_incidents() {
    let found = |number: usize| Observation {
        rule: Rule::DiskLow,
        subject: number.to_string(),
        level: Level::Past,
        detail: "\n".repeat(2 * DETAIL_BYTES_MAX),
    };
    let known = BTreeSet::from([Rule::DiskLow]);
    let seen = Observations { now: UnixMillis(1), known, found: (0..INCIDENTS_MAX + 5).map(found).collect() };
    let mut incidents = Incidents::default();
    incidents.observe(HOST, &seen, PACE);
    assert_eq!(incidents.open().count(), INCIDENTS_MAX);
    assert!(incidents.due().iter().all(|notice| notice.detail.len() <= DETAIL_BYTES_MAX));
}

#[test]
fn a_number_near_its_bound_neither_begins_nor_ends() {
    let rising_at = |value| rising(value, 100);
    assert_eq!([80, 81, 99, 100].map(rising_at), [Level::Within, Level::Between, Level::Between, Level::Past]);
    assert_eq!([0, 1].map(|value| rising(value, 1)), [Level::Within, Level::Past]);
    let falling_at = |value| falling(value, 100);
    assert_eq!([99, 100, 124, 125].map(falling_at), [Level::Past, Level::Between, Level::Between, Level::Within]);
    assert_eq!((rising(u64::MAX, u64::MAX), falling(u64::MAX, u64::MAX)), (Level::Past, Level::Between));
}

fn notice(phase: Phase) -> Notice {
    Notice {
        rule: Rule::BreakerOpen,
        subject: "bus".to_owned(),
        host: HOST.to_owned(),
        phase,
        since: UnixMillis(1_700_000_000_000),
        until: (phase == Phase::End).then_some(UnixMillis(1_700_000_060_000)),
        detail: "NATS.LOST: <nobody> & \"nothing\" answers".to_owned(),
    }
}

#[test]
fn plain_json_has_all_of_it() {
    let wanted = json!({
        "status": "firing",
        "rule": "breaker_open",
        "subject": "bus",
        "host": "host-1",
        "since": "2023-11-14T22:13:20.000Z",
        "until": null,
        "detail": "NATS.LOST: <nobody> & \"nothing\" answers",
    });
    assert_eq!(Format::Json.payload(&notice(Phase::Begin)), wanted);
    let end = Format::Json.payload(&notice(Phase::End));
    assert_eq!((&end["status"], &end["until"]), (&json!("resolved"), &json!("2023-11-14T22:14:20.000Z")));
}

#[test]
fn a_webhook_like_slacks_gets_one_text_without_its_own_marks() {
    let text = "[ALERT] waybill on host-1: nothing goes through (bus): NATS.LOST: &lt;nobody&gt; &amp; \"nothing\" answers \
                (since 2023-11-14T22:13:20.000Z)";
    assert_eq!(Format::Slack.payload(&notice(Phase::Begin)), json!({ "text": text }));
    let over = Format::Slack.payload(&Notice { subject: String::new(), detail: String::new(), ..notice(Phase::End) });
    let text = "[OVER] waybill on host-1: nothing goes through (since 2023-11-14T22:13:20.000Z until 2023-11-14T22:14:20.000Z)";
    assert_eq!(over, json!({ "text": text }));
}

#[test]
fn alertmanager_knows_the_end_by_the_labels_of_the_beginning() {
    let of = |phase| Format::Alertmanager.payload(&notice(phase))[0].clone();
    let (begin, end) = (of(Phase::Begin), of(Phase::End));
    let labels =
        json!({ "alertname": "WaybillBreakerOpen", "host": "host-1", "subject": "bus", "severity": "warning" });
    assert_eq!((&begin["labels"], &end["labels"]), (&labels, &labels));
    assert_eq!(begin["startsAt"], "2023-11-14T22:13:20.000Z");
    assert_eq!(begin["endsAt"], "2024-11-13T22:13:20.000Z", "it doesn't end by itself in between");
    assert_eq!(end["endsAt"], "2023-11-14T22:14:20.000Z");
    assert!(begin["annotations"]["summary"].as_str().unwrap().contains("NATS.LOST: <nobody>"));
}

#[test]
fn each_rule_has_a_name_of_its_own() {
    let names: BTreeSet<&str> = Rule::ALL.into_iter().map(Rule::as_str).collect();
    let alert_names: BTreeSet<&str> = Rule::ALL.into_iter().map(Rule::alert_name).collect();
    assert_eq!((names.len(), alert_names.len()), (Rule::ALL.len(), Rule::ALL.len()));
    for rule in Rule::ALL {
        assert_eq!(json!(rule), json!(rule.as_str()), "the record names it as messages do");
    }
}

/// What happens in one step of a random run.
#[derive(Clone, Debug)]
enum Happening {
    /// Seconds pass, and then each of two transports is seen so; none = its owner didn't answer for either.
    Round(u64, Option<[Level; 2]>),
    /// Of what is to be sent so many get out; of two or more the host doesn't hear.
    Send(usize),
    Restart,
}

fn level() -> impl Strategy<Value = Level> {
    prop_oneof![Just(Level::Within), Just(Level::Between), Just(Level::Past)]
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        6 => (0_u64..90, prop::option::weighted(0.9, prop::array::uniform2(level()))).prop_map(|(s, l)| Happening::Round(s, l)),
        3 => (0_usize..3).prop_map(Happening::Send),
        1 => Just(Happening::Restart),
    ]
}

proptest! {
    /// Whatever is seen and whenever the host ends: of each subject beginnings and ends take turns, each has one id, an incident begins
    /// only while the subject is past its bound, and between an end and the next beginning it was within it for long enough.
    #[test]
    fn beginnings_and_ends_take_turns(happenings in prop::collection::vec(happening(), 1..120)) {
        let mut incidents = Incidents::default();
        let mut second = 0;
        let mut outbox: BTreeMap<String, Notice> = BTreeMap::new();
        let mut turns: BTreeMap<String, Vec<Notice>> = BTreeMap::new();
        let subjects = ["bus", "http"];
        for happening in happenings {
            match happening {
                Happening::Round(seconds, levels) => {
                    second += seconds;
                    let mut seen = Observations { now: UnixMillis(second * 1_000), ..Observations::default() };
                    for (subject, level) in subjects.into_iter().zip(levels.into_iter().flatten()) {
                        seen.known.insert(Rule::BreakerOpen);
                        let subject = subject.to_owned();
                        seen.found.push(Observation { rule: Rule::BreakerOpen, subject, level, detail: String::new() });
                    }
                    let before = incidents.clone();
                    let is_changed = incidents.observe(HOST, &seen, PACE);
                    prop_assert!(is_changed || restarted(&before) == restarted(&incidents), "what changes is written");
                }
                Happening::Send(most) => {
                    for notice in incidents.due().into_iter().take(most) {
                        // The store takes an id once.
                        let kept = outbox.entry(notice.id()).or_insert_with(|| {
                            turns.entry(notice.subject.clone()).or_default().push(notice.clone());
                            notice.clone()
                        });
                        prop_assert_eq!(&*kept, &notice, "its content is the same each time");
                        if most < 2 {
                            incidents.sent(&notice);
                        }
                    }
                }
                Happening::Restart => incidents = restarted(&incidents),
            }
        }
        for notices in turns.values() {
            for (number, notice) in notices.iter().enumerate() {
                let turn = if number % 2 == 0 { Phase::Begin } else { Phase::End };
                prop_assert_eq!(notice.phase, turn);
            }
            for pair in notices.windows(2) {
                let [one, other] = pair else { panic!("two at a time") };
                match other.phase {
                    Phase::End => prop_assert_eq!(one.since, other.since),
                    Phase::Begin => {
                        let was_well = other.since.since(one.until.unwrap());
                        prop_assert!(was_well >= PACE.clear_after, "{was_well:?}");
                    }
                }
            }
        }
    }
}
