//! Readers that stop reading, and who doesn't notice.

use super::support::*;

/// Each is 80 kB as it is sent: together more than sockets hold on the way.
const PAYLOAD: usize = 60_000;
pub(super) const APPENDS: u64 = 400;
/// On a busy machine they take their time, and nobody is to be cut off for that.
pub(super) const PATIENT: &str = "[server]\nwrite_timeout = \"10m\"\n";

/// Appends an event of that size, which gets this number.
pub(super) async fn append(door: &Door, stream: &str, number: u64) {
    let mut event = event(&format!("{stream}-{number}"), "r");
    event["payload_bytes"] = payload(PAYLOAD);
    assert_eq!(door.append(stream, &[event]).await, [number]);
}

/// Appends to a stream that a brisk reader follows step by step and another one has stopped reading. The stopped one, from its last event on.
async fn stop_reading(door: &Door, stream: &str) -> (Reader, Order) {
    let selector = format!("stream:{stream}");
    append(door, stream, 1).await;
    let (mut stopped, mut brisk) = (door.subscribe(&selector, None).await, door.subscribe(&selector, None).await);
    let (mut had, mut order) = (Order::default(), Order::default());
    // Both are live before one of them stops.
    for number in 1..=5 {
        if number > 1 {
            append(door, stream, number).await;
        }
        had.take(&stopped.event().await);
        order.take(&brisk.event().await);
    }
    for number in 6..=APPENDS {
        append(door, stream, number).await;
        order.take(&brisk.event().await);
    }
    (stopped, had)
}

/// Reads to the end; what it says.
async fn until_ended(reader: &mut Reader, order: &mut Order, last: u64, stream: &str) -> Option<[String; 2]> {
    while order.of(stream) < last {
        match reader.next().await {
            Heard::Event(event) => order.take(&event),
            Heard::Ended { code, detail } => {
                assert!(matches!(reader.next().await, Heard::Closed), "nothing after it");
                return Some([code, detail]);
            }
            Heard::Closed => panic!("it closed without a reason at {}", order.of(stream)),
        }
    }
    None
}

/// Acceptance 3 of document 3.
#[tokio::test(flavor = "multi_thread")]
async fn who_stops_reading_is_told_that_it_lagged_and_resumes_and_others_miss_nothing() {
    let settings = |entries: u32| {
        format!(
            "{PATIENT}[events]\nlive_buffer_size = {entries}\nlive_buffer_bytes = \"64MiB\"\nlive_bytes_total = \"128MiB\"\n\
             stall_timeout = \"10m\"\n"
        )
    };
    let site = Site::start(&settings(1_024)).await;
    let door = &site.door;
    // Whoever the host holds enough for isn't told anything, however long it stopped.
    let (mut stopped, mut order) = stop_reading(door, "held").await;
    assert!(until_ended(&mut stopped, &mut order, APPENDS, "held").await.is_none());
    assert_eq!(order.of("held"), APPENDS);

    site.reconfigure(&settings(16)).await;
    let (mut stopped, mut order) = stop_reading(door, "passed").await;
    let ended = until_ended(&mut stopped, &mut order, APPENDS, "passed").await.expect("an end");
    assert_eq!(ended, ["EVENT.LAGGED", "watch lagged; resync required"]);
    assert_eq!(door.metric("tx_stream_lagged_total").await, 1.0, "nobody else lagged");
    let mut resumed = door.subscribe("stream:passed", stopped.cursor.as_deref()).await;
    assert!(until_ended(&mut resumed, &mut order, APPENDS, "passed").await.is_none());
    assert_eq!(order.of("passed"), APPENDS);
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_never_reads_costs_no_more_than_its_bounds_and_holds_up_nobody() {
    const READERS: usize = 12;
    let bounds = "[events]\nlive_bytes_total = \"8MiB\"\nlive_buffer_bytes = \"2MiB\"\nreplay_bytes_total = \"4MiB\"\n\
                  stall_timeout = \"10m\"\n";
    let site = Site::start(&format!("{PATIENT}{bounds}")).await;
    let door = &site.door;
    let mut never = Vec::new();
    for reader in 0..READERS {
        let selector = ["stream:never", "prefix:nev", "type:TASK", "prefix:"][reader % 4];
        never.push(door.subscribe(selector, None).await);
    }
    until("all are there", async || door.metric("tx_stream_readers").await == READERS as f64).await;
    let mut brisk = door.subscribe("stream:never", None).await;
    let mut order = Order::default();
    for number in 1..=200 {
        append(door, "never", number).await;
        order.take(&brisk.event().await);
        if number % 20 == 0 {
            let (rings, pages) =
                (door.metric("tx_stream_ring_bytes").await, door.metric("tx_stream_replay_bytes").await);
            assert!(rings <= f64::from(8 << 20) && pages <= f64::from(4 << 20), "{rings} {pages}");
        }
    }
    drop(never);
    until("their places are free", async || door.metric("tx_stream_readers").await == 1.0).await;
    site.end().await;
}
