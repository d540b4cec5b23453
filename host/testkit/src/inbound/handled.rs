//! Many senders publish the same messages into JetStream; a host hands each to a handler over HTTP, while host, handler and server are killed
//! in turn. Each message is to be processed once, whatever happened: what the handler left behind is read from another stream by a client
//! that knows nothing of the host.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::{
    AWAY, Answer, Called, HandlerServer, POLL, STALLED_AFTER, disorder, end, prepare, restart, until_nothing_is_left,
};
use crate::api::Api;
use crate::nats;
use crate::process::Host;

/// Senders, each of which sends every message.
const SENDERS: usize = 64;
/// Messages, and keys that they have.
const MESSAGES: u64 = 60;
const KEYS: u64 = 6;
/// Deliveries that a host may have unsettled.
const WINDOW: u64 = 50;
/// Those of hosts that were killed, or cut off, stay out beside its own until `ack_wait` is over. The server would give out more.
const UNSETTLED_MAX: u64 = 3 * WINDOW;
/// Header that has the id: `Nats-Msg-Id` would let the server remove repeats by itself.
const ID: &str = "order-id";
/// Header that has the key.
const KEY: &str = "order-key";
/// Between two messages of a sender, so that kills meet all of the work.
const PACE: Duration = Duration::from_millis(200);
/// A call takes so long.
const CALL: Duration = Duration::from_millis(120);
/// Between two looks for a call that a kill may meet: short beside the call.
const CALL_LOOK: Duration = Duration::from_millis(5);
/// A sender waits so long before it tries again at a server that is away.
const AWAY_PAUSE: Duration = Duration::from_millis(200);

/// What a run found.
#[derive(Debug)]
pub struct Handled {
    pub sent: u64,
    pub calls: usize,
    pub kills: usize,
    /// Of those, such as met a message at the handler: its delivery wasn't settled, and its end not committed.
    pub met: usize,
    /// Most deliveries that were seen unsettled at the server.
    pub most_unsettled: u64,
    /// Promises that were broken, a sentence each.
    pub breaches: Vec<String>,
}

impl fmt::Display for Handled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sent, calls, kills, met, most_unsettled, .. } = self;
        writeln!(
            f,
            "{sent} sent of {MESSAGES} messages, {calls} calls, {kills} kills of which {met} met a call, {most_unsettled} unsettled at most"
        )?;
        self.breaches.iter().take(20).try_for_each(|breach| writeln!(f, "  {breach}"))
    }
}

fn id_of(number: u64) -> String {
    format!("order-{number}")
}

/// Every eighth message's first call fails, so that some are stored when somebody is killed; all are slow enough to be met by kills.
fn script(called: &Called) -> Answer {
    let number = called.body.pointer("/payload/n").and_then(Value::as_u64).unwrap_or_default();
    if number.is_multiple_of(8) && called.attempt == 1 {
        return Answer::status(500);
    }
    let left = json!({ "messages": [{ "topic": "bus:done.orders", "payload": { "id": called.id } }] });
    Answer::status(200).delayed(CALL).leaving(left)
}

fn config(server: &nats::Server, handler: &HandlerServer) -> String {
    let (url, peer) = (server.url(), server.url().replace("nats://", "tcp://"));
    format!(
        "[source.orders]\nplugin = \"nats\"\nwindow = {WINDOW}\norphan_wait = \"60s\"\nprovision = true\nallow = {{ net = [\"{peer}\"] }}\n\
         config = {{ servers = [\"{url}\"], stream = \"ORDERS\", durable = \"ship\", ack_wait = \"3s\", max_ack_pending = {} }}\n\
         map = {{ id = \"{ID}\", key = \"{KEY}\" }}\n\
         [consumer.ship]\nsource = \"orders\"\nhandler = \"{}\"\nhandler_timeout = \"10s\"\nmax_attempts = 1000\n\
         backoff = {{ base_ms = 200, factor = 1.0, cap_ms = 200 }}\n\
         [transport.done]\nplugin = \"nats\"\nconfig = {{ servers = [\"{url}\"], stream = \"DONE\" }}\n\
         allow = {{ net = [\"{peer}\"] }}\n\
         [[route]]\nmatch = \"bus:done.**\"\ntransport = \"done\"\n",
        UNSETTLED_MAX * 2,
        handler.url()
    )
}

