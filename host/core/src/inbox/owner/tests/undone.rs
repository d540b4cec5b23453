//! What a commit that never went in leaves in memory.

use super::*;
use crate::commit::Step;

/// The owner of a log.
fn log() -> InboxOwner {
    let mut settings = settings();
    let source = &mut settings.sources[0];
    (source.by_offsets, source.replays_in_order) = (true, true);
    owner_of(settings)
}

/// The log brings messages of one key, from this number on.
fn bring_key(owner: &mut InboxOwner, numbers: std::ops::RangeInclusive<u64>, at: u64) {
    let of =
        |number| Arrival { group: Some("g".into()), ..arrival("t", &message(&format!("m-{number}"), Some("k"), "a")) };
    bring(owner, numbers.map(of).collect(), at);
}

/// The commit that is out turns out not to be in: a barrier stands where it would.
fn prove_not_in(owner: &mut InboxOwner, stored: &InboxShardRecord, at: u64) {
    owner.commit_failed();
    assert!(matches!(owner.resolve(stored, now(at), 51), Step::Barrier(_)));
    let barrier = InboxShardRecord { beat: stored.beat + 1, nonce: 51, ..stored.clone() };
    assert!(matches!(owner.resolve(&barrier, now(at), 52), Step::NotApplied(())));
}

#[test]
fn what_was_revoked_while_its_commit_was_out_goes_with_a_commit_that_never_went_in() {
    for revokes in [true, false] {
        let mut owner = log();
        let withdraw = |owner: &mut InboxOwner, at| match revokes {
            true => owner.revoked(SOURCE, &["g".to_owned()], now(at)),
            false => owner.restarted(SOURCE, SESSION),
        };
        bring_key(&mut owner, 1..=4, 1);
        let stored = owner.record().clone();
        let made = owner.build(now(2), 50).unwrap();
        assert_eq!(made.writes.len(), 4, "four of a window of six are stored under pressure");
        withdraw(&mut owner, 3);
        assert_eq!(owner.depths().messages, 4, "what a commit in flight names stays");
        // One comes again while it is out, the others would behind it.
        bring_key(&mut owner, 1..=1, 4);
        prove_not_in(&mut owner, &stored, 5);
        assert_eq!((owner.depths().messages, owner.in_hand(SOURCE)), (1, 1));
        withdraw(&mut owner, 6);
        assert!(calls(&mut owner, 7).is_empty(), "nothing is left that would go before the first");
        bring_key(&mut owner, 1..=3, 8);
        let called = calls(&mut owner, 9);
        assert_eq!(called.iter().map(|call| call.message.id.as_str()).collect::<Vec<_>>(), ["m-1"]);
    }
}

#[test]
fn what_was_revoked_while_its_commit_was_out_stays_when_that_went_in() {
    let mut owner = log();
    bring_key(&mut owner, 1..=4, 1);
    owner.build(now(2), 50).unwrap();
    owner.restarted(SOURCE, SESSION);
    owner.committed(now(3));
    assert_eq!((owner.depths().messages, owner.rows(ConsumerId(0))), (4, 4));
    let called = calls(&mut owner, 4);
    assert_eq!(called.iter().map(|call| call.message.id.as_str()).collect::<Vec<_>>(), ["m-1"]);
}
