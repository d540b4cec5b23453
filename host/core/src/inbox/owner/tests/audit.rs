//! Audit events of received messages, in the commit that holds what they tell of.

use super::*;
use crate::commit::Step;
use crate::tx_event::{TxEvent, TxRecord, TxSubject};

fn audited() -> InboxOwner {
    let mut changed = settings();
    changed.consumers[0].retry.max_attempts = 2;
    let mut owner = owner_of(changed);
    owner.config.tx_events = Some("host-a".into());
    owner
}

fn records(commit: &InboxCommit) -> Vec<&TxRecord> {
    let records = commit.writes.iter().filter_map(|write| match write {
        InboxWrite::PutTxEvents(record) => Some(&**record),
        _ => None,
    });
    records.collect()
}

/// What the trail says of a commit, in order: event, consumer, id, attempts, code.
fn trail(commit: &InboxCommit) -> Vec<String> {
    let events = records(commit).into_iter().flat_map(|record| &record.events);
    let text = |event: &TxEvent| {
        let [consumer, code] = [&event.consumer, &event.code].map(|text| text.as_deref().unwrap_or("-"));
        format!("{} {consumer} {} {} {code}", event.kind.as_str(), event.id, event.attempts)
    };
    events.map(text).collect()
}

fn fail(owner: &mut InboxOwner, at: u64) {
    let call = calls(owner, at).remove(0);
    owner.answered(call.seq, Verdict::Failed(Fault::new("HTTP.500", "no")), now(at), 0.5);
}

#[test]
fn retry_death_and_replay_of_a_received_message_are_in_the_commits_that_hold_them() {
    let mut owner = audited();
    bring(&mut owner, vec![arrival("t1", &message("m-1", None, "a"))], 1);
    fail(&mut owner, 1);
    let retried = commit(&mut owner, 2);
    assert_eq!(trail(&retried), ["TxRetry ship m-1 1 HTTP.500"]);
    fail(&mut owner, 60_000);
    let died = commit(&mut owner, 60_001);
    assert_eq!(trail(&died), ["TxDead ship m-1 2 HTTP.500"]);
    let dead = died.writes.iter().find_map(|write| match write {
        InboxWrite::PutDead(dead) => Some(Arc::clone(dead)),
        _ => None,
    });
    let dead = dead.unwrap();
    assert!(owner.replay(Replay { message: Arc::clone(&dead.message), dead, consumer: ConsumerId(0) }));
    let replayed = commit(&mut owner, 60_002);
    assert_eq!(trail(&replayed), ["TxReplay ship m-1 0 HTTP.500"]);
    let call = calls(&mut owner, 60_003).remove(0);
    owner.answered(call.seq, processed(), now(60_003), 0.5);
    assert!(trail(&commit(&mut owner, 60_004)).is_empty(), "what goes well costs no record");
    for made in [retried, died, replayed] {
        let [record] = records(&made)[..] else { panic!("{:?}", made.writes) };
        assert_eq!((record.key.shard, record.key.beat, &*record.host), (made.shard, made.record.beat, "host-a"));
        assert_eq!(record.key.of, TxSubject::Inbox);
    }
}

#[test]
fn what_nobody_may_handle_dies_under_the_name_of_its_source() {
    let mut owner = audited();
    let nobody = Arrival { consumers: Vec::new(), ..arrival("t1", &message("m-1", None, "a")) };
    bring(&mut owner, vec![nobody], 1);
    let code = Code::INBOX_NO_CONSUMER.as_str();
    assert_eq!(trail(&commit(&mut owner, 2)), [format!("TxDead ~shop m-1 0 {code}")]);
}

#[test]
fn what_a_commit_that_never_went_in_said_is_said_again_by_the_next_one_and_once() {
    let mut owner = audited();
    bring(&mut owner, vec![arrival("t1", &message("m-1", None, "a"))], 1);
    fail(&mut owner, 1);
    let stored = owner.record().clone();
    let lost = owner.build(now(2), 50).unwrap();
    owner.commit_failed();
    assert!(matches!(owner.resolve(&stored, now(3), 51), Step::Barrier(_)));
    let barrier = InboxShardRecord { beat: stored.beat + 1, nonce: 51, ..stored };
    assert!(matches!(owner.resolve(&barrier, now(4), 52), Step::NotApplied(())));
    let made = commit(&mut owner, 5);
    assert_eq!((trail(&lost), trail(&made)), (trail(&made), vec!["TxRetry ship m-1 1 HTTP.500".to_owned()]));
    assert_ne!(records(&lost)[0].key, records(&made)[0].key);
}

#[test]
fn where_they_arent_wanted_commits_of_the_inbox_write_none() {
    let mut owner = owner();
    bring(&mut owner, vec![arrival("t1", &message("m-1", None, "a"))], 1);
    fail(&mut owner, 1);
    assert!(records(&commit(&mut owner, 2)).is_empty());
}