/// Sends every message once, in the order of their numbers, so that each key's are in order.
async fn send_all(port: u16, sent: Arc<AtomicU64>) -> io::Result<()> {
    let mut client = None;
    for number in 1..=MESSAGES {
        let (id, key) = (id_of(number), format!("key-{}", number % KEYS));
        let payload = json!({ "n": number }).to_string();
        loop {
            // A message whose place nobody told is sent again: that is what ids are for.
            let connected = match client.take() {
                Some(client) => Ok(client),
                None => nats::Client::connect(port, &nats::Login::default()).await,
            };
            let Ok(mut connected) = connected else {
                sleep(AWAY_PAUSE).await;
                continue;
            };
            let headers = [(ID, id.as_str()), (KEY, key.as_str()), ("content-type", "application/json")];
            if connected.publish_with("orders.in", &headers, payload.as_bytes()).await.is_ok() {
                client = Some(connected);
                break;
            }
        }
        sent.fetch_add(1, Ordering::Relaxed);
        sleep(PACE).await;
    }
    Ok(())
}

/// What of the stream isn't acknowledged yet: waiting, unsettled.
async fn unread(server: &nats::Server) -> io::Result<(u64, u64)> {
    let info = server.client().await?.api("CONSUMER.INFO.ORDERS.ship", &json!({})).await?;
    let count = |name: &str| info.get(name).and_then(Value::as_u64).ok_or_else(|| io::Error::other(info.to_string()));
    Ok((count("num_pending")?, count("num_ack_pending")?))
}

/// Runs it with its files in `dir`.
///
/// # Errors
/// Something isn't there, or stands still.
pub async fn handled(binary: &Path, dir: &Path) -> io::Result<Handled> {
    let mut server = nats::Server::start().await?;
    let mut client = server.client().await?;
    client.create_stream("ORDERS", &["orders.>"], &json!({})).await?;
    client.create_stream("DONE", &["done.>"], &json!({})).await?;
    let mut handler = HandlerServer::start(script).await?;
    let launch = prepare(binary, dir, &config(&server, &handler))?;
    let (mut host, _) = Host::ready(&launch).await.map_err(io::Error::other)?;

    let sent = Arc::new(AtomicU64::new(0));
    let mut senders = JoinSet::new();
    for _ in 0..SENDERS {
        senders.spawn(send_all(server.port(), Arc::clone(&sent)));
    }
    let most = Mutex::new(0);
    let note = async |server: &nats::Server| {
        if let Ok((_, unsettled)) = unread(server).await {
            let mut most = most.lock();
            *most = unsettled.max(*most);
        }
    };
    let (total, mut kills, mut met) = (SENDERS as u64 * MESSAGES, 0, 0);
    // In turn, each a share of the load apart.
    for share in 1..=6 {
        while sent.load(Ordering::Relaxed) < total * share / 8 {
            note(&server).await;
            sleep(POLL).await;
        }
        // A kill that meets nothing shows nothing.
        let until = Instant::now() + STALLED_AFTER;
        let mut meets = handler.under_way() > 0;
        while !meets && Instant::now() < until {
            sleep(CALL_LOOK).await;
            meets = handler.under_way() > 0;
        }
        kills += 1;
        met += usize::from(meets);
        match share % 3 {
            0 => {
                server.kill().await?;
                sleep(AWAY).await;
                server.restart().await?;
            }
            1 => host = restart(host, &launch).await?,
            _ => {
                handler.kill();
                sleep(AWAY).await;
                handler.restart().await?;
            }
        }
    }
    while let Some(ended) = senders.join_next().await {
        ended.map_err(io::Error::other)??;
    }
    until_nothing_is_left("messages are unread or unsettled", async || {
        let (waiting, unsettled) = unread(&server).await?;
        note(&server).await;
        Ok(waiting + unsettled)
    })
    .await?;
    let api = host.wait_ready().await.map_err(io::Error::other)?;
    // What waits for a retry, or for its key, is stored and was acknowledged.
    until_nothing_is_left("messages are stored", async || {
        let stored = api.list::<Value>("/v1/inbox", &[]).await.map_err(io::Error::other)?;
        Ok(stored.len() as u64)
    })
    .await?;
    until_nothing_is_left("messages are on their way out", async || {
        let depths = api.depths().await.map_err(io::Error::other)?;
        Ok(depths.iter().map(|depth| depth.on_the_way()).sum())
    })
    .await?;
    let mut breaches = ends(&api).await?;
    end(host).await?;
    breaches.extend(left_behind(&server.client().await?.read_all("DONE").await?));
    let calls = handler.calls();
    breaches.extend(called(&calls));
    let most_unsettled = most.into_inner();
    if most_unsettled > UNSETTLED_MAX {
        breaches
            .push(format!("{most_unsettled} were unsettled at once, {UNSETTLED_MAX} can be with a window of {WINDOW}"));
    }
    let sent = sent.load(Ordering::Relaxed);
    Ok(Handled { sent, calls: calls.len(), kills, met, most_unsettled, breaches })
}

