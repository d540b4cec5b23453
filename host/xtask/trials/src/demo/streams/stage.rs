//! Everything that runs: host, broker, fleet and subscribers; what is done to them and when; and the end of the work.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use waybill_testkit::api::Api;
use waybill_testkit::nats;
use waybill_testkit::process::{Host, Launch};

use super::evidence::{Evidence, Subscribed};
use super::fleet::{Fleet, Node};
use super::readers::{Place, Reader, Readers};
use super::result::Bars;
use crate::demo::{POLL, STALLED_AFTER};

/// The relay of the configuration, and the broker's stream that it fills.
pub const RELAY: &str = "tasks";
const STREAM: &str = "EVENTS";
/// How long a killed broker stays away; the host comes back at once.
const AWAY: Duration = Duration::from_millis(800);
/// Events that pass by a subscriber that doesn't read: more than system and host hold for it.
const PASSED_BY: u64 = 2_500;
/// A subscriber that is no further behind than this reads what comes live. One that reads from the store can't lag.
const NEAR: u64 = 100;
/// How long subscribers are listened to when they have everything: a repeat would be heard.
const LISTENED: Duration = Duration::from_secs(1);
/// Events of a page.
const PAGE: &str = "1000";

/// One of those that the demo kills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    Host,
    Broker,
}

impl fmt::Display for Victim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Host => "the host",
            Self::Broker => "nats-server",
        })
    }
}

/// What is done while events come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Slow,
    Kill(Victim),
}

/// With so many kills of the host. Subscribers are slowed when nobody has just been killed.
fn acts(kills: usize) -> Vec<Act> {
    let mut acts = vec![Act::Slow, Act::Kill(Victim::Broker)];
    for kill in 0..kills {
        acts.push(Act::Kill(Victim::Host));
        if kill == 0 {
            acts.push(Act::Slow);
        }
    }
    acts
}

pub struct Stage {
    nats: nats::Server,
    launch: Launch,
    /// None only while it is killed and started again.
    host: Option<Host>,
    /// The way to the host as it is now: its address is another one after each start.
    api: Arc<Mutex<Api>>,
}

/// What the relay says of itself.
#[derive(Deserialize)]
struct Relay {
    state: String,
    reason: Option<String>,
    lag_events: u64,
    in_flight: u64,
    overtaken: u64,
}

#[derive(Deserialize)]
struct Page {
    items: Vec<Place>,
    next_after: String,
    end: bool,
}

impl Stage {
    pub async fn start(nats: nats::Server, launch: Launch) -> Result<Self> {
        nats.client().await?.create_stream(STREAM, &["events.>"], &json!({})).await.context("making the stream")?;
        let (host, api) = Host::ready(&launch).await?;
        Ok(Self { nats, launch, host: Some(host), api: Arc::new(Mutex::new(api)) })
    }

    pub fn api(&self) -> &Arc<Mutex<Api>> {
        &self.api
    }

    /// Slows and kills, spread over the events.
    pub async fn act_in_turn(
        &mut self,
        fleet: &mut Fleet,
        readers: &mut Readers,
        events: u64,
        kills: usize,
        bars: &Bars,
    ) -> Result<Vec<Victim>> {
        let (planned, mut killed) = (acts(kills), Vec::new());
        let share = events / (planned.len() as u64 + 1);
        let mut due = share;
        for act in planned {
            self.until(fleet, readers, bars, |fleet, _| fleet.acknowledged() >= due).await?;
            due += share;
            let far = fleet.acknowledged();
            match act {
                Act::Slow => {
                    self.until(fleet, readers, bars, |fleet, read| read + NEAR >= fleet.acknowledged()).await?;
                    bars.tell(&format!("two subscribers stop reading, with {far} events appended"));
                    let begin = fleet.acknowledged();
                    readers.hold(true);
                    self.until(fleet, readers, bars, |fleet, _| fleet.acknowledged() >= begin + PASSED_BY).await?;
                    readers.hold(false);
                }
                Act::Kill(victim) => {
                    bars.tell(&format!("{victim} is killed, with {far} events appended"));
                    self.kill(victim).await?;
                    killed.push(victim);
                }
            }
        }
        self.until(fleet, readers, bars, |_, _| false).await?;
        Ok(killed)
    }

