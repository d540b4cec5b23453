//! `waybill serve`: puts a host together and runs it in the foreground.
//!
//! Order: configuration, log, address, plugins, store, transports, engine, server. What can be known to be wrong is found
//! before the store is opened, and nothing is served before everything stands. A transport whose peer doesn't answer is no
//! reason not to start: it stays supervised and its messages wait.

mod auth;
pub(crate) mod compose;
mod disk;
mod inbound;
mod offline;
mod reload;
mod service_manager;
mod signals;
mod steps;
mod telemetry;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use waybill_api::status::CheckStatus;
use waybill_core::code::Code;
use waybill_engine::{Clock as _, Engine, SystemClock};
use waybill_server::error::ServerError;
use waybill_server::limits::Limits;
use waybill_server::server::{Parts, Server, bind};
use waybill_server::tokens::StoredTokens;
use waybill_telemetry::Telemetry;

use crate::config::{Config, LogFormat, ServerSettings, StoreKind};
use crate::data;
use crate::exit::{CliError, Exit};
use crate::logging;
use crate::plugins;
use crate::plugins::service::Audited;
use crate::saga_definitions;
use crate::setup::Source;
use crate::term::Term;
use auth::tokens;
use compose::Watched;
pub(crate) use offline::create_token;
use reload::Reloader;
use signals::{Hangups, Signals};

/// Time for requests under way to end once the engine has drained, in addition to the drain itself.
const CONNECTIONS_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for calls of participants under way to end, and for their instances to say goodbye.
const PARTICIPANTS_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for a reload under way to end.
const WATCH_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for the store to close: it waits for what is running and writes its buffers.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for tasks that don't end by themselves when the runtime is taken down.
const RUNTIME_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for all that comes after the drain.
const ENDING_TIMEOUT: Duration = Duration::from_secs(
    CONNECTIONS_TIMEOUT.as_secs()
        + WATCH_TIMEOUT.as_secs()
        + PARTICIPANTS_TIMEOUT.as_secs()
        + CLOSE_TIMEOUT.as_secs()
        + RUNTIME_TIMEOUT.as_secs(),
);
/// How often readiness is looked at for the log until the host is ready.
const READY_POLL: Duration = Duration::from_millis(50);

/// Runs a host until a signal ends it.
pub fn run(source: Source, term: &mut Term) -> Result<(), CliError> {
    // Messages, answers and plugins' state are nobody else's: whatever is made from here on is its owner's alone.
    #[cfg(unix)]
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    let config = source.read()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("waybill")
        .build()
        .map_err(CliError::io("starting the runtime"))?;
    let telemetry = {
        let _within = runtime.enter();
        telemetry::build(&config, term)?
    };
    let as_json = config.log.format == LogFormat::Json;
    logging::start_with(&config.log.level, as_json, term.color_errors(), telemetry.as_ref());
    let result = runtime.block_on(async {
        let result = host(config, source, telemetry.as_ref(), term).await;
        if let Some(telemetry) = telemetry {
            telemetry::end(telemetry).await;
        }
        result
    });
    runtime.shutdown_timeout(RUNTIME_TIMEOUT);
    result
}

