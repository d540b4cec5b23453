//! `waybill plugin call`: one step of a participant by hand, in the real sandbox.

mod context;
mod shown;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::Value;
use waybill_core::port::kv::KvStore;
use waybill_core::port::participant::{Direction, Participant};
use waybill_core::port::transport::ErrorKind;
use waybill_core::step_address::StepAddress;
use waybill_engine::{Participants, StepLookupError};
use waybill_sandbox::{
    CompileLimits, CompilerProcess, Fleet, FleetOptions, MemoryKv, Sandbox, SandboxError, SandboxOptions, SwapError,
    limits, participant_steps,
};

use super::cache::open_with_or_without;
use super::{PreparedParticipant, prepare_participant};
use crate::args::Global;
use crate::args::call::Call;
use crate::config::{Allowed, Config, LogFormat, LogSettings, ParticipantSettings, PluginSource, cache_folder};
use crate::data;
use crate::exit::{CliError, Exit};
use crate::serve::{compose, logging};
use crate::setup;
use crate::term::Term;
use shown::{Shown, show};

/// Time for the instance to say goodbye.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs it.
pub async fn run(args: &Call, global: &Global, term: &mut Term) -> Result<(), CliError> {
    let input = document("--input", &args.input)?;
    let output = args.output_of.as_deref().map(|text| document("--output-of", text)).transpose()?;
    let context = context::read(args)?;
    if !term.quiet {
        // What the plugin logs is half of what one calls it for.
        let settings = LogSettings { level: "info".into(), format: LogFormat::Text };
        logging::start(&settings, term.color_errors());
    }
    let (prepared, step) = find(args, term).await?;
    let name = prepared.settings.name.clone();
    if prepared.grants.kv.is_some() && prepared.plugin.manifest().ask.kv {
        term.say("kv is empty and forgotten after the call: the host's store isn't touched");
    }
    let kv: Arc<dyn KvStore> = Arc::new(MemoryKv::default());
    let (participant, opened) =
        compose::participant(prepared, &compose::host_name(), &kv).await.map_err(|error| of_sandbox(&name, &error))?;
    if let Err(error) = opened {
        participant.close(CLOSE_TIMEOUT).await;
        return Err(of_sandbox(&name, &error));
    }
    let participants = Participants::new([participant as Arc<dyn Participant>]);
    let address = StepAddress { participant: Some(name), step }.to_string();
    let started = Instant::now();
    let direction = if args.compensate { Direction::Compensate } else { Direction::Execute };
    let shown = match direction {
        Direction::Execute => {
            let answered = participants.call(&address, &context, input, global.timeout).await;
            answered.map(|answered| Shown::executed(&answered.by, answered.result))
        }
        Direction::Compensate => {
            let answered = participants.compensate(&address, &context, input, output, global.timeout).await;
            answered.map(|answered| Shown::compensated(&answered.by, answered.result))
        }
    };
    let took = started.elapsed();
    participants.close(CLOSE_TIMEOUT).await;
    show(term, global.output, &shown.map_err(of_lookup)?, &address, &context.idempotency_key(direction), took)
}

/// The participant with its step's name, loaded.
async fn find(args: &Call, term: &Term) -> Result<(PreparedParticipant, String), CliError> {
    if !args.target.starts_with("fn:") {
        return from_file(args, term).await;
    }
    let only_with_path = [
        (args.step.is_some(), "STEP"),
        (args.plugin_config.is_some(), "--plugin-config"),
        (!args.allow.is_empty(), "--allow"),
        (!args.secret.is_empty(), "--secret"),
    ];
    if let Some((_, what)) = only_with_path.iter().find(|(given, _)| *given) {
        return Err(CliError::usage(
            format!("{what} can't be given with {}", args.target),
            "with an fn: address the step is in it and the rest is in the configuration",
        ));
    }
    let address = StepAddress::parse(&args.target).map_err(|error| of_lookup(error.into()))?;
    let config = setup::configuration(&args.config, Vec::new(), term)?;
    let options = FleetOptions {
        trust: super::trust(&config.plugins),
        folder: config.plugins.folder.clone(),
        // What a host keeps for its next start is its own.
        ..FleetOptions::default()
    };
    let compiler = super::compiler(super::compile_limits(&config.plugins), term);
    let cache = config.plugins.cache.clone().filter(|_| data::seal_is_ours(&config));
    let fleet =
        fleet(cache, data::seal_key(&config), compiler, options).map_err(|error| of_sandbox(&args.target, &error))?;
    let prepared = match &address.participant {
        Some(name) => configured(&fleet, &config, name).await?,
        None => serving(&fleet, &config, &address.step).await?,
    };
    Ok((prepared, address.step))
}

async fn configured(fleet: &Fleet, config: &Config, name: &str) -> Result<PreparedParticipant, CliError> {
    let Some(settings) = config.participants.iter().find(|settings| settings.name == name) else {
        let configured = config.participants.iter().map(|settings| settings.name.clone()).collect();
        return Err(of_lookup(StepLookupError::NoParticipant { participant: name.to_owned(), configured }));
    };
    prepare_participant(fleet, settings).await.map_err(|error| of_swap(name, &error))
}

