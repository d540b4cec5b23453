//! The run: start, load, kill, again; then one last start that drains, and the question what is left.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::check::{Evidence, check};
use super::load::{Load, Up, produce};
use super::plan::{
    BACKLOG_LOW, BACKLOG_MAX, CLOCK_STEP, EARLY_ONE_IN, KILL_AFTER_MS, Options, PRODUCERS, TABLE, host_config,
};
use super::report::Report;
use super::wall_clock::WallClock;
use super::{KillError, judge};
use crate::api::{Api, CallError};
use crate::ledger::{ClientLedger, write_jsonl};
use crate::process::{Host, Launch};
use crate::receiver::Receiver;

/// The last drain is given up when nothing has moved for this long: the check then names what is missing.
const STALLED_AFTER: Duration = Duration::from_secs(60);
/// Between two looks at the last drain.
const DRAIN_POLL: Duration = Duration::from_millis(50);
/// What the last host gets to end in good order.
const TERMINATE_WITHIN: Duration = Duration::from_secs(120);

/// Numbers of a run that the check doesn't need.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// From start to ready, per start that became ready.
    pub(super) ready: Vec<Duration>,
    pub(super) kills: usize,
    /// Kills before the host was ready.
    pub(super) early: usize,
    /// Kills while a client waited for an answer.
    pub(super) with_requests: usize,
    /// Kills while the receiver held a delivery.
    pub(super) with_deliveries: usize,
    pub(super) took: Duration,
}

/// Runs it. `progress` hears of every cycle: kills so far, messages acknowledged, deliveries arrived.
pub async fn run(options: &Options, progress: impl Fn(u32, usize, usize)) -> Result<Report, KillError> {
    let began = Instant::now();
    let dir = tempfile::tempdir().map_err(|cause| KillError::System { act: "making a temporary folder", cause })?;
    let mut launch = Launch::prepare(options.binary.clone(), dir.path(), &host_config(&dir.path().join("data")))
        .map_err(|error| KillError::Process { cycle: 0, error })?;
    let clock = if options.clock_steps {
        let clock = WallClock::make(dir.path()).map_err(clock_failed)?;
        launch.environment = clock.environment();
        Some(clock)
    } else {
        None
    };
    let outcome = Run::start(options, launch, clock).await;
    let outcome = match outcome {
        Ok(run) => run.through(options, progress).await,
        Err(error) => Err(error),
    };
    let keep = |evidence: Option<&Evidence>| {
        keep(dir.path(), &options.evidence, evidence)
            .map_err(|cause| KillError::System { act: "keeping the evidence", cause })
    };
    match outcome {
        Ok((evidence, tally)) => {
            let verdict = check(&evidence);
            let report = Report::new(options, verdict, Tally { took: began.elapsed(), ..tally });
            if !report.passed() {
                keep(Some(&evidence))?;
            }
            Ok(report)
        }
        Err(error) => {
            keep(None)?;
            Err(match error {
                KillError::Crashed { cycle, .. } => {
                    KillError::Crashed { cycle, log: options.evidence.join("waybill.log") }
                }
                error => error,
            })
        }
    }
}

fn clock_failed(cause: std::io::Error) -> KillError {
    KillError::System { act: "making or setting the hosts' wall clock", cause }
}

/// Moves what tells the story out of the temporary folder.
fn keep(from: &Path, to: &Path, evidence: Option<&Evidence>) -> std::io::Result<()> {
    if to.exists() {
        std::fs::remove_dir_all(to)?;
    }
    copy_dir(from, to)?;
    if let Some(evidence) = evidence {
        write_jsonl(&to.join("clients.jsonl"), &evidence.operations)?;
        let arrivals: Vec<_> = evidence.arrivals.iter().map(super::report::arrival_json).collect();
        write_jsonl(&to.join("receiver.jsonl"), &arrivals)?;
    }
    Ok(())
}

fn copy_dir(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_dir(&entry.path(), &target)?
        } else {
            std::fs::copy(entry.path(), target).map(drop)?
        }
    }
    Ok(())
}

struct Run {
    launch: Launch,
    clock: Option<WallClock>,
    /// What the clock is set to; apart, so that everything else is the same with and without.
    steps: StdRng,
    receiver: Receiver,
    load: Arc<Load>,
    up: watch::Sender<Up>,
    producers: JoinSet<Result<(), String>>,
    rng: StdRng,
    tally: Tally,
}

impl Run {
    async fn start(options: &Options, launch: Launch, clock: Option<WallClock>) -> Result<Self, KillError> {
        let receiver = Receiver::start(judge::judge(options.seed))
            .await
            .map_err(|cause| KillError::System { act: "starting the receiver", cause })?;
        let load = Arc::new(Load {
            ledger: ClientLedger::default(),
            topic: receiver.url("kill"),
            schedules: !options.clock_steps,
            refusals: parking_lot::Mutex::default(),
        });
        let up = watch::Sender::default();
        let mut producers = JoinSet::new();
        for producer in 0..PRODUCERS {
            producers.spawn(produce(Arc::clone(&load), producer, options.seed, up.subscribe()));
        }
        let rng = StdRng::seed_from_u64(options.seed);
        let steps = StdRng::seed_from_u64(options.seed.wrapping_add(1));
        Ok(Self { launch, clock, steps, receiver, load, up, producers, rng, tally: Tally::default() })
    }