async fn host(config: Config, source: Source, telemetry: Option<&Telemetry>, term: &mut Term) -> Result<(), CliError> {
    // From here on a signal is ours, also while the store is being opened.
    let (mut signals, hangups) = Signals::listen().map_err(CliError::io("listening for signals"))?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let recorder = telemetry.and_then(Telemetry::recorder);
    let metrics = waybill_server::metrics::install(&[waybill_engine::METRICS], recorder).map_err(of_server)?;
    let watched = Watched { tracer: telemetry.and_then(Telemetry::tracer), ..Watched::default() };
    watched.changes.begin(SystemClock.now().wall);
    let known = tokens(&config.auth.tokens)?;
    let encryption = compose::encryption(&config)?;
    let listener = bind(config.server.listen, config.auth.required, &encryption).await.map_err(of_server)?;
    let address = listener.local_addr().map_err(CliError::io("asking for the address"))?;
    let approvals = compose::approvals(&config, address, &encryption, term)?;
    let oidc = compose::oidc(&config, address, &encryption, term)?;
    let supervisor = &watched.supervisor;
    // Compiled plugins are often kept beside the data: what is wrong with the folder is told as such, and what can be mended is.
    data::check(&config)?;
    if let Some(shortage) = data::shortage(&config) {
        tracing::warn!(code = Code::STORAGE_DISK_FULL.as_str(), "{shortage}");
    }
    compose::close_folders(&config);
    let fleet = compose::fleet(&config, Some(&watched), term).map_err(|error| compose::of_sandbox(&error))?;
    fleet.sandbox().own_listeners().add(address);
    let mut prepared = plugins::prepare(&fleet, &config).await.map_err(|errors| plugins::failed(&errors))?;
    for warning in plugins::warnings(&prepared) {
        tracing::warn!("{warning}");
    }
    let opened = compose::store(&config, term);
    let store = tokio::select! {
        store = opened => store?,
        () = signals.end() => return Ok(()),
    };
    if let Err(error) = fleet.sandbox().keep_seal() {
        tracing::warn!(code = error.code().as_str(), %error, "what is compiled now is compiled again at the next start");
    }
    let (kv, trail) = (compose::kv(&config, &store), compose::trail(&config, &store));
    let stored_tokens = StoredTokens::new(known.clone(), compose::tokens(&config, &store), Arc::clone(&trail));
    stored_tokens.read().await.map_err(|error| compose::of_read(&error))?;
    auth::refuse_unsaid(&config.auth, &stored_tokens)?;
    auth::warn_of_tokens(&config, &known, &stored_tokens);
    let participants = Arc::new(steps::participants(std::mem::take(&mut prepared.participants), &fleet, &kv).await?);
    let (sources, handlers) = (std::mem::take(&mut prepared.sources), std::mem::take(&mut prepared.handlers));
    let inbound = inbound::inbound(&config, sources, handlers, &fleet, &store).await?;
    let in_force = inbound::InForce::new(inbound.clone());
    let engine = compose::engine(&config, prepared, &participants, inbound, &fleet, &store, &watched).await?;
    let engine = Arc::new(engine);
    if let Some(sagas) = engine.step_needs() {
        fleet.ask_needs(&sagas);
    }
    // The first tells the tasks to end when they have nothing in hand, the second ends them where they are.
    let (watching, cut) = (CancellationToken::new(), CancellationToken::new());
    let watch = supervisor.run("plugin files", cut.clone(), {
        let (fleet, watching) = (fleet.clone(), watching.clone());
        move || {
            let (fleet, watching) = (fleet.clone(), watching.clone());
            async move { fleet.watch(watching).await }
        }
    });
    let watch_sources = supervisor.run("source files", cut.clone(), {
        let (in_force, engine, watching) = (in_force.clone(), Arc::clone(&engine), watching.clone());
        move || inbound::watch(in_force.clone(), Arc::clone(&engine), watching.clone())
    });
    let reloader = Reloader::new(
        reload::Host {
            source,
            fleet: fleet.clone(),
            engine: Arc::clone(&engine),
            inbound: in_force.clone(),
            participants: Arc::clone(&participants),
            store: Arc::clone(&store),
            trail: Arc::clone(&trail),
            encryption: encryption.clone(),
            changes: Arc::clone(&watched.changes),
            tokens: known.clone(),
            asks_for_tokens: config.auth.required,
        },
        config.clone(),
    );
    let reloads = supervisor.run("configuration", cut.clone(), {
        let (reloader, config, watching) = (reloader.clone(), config.clone(), watching.clone());
        let hangups = Arc::new(Mutex::new(hangups));
        move || reload_when_asked(reloader.clone(), config.clone(), Arc::clone(&hangups), watching.clone())
    });
    let plugins = inbound::HostPlugins::new(fleet, in_force, Arc::clone(&engine));
    let scheme = encryption.scheme();
    let server = Server::new(Parts {
        service: engine.outbox(),
        sagas: engine.sagas(),
        approvals,
        idempotency: engine.idempotency(),
        inbound: engine.inbound(),
        streams: engine.streams(),
        configuration: Some(Arc::new(reloader.clone()) as _),
        plugins: Some(Arc::new(Audited::new(Arc::new(plugins), Arc::clone(&trail)))),
        cors_origins: config.server.cors_origins.clone(),
        auth: config.auth.required.then_some(known),
        tokens: Some(stored_tokens),
        encryption,
        ui: config.ui.clone(),
        oidc: oidc.map(|oidc| oidc.noted_in(trail)),
        limits: limits(&config.server),
        metrics: Some(metrics),
        tracer: watched.tracer.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    });
    if let Some(telemetry) = telemetry {
        telemetry.read_from(Arc::new(telemetry::AsExported(server.counting())));
    }
    announce(&format!("{scheme}://{address}"), &config, term)?;
    let ready = tokio::spawn(ready(Arc::clone(&engine), config.saga.definitions.clone()));
    let drain = config.server.drain_timeout;
    let shutdown = shutdown(signals, Arc::clone(&engine), drain);
    let drained = server.run(vec![listener], shutdown, CONNECTIONS_TIMEOUT).await.map_err(of_server)?;
    ready.abort();
    watching.cancel();
    // They do nothing by halves: what they began ends in tasks of its own.
    let ended = async { tokio::join!(watch, watch_sources, reloads) };
    if tokio::time::timeout(WATCH_TIMEOUT, ended).await.is_err() {
        tracing::warn!(limit = ?WATCH_TIMEOUT, "a reload is still under way and is cut off");
        cut.cancel();
    }
    participants.close(PARTICIPANTS_TIMEOUT).await;
    // The tasks that hold the store are gone by now; what it says while closing is worth a line, not a failure.
    match tokio::time::timeout(CLOSE_TIMEOUT, store.close()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(code = error.code().as_str(), %error, "the store didn't close in good order"),
        Err(_) => tracing::warn!(limit = ?CLOSE_TIMEOUT, "the store didn't close in time and is left as after a crash"),
    }
    if drained.cut > 0 {
        tracing::warn!(connections = drained.cut, "connections were cut at the deadline");
    }
    tracing::info!("ended");
    Ok(())
}

