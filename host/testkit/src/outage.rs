//! A real host that delivers to a real broker whose server is killed and started again under load; then what the broker has is
//! read as a consumer reads it, and compared with what was enqueued. Each broker says how it is run and read ([`Broker`]).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::api::{Api, Depth};
use crate::process::{Host, Launch};

/// Where every message goes, without its scheme.
pub const DESTINATION: &str = "orders.created";
/// Messages of one request.
const REQUEST: usize = 100;
/// Requests under way at once; each producer has keys of its own, so their order is known.
const PRODUCERS: usize = 4;
/// How long the server stays away: shorter and longer than what a call waits for it.
const AWAY_MS: [u64; 4] = [20, 200, 900, 3_000];
/// How long it stands still before every other kill.
const FROZEN: Duration = Duration::from_millis(250);
/// When nothing has moved for this long, something is wrong. A connection that met a server which was still starting may use up its time, and
/// the next one waits for half a minute.
const STALLED_AFTER: Duration = Duration::from_secs(150);
/// Between two looks at the outbox.
const POLL: Duration = Duration::from_millis(50);
/// What the host gets to end in good order.
const TERMINATE_WITHIN: Duration = Duration::from_secs(120);

/// A broker with a server that can be killed.
#[async_trait]
pub trait Broker: Send {
    /// What its server is called, e.g. `nats-server`.
    fn name(&self) -> &'static str;

    /// The lines of a transport to it in the host's configuration: `plugin`, `config`, `allow`.
    fn transport(&self) -> String;

    /// Makes what takes messages to [`DESTINATION`].
    async fn prepare(&mut self) -> io::Result<()>;

    /// Stops the server where it is: connections stay, nothing is read or answered.
    fn freeze(&self) -> io::Result<()>;

    /// Kills the server (`kill -9`) and waits for its end.
    async fn kill(&mut self) -> io::Result<()>;

    /// Starts it again where it was, and waits until it answers.
    async fn restart(&mut self) -> io::Result<()>;

    /// Everything it has, in the order in which a consumer gets it.
    async fn read_all(&mut self) -> io::Result<Vec<Stored>>;
}

/// A message as a consumer gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Where the broker has it: for reports.
    pub place: String,
    /// The message's id, the same on every attempt.
    pub id: String,
    /// The attempt by which it came, as it says.
    pub attempt: String,
    pub payload: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub messages: usize,
    /// Keys that they have.
    pub keys: usize,
    /// Times the server is killed, spread over the load.
    pub kills: usize,
}

/// How far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Messages that the host has acknowledged to us.
    pub enqueued: usize,
    /// Times the server was killed.
    pub kills: usize,
}

#[derive(Clone, Debug)]
pub struct Report {
    /// What the server is called.
    pub broker: &'static str,
    /// What was to be done.
    pub plan: Plan,
    /// Messages that the broker has.
    pub stored: usize,
    /// Messages of these whose id is there more than once.
    pub doubled: usize,
    /// Messages that came by a second attempt or a later one.
    pub repeated: usize,
    /// Messages that the host accepted and the broker doesn't have.
    pub missing: Vec<String>,
    /// Places where a key's order is broken.
    pub disorder: Vec<String>,
    /// Messages that nobody enqueued, or that were altered: others under a known id.
    pub foreign: Vec<String>,
    pub dead: usize,
    /// From the first request to the last acknowledgement.
    pub took: Duration,
}

impl Report {
    /// Whether every promise held. A message may be there twice, under one id.
    pub fn passed(&self) -> bool {
        self.missing.is_empty() && self.disorder.is_empty() && self.foreign.is_empty() && self.dead == 0
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { messages, keys, kills } = self.plan;
        writeln!(f, "{messages} messages over {keys} keys, {} killed {kills} times, {:.1?}", self.broker, self.took)?;
        writeln!(f, "  at the broker          {}", self.stored)?;
        writeln!(f, "  by a later attempt     {}", self.repeated)?;
        writeln!(f, "  twice, under one id    {}", self.doubled)?;
        writeln!(f, "  dead letters           {}", self.dead)?;
        for (what, list) in
            [("missing", &self.missing), ("out of order", &self.disorder), ("unknown or altered", &self.foreign)]
        {
            writeln!(f, "  {what:<22} {}", list.len())?;
            for line in list.iter().take(10) {
                writeln!(f, "    {line}")?;
            }
        }
        Ok(())
    }
}

