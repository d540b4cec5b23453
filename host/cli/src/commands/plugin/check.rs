//! `waybill plugin check`: would this host load it, and if not, why: each step that a start takes, with its result and fix.

use clap::Args;
use waybill_core::code::Code;
use waybill_core::endpoint::EndpointSettings;
use waybill_sandbox::{
    CompileLimits, ComponentSource, EndpointSpec, LoadedPlugin, PluginSource, SandboxError, Trust, WasmTransport,
    World, check_config, check_grants, inspect, verify,
};

use crate::author::sandbox;
use crate::config::Config;
use crate::exit::CliError;
use crate::output::checks::{self, Check};
use crate::output::{Format, size};
use crate::plugins;
use crate::setup::{self, ConfigArgs};
use crate::term::Term;

/// Whether a host would load a plugin.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  waybill plugin check my-broker.wasm\n  waybill plugin check orders --config waybill.toml --probe      the plugin of [transport.orders]\n  waybill plugin check new.wasm --transport orders --probe       a new one in its place\n\nThe exit code is 1 if a check failed."
)]
pub struct CheckArgs {
    /// A component, a bundled plugin's name, or the name of a transport or participant in the configuration
    #[arg(value_name = "FILE|NAME|TRANSPORT|PARTICIPANT")]
    pub plugin: String,
    /// Check it in the place of this transport's plugin
    #[arg(long, value_name = "NAME", conflicts_with = "participant")]
    pub transport: Option<String>,
    /// Check it in the place of this participant's plugin
    #[arg(long, value_name = "NAME")]
    pub participant: Option<String>,
    /// Also open it once beside what serves, and ask how it is
    #[arg(long)]
    pub probe: bool,
    /// Which configuration.
    #[command(flatten)]
    pub config: ConfigArgs,
}

/// The steps of loading, and what is refused in each.
const STEPS: [(&str, &[Code]); 4] = [
    (
        "component",
        &[Code::PLUGIN_NOT_A_COMPONENT, Code::PLUGIN_CORE_MODULE, Code::PLUGIN_PRECOMPILED, Code::PLUGIN_TOO_LARGE],
    ),
    ("manifest", &[Code::PLUGIN_NO_MANIFEST, Code::PLUGIN_BAD_MANIFEST, Code::PLUGIN_OTHER_WORLD]),
    ("contract", &[Code::PLUGIN_MISSING_EXPORT, Code::PLUGIN_CONTRACT_VERSION, Code::PLUGIN_UNKNOWN_IMPORT]),
    ("compile and link", &[]),
];

/// Runs the checks and writes them. Fails when one failed.
pub(super) async fn run(args: &CheckArgs, format: Format, term: &mut Term) -> Result<(), CliError> {
    let subject = subject(args, term)?;
    let mut checks = Vec::new();
    if let Some(plugin) = load(&subject, term, &mut checks).await? {
        match &subject.place {
            Some(place) => placed(&plugin, place, args.probe, &mut checks).await,
            None if args.probe => {
                checks.push(Check::fail("probe", "a probe needs settings: name the transport with --transport"));
            }
            None => {}
        }
    }
    checks::show(term, format, &checks)
}

/// What is checked, and in which place.
struct Subject {
    component: ComponentSource,
    place: Option<Place>,
    trust: Trust,
    compile: CompileLimits,
    /// Digest that the configuration pins.
    pin: Option<String>,
}

/// A transport or a participant of the configuration: what a plugin gets there.
struct Place {
    world: World,
    settings: EndpointSettings,
}

impl Place {
    fn section(&self) -> String {
        format!("{}.{}", self.world, self.settings.name)
    }
}

fn subject(args: &CheckArgs, term: &Term) -> Result<Subject, CliError> {
    let config = setup::configuration(&args.config, Vec::new(), term)?;
    let trust = plugins::trust(&config.plugins);
    let compile = plugins::compile_limits(&config.plugins);
    let named = waybill_bundled::find(&args.plugin);
    let is_component = args.plugin.ends_with(".wasm") || named.is_some();
    let place = match (&args.transport, &args.participant) {
        (Some(name), _) => Some(transport(&config, name)?),
        (None, Some(name)) => Some(participant(&config, name)?),
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
    let place = participant(config, name).or_else(|_| transport(config, name))?;
    let component = plugins::source(&place.settings.plugin).map_err(|error| sandbox::failed(&error))?;
    Ok(Subject { component, pin: place.settings.sha256.clone(), place: Some(place), trust, compile })
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
        Ok(state) => checks.push(Check::ok(name, state.words())),
        Err(error) => checks.push(refused(name, error.code(), &error)),
    }
    let world = match &subject.place {
        Some(place) => place.world,
        // What can't be read is told by the first step.
        None => inspect(fetched.bytes()).map_or(World::Transport, |inspection| inspection.manifest.world),
    };
    let source = PluginSource::Bytes(fetched.bytes().into());
    let loaded = sandbox::open(super::cache(), subject.compile, term)?.load(source, world).await;
    loading(&loaded, checks);
    Ok(loaded.ok())
}