/// The one participant that serves a step.
async fn serving(fleet: &Fleet, config: &Config, step: &str) -> Result<PreparedParticipant, CliError> {
    let mut found = Vec::new();
    let mut served = Vec::new();
    for settings in &config.participants {
        let prepared = configured(fleet, config, &settings.name).await?;
        let steps = participant_steps(&prepared.plugin).await.map_err(|error| of_sandbox(&settings.name, &error))?;
        served.extend(steps.iter().map(|info| format!("{}/{}", settings.name, info.name)));
        if steps.iter().any(|info| info.name == step) {
            found.push(prepared);
        }
    }
    if found.len() > 1 {
        let participants = found.iter().map(|prepared| prepared.settings.name.clone()).collect();
        return Err(of_lookup(StepLookupError::Ambiguous { step: step.to_owned(), participants }));
    }
    let none = StepLookupError::NoStep { participant: None, step: step.to_owned(), served };
    found.pop().ok_or_else(|| of_lookup(none))
}

/// A participant from a file, with what the flags say.
async fn from_file(args: &Call, term: &Term) -> Result<(PreparedParticipant, String), CliError> {
    let Some(step) = &args.step else {
        return Err(CliError::usage(
            format!("which step of {} is to be called isn't said", args.target),
            format!("write: waybill plugin call {} STEP", args.target),
        ));
    };
    let path = Path::new(&args.target);
    if !path.is_file() {
        return Err(CliError::Host {
            code: "CONFIG.PLUGIN_MISSING",
            what: format!(
                "{:?} is neither an fn: address nor a readable file\n  fix write fn:PARTICIPANT/STEP, or the path of a .wasm",
                args.target
            ),
            exit: Exit::NotFound,
        });
    }
    let compiler = super::compiler(CompileLimits::default(), term);
    let fleet = fleet(cache_folder(), data::platform_seal_key(), compiler, FleetOptions::default())
        .map_err(|error| of_sandbox(&args.target, &error))?;
    let config = match &args.plugin_config {
        Some(text) => serde_json::from_slice(&document("--plugin-config", text)?).unwrap_or(Value::Null),
        None => Value::Object(serde_json::Map::new()),
    };
    let name =
        waybill_sandbox::inspect(&std::fs::read(path).map_err(CliError::io(format!("reading {}", args.target)))?)
            .map_err(|error| of_sandbox(&args.target, &error))?
            .manifest
            .name;
    let settings = ParticipantSettings {
        name,
        plugin: PluginSource::File(path.to_owned()),
        instances: 1,
        config,
        // Who names a peer here knows where it leads.
        allow: Allowed { peers: args.allow.clone(), internal: true, kv: Some(KV_BYTES) },
        secrets: args.secret.iter().map(|text| secret(text)).collect::<Result<_, _>>()?,
        memory: None,
        call_time: limits::PARTICIPANT_CALL_TIME,
    };
    let prepared = prepare_participant(&fleet, &settings).await.map_err(|error| of_swap(&args.target, &error))?;
    Ok((prepared, step.clone()))
}

/// Durable state that a plugin called from a file may use; it is forgotten.
const KV_BYTES: u64 = 1 << 20;

fn secret(text: &str) -> Result<(String, String), CliError> {
    match text.split_once('=') {
        Some((name, reference)) if reference.starts_with("env:") || reference.starts_with("file:") => {
            Ok((name.to_owned(), reference.to_owned()))
        }
        // The text isn't repeated: it may hold the secret itself.
        _ => Err(CliError::usage("--secret isn't a reference", "write --secret NAME=env:VARIABLE or NAME=file:/path")),
    }
}

/// JSON given as text or as `@FILE`.
fn document(flag: &str, text: &str) -> Result<Bytes, CliError> {
    let bytes = match text.strip_prefix('@') {
        Some(path) => std::fs::read(path).map_err(CliError::io(format!("reading {path}")))?,
        None => text.as_bytes().to_vec(),
    };
    match serde_json::from_slice::<serde::de::IgnoredAny>(&bytes) {
        Ok(_) => Ok(bytes.into()),
        Err(error) => {
            Err(CliError::usage(format!("{flag} isn't JSON: {error}"), "write JSON, or @FILE for a file that holds it"))
        }
    }
}

fn of_lookup(error: StepLookupError) -> CliError {
    let exit = if matches!(error, StepLookupError::Address(_)) { Exit::Usage } else { Exit::NotFound };
    CliError::Host { code: error.code(), what: error.to_string(), exit }
}

/// A plugin host for one call.
fn fleet(
    cache_dir: Option<PathBuf>,
    seal_key: Option<PathBuf>,
    compiler: Option<CompilerProcess>,
    options: FleetOptions,
) -> Result<Fleet, SandboxError> {
    let sandbox = SandboxOptions { cache_dir, seal_key, compiler, ..SandboxOptions::default() };
    open_with_or_without(sandbox, |sandbox| {
        let sandbox = Sandbox::new(sandbox)?;
        sandbox.keep_seal()?;
        Fleet::new(sandbox, options.clone())
    })
}

fn of_swap(name: &str, error: &SwapError) -> CliError {
    match error {
        SwapError::Plugin(error) => of_sandbox(name, error),
        other => CliError::Host { code: other.code(), what: format!("{name}: {other}"), exit: Exit::Usage },
    }
}

fn of_sandbox(name: &str, error: &SandboxError) -> CliError {
    let exit = match error {
        SandboxError::Open { kind: ErrorKind::InvalidConfig | ErrorKind::Unsupported, .. } => Exit::Usage,
        SandboxError::Open { kind: ErrorKind::Denied, .. } => Exit::NotAllowed,
        SandboxError::Open { kind: ErrorKind::TimedOut, .. } => Exit::TimedOut,
        SandboxError::Open { .. } => Exit::Unreachable,
        _ => Exit::Usage,
    };
    CliError::Host { code: error.code(), what: format!("{name}: {error}"), exit }
}