    /// Waits until something is so, or the fleet has ended.
    async fn until(
        &self,
        fleet: &mut Fleet,
        readers: &mut Readers,
        bars: &Bars,
        is_so: impl Fn(&Fleet, u64) -> bool,
    ) -> Result<()> {
        loop {
            readers.check()?;
            let read = readers.least();
            bars.show(fleet.acknowledged(), read, self.held_by_broker().await.ok());
            if fleet.has_ended()? || is_so(fleet, read) {
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
    }

    async fn kill(&mut self, victim: Victim) -> Result<()> {
        match victim {
            Victim::Host => {
                let host = self.host.take().context("the host isn't there")?;
                if !host.kill().await? {
                    bail!("the host had ended by itself; its last words are in {}", self.launch.log.display());
                }
                let (host, api) = Host::ready(&self.launch).await?;
                self.host = Some(host);
                *self.api.lock() = api;
            }
            Victim::Broker => {
                self.nats.kill().await?;
                tokio::time::sleep(AWAY).await;
                self.nats.restart().await?;
            }
        }
        Ok(())
    }

    /// Messages in the broker's stream.
    async fn held_by_broker(&self) -> Result<u64> {
        let info = self.nats.client().await?.api(&format!("STREAM.INFO.{STREAM}"), &json!({})).await?;
        info.pointer("/state/messages").and_then(Value::as_u64).context("a stream without a number of messages")
    }

    async fn relay(&self) -> Result<Relay> {
        let api = self.api.lock().clone();
        Ok(api.read(&format!("/v1/relays/{RELAY}"), &[]).await?)
    }

    /// Waits until every subscriber has its events and the relay has brought all to the broker.
    pub async fn drain(&self, fleet: &Fleet, readers: &mut Readers, bars: &Bars) -> Result<()> {
        let events = fleet.acknowledged();
        let (mut seen, mut moved) = (None, Instant::now());
        loop {
            readers.check()?;
            let relay = self.relay().await?;
            let held = self.held_by_broker().await?;
            let read: Vec<u64> = readers.all.iter().map(Reader::count).collect();
            bars.show(events, readers.least(), Some(held));
            let have_all = readers.all.iter().all(|reader| reader.count() >= fleet.appended_to(&reader.streams));
            if have_all && held >= events && relay.lag_events + relay.in_flight == 0 {
                tokio::time::sleep(LISTENED).await;
                return readers.check();
            }
            let now = (read, held, relay.lag_events);
            if seen.as_ref() != Some(&now) {
                (seen, moved) = (Some(now), Instant::now());
            } else if moved.elapsed() > STALLED_AFTER {
                let Relay { state, reason, lag_events, .. } = relay;
                bail!(
                    "nothing has moved for {} s: of {events} events subscribers have {now:?}, the relay is {state} ({reason:?}) and lacks {lag_events}",
                    STALLED_AFTER.as_secs()
                );
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Reads streams, subscribers, broker and dead letters.
    pub async fn evidence(
        &self,
        nodes: &[Node],
        fleet: Fleet,
        readers: &Readers,
        kills: Vec<Victim>,
    ) -> Result<Evidence> {
        let api = self.api.lock().clone();
        let mut evidence = Evidence {
            appended: fleet.into_appended(),
            subscribed: readers.all.iter().map(Subscribed::from).collect(),
            stored: self.nats.client().await?.read_all(STREAM).await?,
            dead: api.list::<Value>("/v1/dead-letters", &[]).await?.len(),
            overtaken: self.relay().await?.overtaken,
            kills,
            ..Evidence::default()
        };
        for node in nodes {
            let (stream, mut places, mut after) = (node.stream(), Vec::new(), "0".to_owned());
            loop {
                let path = format!("/v1/streams/{stream}/events");
                let page: Page = api.read(&path, &[("after", &after), ("limit", PAGE)]).await?;
                places.extend(page.items);
                if page.end {
                    break;
                }
                after = page.next_after;
            }
            evidence.pages.insert(stream, places);
        }
        Ok(evidence)
    }

    /// Ends the host in good order.
    pub async fn end(self, within: Duration) -> Result<()> {
        let status = self.host.context("the host isn't there")?.terminate(within).await?;
        if !status.success() {
            bail!("the host was asked to end and ended with {status}");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscribers_are_slowed_before_and_after_the_host_is_killed() {
        let (host, broker) = (Act::Kill(Victim::Host), Act::Kill(Victim::Broker));
        assert_eq!(acts(3), [Act::Slow, broker, host, Act::Slow, host, host]);
        assert_eq!(acts(0), [Act::Slow, broker]);
    }
}
