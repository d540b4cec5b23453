//! `waybill plugin call`: one step of a participant by hand, in the real sandbox.

mod answer;
mod context;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::Args;
use serde_json::{Map, Value};
use waybill_core::code::Code;
use waybill_core::endpoint::{EndpointSettings, Grants, PluginRef};
use waybill_core::json_fault::placed_fault;
use waybill_core::port::kv::KvQuota;
use waybill_core::port::participant::{Direction, Participant, StepContext};
use waybill_core::port::transport::ErrorKind;
use waybill_core::step_address::StepAddress;
use waybill_engine::{Participants, StepLookupError};
use waybill_sandbox::{
    CompileLimits, ComponentSource, EndpointSpec, Fleet, FleetOptions, LoadedPlugin, MemoryKv, ParticipantLimits,
    SandboxError, SwapError, WasmParticipant, World, check_config, check_grants, participant_steps,
};

use super::sandbox::{self, Cache};
use crate::exit::{CliError, Exit};
use crate::logging;
use crate::output::Format;
use crate::term::Term;
use answer::Answer;

/// Time for the instance to say goodbye.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// What is called, and with what.
#[derive(Debug, Args)]
pub struct Call {
    /// fn:PARTICIPANT/STEP of the configuration (fn:STEP where one serves it), or the path of a .wasm
    #[arg(value_name = "ADDRESS|FILE")]
    pub target: String,
    /// The step, after a path
    pub step: Option<String>,
    /// Input of the step, as JSON or @FILE
    #[arg(long, value_name = "JSON|@FILE", default_value = "{}")]
    pub input: String,
    /// Undo the step instead
    #[arg(long)]
    pub compensate: bool,
    /// What doing it answered, as JSON or @FILE; without it the compensation is told that nobody knows
    #[arg(long, value_name = "JSON|@FILE", requires = "compensate")]
    pub output_of: Option<String>,
    /// Part of the context: saga-id, definition, definition-version, step, attempt, envelope-id, correlation-id, saga-deadline
    /// (RFC 3339), header.NAME; any other name is an attribute. May be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub context: Vec<String>,
    /// Whose saga it is
    #[arg(long, default_value = "default")]
    pub tenant: String,
    /// Configuration of the plugin, as JSON or @FILE; with a path only
    #[arg(long, value_name = "JSON|@FILE")]
    pub plugin_config: Option<String>,
    /// A peer it may reach, e.g. https://stock.example; with a path only. May be repeated
    #[arg(long, value_name = "PEER")]
    pub allow: Vec<String>,
    /// A secret it may read, e.g. key=env:STOCK_KEY; with a path only. May be repeated
    #[arg(long, value_name = "NAME=REFERENCE")]
    pub secret: Vec<String>,
}

/// What a step is called with.
pub struct Request {
    direction: Direction,
    input: Bytes,
    /// What doing it answered, for a compensation.
    output: Option<Bytes>,
    context: StepContext,
}

impl Request {
    pub fn read(args: &Call) -> Result<Self, CliError> {
        let input = document("--input", &args.input)?;
        let output = args.output_of.as_deref().map(|text| document("--output-of", text)).transpose()?;
        let direction = if args.compensate { Direction::Compensate } else { Direction::Execute };
        Ok(Self { direction, input, output, context: context::read(args)? })
    }
}

/// A step of a participant whose plugin is loaded and whose settings fit it.
pub struct Callee {
    pub plugin: LoadedPlugin,
    /// Its name, configuration and grants.
    pub endpoint: EndpointSpec,
    pub step: String,
}

/// Has what the plugin logs shown: that is half of what one calls it for.
pub fn show_log(term: &Term) {
    if !term.quiet {
        logging::start("info", false, term.color_errors());
    }
}

/// Calls it and writes what it answers.
pub async fn run(
    request: Request,
    callee: Callee,
    timeout: Duration,
    format: Format,
    term: &mut Term,
) -> Result<(), CliError> {
    let Callee { plugin, endpoint, step } = callee;
    let (name, grants) = (endpoint.settings.name.clone(), &endpoint.settings.grants);
    if grants.kv.is_some() && plugin.manifest().ask.kv {
        term.say("kv is empty and forgotten after the call: the host's store isn't touched");
    }
    let limits = ParticipantLimits::of(&endpoint.settings);
    let endpoint = EndpointSpec { kv: Some(Arc::new(MemoryKv::default())), ..endpoint };
    let (participant, opened) =
        WasmParticipant::start(plugin, endpoint, limits).await.map_err(|error| of_sandbox(&name, &error))?;
    if let Err(error) = opened {
        participant.close(CLOSE_TIMEOUT).await;
        return Err(of_sandbox(&name, &error));
    }
    let participants = Participants::new([participant as Arc<dyn Participant>]);
    let address = StepAddress { participant: Some(name), step }.to_string();
    let Request { direction, input, output, context } = request;
    let started = Instant::now();
    let answer = match direction {
        Direction::Execute => {
            let answered = participants.call(&address, &context, input, timeout).await;
            answered.map(|answered| Answer::executed(&answered.by, answered.result))
        }
        Direction::Compensate => {
            let answered = participants.compensate(&address, &context, input, output, timeout).await;
            answered.map(|answered| Answer::compensated(&answered.by, answered.result))
        }
    };
    let took = started.elapsed();
    participants.close(CLOSE_TIMEOUT).await;
    answer::show(term, format, &answer.map_err(of_lookup)?, &address, &context.idempotency_key(direction), took)
}

