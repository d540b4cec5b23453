//! `waybill doctor`: would a host start here, and if not, why.

use std::io::Read;
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use rustix::process::{Resource, getrlimit};
use waybill_core::streams::settings::StreamsSettings;

use super::config::check::load_plugins;
use crate::config::{Config, StoreKind};
use crate::data::{self, FREE_BYTES_MIN};
use crate::exit::CliError;
use crate::output::checks::{self, Check};
use crate::output::{Format, format_size, number};
use crate::serve::compose;
use crate::setup::{self, ConfigArgs};
use crate::term::Term;

/// Free space below which it is worth a word, in bytes.
const FREE_BYTES_LOW: u64 = 2 << 30;
/// Files that a host has open beside its subscriptions: its store, brokers, other requests.
const FILES_BESIDE: u64 = 256;
/// Wait for a store's server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Checks of this machine.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  waybill doctor\n  waybill doctor --config /etc/waybill/waybill.toml -o json")]
pub struct Doctor {
    /// Which configuration.
    #[command(flatten)]
    pub config: ConfigArgs,
}

/// Runs every check and writes them. Fails when one failed.
pub(super) async fn run(args: &Doctor, format: Format, term: &mut Term) -> Result<(), CliError> {
    let checks = match setup::configuration(&args.config, Vec::new(), term) {
        Ok(config) => {
            let from = config.file.as_ref().map_or("no file: defaults".into(), |file| file.display().to_string());
            let mut checks = vec![Check::ok("configuration", from)];
            checks.extend(config.warnings.iter().map(|warning| Check::warn("configuration", warning.as_str())));
            checks.extend(of_config(&config, term).await);
            checks
        }
        Err(error) => vec![Check::fail("configuration", error.to_string().replace('\n', "; "))],
    };
    checks::show(term, format, &checks)
}

async fn of_config(config: &Config, term: &Term) -> Vec<Check> {
    let mut checks = match &config.store.kind {
        StoreKind::Disk(path) => vec![data_folder(path), disk_space(path)],
        StoreKind::Memory => {
            vec![Check::warn("data folder", "store.url is mem://: everything is gone when the host ends")]
        }
        StoreKind::Server => vec![Check::of("store", reach(&config.store.url).await)],
    };
    checks.push(match load_plugins(config, term).await {
        Ok(warnings) if warnings.is_empty() => {
            let loaded = config.transports.len() + usize::from(config.outbox.backoff.plugin.is_some());
            Check::ok("plugins", format!("{loaded} loaded"))
        }
        Ok(warnings) => Check::warn("plugins", warnings.join("; ")),
        Err(error) => Check::fail("plugins", error.to_string().replace('\n', "; ")),
    });
    checks.push(event_streams(&config.streams, getrlimit(Resource::Nofile).current));
    if config.server.tls.is_some() {
        let loaded = compose::encryption(config).map(|_| "the certificate and its key fit".to_owned());
        checks.push(Check::of("tls", loaded.map_err(|error| error.to_string())));
    }
    checks.push(Check::of("port", port(config)));
    checks
}

/// Whether the store's folder can be written, nobody holds it, and nobody else reads it.
fn data_folder(path: &Path) -> Check {
    let name = "data folder";
    if let Err(cause) = data::usable(path) {
        return Check::fail(name, cause);
    }
    if let Some(holder) = holder(path) {
        let detail = format!("{} is held by {holder}: end it, or choose another folder with --data", path.display());
        return Check::fail(name, detail);
    }
    match waybill_store::open_to_others(path) {
        Some(mode) => {
            let detail = format!(
                "{} can be written and is free, and others on this machine may look into it (mode {mode:04o}): `waybill \
                 serve` closes it, or chmod 700",
                path.display()
            );
            Check::warn(name, detail)
        }
        None => Check::ok(name, format!("{} can be written and is free", path.display())),
    }
}

fn disk_space(path: &Path) -> Check {
    let name = "disk space";
    let path = data::there(path);
    match data::free_bytes(path) {
        Ok(free) => {
            let mib = free >> 20 << 20;
            let detail = format!("{} free at {}", format_size(mib), path.display());
            match free {
                ..FREE_BYTES_MIN => {
                    Check::fail(name, format!("{detail}: free some, at least {}", format_size(FREE_BYTES_MIN)))
                }
                FREE_BYTES_MIN..FREE_BYTES_LOW => Check::warn(name, detail),
                _ => Check::ok(name, detail),
            }
        }
        Err(error) => Check::fail(name, format!("{}: {error}", path.display())),
    }
}

