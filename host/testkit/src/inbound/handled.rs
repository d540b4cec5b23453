//! Senders bring the same messages to a broker; a host hands each to a handler over HTTP, while host, handler, broker and source are disturbed
//! in turn. Each message is to be processed once, whatever happened: what the handler left behind is read from a stream by a client
//! that knows nothing of the host.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::mem::swap;
use std::path::Path;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::upstream::{Disturbance, Load, Upstream, id_of, key_of, number_of};
use super::{
    AWAY, Answer, Called, HandlerServer, STALLED_AFTER, disorder, end, prepare, reload, restart, until_nothing_is_left,
};
use crate::api::Api;
use crate::nats;
use crate::process::Host;

/// Deliveries that a host may have unsettled: the second one is that of the source's other configuration.
const WINDOWS: [u64; 2] = [50, 40];
/// Those of hosts that were killed, or cut off, stay out beside its own until the server gives them to others.
const UNSETTLED_MAX: u64 = 3 * WINDOWS[0];
/// Memory of an instance that is to die by large messages: twice what it takes with others.
const SMALL_MEMORY: &str = "memory = \"2MiB\"\n";
/// A payload that it has no room for.
const LARGE_BYTES: usize = 900_000;
/// Instances of a source that is to die by a trap.
const INSTANCES: u64 = 2;
/// Between two looks for a call that a disturbance may meet: short beside the call.
const CALL_LOOK: Duration = Duration::from_millis(2);

/// What a run found.
#[derive(Debug)]
pub struct Handled {
    pub sent: u64,
    pub calls: usize,
    pub disturbed: usize,
    /// Of those, such as met a message at the handler: its delivery wasn't settled, and its end not committed.
    pub met: usize,
    /// Most deliveries that were seen unsettled at the server, where it counts them.
    pub most_unsettled: u64,
    /// Promises that were broken, a sentence each.
    pub breaches: Vec<String>,
}

impl fmt::Display for Handled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sent, calls, disturbed, met, most_unsettled, .. } = self;
        writeln!(
            f,
            "{sent} sent, {calls} calls, disturbed {disturbed} times of which {met} met a call, {most_unsettled} unsettled at most"
        )?;
        self.breaches.iter().take(20).try_for_each(|breach| writeln!(f, "  {breach}"))
    }
}

/// Every eighth message's first call fails, so that some are stored when somebody is killed; all are slow enough to be met by kills.
fn script(called: &Called, call: Duration) -> Answer {
    if number_of(&called.id).is_some_and(|number| number.is_multiple_of(8)) && called.attempt == 1 {
        return Answer::status(500);
    }
    let left = json!({ "messages": [{ "topic": "bus:done.orders", "payload": { "id": called.id } }] });
    Answer::status(200).delayed(call).leaving(left)
}

fn config(source: &str, memory: &str, window: u64, outlet: &nats::Server, handler: &HandlerServer) -> String {
    let (url, peer) = (outlet.url(), outlet.url().replace("nats://", "tcp://"));
    format!(
        "[inbox]\nmax_payload_bytes = \"1MiB\"\n\
         [source.orders]\nwindow = {window}\n{memory}orphan_wait = \"60s\"\n{source}\
         [consumer.ship]\nsource = \"orders\"\nhandler = \"{}\"\nhandler_timeout = \"10s\"\nmax_attempts = 1000\n\
         on_reused_id = \"duplicate\"\n\
         backoff = {{ base_ms = 200, factor = 1.0, cap_ms = 200 }}\n\
         [transport.done]\nplugin = \"nats\"\nconfig = {{ servers = [\"{url}\"], stream = \"DONE\" }}\n\
         allow = {{ net = [\"{peer}\"] }}\n\
         [[route]]\nmatch = \"bus:done.**\"\ntransport = \"done\"\n",
        handler.url()
    )
}

