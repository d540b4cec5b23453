//! `waybill config check`.

use clap::Args;
use serde_json::json;

use crate::config::Config;
use crate::data;
use crate::exit::CliError;
use crate::output::{Format, number};
use crate::plugins;
use crate::serve::compose;
use crate::setup::{self, ConfigArgs};
use crate::term::Term;

/// Check.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  waybill config check\n  waybill config check --config new.toml && systemctl restart waybill"
)]
pub struct Check {
    /// Which.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Don't load the plugins
    #[arg(long)]
    pub no_plugins: bool,
}

/// Checks it as `serve` would.
pub(super) async fn run(args: &Check, format: Format, term: &mut Term) -> Result<(), CliError> {
    let config = setup::configuration(&args.config, Vec::new(), term)?;
    let encryption = compose::encryption(&config)?;
    compose::oidc(&config, config.server.listen, &encryption, term)?;
    let mut warnings = config.warnings.clone();
    if !args.no_plugins {
        warnings.extend(load_plugins(&config, term).await?);
    }
    let from = config.file.as_ref().map_or("no file: defaults".to_owned(), |file| file.display().to_string());
    for warning in &warnings {
        term.say(&format!("warning: {warning}"));
    }
    match format {
        Format::Json | Format::Jsonl => {
            let file = config.file.as_ref().map(|file| file.display().to_string());
            term.line(&json!({ "ok": true, "file": file, "warnings": warnings }).to_string())
        }
        Format::Ids => Ok(()),
        Format::Table => {
            let mut counts = vec![
                number(config.transports.len() as u64, "transport", "transports"),
                number(config.routes.0.len() as u64, "route", "routes"),
            ];
            if !config.sources.is_empty() {
                counts.push(number(config.sources.len() as u64, "source", "sources"));
                counts.push(number(config.consumers.len() as u64, "consumer", "consumers"));
            }
            if !config.participants.is_empty() {
                counts.push(number(config.participants.len() as u64, "participant", "participants"));
            }
            counts.push(number(warnings.len() as u64, "warning", "warnings"));
            term.line(&format!("{from}: right ({})", counts.join(", ")))
        }
    }
}

/// Loads the plugins of a configuration as `serve` would; answers warnings.
pub(in crate::commands) async fn load_plugins(config: &Config, term: &Term) -> Result<Vec<String>, CliError> {
    // The cache is often beside the data: what is wrong with that folder is the better reason.
    data::check(config)?;
    let fleet = compose::fleet(config, None, term).map_err(|error| compose::of_sandbox(&error))?;
    match plugins::prepare(&fleet, config).await {
        Ok(prepared) => Ok(plugins::warnings(&prepared)),
        Err(errors) => Err(plugins::failed(&errors)),
    }
}
