//! `cargo xtask bench`: the workloads of outbox, sagas, inbox and event streams, each beside a native reference in the same run.
//!
//! A machine's speed changes by the minute, so a figure alone says little: both sides of a workload run in turn (A B A B), and
//! what counts is the ratio of their medians, with the CPU time beside it. Nothing here asserts a time.
//!
//! - `figure`: what one run measured, and medians over several
//! - `host`: the release binary under measurement
//! - `table`: what one sees, and the JSON lines
//! - one file a workload

mod append;
mod backlog;
mod broker;
mod delivery;
mod endurance;
mod figure;
mod host;
mod hostile;
mod idempotent;
mod inbound;
mod kept;
mod latency;
mod live;
mod native;
mod page;
mod relay;
mod replay;
mod saga;
mod seen;
mod store;
mod table;
mod traced;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use waybill_testkit::load::SeenForm;
use xtask::cargo::Repository;

use figure::{Figure, Side};
use table::Report;

/// What to measure.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  cargo xtask bench                      every workload, five alternations\n  \
    cargo xtask bench w1b w1s --rounds 7   two of them\n  cargo xtask bench w2 w2f               sagas\n  cargo xtask bench w10 w11 w12          event streams\n  cargo xtask bench w1b w8               tables, and the ratio that W1b has to the same relay\n  cargo xtask bench w1r --json bench.jsonl\n  cargo xtask bench otel --rounds 9      what telemetry costs\n  cargo xtask bench page --rounds 9      what the page costs, beside its bars\n  \
    cargo xtask bench seen --millions 1 --seconds 20 --form random   a small run of what takes hours")]
pub struct Arguments {
    /// Workloads; all if none is named
    #[arg(value_enum)]
    workloads: Vec<Workload>,
    /// Alternations of each workload and its reference; medians are shown
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=101))]
    rounds: u32,
    /// Thousands of messages or sagas of one run, instead of each workload's own number
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    thousands: Option<u64>,
    /// `seen`: millions of ids in the set
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    millions: u64,
    /// `seen`: seconds of load for each form of ids
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// `seen`: this form of ids only; may be repeated
    #[arg(long = "form", value_name = "FORM", value_parser = seen::form)]
    forms: Vec<SeenForm>,
    /// Append every run as a JSON line to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Measure this binary instead of building one
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Lines of configuration for the host, e.g. '[outbox]\nbatch = 100'
    #[arg(long, value_name = "TOML", default_value = "")]
    config: String,
    /// One side only
    #[arg(long, value_enum)]
    only: Option<Side>,
    /// Run a reference by itself, in this process (that is how its CPU time is told apart)
    #[arg(long, hide = true, value_names = ["KIND", "TARGET", "MESSAGES"], num_args = 3)]
    reference: Option<Vec<String>>,
}

/// The workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// Enqueue in batches of 100, deliver each by HTTP POST, settle
    W1b,
    /// The same, single enqueues from 16 clients at once
    W1s,
    /// 200 messages a second: how long from the enqueue to the receiver
    W1r,
    /// Sagas of three steps that do nothing, 64 at once
    W2,
    /// The same, and the third step fails for good: two compensations
    W2f,
    /// Idempotent requests, 64 at once, each key sent ten times: begun and finished over the API; and messages with the `Idempotency-Key` header
    W3,
    /// The engine alone: store in memory, no-op component
    W4,
    /// Brokers with acknowledgements: each bundled transport and its broker's own client on one connection; and through a whole host
    W5,
    /// A million messages wait over 1,000 keys and 10 tenants: claims, memory, fairness
    W6,
    /// Messages of a JetStream stream through the inbox to an HTTP handler, beside a worker by hand
    W7,
    /// An outbox table in PostgreSQL to NATS and over HTTP, beside relays by hand
    W8,
    /// Messages that JetStream, Kafka, Pulsar and Mosquitto keep through the inbox to a component that does nothing, beside clients that only read
    W9,
    /// Events appended to streams, in batches and one by one, beside Redis Streams that sync and JetStream
    W10,
    /// A million events of a stream, read from its beginning, beside async-nats' ordered consumer
    W11,
    /// Events as they come, to 1, 100 and 1,000 subscribers, beside Redis Streams and JetStream
    W12,
    /// W1b without telemetry, and with it exported to a receiver that throws it away, no trace and every trace recorded (only when named)
    Otel,
    /// The page's budget: first bytes of views and deliveries beside readers with 100,000 dead letters, W1b beside an open page, bytes and requests of a view (only when named)
    Page,
    /// Ten million messages through one data directory (only when named: it takes minutes)
    Endurance,
    /// A good transport beside each hostile behaviour of `tests/guests` (only when named)
    Hostile,
    /// A hundred million ids in the seen set, 10,000 messages a second, by the form of their ids (only when named: it takes hours)
    Seen,
}

