//! A crash loop under load: the release binary killed six times within three seconds, and then with a message that really
//! kills it. A host that was never killed says what is normal.
//!
//! It measures rates and judges them, so it is no test: a busy machine may fail it. Who is sent alone, and how often, is
//! judged by counting (`tests/tests/rules/owner/suspicion.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use thiserror::Error;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use crate::api::{Api, CallError, NoReply};
use crate::process::{Host, Launch, ProcessError};
use crate::receiver::{Answer, Arrival, Delivered, Receiver};

/// Keys of the backlog.
const KEYS: usize = 7;
/// The receiver takes so long for a delivery.
const HOLD: Duration = Duration::from_millis(40);
/// Kills of the storm.
const KILLS: u32 = 6;
const STORM: Duration = Duration::from_secs(3);
/// Messages of one request.
const BATCH: usize = 500;
/// Part of the normal rate that a host has to reach after the storm, in percent.
const RATE_MIN: u32 = 80;
/// Hosts that a poison may kill: one that isn't cautious, one that names it, the halves of what lanes take, three alone.
const POISONINGS_MAX: usize = 2 + 7 + 3;
/// Nothing has moved for so long: given up.
const STALLED: Duration = Duration::from_secs(90);

#[derive(Clone, Debug)]
pub struct Options {
    pub binary: PathBuf,
    /// Messages of the backlog.
    pub messages: usize,
}