    async fn through(
        mut self,
        options: &Options,
        progress: impl Fn(u32, usize, usize),
    ) -> Result<(Evidence, Tally), KillError> {
        for cycle in 1..=options.cycles {
            self.cycle(cycle).await?;
            progress(cycle, self.load.ledger.acknowledged(), self.receiver.gauges().arrived);
        }
        let last = options.cycles + 1;
        self.set_clock(CLOCK_STEP)?;
        let (host, api) = self.ready(last).await?;
        self.set_clock(-CLOCK_STEP)?;
        self.up.send_replace(Up { generation: last, api: Some(api.clone()), doomed: false, last: true });
        while let Some(ended) = self.producers.join_next().await {
            ended.map_err(|error| KillError::Producer(error.to_string()))?.map_err(KillError::Producer)?;
        }
        self.drain(&api).await?;
        let evidence = self.evidence(options, &api, last).await?;
        let status =
            host.terminate(TERMINATE_WITHIN).await.map_err(|error| KillError::Process { cycle: last, error })?;
        let mut evidence = evidence;
        if !status.success() {
            evidence.refusals.push(format!("the last host was asked to end and ended with {status}"));
        }
        Ok((evidence, self.tally))
    }

    async fn cycle(&mut self, cycle: u32) -> Result<(), KillError> {
        let moment = Duration::from_millis(self.rng.random_range(KILL_AFTER_MS));
        // The first start makes the store; the harness wants to see that one work.
        let early = cycle > 1 && self.rng.random_ratio(1, EARLY_ONE_IN);
        let failed = |error| KillError::Process { cycle, error };
        self.step_clock()?;
        let host = if early {
            let host = Host::start(&self.launch).map_err(failed)?;
            self.tally.early += 1;
            tokio::time::sleep(moment).await;
            host
        } else {
            let (host, api) = self.ready(cycle).await?;
            self.catch_up().await;
            let before = self.load.ledger.len();
            self.up.send_replace(Up { generation: cycle, api: Some(api), doomed: false, last: false });
            // The load begins with its first request.
            let begun = async {
                while self.load.ledger.len() == before {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            let _ = tokio::time::timeout(STALLED_AFTER, begun).await;
            tokio::time::sleep(moment / 2).await;
            self.step_clock()?;
            tokio::time::sleep(moment / 2).await;
            host
        };
        self.up.send_modify(|up| up.doomed = true);
        self.tally.kills += 1;
        self.tally.with_requests += usize::from(self.load.ledger.open() > 0 && !early);
        self.tally.with_deliveries += usize::from(self.receiver.gauges().in_flight > 0);
        let log = host.log().to_owned();
        if !host.kill().await.map_err(failed)? {
            return Err(KillError::Crashed { cycle, log });
        }
        self.up.send_modify(|up| up.api = None);
        // What the dead host had already sent has to be in the ledger before its successor sends anything.
        self.receiver.drained().await;
        Ok(())
    }

    /// Sets the hosts' clock an hour back, an hour ahead, or right.
    fn step_clock(&mut self) -> Result<(), KillError> {
        let to = self.steps.random_range(-1..=1) * CLOCK_STEP;
        self.set_clock(to)
    }

    fn set_clock(&self, ahead: i64) -> Result<(), KillError> {
        self.clock.as_ref().map_or(Ok(()), |clock| clock.set_ahead(ahead)).map_err(clock_failed)
    }

    /// Lets a host that nobody talks to deliver what has piled up. One that doesn't is left to the last drain to judge.
    async fn catch_up(&self) {
        let acknowledged = self.load.ledger.acknowledged();
        let mut receiver = self.receiver.watch();
        if receiver.borrow_and_update().settled + BACKLOG_MAX > acknowledged {
            return;
        }
        let enough = receiver.wait_for(|gauges| gauges.settled + BACKLOG_LOW > acknowledged);
        let _ = tokio::time::timeout(STALLED_AFTER, enough).await;
    }

    async fn ready(&mut self, cycle: u32) -> Result<(Host, Api), KillError> {
        let (host, api) = Host::ready(&self.launch).await.map_err(|error| KillError::Process { cycle, error })?;
        self.tally.ready.push(host.started().elapsed());
        Ok((host, api))
    }

    /// Waits until the host says that nothing is on its way, or nothing moves any more.
    async fn drain(&self, api: &Api) -> Result<(), CallError> {
        let mut moved = Instant::now();
        let mut seen = None;
        loop {
            let left: u64 = api.depths().await?.iter().map(crate::api::Depth::on_the_way).sum();
            let now = (left, self.receiver.gauges());
            if left == 0 {
                return Ok(());
            }
            if seen != Some(now) {
                (seen, moved) = (Some(now), Instant::now());
            } else if moved.elapsed() > STALLED_AFTER {
                return Ok(());
            }
            tokio::time::sleep(DRAIN_POLL).await;
        }
    }

    async fn evidence(&self, options: &Options, api: &Api, starts: u32) -> Result<Evidence, CallError> {
        let left = api.depths().await?.iter().map(crate::api::Depth::on_the_way).sum();
        let refusals = self.load.refusals.lock().clone();
        Ok(Evidence {
            seed: options.seed,
            operations: self.load.ledger.operations(),
            arrivals: self.receiver.arrivals(),
            faults: self.receiver.faults(),
            refusals,
            dead: api.dead_letters().await?,
            done: api.messages("done").await?,
            rows: api.row_ids(TABLE).await?,
            left,
            starts,
        })
    }
}
