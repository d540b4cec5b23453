//! `waybill config check`, `show` and `path`.

use std::path::Path;

use serde_json::{Value, json};

use crate::args::Format;
use crate::args::rest::{Config as Command, ConfigCheck, ConfigPath, ConfigShow};
use crate::config::{Config, FILE_NAME, StoreKind};
use crate::data;
use crate::exit::{CliError, Exit};
use crate::output::{self, number, plain};
use crate::plugins;
use crate::setup;
use crate::term::Term;

/// Runs one of them.
pub async fn run(command: &Command, format: Format, term: &mut Term) -> Result<(), CliError> {
    match command {
        Command::Check(args) => check(args, format, term).await,
        Command::Show(args) => show(args, format, term),
        Command::Path(args) => path(args, format, term),
        // About a running host: asked there.
        Command::Diff(_) | Command::Reload(_) => Ok(()),
    }
}

async fn check(args: &ConfigCheck, format: Format, term: &mut Term) -> Result<(), CliError> {
    let config = setup::configuration(&args.config, Vec::new(), term)?;
    crate::serve::compose::encryption(&config)?;
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
        Format::Table => term.line(&format!(
            "{from}: right ({}, {}, {})",
            number(config.transports.len() as u64, "transport", "transports"),
            number(config.routes.0.len() as u64, "route", "routes"),
            number(warnings.len() as u64, "warning", "warnings"),
        )),
    }
}

/// Loads the plugins of a configuration as `serve` would; answers warnings.
pub async fn load_plugins(config: &Config, term: &Term) -> Result<Vec<String>, CliError> {
    // The cache is often beside the data: what is wrong with that folder is the better reason.
    data::check(config)?;
    let fleet = crate::serve::compose::fleet(config, None, term).map_err(|error| CliError::Host {
        code: error.code(),
        what: error.to_string(),
        exit: Exit::Usage,
    })?;
    match plugins::prepare(&fleet, config).await {
        Ok(prepared) => Ok(plugins::warnings(&prepared)),
        Err(errors) => Err(plugins_failed(&errors)),
    }
}

/// Plugins that can't be used, in one error.
pub fn plugins_failed(errors: &[plugins::PluginError]) -> CliError {
    let code = errors.first().map_or("PLUGIN.READ", |error| error.cause.code());
    let what: Vec<String> = errors
        .iter()
        .enumerate()
        // The first one's code stands before the whole.
        .map(
            |(index, error)| {
                if index == 0 { format!("{}: {}", error.endpoint, error.cause) } else { error.to_string() }
            },
        )
        .collect();
    CliError::Host { code, what: what.join("\n"), exit: Exit::Usage }
}

fn show(args: &ConfigShow, format: Format, term: &mut Term) -> Result<(), CliError> {
    let config = setup::configuration(&args.config, Vec::new(), term)?;
    let items: Vec<Value> = config
        .shown
        .iter()
        .map(|shown| json!({ "key": shown.path, "value": shown.value, "origin": shown.origin.to_string() }))
        .collect();
    match format {
        Format::Json => return output::json(term, &Value::Array(items)),
        Format::Jsonl => return items.iter().try_for_each(|item| term.line(&item.to_string())),
        Format::Ids => return config.shown.iter().try_for_each(|shown| term.line(&shown.path)),
        Format::Table => {}
    }
    let value = |shown: &crate::config::reader::Shown| match &shown.value {
        Value::Null => "(not set)".to_owned(),
        value => plain(value),
    };
    let mut rows: Vec<Vec<String>> = config
        .shown
        .iter()
        .map(|shown| {
            let mut row = vec![shown.path.clone(), value(shown)];
            row.extend(args.origin.then(|| shown.origin.to_string()));
            row
        })
        .collect();
    if config.transports.iter().any(|transport| transport.name == "http")
        && !config.shown.iter().any(|shown| shown.path.starts_with("transport."))
    {
        let mut row = vec![
            "(built in)".to_owned(),
            "http:** goes to the bundled http transport, which reaches this machine only".to_owned(),
        ];
        row.extend(args.origin.then(|| "default".to_owned()));
        rows.push(row);
    }
    let titles: &[&str] = if args.origin { &["KEY", "VALUE", "ORIGIN"] } else { &["KEY", "VALUE"] };
    output::table(term, titles, rows)
}

fn path(args: &ConfigPath, format: Format, term: &mut Term) -> Result<(), CliError> {
    let config = setup::configuration(&args.config, Vec::new(), term)?;
    let absolute = |file: &Path| std::path::absolute(file).unwrap_or_else(|_| file.to_owned()).display().to_string();
    let file = config.file.as_deref().map(absolute);
    let data = match &config.store.kind {
        StoreKind::Disk(path) => Some(path.display().to_string()),
        StoreKind::Memory | StoreKind::Server => None,
    };
    let cache = config.plugins.cache.as_ref().map(|path| path.display().to_string());
    let all = json!({ "file": file, "store": config.store.url, "data": data, "plugin_cache": cache });
    let or_none = |value: Option<String>, none: &str| value.unwrap_or_else(|| none.to_owned());
    let first = absolute(Path::new(FILE_NAME));
    let id = file.clone().unwrap_or_else(|| first.clone());
    let none = format!("{first} isn't there: defaults, environment and flags");
    let rows = vec![
        ("configuration".to_owned(), or_none(file, &none)),
        ("store".to_owned(), config.store.url.clone()),
        ("plugin cache".to_owned(), or_none(cache, "off")),
    ];
    output::one(term, format, &all.to_string(), &id, rows)
}
