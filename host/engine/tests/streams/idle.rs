//! Many streams in which nothing happens cost nothing: what a hot one and a start cost is counted with few beside them and with many.

use futures::future::join_all;
use waybill_core::port::service::streams::Start;

use crate::support::*;

const FEW: usize = 10;
const MANY: usize = 10_000;
/// Appends at once: they share commits.
const AT_ONCE: usize = 500;
const APPENDS: usize = 50;
/// Calls of the store by which two runs may differ: what looks at the time does so now and then.
const SLACK: u64 = 30;

/// Calls of the store that something makes.
#[derive(Debug)]
struct Calls {
    appends: u64,
    rest: u64,
    start: u64,
    prefix: u64,
}

async fn with_cold_ones(count: usize) -> Calls {
    let world = World::new();
    let host = world.start().await;
    let names: Vec<String> = (0..count).map(|number| format!("cold.{number:05}")).collect();
    for part in names.chunks(AT_ONCE) {
        let host = &host;
        let appends = part.iter().map(|stream| async move { host.append(stream, &[&format!("{stream}-0")]).await });
        for appended in join_all(appends).await {
            assert_eq!(numbered(appended), [1]);
        }
    }
    let stats = host.streams.stream_stats().await.unwrap();
    assert_eq!((stats.readers, stats.rings, stats.ring_bytes), (0, 0, 0), "nobody reads, so nothing is held");
    // What upkeep looks at once it has looked at.
    pass(seconds(300)).await;
    let since = |before: u64| world.memory.calls() - before;

    let before = world.memory.calls();
    for number in 0..APPENDS {
        host.append("hot", &[&format!("hot-{number}")]).await;
    }
    let appends = since(before);
    let before = world.memory.calls();
    pass(seconds(60)).await;
    let rest = since(before);

    host.crash().await;
    let before = world.memory.calls();
    let host = world.launch("host-b", |_| {});
    host.until_owned().await;
    assert_eq!(numbered(host.append("hot", &["hot-again"]).await), [APPENDS as u64 + 1]);
    let start = since(before);

    let before = world.memory.calls();
    let mut reader = host.subscribe(prefix("cold.0000"), Start::Earliest).await;
    assert_eq!(reader.take(10).await.len(), 10);
    Calls { appends, rest, start, prefix: since(before) }
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_cold_streams_make_no_more_reads_than_ten_for_a_hot_one_a_start_and_a_prefix() {
    let (few, many) = (with_cold_ones(FEW).await, with_cold_ones(MANY).await);
    for (what, few, many) in [
        ("an append", few.appends, many.appends),
        ("an idle minute", few.rest, many.rest),
        ("a start", few.start, many.start),
        ("a prefix of ten", few.prefix, many.prefix),
    ] {
        assert!(many <= few + SLACK, "{what}: {few} calls beside {FEW} cold streams, {many} beside {MANY}");
    }
    assert!(many.prefix <= 10 + SLACK, "{many:?}");
}