/// What readers of events may take of this machine, and what relays send where. Each reader is an open connection.
fn event_streams(settings: &StreamsSettings, files_max: Option<u64>) -> Check {
    let (name, events) = ("event streams", &settings.events);
    let subscriptions = events.subscriptions_max as u64;
    let bytes = events.live_bytes_total.saturating_add(events.replay_bytes_total) as u64;
    let mut parts = vec![format!(
        "{}, which hold at most {} of events",
        number(subscriptions, "subscription at once", "subscriptions at once"),
        format_size(bytes)
    )];
    parts.extend(
        settings
            .relays
            .iter()
            .map(|relay| format!("relay {} sends {} through {}", relay.name, relay.streams.as_str(), relay.transport)),
    );
    let files_needed = subscriptions.saturating_add(FILES_BESIDE);
    match files_max.filter(|files| *files < files_needed) {
        Some(files) => {
            parts.push(format!(
                "but {files} files may be open at once, which a connection counts as: raise that to {files_needed} (ulimit -n, \
                 LimitNOFILE= of a unit), or lower events.subscriptions_max"
            ));
            Check::warn(name, parts.join("; "))
        }
        None => Check::ok(name, parts.join("; ")),
    }
}

async fn reach(url: &str) -> Result<String, String> {
    let parsed = url::Url::parse(url).map_err(|error| format!("{url}: {error}"))?;
    let host = parsed.host_str().ok_or_else(|| format!("{url} has no host"))?.trim_matches(['[', ']']).to_owned();
    let port = parsed.port_or_known_default().unwrap_or(8000);
    let connected = tokio::time::timeout(CONNECT_TIMEOUT, tokio::net::TcpStream::connect((host.as_str(), port))).await;
    match connected {
        Ok(Ok(_)) => Ok(format!("{host}:{port} answers")),
        Ok(Err(error)) => Err(format!("{host}:{port}: {error}: start the SurrealDB server, or correct store.url")),
        Err(_) => {
            Err(format!("{host}:{port} doesn't answer within {} s: check the network", CONNECT_TIMEOUT.as_secs()))
        }
    }
}

fn port(config: &Config) -> Result<String, String> {
    let address = config.server.listen;
    match TcpListener::bind(address) {
        Ok(_) => Ok(format!("{address} is free")),
        Err(error) => Err(format!("{address}: {error}: end what listens there, or choose another with server.listen")),
    }
}

/// Who holds a data folder, as its lock file (`waybill.lock`, written by the store) tells; none = nobody.
fn holder(folder: &Path) -> Option<String> {
    let mut file = std::fs::OpenOptions::new().read(true).write(true).open(folder.join("waybill.lock")).ok()?;
    match file.try_lock() {
        Err(std::fs::TryLockError::WouldBlock) => {
            let mut holder = String::new();
            let named = file.read_to_string(&mut holder).is_ok() && !holder.trim().is_empty();
            Some(if named { holder.trim().to_owned() } else { "another process".to_owned() })
        }
        // The lock goes with the handle.
        Ok(()) | Err(std::fs::TryLockError::Error(_)) => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use waybill_core::ids::RelayName;
    use waybill_core::streams::name::StreamPattern;
    use waybill_core::streams::settings::RelayPlan;

    #[test]
    fn readers_for_whom_no_files_are_left_are_told_with_what_to_do() {
        let mut settings = StreamsSettings::default();
        settings.events.subscriptions_max = 1_000;
        let pattern = StreamPattern::parse("task.**").unwrap();
        settings.relays = vec![RelayPlan::new(RelayName::new("bus").unwrap(), pattern, "nats".to_owned())];
        let shown = |files| serde_json::to_value(event_streams(&settings, files)).unwrap();
        let well =
            "1,000 subscriptions at once, which hold at most 48MiB of events; relay bus sends task.** through nats";
        for enough in [None, Some(1_256)] {
            let shown = shown(enough);
            assert_eq!((&shown["status"], &shown["detail"]), (&"ok".into(), &well.into()));
        }
        let few = shown(Some(1_255));
        assert_eq!(few["status"], "warn");
        let detail = few["detail"].as_str().unwrap();
        assert!(detail.starts_with(well) && detail.contains("1255 files"), "{detail}");
        assert!(detail.contains("raise that to 1256 (ulimit -n, ") && detail.contains("or lower "), "{detail}");
    }
}