/// Runs it with its files in `dir`. The host is `binary`.
///
/// # Errors
/// Host or server don't start or don't end, or nothing moves any more.
pub async fn run(
    plan: Plan,
    broker: &mut dyn Broker,
    binary: &Path,
    dir: &Path,
    progress: &watch::Sender<Progress>,
) -> io::Result<Report> {
    broker.prepare().await?;
    let config = config(&dir.join("data"), &broker.transport());
    let launch = Launch::prepare(binary.to_owned(), dir, &config).map_err(io::Error::other)?;
    let (host, api) = Host::ready(&launch).await.map_err(io::Error::other)?;
    let began = Instant::now();
    let (sent, ()) = tokio::try_join!(enqueue(&api, plan, progress), disturb(&api, broker, plan, progress))?;
    drain(&api).await?;
    let took = began.elapsed();
    let dead = api.dead_letters().await.map_err(io::Error::other)?.len();
    let stored = broker.read_all().await?;
    let status = host.terminate(TERMINATE_WITHIN).await.map_err(io::Error::other)?;
    if !status.success() {
        return Err(io::Error::other(format!("the host was asked to end and ended with {status}")));
    }
    Ok(Report { broker: broker.name(), dead, took, ..compare(plan, &sent, &stored) })
}

fn config(data: &Path, transport: &str) -> String {
    format!(
        r#"[store]
url = "surrealkv://{}"

[outbox]
max_attempts = 100
backoff = {{ base_ms = 50, factor = 2.0, jitter = 0.3, cap_ms = 500 }}

[transport.orders]
{transport}

[[route]]
match = "bus:orders.**"
transport = "orders"
"#,
        data.display()
    )
}

/// Enqueues everything, several requests at once; answers ids with their payloads.
async fn enqueue(api: &Api, plan: Plan, progress: &watch::Sender<Progress>) -> io::Result<Vec<(String, Value)>> {
    let producers = (0..PRODUCERS).map(|producer| {
        let numbers: Vec<usize> =
            (0..plan.messages).filter(|number| number % plan.keys.max(1) % PRODUCERS == producer).collect();
        produce(api, numbers, plan.keys, progress)
    });
    Ok(futures::future::try_join_all(producers).await?.concat())
}

/// Enqueues these, in their order.
async fn produce(
    api: &Api,
    numbers: Vec<usize>,
    keys: usize,
    progress: &watch::Sender<Progress>,
) -> io::Result<Vec<(String, Value)>> {
    let mut sent = Vec::new();
    for part in numbers.chunks(REQUEST) {
        let payloads: Vec<Value> =
            part.iter().map(|number| json!({ "key": key(*number, keys), "number": number })).collect();
        let message = |payload: &Value| json!({ "topic": format!("bus:{DESTINATION}"), "key": payload.get("key"), "payload": payload });
        let messages: Vec<Value> = payloads.iter().map(message).collect();
        let reply = api.post("/v1/messages", &json!({ "messages": messages })).await;
        let reply = reply.map_err(|error| io::Error::other(format!("{error:?}")))?;
        let ids = reply.body.get("ids").and_then(Value::as_array).filter(|ids| ids.len() == part.len());
        let ids = ids.ok_or_else(|| io::Error::other(format!("the host answered {} {}", reply.status, reply.body)))?;
        sent.extend(ids.iter().filter_map(Value::as_str).map(str::to_owned).zip(payloads));
        progress.send_modify(|progress| progress.enqueued += part.len());
    }
    Ok(sent)
}

fn key(number: usize, keys: usize) -> String {
    format!("k{}", number % keys.max(1))
}

/// Kills the server and starts it again, each time when another part of the messages is enqueued and some are on their way.
async fn disturb(api: &Api, broker: &mut dyn Broker, plan: Plan, progress: &watch::Sender<Progress>) -> io::Result<()> {
    let mut seen = progress.subscribe();
    for kill in 0..plan.kills {
        let from = plan.messages * (kill + 1) / (plan.kills + 1);
        seen.wait_for(|progress| progress.enqueued >= from).await.map_err(io::Error::other)?;
        flowing(api, plan, progress).await?;
        if kill % 2 == 0 {
            // What is sent now is never read: the kill finds messages under way for certain.
            broker.freeze()?;
            sleep(FROZEN).await;
        }
        broker.kill().await?;
        progress.send_modify(|progress| progress.kills += 1);
        sleep(Duration::from_millis(AWAY_MS.get(kill % AWAY_MS.len()).copied().unwrap_or_default())).await;
        broker.restart().await?;
    }
    Ok(())
}

/// Waits until the host delivers again after an outage, or has nothing left.
async fn flowing(api: &Api, plan: Plan, progress: &watch::Sender<Progress>) -> io::Result<()> {
    let settled = || async {
        let enqueued = progress.borrow().enqueued as u64;
        Ok::<u64, io::Error>(enqueued.saturating_sub(left(api).await?))
    };
    let (before, began) = (settled().await?, Instant::now());
    loop {
        let now = settled().await?;
        if now >= before + REQUEST as u64 || now >= plan.messages as u64 {
            return Ok(());
        }
        if began.elapsed() > STALLED_AFTER {
            return Err(stalled(api, "nothing is delivered after an outage").await);
        }
        sleep(Duration::from_millis(2)).await;
    }
}