/// A participant from a file, with what the flags say.
pub async fn from_file(args: &Call, cache: Cache, host_id: String, term: &Term) -> Result<Callee, CliError> {
    let Some(step) = &args.step else {
        return Err(CliError::usage(
            format!("which step of {} is to be called isn't said", args.target),
            format!("write: waybill plugin call {} STEP", args.target),
        ));
    };
    let path = Path::new(&args.target);
    if !path.is_file() {
        return Err(CliError::Host {
            code: Code::CONFIG_PLUGIN_MISSING,
            what: format!(
                "{:?} is neither an fn: address nor a readable file\n  fix write fn:PARTICIPANT/STEP, or the path of a .wasm",
                args.target
            ),
            exit: Exit::NotFound,
        });
    }
    let component = std::fs::read(path).map_err(CliError::io(format!("reading {}", args.target)))?;
    let fleet = sandbox::fleet(cache.of(&component), CompileLimits::default(), &FleetOptions::default(), term)
        .map_err(|error| of_sandbox(&args.target, &error))?;
    let config = match &args.plugin_config {
        Some(text) => serde_json::from_slice(&document("--plugin-config", text)?).unwrap_or(Value::Null),
        None => Value::Object(Map::new()),
    };
    let inspection = waybill_sandbox::inspect(&component).map_err(|error| of_sandbox(&args.target, &error))?;
    let name = inspection.manifest.name;
    let settings = EndpointSettings {
        plugin: PluginRef::File(path.to_owned()),
        config,
        grants: Grants {
            peers: args.allow.clone(),
            // Who names a peer here knows where it leads.
            internal: true,
            secrets: args.secret.iter().map(|text| secret(text)).collect::<Result<_, _>>()?,
            kv: Some(KvQuota::default()),
            ..Grants::none()
        },
        ..EndpointSettings::new(name)
    };
    let plugin = load(&fleet, path, &settings).await.map_err(|error| of_swap(&args.target, &error))?;
    Ok(Callee { plugin, endpoint: EndpointSpec { host_id, ..EndpointSpec::new(settings) }, step: step.clone() })
}

/// Loads a participant's plugin and checks its settings and steps.
async fn load(fleet: &Fleet, path: &Path, settings: &EndpointSettings) -> Result<LoadedPlugin, SwapError> {
    let plugin = fleet.load(&ComponentSource::File(path.to_owned()), None, World::Participant).await?;
    check_config(plugin.manifest(), &settings.name, &settings.config)?;
    participant_steps(&plugin).await?;
    let section = format!("participant.{}", settings.name);
    check_grants(plugin.manifest(), &section, &settings.grants, settings.instances)?;
    Ok(plugin)
}

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
            let what = format!("{flag} isn't JSON: {}", placed_fault(&error));
            Err(CliError::usage(what, "write JSON, or @FILE for a file that holds it"))
        }
    }
}

/// A step that can't be found.
pub fn of_lookup(error: StepLookupError) -> CliError {
    let exit = if matches!(error, StepLookupError::Address(_)) { Exit::Usage } else { Exit::NotFound };
    CliError::Host { code: error.code(), what: error.to_string(), exit }
}

/// A plugin that can't be loaded.
pub fn of_swap(name: &str, error: &SwapError) -> CliError {
    match error {
        SwapError::Plugin(error) => of_sandbox(name, error),
        other => CliError::Host { code: other.code(), what: format!("{name}: {other}"), exit: Exit::Usage },
    }
}

/// A plugin that can't be run.
pub fn of_sandbox(name: &str, error: &SandboxError) -> CliError {
    let exit = match error {
        SandboxError::Open { kind: ErrorKind::InvalidConfig | ErrorKind::Unsupported, .. } => Exit::Usage,
        SandboxError::Open { kind: ErrorKind::Denied, .. } => Exit::NotAllowed,
        SandboxError::Open { kind: ErrorKind::TimedOut, .. } => Exit::TimedOut,
        SandboxError::Open { .. } => Exit::Unreachable,
        _ => Exit::Usage,
    };
    CliError::Host { code: error.code(), what: format!("{name}: {error}"), exit }
}