fn refused(name: &'static str, code: Code, error: &dyn std::fmt::Display) -> Check {
    Check::fail(name, format!("{code}: {error}"))
}

fn transport(config: &Config, name: &str) -> Result<Place, CliError> {
    let settings = config.transports.iter().find(|settings| settings.name == name).cloned();
    settings.map(|settings| Place { world: World::Transport, settings }).ok_or_else(|| unknown(config, name))
}

fn participant(config: &Config, name: &str) -> Result<Place, CliError> {
    let settings = config.participants.iter().find(|settings| settings.name == name).cloned();
    settings.map(|settings| Place { world: World::Participant, settings }).ok_or_else(|| unknown(config, name))
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
    let failure = loaded.as_ref().err();
    let at = failure
        .map(|error| STEPS.iter().position(|(_, codes)| codes.contains(&error.code())).unwrap_or(STEPS.len() - 1));
    for (index, (name, _)) in STEPS.iter().enumerate() {
        match (at, failure) {
            (Some(at), Some(error)) if index == at => {
                checks.push(refused(name, error.code(), error));
                return;
            }
            _ => checks.push(Check::ok(name, well(name, loaded.as_ref().ok()))),
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
        "contract" => {
            let package = manifest.world.package();
            format!("{package}@{}, {} imports", manifest.contract, inspection.imports.len())
        }
        _ => format!("{:?}", plugin.origin()).to_lowercase(),
    }
}

/// What depends on the place: configuration, grants, and whether it opens there.
async fn placed(plugin: &LoadedPlugin, place: &Place, probe: bool, checks: &mut Vec<Check>) {
    let (name, settings) = ("config", &place.settings);
    let valid = check_config(plugin.manifest(), &settings.name, &settings.config);
    checks.push(match &valid {
        Ok(_) => Check::ok(name, "valid by its schema"),
        Err(error) => refused(name, error.code(), error),
    });
    let granted = check_grants(plugin.manifest(), &place.section(), &settings.grants, settings.instances);
    checks.push(match &granted {
        Ok(()) => asks(plugin, place),
        Err(error) => refused("grants", error.code(), error),
    });
    if !probe || valid.is_err() || matches!(granted, Err(SandboxError::Grant { .. })) {
        return;
    }
    if place.world != World::Transport {
        let detail = "only transports are probed; `waybill plugin call` runs a step of a participant";
        checks.push(Check::fail("probe", detail));
        return;
    }
    let settings = EndpointSettings { instances: 1, provision: false, ..settings.clone() };
    let probed = WasmTransport::probe(plugin.clone(), EndpointSpec::new(settings));
    checks.push(match probed.await {
        Ok(report) => {
            let detail = report.detail.map(|detail| format!(": {detail}")).unwrap_or_default();
            Check::ok("probe", format!("opened, health {:?}{detail}", report.health))
        }
        Err(error) => refused("probe", error.code(), &error),
    });
}

/// What it asks for and isn't granted: it will be told `denied` there.
fn asks(plugin: &LoadedPlugin, place: &Place) -> Check {
    let (ask, grants) = (&plugin.manifest().ask, &place.settings.grants);
    let mut missing = Vec::new();
    if !ask.net.is_empty() && !grants.peers.iter().any(|peer| peer.starts_with("tcp://")) {
        missing.push("peers for net: allow = { net = [\"tcp://HOST:PORT\"] }".to_owned());
    }
    if !ask.http.is_empty() && !grants.peers.iter().any(|peer| peer.starts_with("http")) {
        missing.push("peers for http: allow = { http = [\"https://HOST\"] }".to_owned());
    }
    for secret in ask.secrets.iter().filter(|secret| !grants.secrets.contains_key(*secret)) {
        missing.push(format!("the secret {secret}: secrets = {{ {secret} = \"env:NAME\" }}"));
    }
    if ask.kv && grants.kv.is_none() {
        missing.push("durable state: allow = { kv = \"1MiB\" }".to_owned());
    }
    let name = "grants";
    if missing.is_empty() {
        return Check::ok(name, "everything it asks for");
    }
    let detail = format!("not granted in [{}]:\n{}", place.section(), missing.join("\n"));
    Check::warn(name, detail)
}