/// What is wrong, with what the host says of it.
async fn stalled(api: &Api, what: &str) -> io::Error {
    let mut text = what.to_owned();
    for path in ["/v1/outbox/blocked", "/v1/transports/orders"] {
        match api.get(path, &[]).await {
            Ok(reply) => text.push_str(&format!("\n{path}: {}", reply.body)),
            Err(error) => text.push_str(&format!("\n{path}: {error:?}")),
        }
    }
    io::Error::other(text)
}

/// Messages on their way.
async fn left(api: &Api) -> io::Result<u64> {
    Ok(api.depths().await.map_err(io::Error::other)?.iter().map(Depth::on_the_way).sum())
}

/// Waits until nothing is on its way.
async fn drain(api: &Api) -> io::Result<()> {
    let (mut seen, mut moved) = (u64::MAX, Instant::now());
    loop {
        let left = left(api).await?;
        if left == 0 {
            return Ok(());
        }
        if left != seen {
            (seen, moved) = (left, Instant::now());
        } else if moved.elapsed() > STALLED_AFTER {
            return Err(stalled(api, &format!("{left} messages wait and nothing moves")).await);
        }
        sleep(POLL).await;
    }
}

/// What the broker has against what was enqueued.
fn compare(plan: Plan, sent: &[(String, Value)], stored: &[Stored]) -> Report {
    let payloads: BTreeMap<&str, &Value> = sent.iter().map(|(id, payload)| (id.as_str(), payload)).collect();
    let (mut seen, mut latest) = (BTreeSet::new(), BTreeMap::<String, u64>::new());
    let (mut doubled, mut repeated) = (0, 0);
    let (mut disorder, mut foreign) = (Vec::new(), Vec::new());
    for message in stored {
        let id = message.id.as_str();
        let payload: Value = serde_json::from_slice(&message.payload).unwrap_or_default();
        if payloads.get(id).copied() != Some(&payload) {
            foreign.push(format!("{} {id} {payload}", message.place));
            continue;
        }
        repeated += usize::from(message.attempt != "1");
        if !seen.insert(id) {
            doubled += 1;
            continue;
        }
        let number = payload.get("number").and_then(Value::as_u64).unwrap_or_default();
        let key = payload.get("key").and_then(Value::as_str).unwrap_or_default().to_owned();
        if let Some(before) = latest.insert(key.clone(), number).filter(|before| *before >= number) {
            disorder.push(format!("{key}: {number} came after {before}, at {}", message.place));
        }
    }
    let missing =
        sent.iter().filter(|(id, _)| !seen.contains(id.as_str())).map(|(id, payload)| format!("{id} {payload}"));
    let missing = missing.collect();
    Report {
        broker: "",
        plan,
        stored: stored.len(),
        doubled,
        repeated,
        missing,
        disorder,
        foreign,
        dead: 0,
        took: Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan { messages: 3, keys: 1, kills: 0 };

    fn sent() -> Vec<(String, Value)> {
        (0..3).map(|number| (format!("m{number}"), json!({ "key": "k0", "number": number }))).collect()
    }

    fn stored(numbers: &[usize]) -> Vec<Stored> {
        let message = |number: &usize| Stored {
            place: "1".to_owned(),
            id: format!("m{number}"),
            attempt: "1".to_owned(),
            payload: json!({ "key": "k0", "number": number }).to_string().into_bytes(),
        };
        numbers.iter().map(message).collect()
    }

    #[test]
    fn everything_in_order_passes_and_a_double_is_counted() {
        let report = compare(PLAN, &sent(), &stored(&[0, 1, 1, 2]));
        assert!(report.passed(), "{report}");
        assert_eq!((report.stored, report.doubled), (4, 1));
    }

    #[test]
    fn a_loss_a_broken_order_and_a_stranger_are_noticed() {
        assert_eq!(compare(PLAN, &sent(), &stored(&[0, 2])).missing.len(), 1);
        assert_eq!(compare(PLAN, &sent(), &stored(&[0, 2, 1])).disorder.len(), 1);
        assert_eq!(compare(PLAN, &sent(), &stored(&[0, 1, 2, 7])).foreign.len(), 1);
        let mut dead = compare(PLAN, &sent(), &stored(&[0, 1, 2]));
        dead.dead = 1;
        assert!(!dead.passed());
    }
}
