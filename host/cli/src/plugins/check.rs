//! `waybill plugin check`: would this host load it, and if not, why: each step that a start takes, with its result and fix.

use serde_json::{Value, json};
use waybill_sandbox::{
    CompileLimits, ComponentSource, LoadedPlugin, PluginSource, SandboxError, Trust, WasmTransport, World,
    check_config, check_grants, inspect, verify,
};

use super::{grants, test};
use crate::args::Format;
use crate::args::author::Check as Arguments;
use crate::config::{Allowed, Config, ParticipantSettings, TransportSettings};
use crate::exit::CliError;
use crate::output::{self, View, column, size, text};
use crate::setup;
use crate::term::Term;

/// The steps of loading, and what is refused in each.
const STEPS: [(&str, &[&str]); 4] = [
    ("component", &["PLUGIN.NOT_A_COMPONENT", "PLUGIN.CORE_MODULE", "PLUGIN.PRECOMPILED", "PLUGIN.TOO_LARGE"]),
    ("manifest", &["PLUGIN.NO_MANIFEST", "PLUGIN.BAD_MANIFEST", "PLUGIN.OTHER_WORLD"]),
    ("contract", &["PLUGIN.MISSING_EXPORT", "PLUGIN.CONTRACT_VERSION", "PLUGIN.UNKNOWN_IMPORT"]),
    ("compile and link", &[]),
];

/// One line of the answer.
struct Check {
    name: &'static str,
    status: &'static str,
    detail: String,
}

const VIEW: View<'_> = View {
    columns: &[
        column("CHECK", |item| text(item, "name")),
        column("STATUS", |item| text(item, "status")),
        column("DETAIL", |item| text(item, "detail")),
    ],
    id: |item| text(item, "name"),
    none: "nothing was checked",
};

/// Runs the checks and writes them. Fails when one failed.
pub async fn run(args: &Arguments, format: Format, term: &mut Term) -> Result<(), CliError> {
    let subject = subject(args, term)?;
    let mut checks = Vec::new();
    if let Some(plugin) = load(&subject, term, &mut checks).await? {
        match &subject.place {
            Some(place) => placed(&plugin, place, args.probe, &mut checks).await,
            None if args.probe => checks.push(Check {
                name: "probe",
                status: "fail",
                detail: "a probe needs settings: name the transport with --transport".into(),
            }),
            None => {}
        }
    }
    let failed = checks.iter().filter(|check| check.status == "fail").count();
    let count = checks.len();
    let items: Vec<Value> = checks
        .into_iter()
        .map(|check| json!({ "name": check.name, "status": check.status, "detail": check.detail }))
        .collect();
    output::list(term, format, &items, &VIEW)?;
    if failed == 0 { Ok(()) } else { Err(CliError::Checks { failed, count }) }
}

/// What is checked, and in which place.
struct Subject {
    component: ComponentSource,
    place: Option<Place>,
    trust: Trust,
    /// Bounds of compiling.
    compile: CompileLimits,
    /// Digest that the configuration pins.
    pin: Option<String>,
}

/// A transport or a participant of the configuration: what a plugin gets there.
struct Place {
    world: World,
    /// `transport.NAME` or `participant.NAME`.
    section: String,
    name: String,
    config: Value,
    allow: Allowed,
    secrets: Vec<(String, String)>,
    memory: Option<u64>,
    instances: u32,
}

impl From<&TransportSettings> for Place {
    fn from(of: &TransportSettings) -> Self {
        Self {
            world: World::Transport,
            section: format!("transport.{}", of.name),
            name: of.name.clone(),
            config: of.config.clone(),
            allow: of.allow.clone(),
            secrets: of.secrets.clone(),
            memory: of.memory,
            instances: of.instances,
        }
    }
}

impl From<&ParticipantSettings> for Place {
    fn from(of: &ParticipantSettings) -> Self {
        Self {
            world: World::Participant,
            section: format!("participant.{}", of.name),
            name: of.name.clone(),
            config: of.config.clone(),
            allow: of.allow.clone(),
            secrets: of.secrets.clone(),
            memory: of.memory,
            instances: of.instances,
        }
    }
}