impl Workload {
    /// What is measured when none is named.
    const USUAL: [Self; 15] = [
        Self::W1b,
        Self::W1s,
        Self::W1r,
        Self::W2,
        Self::W2f,
        Self::W3,
        Self::W4,
        Self::W5,
        Self::W6,
        Self::W7,
        Self::W8,
        Self::W9,
        Self::W10,
        Self::W11,
        Self::W12,
    ];

    /// Its measurements, in the order in which they are run in turn.
    fn parts(self) -> Vec<(String, Side)> {
        let parts: &[(&str, Side)] = match self {
            Self::W1b => &[("W1b", Side::Waybill), ("W1b", Side::Native), ("W1b", Side::Store)],
            Self::W1s => &[("W1s", Side::Waybill), ("W1s", Side::Native)],
            Self::W1r => &[("W1r", Side::Waybill), ("W1r", Side::Native)],
            Self::W2 => &[("W2", Side::Waybill), ("W2", Side::Store), ("W2 http", Side::Waybill)],
            Self::W2f => &[("W2f", Side::Waybill), ("W2f", Side::Store)],
            Self::W3 => &[("W3", Side::Waybill), ("W3", Side::Store), ("W3 header", Side::Waybill)],
            Self::W4 => &[("W4", Side::Waybill), ("W4", Side::Native)],
            Self::W5 => {
                let sides = |(alone, through): (String, String)| {
                    [(alone.clone(), Side::Waybill), (alone, Side::Native), (through, Side::Waybill)]
                };
                return broker::names().flat_map(sides).collect();
            }
            Self::W6 => &[("W6 10k", Side::Waybill), ("W6 1M", Side::Waybill), ("W6 fair", Side::Waybill)],
            Self::W7 => &inbound::W7,
            Self::W8 => &relay::PARTS,
            Self::W9 => {
                let all = inbound::W9.iter().chain(&kept::PARTS);
                return all.map(|(name, side)| ((*name).to_owned(), *side)).collect();
            }
            Self::W10 => &append::PARTS,
            Self::W11 => &replay::PARTS,
            Self::W12 => &live::PARTS,
            Self::Otel => &traced::PARTS,
            Self::Page | Self::Endurance | Self::Hostile | Self::Seen => &[],
        };
        parts.iter().map(|(name, side)| ((*name).to_owned(), *side)).collect()
    }

    /// Messages or sagas of one run: some seconds on two cores.
    fn messages(self) -> u64 {
        match self {
            Self::W1b | Self::Otel | Self::Page => 200_000,
            Self::W1s => 100_000,
            Self::W3 => 200_000,
            Self::W1r => 2_000,
            Self::W2 | Self::W2f => 40_000,
            Self::W4 => 1_000_000,
            Self::W5 => 200_000,
            Self::W6 => 1_000_000,
            Self::W7 | Self::W8 => 100_000,
            Self::W9 | Self::W10 => 200_000,
            Self::W11 => 1_000_000,
            Self::W12 => 10_000,
            Self::Endurance => 10_000_000,
            // By time, not by number.
            Self::Hostile | Self::Seen => 0,
        }
    }
}

/// What the runs share.
pub struct Bench {
    repository: Repository,
    binary: PathBuf,
    /// Parts of Waybill by themselves: `tests/examples/alone.rs`.
    alone: PathBuf,
    /// Native clients of brokers, relays and workers by hand: `tests/natives`.
    natives: PathBuf,
    /// A handler that does nothing: `tests/idle-handler`.
    idle_handler: PathBuf,
    /// A participant that does nothing: `tests/idle`.
    idle: PathBuf,
    /// The store's commits of sagas: `host/store/examples/saga_commit.rs`.
    commits: PathBuf,
    /// Fills a seen set: `host/store/examples/seen_fill.rs`.
    seen_fill: PathBuf,
    config: String,
}