/// Reads the configuration again at every SIGHUP, and when its file changes if that is asked for, until `stop`.
async fn reload_when_asked(reloader: Reloader, config: Config, hangups: Arc<Mutex<Hangups>>, stop: CancellationToken) {
    let mut hangups = hangups.lock().await;
    let watched = config.file.filter(|_| config.server.watch);
    let watch = async {
        match watched {
            Some(file) => reload::watch(file, reloader.clone(), stop.clone()).await,
            None => stop.cancelled().await,
        }
    };
    let hang_up = async {
        while stop.run_until_cancelled(hangups.next()).await.is_some() {
            // Whoever sent it may send it again.
            let _may_be_tried_again = reloader.reload_and_log("SIGHUP").await;
        }
    };
    tokio::join!(watch, hang_up);
}

/// Waits for a signal, then drains the engine while the API still answers.
async fn shutdown(mut signals: Signals, engine: Arc<Engine>, timeout: Duration) {
    signals.end().await;
    tracing::info!(timeout = %humantime::format_duration(timeout), "draining: nothing new is taken; a second signal ends at once");
    service_manager::stopping(timeout + ENDING_TIMEOUT);
    engine.begin_drain();
    tokio::select! {
        orderly = engine.drain(timeout) => {
            if orderly {
                tracing::info!("drained");
            } else {
                tracing::warn!("not everything under way ended in time; what is unknown is sent again with the same ids");
            }
        }
        () = signals.end() => {
            tracing::warn!("a second signal: ending at once; what is unknown is sent again with the same ids");
            std::process::exit(Exit::Failed as i32);
        }
    }
}

/// The one line on stdout: where the host answers, with the port in force when 0 was asked for.
fn announce(url: &str, config: &Config, term: &mut Term) -> Result<(), CliError> {
    term.line(&format!("listening on {url}"))?;
    term.out.flush().map_err(CliError::io("writing the address"))?;
    service_manager::serving(url);
    let file = config.file.as_ref().map_or("none".to_owned(), |file| file.display().to_string());
    let preview = if matches!(config.store.kind, StoreKind::Server) { " (preview)" } else { "" };
    tracing::info!(url, config = %file, store = %format!("{}{preview}", config.store.url), "started");
    Ok(())
}

/// Says in the log when the host is ready, or what it waits for. Then the folder of definitions is stored.
async fn ready(engine: Arc<Engine>, definitions: Option<std::path::PathBuf>) {
    log_ready(Arc::clone(&engine)).await;
    if let Some((sagas, folder)) = engine.sagas().zip(definitions) {
        saga_definitions::log(&saga_definitions::define_all(sagas.as_ref(), &folder).await);
    }
}

/// Says in the log when the host is ready, or what it waits for.
async fn log_ready(engine: Arc<Engine>) {
    let outbox = engine.outbox();
    let mut told = String::new();
    loop {
        let failing: Vec<String> = outbox
            .ready()
            .await
            .into_iter()
            .filter(|check| check.status == CheckStatus::Fail)
            .map(|check| format!("{}: {}", check.name, check.detail))
            .collect();
        if failing.is_empty() {
            tracing::info!("ready");
            service_manager::state("ready");
            return;
        }
        let now = failing.join("; ");
        if now != told {
            tracing::info!(waiting_for = %now, "not ready yet");
            service_manager::state(&format!("not ready yet: {now}"));
            told = now;
        }
        tokio::time::sleep(READY_POLL).await;
    }
}

fn limits(settings: &ServerSettings) -> Limits {
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    Limits {
        requests_max: count(settings.max_requests),
        connections_max: count(settings.max_connections),
        connections_per_peer: count(settings.max_connections_per_peer),
        request_timeout: settings.request_timeout,
        idle_timeout: settings.idle_timeout,
        write_timeout: settings.write_timeout,
        ..Limits::default()
    }
}

fn of_server(error: ServerError) -> CliError {
    let exit = match &error {
        ServerError::Listen { .. }
        | ServerError::OpenProxy { .. }
        | ServerError::ClearText { .. }
        | ServerError::Tls { .. }
        | ServerError::Token { .. }
        | ServerError::Oidc { .. }
        | ServerError::ApprovalKey { .. } => Exit::Usage,
        ServerError::Bind { .. } | ServerError::Metrics(_) => Exit::Failed,
    };
    CliError::Host { code: error.code(), what: error.to_string(), exit }
}