fn subject(args: &Arguments, term: &Term) -> Result<Subject, CliError> {
    let config = setup::configuration(&args.config, Vec::new(), term)?;
    let trust = super::trust(&config.plugins);
    let compile = super::compile_limits(&config.plugins);
    let named = waybill_bundled::find(&args.plugin);
    let is_component = args.plugin.ends_with(".wasm") || named.is_some();
    let place = match (&args.transport, &args.participant) {
        (Some(name), _) => Some(Place::from(transport(&config, name)?)),
        (None, Some(name)) => Some(Place::from(participant(&config, name)?)),
        (None, None) if is_component => None,
        (None, None) => return in_its_place(&args.plugin, &config, trust, compile),
    };
    let component = match named {
        Some(bundled) => ComponentSource::Bundled { name: args.plugin.clone(), component: bundled.component },
        None => ComponentSource::File(args.plugin.clone().into()),
    };
    Ok(Subject { component, place, trust, compile, pin: None })
}

/// The plugin that the configuration names for a transport or a participant.
fn in_its_place(name: &str, config: &Config, trust: Trust, compile: CompileLimits) -> Result<Subject, CliError> {
    let (plugin, pin, place) = match participant(config, name) {
        Ok(settings) => (&settings.plugin, None, Place::from(settings)),
        Err(_) => {
            let settings = transport(config, name)?;
            (&settings.plugin, settings.sha256.clone(), Place::from(settings))
        }
    };
    let component = super::source(plugin).map_err(|error| test::of_sandbox(&error))?;
    Ok(Subject { component, pin, place: Some(place), trust, compile })
}

/// Fetches, verifies and loads; none if one of them said no.
async fn load(subject: &Subject, term: &Term, checks: &mut Vec<Check>) -> Result<Option<LoadedPlugin>, CliError> {
    let fetched = match subject.component.fetch() {
        Ok(fetched) => fetched,
        Err(error) => {
            checks.push(refused("component", error.code(), &error));
            return Ok(None);
        }
    };
    let name = "signature";
    match verify(&fetched, &subject.trust, subject.pin.as_deref()) {
        Ok(state) => checks.push(Check { name, status: "ok", detail: state.words() }),
        Err(error) => checks.push(refused(name, error.code(), &error)),
    }
    let world = match &subject.place {
        Some(place) => place.world,
        // What can't be read is told by the first step.
        None => inspect(fetched.bytes()).map_or(World::Transport, |inspection| inspection.manifest.world),
    };
    let source = PluginSource::Bytes(fetched.bytes().into());
    let loaded = test::sandbox(term, subject.compile)?.load(source, world).await;
    loading(&loaded, checks);
    Ok(loaded.ok())
}

fn refused(name: &'static str, code: &str, error: &dyn std::fmt::Display) -> Check {
    Check { name, status: "fail", detail: format!("{code}: {error}") }
}

fn transport<'a>(config: &'a Config, name: &str) -> Result<&'a TransportSettings, CliError> {
    config.transports.iter().find(|settings| settings.name == name).ok_or_else(|| unknown(config, name))
}

fn participant<'a>(config: &'a Config, name: &str) -> Result<&'a ParticipantSettings, CliError> {
    config.participants.iter().find(|settings| settings.name == name).ok_or_else(|| unknown(config, name))
}

fn unknown(config: &Config, name: &str) -> CliError {
    let listed = |names: Vec<&str>| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let transports = listed(config.transports.iter().map(|settings| settings.name.as_str()).collect());
    let participants = listed(config.participants.iter().map(|settings| settings.name.as_str()).collect());
    CliError::usage(
        format!("{name:?} is neither a .wasm, nor bundled, nor a transport or participant of the configuration"),
        format!("transports: {transports}; participants: {participants}; choose another file with --config"),
    )
}

/// The steps up to a linked component: all before the one that refused it are well.
fn loading(loaded: &Result<LoadedPlugin, SandboxError>, checks: &mut Vec<Check>) {
    let refused = loaded.as_ref().err();
    let at = refused
        .map(|error| STEPS.iter().position(|(_, codes)| codes.contains(&error.code())).unwrap_or(STEPS.len() - 1));
    for (index, (name, _)) in STEPS.iter().enumerate() {
        match (at, refused) {
            (Some(at), Some(error)) if index == at => {
                checks.push(Check { name, status: "fail", detail: format!("{}: {error}", error.code()) });
                return;
            }
            _ => checks.push(Check { name, status: "ok", detail: well(name, loaded.as_ref().ok()) }),
        }
    }
}

