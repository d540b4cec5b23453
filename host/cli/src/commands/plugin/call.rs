//! `waybill plugin call`: whose step it is.

use clap::Args;
use waybill_core::step_address::StepAddress;
use waybill_engine::StepLookupError;
use waybill_sandbox::{EndpointSpec, Fleet, FleetOptions, participant_steps};

use crate::args::Global;
use crate::author::call::{self, Callee, Request, of_lookup, of_sandbox, of_swap};
use crate::author::sandbox::{self, Cache};
use crate::config::Config;
use crate::data;
use crate::exit::CliError;
use crate::output::safe;
use crate::plugins::{self, PreparedParticipant, prepare_participant};
use crate::serve::compose;
use crate::setup::{self, ConfigArgs};
use crate::term::Term;

/// Run one step by hand.
#[derive(Debug, Args)]
#[group(skip)]
#[command(
    override_usage = "waybill plugin call [OPTIONS] fn:PARTICIPANT/STEP\n       waybill plugin call [OPTIONS] FILE.wasm STEP",
    after_help = "Examples:\n  \
        waybill plugin call fn:orders/reserve --input '{\"sku\":\"a-1\",\"count\":2}'\n  \
        waybill plugin call fn:orders/reserve --compensate --input @order.json --output-of '{\"hold\":\"h-7\"}'\n  \
        waybill plugin call ./orders.wasm reserve --input @order.json --allow https://stock.example -o json\n\n\
        It runs in this process, with the participant's grants and secrets, beside a running host and without its store: kv is \
        empty and forgotten. Messages and events of the answer are shown, not committed.\n\n\
        Exit codes: 0 done or pending, 1 the step failed, 2 usage or configuration, 3 no such participant or step, 6 blocked or not \
        open, 8 timed out."
)]
pub struct Call {
    /// What is called, and with what.
    #[command(flatten)]
    pub call: call::Call,
    /// Which configuration.
    #[command(flatten)]
    pub config: ConfigArgs,
}

/// Calls a step of the configuration, or of a file.
pub(super) async fn run(args: &Call, global: &Global, term: &mut Term) -> Result<(), CliError> {
    let request = Request::read(&args.call)?;
    call::show_log(term);
    let callee = if args.call.target.starts_with("fn:") {
        from_configuration(args, term).await?
    } else {
        call::from_file(&args.call, super::cache(), compose::host_name(), term).await?
    };
    call::run(request, callee, global.timeout, global.format(), term).await
}

/// The participant of an `fn:` address.
async fn from_configuration(args: &Call, term: &mut Term) -> Result<Callee, CliError> {
    let Call { call, config } = args;
    let only_with_path = [
        (call.step.is_some(), "STEP"),
        (call.plugin_config.is_some(), "--plugin-config"),
        (!call.allow.is_empty(), "--allow"),
        (!call.secret.is_empty(), "--secret"),
    ];
    if let Some((_, what)) = only_with_path.iter().find(|(given, _)| *given) {
        return Err(CliError::usage(
            format!("{what} can't be given with {}", call.target),
            "with an fn: address the step is in it and the rest is in the configuration",
        ));
    }
    let address = StepAddress::parse(&call.target).map_err(|error| of_lookup(error.into()))?;
    // A running host, which may have another one, isn't asked.
    term.say(&format!("configuration: {}", safe(&setup::place(config, term))));
    let config = setup::configuration(config, Vec::new(), term)?;
    let options = FleetOptions {
        trust: plugins::trust(&config.plugins),
        folder: config.plugins.folder.clone(),
        // What a host keeps for its next start is its own.
        ..FleetOptions::default()
    };
    let cache = Cache {
        folder: config.plugins.cache.clone().filter(|_| data::seal_is_ours(&config)),
        seal_key: data::seal_key(&config),
        lines: false,
    };
    let fleet = sandbox::fleet(cache, plugins::compile_limits(&config.plugins), &options, term)
        .map_err(|error| of_sandbox(&call.target, &error))?;
    let PreparedParticipant { settings, loaded, .. } = match &address.participant {
        Some(name) => configured(&fleet, &config, name).await?,
        None => serving(&fleet, &config, &address.step).await?,
    };
    let endpoint = EndpointSpec { host_id: compose::host_name(), ..EndpointSpec::new(settings) };
    Ok(Callee { plugin: loaded.plugin, endpoint, step: address.step })
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
        let steps =
            participant_steps(&prepared.loaded.plugin).await.map_err(|error| of_sandbox(&settings.name, &error))?;
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