/// What the host says of each message: processed, once.
async fn ends(api: &Api) -> io::Result<Vec<String>> {
    let mut breaches = Vec::new();
    for number in 1..=MESSAGES {
        let status: Value =
            api.read(&format!("/v1/inbox/ship/{}", id_of(number)), &[]).await.map_err(io::Error::other)?;
        let ends: Vec<&str> = status
            .get("ended")
            .and_then(Value::as_array)
            .map(|ended| ended.iter().filter_map(|end| end.get("end")?.as_str()).collect())
            .unwrap_or_default();
        if ends != ["processed"] || status.get("seen") != Some(&Value::Bool(true)) {
            breaches.push(format!("the host says of {}: {status}", id_of(number)));
        }
    }
    let dead = api.list::<Value>("/v1/dead-letters", &[]).await.map_err(io::Error::other)?;
    breaches.extend(dead.iter().map(|dead| format!("a dead letter: {dead}")));
    Ok(breaches)
}

/// What the handler left behind, as somebody else reads it: one message for each that was processed.
fn left_behind(stored: &[nats::Stored]) -> Vec<String> {
    let mut count: BTreeMap<String, usize> = (1..=MESSAGES).map(|number| (id_of(number), 0)).collect();
    let mut breaches = Vec::new();
    for message in stored {
        let left: Value = serde_json::from_slice(&message.payload).unwrap_or_default();
        match left.get("id").and_then(Value::as_str).and_then(|id| count.get_mut(id)) {
            Some(count) => *count += 1,
            None => breaches.push(format!("message {} of the stream holds {left}", message.sequence)),
        }
    }
    let wrong = count.into_iter().filter(|(_, count)| *count != 1);
    breaches.extend(wrong.map(|(id, count)| format!("{id} was processed {count} times")));
    breaches
}

/// What the handler saw: every message, each key's in order, and a word of it with every call after the first.
fn called(calls: &[Called]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut breaches = Vec::new();
    let mut places = Vec::new();
    for call in calls {
        if call.key != format!("ship/{}", call.id) {
            breaches.push(format!("{} came with Idempotency-Key {:?}", call.id, call.key));
        }
        if !seen.insert(call.id.as_str()) && !call.maybe_handled {
            breaches.push(format!("{} was called again without a word of it", call.id));
        }
        if let Some(number) = call.id.strip_prefix("order-").and_then(|text| text.parse::<u64>().ok()) {
            places.push((format!("key-{}", number % KEYS), number.div_ceil(KEYS)));
        }
    }
    breaches.extend(
        (1..=MESSAGES).map(id_of).filter(|id| !seen.contains(id.as_str())).map(|id| format!("{id} was never called")),
    );
    breaches.extend(disorder(places.iter().map(|(key, number)| (key.as_str(), *number))));
    breaches
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing)]
    use super::*;

    fn call(number: u64, maybe_handled: bool) -> Called {
        let id = id_of(number);
        Called { key: format!("ship/{id}"), id, attempt: 1, maybe_handled, body: Value::Null }
    }

    fn stored(number: u64) -> nats::Stored {
        let payload = json!({ "id": id_of(number) }).to_string().into_bytes();
        nats::Stored { sequence: number, subject: "done.orders".into(), headers: Vec::new(), payload }
    }

    #[test]
    fn a_second_effect_and_a_lost_one_are_seen() {
        let mut all: Vec<nats::Stored> = (1..=MESSAGES).map(stored).collect();
        assert!(left_behind(&all).is_empty());
        all.push(stored(3));
        all.remove(0);
        assert_eq!(left_behind(&all), ["order-1 was processed 0 times", "order-3 was processed 2 times"]);
    }

    #[test]
    fn a_second_call_has_to_say_so_and_keys_have_an_order() {
        let mut all: Vec<Called> = (1..=MESSAGES).map(|number| call(number, false)).collect();
        assert!(called(&all).is_empty(), "{:?}", called(&all));
        all.push(call(5, true));
        assert!(called(&all).is_empty());
        all.push(call(5, false));
        all.swap(0, 6);
        let breaches = called(&all);
        assert_eq!(breaches.len(), 2, "{breaches:?}");
        assert!(breaches[0].contains("without a word"));
    }
}
