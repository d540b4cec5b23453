//! Relays of the real binary: a backlog while host and broker are killed, and a key that its receiver never takes.

use std::collections::{BTreeMap, BTreeSet};
use waybill_core::seq_json::SeqJson;

use serde_json::{Value, json};
use waybill_testkit::nats;
use waybill_testkit::receiver::{Answer, Arrival, Delivered, Receiver};

use super::support::*;

const STREAMS: usize = 4;
const KEYS: usize = 20;
/// So many appends of so many events to each stream.
const APPENDS: usize = 15;
const AT_ONCE: usize = 200;
const TOTAL: usize = STREAMS * APPENDS * AT_ONCE;

fn stream(number: usize) -> String {
    format!("task.backlog{number}")
}

/// Up to where a relay has settled each stream that it is behind in, as the store has it.
async fn settled(door: &Door) -> BTreeMap<String, u64> {
    let relay: Value = door.api().read("/v1/relays/out", &[]).await.unwrap();
    let behind = relay["behind"].as_array().unwrap().iter();
    behind
        .map(|place| (place["stream"].as_str().unwrap().to_owned(), SeqJson::in_value(&place["upto"]).unwrap()))
        .collect()
}

async fn until_settled(door: &Door) {
    until("the relay has caught up", async || {
        let relay: Value = door.api().read("/v1/relays/out", &[]).await.unwrap();
        relay["behind"] == json!([]) && relay["streams_behind"] == 0 && relay["in_flight"] == 0
    })
    .await;
}

async fn act(door: &Door, act: &str) {
    let reply = door.api().post(&format!("/v1/relays/out/{act}"), &json!({ "reason": "test" })).await.unwrap();
    assert!(reply.is_ok(), "{reply:?}");
}

async fn arrived(server: &nats::Server) -> u64 {
    let info = server.client().await.unwrap().api("STREAM.INFO.EVENTS", &json!({})).await.unwrap();
    info["state"]["messages"].as_u64().unwrap()
}

/// What is known when a host was killed: how much had arrived, and how far the relay said that it was before.
struct Kill {
    arrived: u64,
    settled: BTreeMap<String, u64>,
}

async fn kill(site: &mut Site, server: &nats::Server) -> Kill {
    let settled = settled(&site.door).await;
    let arrived = site.kill_and_revive_after(async || arrived(server).await).await;
    Kill { arrived, settled }
}

/// Acceptance 7 of document 3.
#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_reaches_the_broker_whole_and_in_order_by_key_though_host_and_broker_are_killed() {
    let mut server = nats::Server::start().await.unwrap();
    // Repeats are to be seen: JetStream itself drops those of the last tenth of a second.
    let window = json!({ "duplicate_window": 100_000_000 });
    server.client().await.unwrap().create_stream("EVENTS", &["events.>"], &window).await.unwrap();
    let (url, peer) = (server.url(), server.url().replace("nats://", "tcp://"));
    let mut site = Site::start(&format!(
        "[transport.events]\nplugin = \"nats\"\nconfig = {{ servers = [\"{url}\"], stream = \"EVENTS\" }}\n\
         allow = {{ net = [\"{peer}\"] }}\n[relay]\nmax_inflight = 64\n\
         [relay.out]\nmatch = \"task.**\"\ntransport = \"events\"\n"
    ))
    .await;
    act(&site.door, "pause").await;
    for append in 0..APPENDS {
        for number in 0..STREAMS {
            let ids = (0..AT_ONCE).map(|place| append * AT_ONCE + place);
            let events: Vec<_> =
                ids.map(|at| event(&format!("s{number}-{at}"), &format!("key-{}", at % KEYS))).collect();
            site.door.append(&stream(number), &events).await;
        }
    }
    site.door.append("other.stream", &events("other", 3, "key-0")).await;
    act(&site.door, "resume").await;

    let mut kills = Vec::new();
    for part in 1..=3 {
        until("a part has arrived", async || arrived(&server).await >= (TOTAL * part / 4) as u64).await;
        if part == 2 {
            server.kill().await.unwrap();
            server.restart().await.unwrap();
        } else {
            kills.push(kill(&mut site, &server).await);
        }
    }
    until_settled(&site.door).await;

    let all = server.client().await.unwrap().read_all("EVENTS").await.unwrap();
    let mut places: BTreeMap<(String, u64), Vec<u64>> = BTreeMap::new();
    let mut last_of_key: BTreeMap<(String, String), u64> = BTreeMap::new();
    for stored in &all {
        let header = |name: &str| stored.header(name).unwrap_or_else(|| panic!("{name} in {stored:?}")).to_owned();
        let (stream, seq, key) = (header("stream"), header("seq").parse::<u64>().unwrap(), header("resource_id"));
        assert_eq!(stored.subject, format!("events.{stream}"));
        let arrivals = places.entry((stream.clone(), seq)).or_default();
        if arrivals.is_empty() {
            let before = last_of_key.insert((stream.clone(), key.clone()), seq).unwrap_or_default();
            assert!(before < seq, "{stream}, {key}: {seq} came first behind {before}");
        }
        arrivals.push(stored.sequence);
    }
    let wanted: BTreeSet<_> = (0..STREAMS)
        .flat_map(|number| (1..=(APPENDS * AT_ONCE) as u64).map(move |seq| (stream(number), seq)))
        .collect();
    assert_eq!(places.keys().cloned().collect::<BTreeSet<_>>(), wanted, "nothing is missing, and nothing else came");
    for kill in &kills {
        for ((stream, seq), arrivals) in &places {
            let Some(upto) = kill.settled.get(stream).filter(|upto| seq <= *upto) else { continue };
            assert!(arrivals[0] <= kill.arrived, "{stream} {seq}: the checkpoint {upto} was ahead of the broker");
            assert!(arrivals.iter().all(|at| *at <= kill.arrived), "{stream} {seq}: sent again below {upto}");
        }
    }
    site.end().await;
}