pub async fn run(arguments: &Arguments) -> Result<ExitCode> {
    if let Some([kind, target, messages]) = arguments.reference.as_deref() {
        let messages = messages.parse().context("the number of messages")?;
        native::here(kind, target, messages).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let repository = Repository::find()?;
    let needs_host = |workload: &Workload| *workload != Workload::Hostile;
    let binary = match &arguments.binary {
        Some(binary) => binary.clone(),
        None if !arguments.workloads.is_empty() && !arguments.workloads.iter().any(needs_host) => PathBuf::new(),
        None => repository.built_binary()?,
    };
    let workloads = if arguments.workloads.is_empty() { &Workload::USUAL } else { arguments.workloads.as_slice() };
    let chosen = |side: Side| arguments.only.is_none_or(|only| only == side);
    let runs_parts = |workload: &Workload| match workload {
        Workload::W4 | Workload::W5 => true,
        Workload::W1b | Workload::W3 => chosen(Side::Store),
        _ => false,
    };
    let alone = if workloads.iter().any(runs_parts) { native::alone(&repository)? } else { PathBuf::new() };
    // They also fill the streams that others read.
    let runs_natives = |workload: &Workload| match workload {
        Workload::W5 | Workload::W7 | Workload::W8 | Workload::W9 => true,
        Workload::W10 | Workload::W11 | Workload::W12 => chosen(Side::Native),
        _ => false,
    };
    let natives = if workloads.iter().any(runs_natives) { native::clients(&repository)? } else { PathBuf::new() };
    let runs_seen = workloads.contains(&Workload::Seen);
    let runs_handler = runs_seen || workloads.contains(&Workload::W9);
    let idle_handler = if runs_handler { inbound::idle_handler(&repository)? } else { PathBuf::new() };
    let seen_fill = if runs_seen { store::example(&repository, seen::EXAMPLE)? } else { PathBuf::new() };
    let runs_sagas = workloads.iter().any(|workload| matches!(workload, Workload::W2 | Workload::W2f));
    let idle = if runs_sagas { saga::idle(&repository)? } else { PathBuf::new() };
    let runs_commits = runs_sagas && chosen(Side::Store);
    let commits = if runs_commits { store::build(&repository)? } else { PathBuf::new() };
    let config = arguments.config.clone();
    let bench = Bench { natives, idle, idle_handler, commits, seen_fill, repository, binary, alone, config };
    let mut report = Report::new(arguments.json.as_deref())?;
    for workload in workloads {
        let messages = arguments.thousands.map_or(workload.messages(), |thousands| thousands * 1_000);
        if *workload == Workload::Page {
            eprintln!("page: {} rounds, {messages} messages of W1b", arguments.rounds);
            let page = page::run(&bench, arguments.rounds, messages).await?;
            report.keep(&page.lines()?)?;
            print!("{page}");
        }
        if *workload == Workload::Endurance {
            eprintln!("endurance: {messages} messages");
            let endurance = endurance::run(&bench, messages).await?;
            report.keep(&endurance.lines()?)?;
            print!("{endurance}");
        }
        if *workload == Workload::Hostile {
            eprintln!("hostile: each behaviour for some seconds");
            let hostile = hostile::run(&bench.repository).await?;
            report.keep(&hostile.lines()?)?;
            print!("{hostile}");
        }
        if *workload == Workload::Seen {
            eprintln!("seen: {} million ids, {} s of load", arguments.millions, arguments.seconds);
            let seen = seen::run(&bench, &arguments.forms, arguments.millions, arguments.seconds).await?;
            report.keep(&seen.lines()?)?;
            print!("{seen}");
        }
        for round in 1..=arguments.rounds {
            for (name, side) in workload.parts() {
                if !chosen(side) {
                    continue;
                }
                eprintln!("{name} {side}, round {round} of {}", arguments.rounds);
                let figure = bench.measure(&name, side, messages).await?;
                report.take(&name, side, &figure)?;
            }
        }
    }
    print!("{report}");
    Ok(ExitCode::SUCCESS)
}

impl Bench {
    /// One run of one side.
    async fn measure(&self, name: &str, side: Side, messages: u64) -> Result<Figure> {
        match (name, side) {
            ("W1b", Side::Waybill) => delivery::in_batches(self, messages, "").await,
            (name, Side::Waybill) if name.starts_with("W1b otel ") => traced::measure(self, name, messages).await,
            ("W1s", Side::Waybill) => delivery::one_by_one(self, messages).await,
            ("W1r", Side::Waybill) => latency::trickle(self, messages).await,
            ("W1b" | "W1s", Side::Native) => native::post(messages).await,
            ("W1b", Side::Store) => native::on_disk(self, "segments", messages).await,
            ("W1r", Side::Native) => latency::direct(messages).await,
            ("W2", Side::Waybill) => saga::sagas(self, saga::Kind::Through, messages).await,
            ("W2", Side::Store) => store::sagas(self, false).await,
            ("W2f", Side::Store) => store::sagas(self, true).await,
            ("W2 http", Side::Waybill) => saga::sagas(self, saga::Kind::Http, messages).await,
            ("W2f", Side::Waybill) => saga::sagas(self, saga::Kind::Back, messages).await,
            ("W3", Side::Waybill) => idempotent::by_api(self, messages).await,
            ("W3", Side::Store) => native::on_disk(self, "keys", messages).await,
            ("W3 header", _) => idempotent::by_header(self, messages).await,
            ("W4", Side::Waybill) => native::part(self, "engine", messages).await,
            ("W4", Side::Native) => native::part(self, "boundary", messages).await,
            (name, side) if name.starts_with("W5 ") => broker::measure(self, name, side, messages).await,
            ("W6 10k", _) => backlog::claims(self, 10_000).await,
            ("W6 1M", _) => backlog::claims(self, messages).await,
            ("W6 fair", _) => backlog::fairness(self, messages).await,
            ("W7", Side::Waybill) => inbound::handled(self, messages).await,
            ("W7", Side::Native) => inbound::worked(self, messages).await,
            ("W7 200/s", Side::Waybill) => inbound::trickled(self).await,
            ("W7 200/s", Side::Native) => inbound::worked_trickle(self).await,
            ("W7 no source", _) => inbound::at_rest(self).await,
            (name, side) if name.starts_with("W8 ") => relay::measure(self, name, side, messages).await,
            ("W9", Side::Waybill) => inbound::consumed(self, messages, false).await,
            ("W9", Side::Native) => inbound::fetched(self, messages).await,
            ("W9 keys", _) => inbound::consumed(self, messages, true).await,
            (name, side) if name.starts_with("W9 ") => kept::measure(self, name, side, messages).await,
            (name, side) if name.starts_with("W10 ") => append::measure(self, name, side, messages).await,
            ("W11", Side::Waybill) => replay::subscribed(self, replay::BY_GRPC, messages).await,
            ("W11 sse", Side::Waybill) => replay::subscribed(self, replay::BY_SSE, messages).await,
            ("W11", Side::Native) => replay::consumed(self, "replay-nats", messages).await,
            ("W11 codec", Side::Native) => replay::consumed(self, "replay-codec", messages).await,
            (name, side) if name.starts_with("W12 ") => live::measure(self, name, side, messages).await,
            (name, side) => bail!("{name} has no side {side}"),
        }
    }

    /// Where a run keeps its data: on the disk that the repository is on.
    fn folder(&self) -> Result<tempfile::TempDir> {
        let parent = self.repository.target.join("bench");
        std::fs::create_dir_all(&parent).with_context(|| format!("making {}", parent.display()))?;
        tempfile::tempdir_in(&parent).with_context(|| format!("making a folder in {}", parent.display()))
    }
}

fn all_arrived(arrived: bool, sink: u64, wanted: u64) -> Result<()> {
    if !arrived {
        bail!("{sink} of {wanted} messages arrived, and then nothing for a while");
    }
    Ok(())
}