/// What is told of a step that went well.
fn well(step: &str, plugin: Option<&LoadedPlugin>) -> String {
    let Some(plugin) = plugin else { return "well".into() };
    let (inspection, manifest) = (plugin.inspection(), plugin.manifest());
    match step {
        "component" => format!("{}, {}", size(inspection.bytes as u64), inspection.digest),
        "manifest" => format!("{} {}, a {} plugin", manifest.name, manifest.version, manifest.world),
        "contract" => format!("waybill:plugin@{}, {} imports", manifest.contract, inspection.imports.len()),
        _ => format!("{:?}", plugin.origin()).to_lowercase(),
    }
}

/// What depends on the place: configuration, grants, and whether it opens there.
async fn placed(plugin: &LoadedPlugin, place: &Place, probe: bool, checks: &mut Vec<Check>) {
    let name = "config";
    let valid = check_config(plugin.manifest(), &place.name, &place.config);
    checks.push(match &valid {
        Ok(_) => Check { name, status: "ok", detail: "valid by its schema".into() },
        Err(error) => Check { name, status: "fail", detail: format!("{}: {error}", error.code()) },
    });
    let granted = grants(&place.allow, &place.secrets, place.memory);
    checks.push(match &granted {
        Ok(granted) => match check_grants(plugin.manifest(), &place.section, granted, place.instances) {
            Ok(()) => asks(plugin, place),
            Err(error) => refused("grants", error.code(), &error),
        },
        Err(error) => Check { name: "grants", status: "fail", detail: format!("{}: {error}", error.code()) },
    });
    let (Ok(_), Ok(granted), true) = (valid, granted, probe) else { return };
    if place.world != World::Transport {
        let detail = "only transports are probed; `waybill plugin call` runs a step of a participant".into();
        checks.push(Check { name: "probe", status: "fail", detail });
        return;
    }
    let probed = WasmTransport::probe(
        plugin.clone(),
        waybill_sandbox::TransportSettings {
            config: place.config.clone(),
            grants: granted,
            ..waybill_sandbox::TransportSettings::new(&place.name)
        },
    );
    checks.push(match probed.await {
        Ok(report) => {
            let detail = report.detail.map(|detail| format!(": {detail}")).unwrap_or_default();
            Check { name: "probe", status: "ok", detail: format!("opened, health {:?}{detail}", report.health) }
        }
        Err(error) => Check { name: "probe", status: "fail", detail: format!("{}: {error}", error.code()) },
    });
}

/// What it asks for and isn't granted: it will be told `denied` there.
fn asks(plugin: &LoadedPlugin, place: &Place) -> Check {
    let ask = &plugin.manifest().ask;
    let mut missing = Vec::new();
    if !ask.net.is_empty() && !place.allow.peers.iter().any(|peer| peer.starts_with("tcp://")) {
        missing.push("peers for net: allow = { net = [\"tcp://HOST:PORT\"] }".to_owned());
    }
    if !ask.http.is_empty() && !place.allow.peers.iter().any(|peer| peer.starts_with("http")) {
        missing.push("peers for http: allow = { http = [\"https://HOST\"] }".to_owned());
    }
    for secret in ask.secrets.iter().filter(|secret| !place.secrets.iter().any(|(name, _)| name == *secret)) {
        missing.push(format!("the secret {secret}: secrets = {{ {secret} = \"env:NAME\" }}"));
    }
    if ask.kv && place.allow.kv.is_none() {
        missing.push("durable state: allow = { kv = \"1MiB\" }".to_owned());
    }
    let name = "grants";
    if missing.is_empty() {
        return Check { name, status: "ok", detail: "everything it asks for".into() };
    }
    let detail = format!("not granted in [{}]:\n{}", place.section, missing.join("\n"));
    Check { name, status: "warn", detail }
}
