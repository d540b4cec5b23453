//! Each state is what it is called: by the words of the services that tests ask.

use std::time::Duration;

use waybill_api::plugins::{PluginReload, PluginService};
use waybill_core::code::Code;
use waybill_core::outbox::owner::WaitKind;
use waybill_core::port::service::MessageState;
use waybill_core::port::transport::{Fault, Outcome};
use waybill_core::time::UnixMillis;

use super::{HOST, InMemoryHost, eventually, message};

const NOW: UnixMillis = UnixMillis(1_795_251_600_000);

#[tokio::test]
async fn messages_are_brought_into_their_states_at_the_instants_that_the_test_says() {
    let host = InMemoryHost::start(NOW).await;
    let dead = host.dead(message("d")).await;
    assert_eq!((dead.state, dead.created_at.0, dead.ended_at.map(|at| at.0)), (MessageState::Dead, NOW, Some(NOW)));
    assert_eq!(
        (dead.history[0].worker.as_str(), dead.last_error.as_deref()),
        (HOST, Some("HTTP.400: the receiver said no"))
    );
    assert_eq!(host.delivered(message("s")).await.state, MessageState::Done);
    let parked = host.parked(message("p")).await;
    let due = parked.waiting.map(|waiting| (waiting.on, waiting.until.map(|at| at.0)));
    assert_eq!(due, Some((WaitKind::Retry, Some(NOW.plus(Duration::from_millis(500))))));
    let fault = || Fault::new("HTTP.503", "busy");
    let outcomes = [Outcome::Retryable(fault()), Outcome::Retryable(fault()), Outcome::Permanent(fault())];
    let dead = host.sent(message("late"), outcomes).await;
    assert_eq!((dead.attempts, dead.ended_at.map(|at| at.0)), (3, Some(NOW.plus(Duration::from_millis(1_500)))));
    assert_eq!(dead.ended_at.map(|at| at.0), Some(host.now()));
    let held = host.held(message("h"), "http://shop.example").await;
    assert_eq!(held.waiting.map(|waiting| waiting.on), Some(WaitKind::Destination));
    let scheduled = host.scheduled(message("l"), Duration::from_secs(3_600)).await;
    assert_eq!(scheduled.waiting.map(|waiting| waiting.on), Some(WaitKind::Schedule));
    let id = host.offered(message("w"), "out.memory").await;
    let claimed = host.claimed("worker", "default").await;
    assert_eq!((claimed[0].message.id.as_str(), claimed[0].target.as_str()), (id.as_str(), "out.memory"));
}

#[tokio::test]
async fn a_host_that_crashed_goes_on_with_what_it_left() {
    let host = InMemoryHost::start(NOW).await;
    host.dead(message("d")).await;
    host.waiting_saga("default", "order-1").await;
    host.finished_key("default", "k", "{\"n\":1}").await;
    let host = host.restarted().await;
    assert_eq!(host.view("default", "d").await.state, MessageState::Dead);
    host.until_waiting("default", "order-1", "approval").await;
    assert_eq!(host.keys.entries(None, "", None, 10).await.map(|page| page.items.len()), Ok(1));
    assert_eq!(host.delivered(message("after")).await.state, MessageState::Done);
}

#[tokio::test]
async fn sagas_are_brought_into_their_states() {
    let host = InMemoryHost::start(NOW).await;
    host.completed_saga("acme", "done").await;
    host.paused_saga("default", "paused").await;
    host.cancelled_saga("default", "cancelled").await;
    host.stuck_saga("default", "stuck").await;
    let counted = || (host.sagas.saga_stats().stuck, host.sagas.saga_stats().paused);
    eventually("one saga is stuck and one paused", async || counted() == (1, 1)).await;
    let dead = host.outbox.dead_letters(None, "kind=saga", None, 10).await.unwrap();
    assert_eq!(dead.items.len(), 1);
}

#[tokio::test]
async fn rows_in_quarantine_are_put_back_as_far_as_they_can_be_read() {
    let host = InMemoryHost::start(NOW).await;
    let (bad, good) = (host.unreadable_row().await, host.readable_row([message("a"), message("b")]).await);
    host.waiting_saga("acme", "order-1").await;
    let saga = host.set_aside_saga("acme", "order-1").await;
    assert!(host.outbox.restore_row(&bad, "", "ann").await.is_err());
    let restored = host.outbox.restore_row(&good, "", "ann").await.unwrap();
    assert_eq!(restored.messages, Some(2));
    host.until_state("default", "b", MessageState::Done).await;
    host.outbox.restore_row(&saga, "", "ann").await.unwrap();
    let left = host.outbox.quarantined(None, None, 10).await.unwrap();
    assert_eq!(left.items.into_iter().map(|row| row.id).collect::<Vec<_>>(), [bad]);
}

#[tokio::test]
async fn a_plugin_that_was_rolled_back_is_not_taken_again_unless_it_is_forced() {
    let host = InMemoryHost::start(NOW).await;
    let plain = PluginReload::default();
    assert!(!host.plugins.reload("http", plain.clone(), "ann").await.unwrap().changed);
    host.plugins.build("http", &"cd".repeat(32));
    let second = host.plugins.reload("http", plain.clone(), "ann").await.unwrap();
    assert_eq!((second.changed, second.plugin.live.generation), (true, 2));
    host.plugins.roll_back("http", "it loses headers", "ann").await.unwrap();
    let refused = host.plugins.reload("http", plain, "ann").await.unwrap_err();
    assert_eq!(refused.code(), Code::PLUGIN_REMEMBERED_BAD);
    let forced = PluginReload { force: true, ..PluginReload::default() };
    assert_eq!(host.plugins.reload("http", forced, "ann").await.unwrap().plugin.live.generation, 4);
    let shown = host.outbox.transports().await;
    assert_eq!(
        shown.iter().map(|one| one.plugin.generation).collect::<Vec<_>>(),
        [4, 1, 1],
        "the last is that of external workers"
    );
}