/// Runs it with its files in `dir`.
///
/// # Errors
/// Something isn't there, or stands still.
pub async fn handled(binary: &Path, dir: &Path, upstream: &mut dyn Upstream) -> io::Result<Handled> {
    let load = upstream.load();
    // Where the handler leaves its messages. It dies with the broker.
    let mut outlet = nats::Server::start().await?;
    outlet.client().await?.create_stream("DONE", &["done.>"], &json!({})).await?;
    let mut handler = HandlerServer::start(move |called| script(called, load.call)).await?;
    let source = upstream.source();
    let [mut window, mut other] = WINDOWS;
    let mut memory = if load.disturbances.contains(&Disturbance::SourceTrapped) { SMALL_MEMORY } else { "" };
    let launch = prepare(binary, dir, &config(&source, memory, window, &outlet, &handler))?;
    let (mut host, _) = Host::ready(&launch).await.map_err(io::Error::other)?;

    let mut senders = JoinSet::new();
    for _ in 0..load.senders {
        senders.spawn(upstream.sender());
    }
    let most = Mutex::new(0);
    let note = async |upstream: &dyn Upstream| {
        if let Ok(Some(unsettled)) = upstream.given_out().await {
            let mut most = most.lock();
            *most = unsettled.max(*most);
        }
    };
    let (mut disturbed, mut met) = (0, 0);
    // In turn, each a share of the messages apart.
    for (turn, disturbance) in (1..).zip(load.disturbances) {
        let from = load.messages * turn / (load.disturbances.len() as u64 + 2);
        let reached = until_nothing_is_left("messages aren't handled", async || {
            note(&*upstream).await;
            Ok(from.saturating_sub(handler.ids().len() as u64))
        });
        if let Err(stalled) = reached.await {
            // A sender who gave up is why.
            while let Some(ended) = senders.try_join_next() {
                ended.map_err(io::Error::other)??;
            }
            return Err(stalled);
        }
        // A kill that meets nothing shows nothing.
        let until = Instant::now() + STALLED_AFTER;
        let mut meets = handler.under_way() > 0;
        while !meets && Instant::now() < until {
            sleep(CALL_LOOK).await;
            meets = handler.under_way() > 0;
        }
        disturbed += 1;
        met += usize::from(meets);
        match disturbance {
            Disturbance::BrokerKilled => {
                upstream.kill().await?;
                outlet.kill().await?;
                sleep(AWAY).await;
                outlet.restart().await?;
                upstream.restart().await?;
            }
            Disturbance::HostKilled => host = restart(host, &launch).await?,
            Disturbance::HandlerKilled => {
                handler.kill();
                sleep(AWAY).await;
                handler.restart().await?;
            }
            Disturbance::SourceReplaced => {
                swap(&mut window, &mut other);
                reload(&mut host, &launch, &config(&source, memory, window, &outlet, &handler)).await?;
            }
            Disturbance::SourceTrapped => {
                upstream.send_large(LARGE_BYTES).await?;
                until_nothing_is_left("instances of the source don't trap", async || {
                    Ok(INSTANCES.saturating_sub(trapped(&std::fs::read_to_string(&launch.log)?).len() as u64))
                })
                .await?;
                memory = "";
                reload(&mut host, &launch, &config(&source, memory, window, &outlet, &handler)).await?;
            }
        }
    }
    let mut sent = 0;
    while let Some(ended) = senders.join_next().await {
        sent += ended.map_err(io::Error::other)??;
    }
    until_nothing_is_left("messages were never handled", async || {
        note(&*upstream).await;
        Ok(load.messages.saturating_sub(handler.ids().len() as u64))
    })
    .await?;
    until_nothing_is_left("messages are unread or unsettled", async || {
        note(&*upstream).await;
        Ok(upstream.unsettled().await?.unwrap_or_default())
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
    let mut breaches = ends(&api, load).await?;
    end(host).await?;
    let kept = upstream.kept().await?;
    if kept > 0 {
        breaches.push(format!("the broker has {kept} unsettled when the host has ended"));
    }
    breaches.extend(left_behind(&outlet.client().await?.read_all("DONE").await?, load));
    let calls = handler.calls();
    breaches.extend(called(&calls, load));
    let most_unsettled = most.into_inner();
    if most_unsettled > UNSETTLED_MAX {
        breaches.push(format!(
            "{most_unsettled} were unsettled at once, {UNSETTLED_MAX} can be with a window of {}",
            WINDOWS[0]
        ));
    }
    Ok(Handled { sent, calls: calls.len(), disturbed, met, most_unsettled, breaches })
}

/// Instances of a source whose memory was used up, by the log of their host.
fn trapped(log: &str) -> BTreeSet<&str> {
    let lost = log.lines().filter(|line| line.contains("an instance was lost") && line.contains("code=PLUGIN.MEMORY"));
    lost.filter_map(|line| line.split_once(" instance=")?.1.split(' ').next()).collect()
}

/// What the host says of each message: processed, once.
async fn ends(api: &Api, load: Load) -> io::Result<Vec<String>> {
    let mut breaches = Vec::new();
    for number in 1..=load.messages {
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
fn left_behind(stored: &[nats::Stored], load: Load) -> Vec<String> {
    let mut count: BTreeMap<String, usize> = (1..=load.messages).map(|number| (id_of(number), 0)).collect();
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
fn called(calls: &[Called], load: Load) -> Vec<String> {
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
        if let Some(number) = number_of(&call.id) {
            places.push((key_of(number, load.keys), number.div_ceil(load.keys)));
        }
    }
    breaches.extend(
        (1..=load.messages)
            .map(id_of)
            .filter(|id| !seen.contains(id.as_str()))
            .map(|id| format!("{id} was never called")),
    );
    if load.ordered {
        breaches.extend(disorder(places.iter().map(|(key, number)| (key.as_str(), *number))));
    }
    breaches
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing)]
    use super::*;

    const LOAD: Load =
        Load { messages: 60, keys: 6, senders: 1, call: Duration::ZERO, ordered: true, disturbances: &[] };

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
        let mut all: Vec<nats::Stored> = (1..=LOAD.messages).map(stored).collect();
        assert!(left_behind(&all, LOAD).is_empty());
        all.push(stored(3));
        all.remove(0);
        assert_eq!(left_behind(&all, LOAD), ["m1 was processed 0 times", "m3 was processed 2 times"]);
    }

    #[test]
    fn an_instance_that_used_up_its_memory_is_known_by_its_number() {
        let line = |instance: u32, code: &str| {
            format!(
                " WARN an instance was lost transport=source.orders generation=1 instance={instance} code={code} reason=x"
            )
        };
        let log = [line(0, "PLUGIN.MEMORY"), line(0, "PLUGIN.MEMORY"), line(1, "PLUGIN.TIMED_OUT")].join("\n");
        assert_eq!(trapped(&log), BTreeSet::from(["0"]));
    }

    #[test]
    fn a_second_call_has_to_say_so_and_keys_have_an_order() {
        let mut all: Vec<Called> = (1..=LOAD.messages).map(|number| call(number, false)).collect();
        assert!(called(&all, LOAD).is_empty(), "{:?}", called(&all, LOAD));
        all.push(call(5, true));
        assert!(called(&all, LOAD).is_empty());
        all.push(call(5, false));
        all.swap(0, 6);
        let breaches = called(&all, LOAD);
        assert_eq!(breaches.len(), 2, "{breaches:?}");
        assert!(breaches[0].contains("without a word"));
    }
}
