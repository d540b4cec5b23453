//! How one generation follows another: by overlap, stop-start, hand, and back.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use waybill_core::endpoint::{EndpointSettings, Grants, ReloadPolicy, SlotPolicy};
use waybill_core::port::transport::{CallError, ErrorKind, Outcome, Transport as _};
use waybill_sandbox::{EndpointSpec, Fetched, Phase, Reload, Reloaded, Slot, StageOptions, Trust, World};
use waybill_tests::guests;

use super::support::{Peer, Place, component, component_with, good, phase_of, send, send_by, until};

fn lines(version: &str) -> Vec<u8> {
    component_with(
        guests::ECHOES_BY_NET,
        version,
        "config_schema = '{\"type\":\"object\"}'\n[ask]\nnet = [\"tcp://*:*\"]\n",
    )
}

/// A transport that talks to a peer.
async fn talking(place: &Place, peer: &Peer, policy: SlotPolicy) -> Slot {
    place.put(&lines("1.0.0"));
    let mut spec = place.spec(policy);
    spec.endpoint = to(&peer.address, policy);
    place.start(spec).await
}

fn to(address: &str, policy: SlotPolicy) -> EndpointSpec {
    EndpointSpec::new(EndpointSettings {
        config: json!({ "address": address }),
        grants: Grants::none().allow(["tcp://127.0.0.1:*"]),
        policy,
        ..EndpointSettings::new("orders")
    })
}

fn version(slot: &Slot) -> String {
    slot.identity().version
}

fn is_acked(outcomes: &[Outcome]) -> bool {
    matches!(outcomes, [Outcome::Ack(_)])
}

