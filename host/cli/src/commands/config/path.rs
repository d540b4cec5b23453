//! `waybill config path`.

use clap::Args;
use serde_json::json;

use crate::config::{FILE_NAME, StoreKind};
use crate::exit::CliError;
use crate::output::{self, Format};
use crate::setup::{self, ConfigArgs};
use crate::term::Term;

/// Path.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  waybill config path\n  $EDITOR \"$(waybill config path -o ids)\"")]
pub struct Path {
    /// Which.
    #[command(flatten)]
    pub config: ConfigArgs,
}

/// Shows where everything is.
pub(super) fn run(args: &Path, format: Format, term: &mut Term) -> Result<(), CliError> {
    let config = setup::configuration(&args.config, Vec::new(), term)?;
    let absolute =
        |file: &std::path::Path| std::path::absolute(file).unwrap_or_else(|_| file.to_owned()).display().to_string();
    let file = config.file.as_deref().map(absolute);
    let data = match &config.store.kind {
        StoreKind::Disk(path) => Some(path.display().to_string()),
        StoreKind::Memory | StoreKind::Server => None,
    };
    let cache = config.plugins.cache.as_ref().map(|path| path.display().to_string());
    let all = json!({ "file": file, "store": config.store.url, "data": data, "plugin_cache": cache });
    let or_none = |value: Option<String>, none: &str| value.unwrap_or_else(|| none.to_owned());
    let first = absolute(FILE_NAME.as_ref());
    let id = file.clone().unwrap_or_else(|| first.clone());
    let none = format!("{first} isn't there: defaults, environment and flags");
    let rows = vec![
        ("configuration".to_owned(), or_none(file, &none)),
        ("store".to_owned(), config.store.url.clone()),
        ("plugin cache".to_owned(), or_none(cache, "off")),
    ];
    output::one(term, format, &all.to_string(), &id, rows)
}