/// Why there is no verdict.
#[derive(Debug, Error)]
pub enum StormError {
    /// A host didn't start or stop.
    #[error("{0}")]
    Process(#[from] ProcessError),
    /// A host doesn't answer.
    #[error("asking the host: {0}")]
    Call(#[from] CallError),
    /// The backlog wasn't taken.
    #[error("the backlog wasn't taken: {0}")]
    Backlog(String),
    /// The harness's own files.
    #[error("{act}: {cause}")]
    System { act: &'static str, cause: std::io::Error },
    #[error("nothing arrived for {} s: {what}", STALLED.as_secs())]
    Stalled { what: String },
}

/// Deliveries over a time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rate {
    pub messages: usize,
    /// From the host's readiness to the last of them.
    pub took: Duration,
}

impl Rate {
    /// Messages in a second, from the readiness of the host.
    pub fn per_second(&self) -> f64 {
        self.messages as f64 / self.took.as_secs_f64().max(0.001)
    }
}

/// What the poison did.
#[derive(Clone, Debug, Default)]
pub struct Poison {
    /// Hosts that died of it.
    pub killed: usize,
    /// Dead letters that say `SUSPECTED_POISON`, and whether it is one of them.
    pub convicted: usize,
    /// It is among them.
    pub found: bool,
    /// From the first death to the conviction.
    pub took: Duration,
    /// Others that were delivered meanwhile.
    pub beside: usize,
    /// Most deliveries of one of them.
    pub repeats: usize,
}

/// What a run found.
#[derive(Clone, Debug)]
pub struct Report {
    /// A host that was never killed.
    pub normal: Rate,
    /// The last of those that were killed.
    pub after: Rate,
    /// Six kills took so long.
    pub storm: Duration,
    /// Healthy messages that are dead letters after the storm.
    pub convicted: usize,
    /// The message that kills.
    pub poison: Poison,
}

impl Report {
    /// The rate after the storm as a part of the normal one, in percent.
    pub fn percent(&self) -> f64 {
        100.0 * self.after.per_second() / self.normal.per_second().max(0.001)
    }

    pub fn passed(&self) -> bool {
        self.percent() >= f64::from(RATE_MIN)
            && self.storm <= STORM
            && self.convicted == 0
            && self.poison.found
            && self.poison.convicted == 1
            && self.poison.killed <= POISONINGS_MAX
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate =
            |rate: &Rate| format!("{:.0}/s ({} in {:.1} s)", rate.per_second(), rate.messages, rate.took.as_secs_f64());
        writeln!(f, "never killed        {}", rate(&self.normal))?;
        writeln!(
            f,
            "{KILLS} kills in {:.1} s    {}: {:.0} %, at least {RATE_MIN} needed",
            self.storm.as_secs_f64(),
            rate(&self.after),
            self.percent()
        )?;
        writeln!(f, "healthy convicted   {}", self.convicted)?;
        let poison = &self.poison;
        write!(
            f,
            "poison              found: {} after {} deaths (at most {POISONINGS_MAX}) in {:.0} s; {} convicted; {} others \
             delivered meanwhile, none more than {} times",
            poison.found,
            poison.killed,
            poison.took.as_secs_f64(),
            poison.convicted,
            poison.beside,
            poison.repeats
        )
    }
}

pub async fn run(options: &Options, progress: impl Fn(&str)) -> Result<Report, StormError> {
    progress("a host that is never killed");
    let calm = Stage::new(options).await?;
    let (host, api) = Host::ready(&calm.launch).await?;
    calm.fill(&api, "calm", options.messages).await?;
    let normal = calm.drain(options.messages).await?;
    drop(host);

    progress("six kills");
    let stage = Stage::new(options).await?;
    let (first, api) = Host::ready(&stage.launch).await?;
    stage.fill(&api, "storm", options.messages).await?;
    let mut host = Some(first);
    let began = Instant::now();
    let mut storm = Duration::ZERO;
    for kill in 1..=KILLS {
        // Evenly, and the last one before the time is over.
        sleep((began + STORM.mul_f64(0.95) / KILLS * kill).saturating_duration_since(Instant::now())).await;
        if let Some(host) = host.take() {
            host.kill().await?;
        }
        storm = began.elapsed();
        if kill < KILLS {
            host = Some(Host::start(&stage.launch)?);
        }
    }
    stage.receiver.drained().await;
    let (last, api) = Host::ready(&stage.launch).await?;
    let after = stage.drain(options.messages).await?;
    let convicted = api.dead_letters().await?.len();
    drop(last);

    progress("a message that kills");
    let poison = poison(options).await?;
    Ok(Report { normal, after, storm, convicted, poison })
}

/// A receiver, and a folder for hosts.
struct Stage {
    receiver: Receiver,
    launch: Launch,
    /// The poison has arrived.
    struck: Arc<Notify>,
    _folder: tempfile::TempDir,
}

impl Stage {
    async fn new(options: &Options) -> Result<Self, StormError> {
        let folder =
            tempfile::tempdir().map_err(|cause| StormError::System { act: "making a temporary folder", cause })?;
        let struck = Arc::new(Notify::new());
        let strikes = Arc::clone(&struck);
        let judge = move |delivered: &Delivered| {
            if delivered.path.ends_with("/poison") {
                strikes.notify_one();
                // Its host is dead before that.
                return Answer::status(200).after(Duration::from_secs(3_600));
            }
            Answer::status(200).after(HOLD)
        };
        let receiver =
            Receiver::start(judge).await.map_err(|cause| StormError::System { act: "starting the receiver", cause })?;
        let launch = Launch::prepare(options.binary.clone(), folder.path(), &config(folder.path()))?;
        Ok(Self { receiver, launch, struck, _folder: folder })
    }

    fn message(&self, name: &str, number: usize) -> Value {
        json!({
            "topic": self.receiver.url("storm"),
            "key": format!("k{}", number % KEYS),
            "id": format!("{name}-{number}"),
            "payload": { "number": number },
        })
    }

    async fn fill(&self, api: &Api, name: &str, count: usize) -> Result<(), StormError> {
        let all: Vec<Value> = (0..count).map(|number| self.message(name, number)).collect();
        for batch in all.chunks(BATCH) {
            post(api, &json!({ "messages": batch })).await?;
        }
        Ok(())
    }

    /// Waits until so many different messages have been answered.
    async fn drain(&self, count: usize) -> Result<Rate, StormError> {
        let began = Instant::now();
        let before = self.delivered().len();
        let mut seen = (before, Instant::now());
        loop {
            let delivered = self.delivered().len();
            if delivered >= count {
                return Ok(Rate { messages: count - before, took: began.elapsed() });
            }
            if delivered > seen.0 {
                seen = (delivered, Instant::now());
            } else if seen.1.elapsed() > STALLED {
                return Err(StormError::Stalled { what: format!("{delivered} of {count} were delivered") });
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    fn delivered(&self) -> BTreeSet<String> {
        let answered = |arrival: &Arrival| arrival.answered;
        self.receiver.arrivals().into_iter().filter(answered).map(|arrival| arrival.delivered.id).collect()
    }
}

fn config(folder: &Path) -> String {
    format!("[store]\nurl = \"surrealkv://{}\"\n", folder.join("data").display())
}

async fn post(api: &Api, body: &Value) -> Result<(), StormError> {
    match api.post("/v1/messages", body).await {
        Ok(reply) if reply.is_ok() => Ok(()),
        Ok(reply) => Err(StormError::Backlog(format!("{}: {}", reply.status, reply.body))),
        Err(NoReply::NotSent(why) | NoReply::Unknown(why)) => Err(StormError::Backlog(why)),
    }
}

/// Among a backlog, one message of which each host dies as soon as it has arrived.
async fn poison(options: &Options) -> Result<Poison, StormError> {
    const ID: &str = "the-poison";
    let stage = Stage::new(options).await?;
    let (first, api) = Host::ready(&stage.launch).await?;
    let mut host = Some((first, api.clone()));
    stage.fill(&api, "beside", options.messages / 4).await?;
    post(&api, &json!({ "topic": stage.receiver.url("poison"), "key": "k-poison", "id": ID, "payload": {} })).await?;
    stage.fill(&api, "behind", options.messages / 4).await?;
    let mut poison = Poison::default();
    let mut first_death: Option<Instant> = None;
    let mut at_first_death = 0;
    while let Some((running, api)) = host.take() {
        let began = Instant::now();
        let struck = loop {
            if timeout(Duration::from_millis(200), stage.struck.notified()).await.is_ok() {
                break true;
            }
            if api.dead_letters().await?.iter().any(|dead| dead.id == ID) {
                break false;
            }
            if began.elapsed() > STALLED {
                let what = format!("the poison was sent {} times and isn't dead", poison.killed);
                return Err(StormError::Stalled { what });
            }
        };
        if !struck {
            let dead = api.dead_letters().await?;
            let of_poison =
                |error: &Option<String>| error.as_deref().is_some_and(|e| e.starts_with("SUSPECTED_POISON"));
            poison.convicted = dead.iter().filter(|dead| of_poison(&dead.last_error)).count();
            poison.found = dead.iter().any(|dead| dead.id == ID && of_poison(&dead.last_error));
            poison.took = first_death.map_or(Duration::ZERO, |first| first.elapsed());
            break;
        }
        poison.killed += 1;
        running.kill().await?;
        if first_death.is_none() {
            first_death = Some(Instant::now());
            at_first_death = stage.delivered().len();
        }
        if poison.killed > 2 * POISONINGS_MAX {
            break;
        }
        host = Some(Host::ready(&stage.launch).await?);
    }
    poison.beside = stage.delivered().len().saturating_sub(at_first_death);
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for arrival in stage.receiver.arrivals() {
        *times.entry(arrival.delivered.id).or_default() += 1;
    }
    poison.repeats = times.into_iter().filter(|(id, _)| id != ID).map(|(_, times)| times).max().unwrap_or(0);
    Ok(poison)
}