#[tokio::test(flavor = "multi_thread")]
async fn by_overlap_a_call_under_way_ends_on_the_old_one_while_the_new_one_serves() {
    let (place, peer) = (Place::new(Trust::default()), Peer::start().await);
    let slot = talking(&place, &peer, SlotPolicy::default()).await;
    let serving = slot.serving().unwrap();
    peer.shut(true);
    let under_way = tokio::spawn({
        let slot = slot.clone();
        async move { send(&slot, 1).await }
    });
    peer.until_lines(1).await;
    place.put(&lines("2.0.0"));
    let Reloaded::Live(swapped) = place.fleet.reload("orders", Reload::default()).await.unwrap() else {
        panic!("unchanged")
    };
    assert_eq!(version(&slot), "2.0.0");
    assert_eq!(serving.identity().version, "1.0.0", "a handle stays with its generation");
    assert_eq!(phase_of(&slot, swapped.old), Some(Phase::Draining), "a call is under way");
    peer.shut(false);
    assert!(is_acked(&under_way.await.unwrap().unwrap()));
    assert!(is_acked(&send(&slot, 2).await.unwrap()));
    assert_eq!(phase_of(&slot, swapped.old), Some(Phase::Draining), "a handle is held");
    drop(serving);
    until(&slot, "the old one is gone", |_| (phase_of(&slot, swapped.old) == Some(Phase::Gone)).then_some(())).await;
    slot.close(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn by_stop_start_the_old_one_has_ended_before_the_new_one_opens_and_calls_wait() {
    let (place, peer) = (Place::new(Trust::default()), Peer::start().await);
    let policy = SlotPolicy { reload: ReloadPolicy::StopStart, ..SlotPolicy::default() };
    let slot = talking(&place, &peer, policy).await;
    peer.shut(true);
    let call = |number| {
        let slot = slot.clone();
        tokio::spawn(async move { send(&slot, number).await })
    };
    let under_way = call(1);
    peer.until_lines(1).await;
    place.put(&lines("2.0.0"));
    let reloading = tokio::spawn({
        let fleet = place.fleet.clone();
        async move { fleet.reload("orders", Reload::default()).await }
    });
    until(&slot, "the new one was tried", |records| {
        (records.len() == 2 && records[1].phase == Phase::Probing).then_some(())
    })
    .await;
    let meanwhile = call(2);
    peer.shut(false);
    assert!(is_acked(&under_way.await.unwrap().unwrap()), "what was under way ended on the old one");
    assert!(matches!(reloading.await.unwrap().unwrap(), Reloaded::Live(_)));
    assert!(is_acked(&meanwhile.await.unwrap().unwrap()), "what came meanwhile waited");
    assert!(is_acked(&send(&slot, 3).await.unwrap()));
    assert_eq!((version(&slot), peer.carrying_most()), ("2.0.0".to_owned(), 1), "never two at work at once");
}

#[tokio::test(flavor = "multi_thread")]
async fn by_stop_start_the_old_one_comes_back_when_the_new_one_doesnt_open() {
    let (place, peer) = (Place::new(Trust::default()), Peer::start().await);
    let policy = SlotPolicy { reload: ReloadPolicy::StopStart, ..SlotPolicy::default() };
    let slot = talking(&place, &peer, policy).await;
    assert!(is_acked(&send(&slot, 1).await.unwrap()));
    // Tried while its own peer was there, and that has gone since.
    let other = Peer::start().await;
    let staged = slot.stage(slot.plugin(), to(&other.address, policy), StageOptions::default()).await.unwrap();
    let number = staged.number();
    other.stop().await;
    let error = slot.swap(staged).await.unwrap_err();
    assert_eq!(error.code().as_str(), "PLUGIN.OPEN_FAILED", "{error}");
    assert_eq!(phase_of(&slot, number), Some(Phase::Rejected));
    assert!(is_acked(&send(&slot, 2).await.unwrap()), "the old one serves again");
    assert_eq!((slot.life().live(), peer.lines()), (Some(1), 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_that_was_handed_over_and_doesnt_open_isnt_left_for_the_next_start() {
    // The first generation and the trial of the second reach their peer, and nobody after them: it ends a call of the first one,
    // for which the swap waits, when it has stopped listening.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (tell, is_called) = tokio::sync::oneshot::channel();
    let serving = tokio::spawn(async move {
        let (mut first, _) = listener.accept().await.unwrap();
        assert!(first.read(&mut [0; 64]).await.unwrap() > 0);
        tell.send(()).unwrap();
        let second = listener.accept().await.unwrap();
        drop(listener);
        first.write_all(b"ok\n").await.unwrap();
        (first, second)
    });
    let place = Place::new(Trust::default());
    place.put(&lines("1.0.0"));
    let policy = SlotPolicy { reload: ReloadPolicy::StopStart, ..SlotPolicy::default() };
    let mut spec = place.spec(policy);
    spec.endpoint = to(&address, policy);
    let slot = place.start(spec).await;
    let under_way = tokio::spawn({
        let slot = slot.clone();
        async move { send(&slot, 1).await }
    });
    is_called.await.unwrap();
    let upload = Fetched::new(lines("2.0.0"), None);
    let error = place.fleet.upload("orders", upload, Reload::default()).await.unwrap_err();
    assert_eq!(error.code().as_str(), "PLUGIN.OPEN_FAILED", "{error}");
    assert!(is_acked(&under_way.await.unwrap().unwrap()), "what was under way ended on the first");
    let _connections = serving.await.expect("the second was tried before");
    assert_eq!(std::fs::read(place.file()).unwrap(), lines("1.0.0"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_by_hand_brings_the_earlier_one_back_and_remembers_the_other() {
    let place = Place::new(Trust::default());
    place.put(&good("1.0.0"));
    let slot = place.start(place.spec(SlotPolicy::default())).await;
    let none = place.fleet.roll_back("orders", "a mistake").await.unwrap_err();
    assert_eq!(none.code().as_str(), "PLUGIN.NO_PREVIOUS");
    place.put(&good("2.0.0"));
    place.fleet.reload("orders", Reload::default()).await.unwrap();
    let bad = slot.plugin().digest().to_owned();
    let rolled = place.fleet.roll_back("orders", "loses headers").await.unwrap();
    assert_eq!((rolled.from, rolled.to, version(&slot)), (2, 1, "1.0.0".to_owned()));
    assert!(slot.life().bad(&bad).unwrap().why.reason.contains("loses headers"));
    assert!(is_acked(&send(&slot, 1).await.unwrap()));
    let again = place.fleet.reload("orders", Reload::default()).await.unwrap_err();
    assert_eq!(again.code().as_str(), "PLUGIN.REMEMBERED_BAD");
    let forced = place.fleet.reload("orders", Reload { force: true, sha256: None }).await.unwrap();
    assert!(matches!(forced, Reloaded::Live(_)));
    assert_eq!((version(&slot), slot.life().bad_digests().count()), ("2.0.0".to_owned(), 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn other_settings_go_the_same_way_and_several_slots_change_together_or_not_at_all() {
    let (one, two) = (Place::new(Trust::default()), Place::new(Trust::default()));
    one.put(&good("1.0.0"));
    two.put(&good("1.0.0"));
    let (first, second) =
        (one.start(one.spec(SlotPolicy::default())).await, two.start(two.spec(SlotPolicy::default())).await);
    let mut changed = one.spec(SlotPolicy::default());
    changed.endpoint.settings.instances = 3;
    let staged = one.fleet.stage(World::Transport, changed.clone(), first.plugin(), false).await.unwrap();
    let mut wrong = two.spec(SlotPolicy::default());
    wrong.endpoint.settings.config = json!(7);
    assert_eq!(
        two.fleet.stage(World::Transport, wrong, second.plugin(), false).await.unwrap_err().code().as_str(),
        "PLUGIN.CONFIG"
    );
    drop(staged);
    assert_eq!((first.limits().lanes, first.life().live()), (1, Some(1)), "given up");
    let staged = one.fleet.stage(World::Transport, changed, first.plugin(), false).await.unwrap();
    one.fleet.swap(staged).await.unwrap();
    assert_eq!((first.limits().lanes, first.identity().generation), (3, 3));
}

async fn until_acked(slot: &Slot) {
    let serving = async { while !send(slot, 2).await.is_ok_and(|outcomes| is_acked(&outcomes)) {} };
    tokio::time::timeout(super::support::PATIENCE, serving).await.expect("it serves");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_whose_calls_fail_gives_way_when_the_earlier_one_would_serve() {
    let (place, peer, other) = (Place::new(Trust::default()), Peer::start().await, Peer::start().await);
    let slot = talking(&place, &peer, SlotPolicy::default()).await;
    let staged =
        slot.stage(slot.plugin(), to(&other.address, SlotPolicy::default()), StageOptions::default()).await.unwrap();
    let swapped = slot.swap(staged).await.unwrap();
    other.stop().await;
    let failing = async {
        while slot.life().live() == Some(swapped.number) {
            let _failed = send(&slot, 1).await;
        }
    };
    tokio::time::timeout(super::support::PATIENCE, failing).await.expect("it gives way");
    // The decision is noted a moment before calls go the other way.
    until_acked(&slot).await;
    assert_eq!(slot.life().record(swapped.number).unwrap().why.as_ref().unwrap().code, "PLUGIN.PROBATION_FAILED");
    assert_eq!(slot.life().bad_digests().count(), 0, "the component was the same");
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_peer_is_away_for_both_nothing_is_rolled_back() {
    let (place, peer) = (Place::new(Trust::default()), Peer::start().await);
    let slot = talking(&place, &peer, SlotPolicy::default()).await;
    place.put(&lines("2.0.0"));
    place.fleet.reload("orders", Reload::default()).await.unwrap();
    peer.stop().await;
    let gone = async { while send(&slot, 0).await.is_ok_and(|outcomes| is_acked(&outcomes)) {} };
    tokio::time::timeout(super::support::PATIENCE, gone).await.expect("the peer goes");
    for number in 0..20 {
        assert!(!send(&slot, number).await.is_ok_and(|outcomes| is_acked(&outcomes)));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!((version(&slot), slot.life().bad_digests().count()), ("2.0.0".to_owned(), 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_never_end_are_cut_after_the_drain_timeout() {
    let (place, peer) = (Place::new(Trust::default()), Peer::start().await);
    let policy = SlotPolicy { drain_timeout: Duration::from_millis(300), ..SlotPolicy::default() };
    let slot = talking(&place, &peer, policy).await;
    peer.shut(true);
    let under_way = tokio::spawn({
        let slot = slot.clone();
        async move { send(&slot, 1).await }
    });
    peer.until_lines(1).await;
    place.put(&lines("2.0.0"));
    place.fleet.reload("orders", Reload::default()).await.unwrap();
    let error = under_way.await.unwrap().unwrap_err();
    assert!(error.fault.maybe_delivered, "{error:?}");
    until(&slot, "the old one is gone", |_| (phase_of(&slot, 1) == Some(Phase::Gone)).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_finds_no_room_says_which_generations_hold_it() {
    let place = Place::new(Trust::default());
    place.put(&good("1.0.0"));
    let slot = place.start(place.spec(SlotPolicy::default())).await;
    let stage = async || {
        let options = StageOptions { room_within: Duration::from_millis(50), ..StageOptions::default() };
        slot.stage(slot.plugin(), place.spec(SlotPolicy::default()).endpoint, options).await
    };
    // Somebody has each of them still in use, so none of them ends.
    let mut in_use = Vec::new();
    for _ in 0..4 {
        in_use.push(slot.serving().unwrap());
        let staged = stage().await.unwrap();
        slot.swap(staged).await.unwrap();
    }
    let error = stage().await.unwrap_err();
    assert_eq!((error.code().as_str(), error.retryable()), ("PLUGIN.DRAINING", true), "{error}");
    assert!(error.to_string().contains("generations 1, 2, 3, 4 "), "{error}");
    assert_eq!(slot.life().live(), Some(5), "what serves goes on");
    in_use.remove(0);
    until(&slot, "the first is gone", |_| (phase_of(&slot, 1) == Some(Phase::Gone)).then_some(())).await;
    assert!(stage().await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_get_the_drain_time_that_was_set_last_without_another_generation() {
    let (place, peer) = (Place::new(Trust::default()), Peer::start().await);
    let policy = SlotPolicy { drain_timeout: Duration::from_millis(300), ..SlotPolicy::default() };
    let slot = talking(&place, &peer, policy).await;
    slot.set_drain_timeout(Duration::from_secs(60));
    assert_eq!((slot.identity().generation, slot.life().records().count()), (1, 1), "nothing was opened anew");
    peer.shut(true);
    let under_way = tokio::spawn({
        let slot = slot.clone();
        async move { send(&slot, 1).await }
    });
    peer.until_lines(1).await;
    place.put(&lines("2.0.0"));
    place.fleet.reload("orders", Reload::default()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(phase_of(&slot, 1), Some(Phase::Draining));
    peer.shut(false);
    assert!(is_acked(&under_way.await.unwrap().unwrap()), "it wasn't cut after the time before");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waited_for_a_generation_that_is_rolled_back_is_given_back_untried() {
    const CALLS: u64 = 40;
    let place = Place::new(Trust::default());
    place.put(&good("1.0.0"));
    let slot = place.start(place.spec(SlotPolicy::default())).await;
    place.put(&component(guests::SEND_PANICS, "2.0.0"));
    let Reloaded::Live(swapped) = place.fleet.reload("orders", Reload::default()).await.unwrap() else {
        panic!("unchanged")
    };
    // All of them hold the generation that fails, and wait for its one instance.
    let serving: Vec<_> = (0..CALLS).map(|_| slot.serving().unwrap()).collect();
    let calls = serving.into_iter().zip(1..).map(|(serving, number)| send_by(serving, number));
    let answers = futures::future::join_all(calls).await;
    until(&slot, "it is rolled back", |records| {
        let failed = records.iter().find(|record| record.number == swapped.number)?;
        (failed.why.as_ref()?.code == "PLUGIN.PROBATION_FAILED").then_some(())
    })
    .await;
    // An instance takes one call at a time, and five are opened anew at once: no more calls are lost. What waited is given back untried; what
    // came while the breaker was open, before the rollback, was refused untried.
    let is_given_back = |outcomes: &Vec<Outcome>| matches!(outcomes.as_slice(), [Outcome::Release(fault)] if fault.code == "PLUGIN.SWAPPING");
    let is_refused = |error: &CallError| error.fault.code == "PLUGIN.BREAKER_OPEN" && !error.fault.maybe_delivered;
    let is_untried = |answer: &&Result<Vec<Outcome>, CallError>| match answer {
        Ok(outcomes) => is_given_back(outcomes),
        Err(error) => is_refused(error),
    };
    let tried: Vec<_> = answers.iter().filter(|answer| !is_untried(answer)).collect();
    assert!(
        tried.iter().all(|answer| answer.as_ref().is_err_and(|error| error.kind == ErrorKind::Trapped)),
        "{tried:?}"
    );
    assert!(tried.len() <= 6, "{} of {CALLS} were tried: {tried:?}", tried.len());
    // The decision is noted a moment before calls go the other way.
    until_acked(&slot).await;
}