/// First arrivals of a key, by their numbers.
fn first_arrivals(arrivals: &[Arrival], key: &str) -> Vec<u64> {
    let mut seen = Vec::new();
    for arrival in arrivals.iter().filter(|arrival| arrival.delivered.key.as_deref() == Some(key)) {
        if !seen.contains(&arrival.delivered.seq) {
            seen.push(arrival.delivered.seq);
        }
    }
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_refused_for_good_holds_up_no_other_also_when_the_host_is_killed() {
    const EVENTS: usize = 600;
    const OTHERS: usize = 7;
    let key =
        |number: usize| if number.is_multiple_of(4) { "poison".to_owned() } else { format!("key-{}", number % OTHERS) };
    let takes = |delivered: &Delivered| match delivered.key.as_deref() {
        Some("poison") => Answer::status(422),
        _ => Answer::status(204),
    };
    let receiver = Receiver::start(takes).await.unwrap();
    let mut site = Site::start(&format!(
        "[transport.hooks]\nplugin = \"http\"\nallow = {{ net = [\"http://127.0.0.1:*\"] }}\n\
         [relay.out]\nmatch = \"poison.**\"\ntransport = \"hooks\"\ntopic = \"{}\"\nmax_inflight = 8\n",
        receiver.url("events")
    ))
    .await;
    for append in 0..EVENTS / 50 {
        let numbers = append * 50..(append + 1) * 50;
        let events: Vec<_> = numbers.map(|number| event(&format!("e-{number}"), &key(number))).collect();
        site.door.append("poison.stream", &events).await;
    }
    until("a third has arrived", async || receiver.gauges().arrived >= EVENTS / 3).await;
    site.kill_and_revive().await;
    until_settled(&site.door).await;
    let arrivals = receiver.arrivals();
    assert_eq!(receiver.faults(), Vec::<String>::new());
    let mut of_key: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for number in 0..EVENTS {
        of_key.entry(key(number)).or_default().push(number as u64 + 1);
    }
    for (key, numbers) in &of_key {
        assert_eq!(first_arrivals(&arrivals, key), *numbers, "{key}");
    }
    // Refused ones are dead letters, which are as settled as the others: a host that begins sends none of them again.
    site.restart().await;
    site.door.append("poison.stream", &[event("last", "key-0")]).await;
    until_settled(&site.door).await;
    assert_eq!(receiver.gauges().arrived, arrivals.len() + 1);
    site.end().await;
}
