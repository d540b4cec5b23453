//! `waybill plugin load`.

use std::path::PathBuf;

use clap::Args;
use waybill_sandbox::Fetched;

use super::served::{self, Change};
use crate::author::sandbox;
use crate::commands::Context;
use crate::exit::CliError;

/// Hand a component over.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  waybill plugin load ./acme.wasm --transport orders\n  waybill plugin load ./acme.wasm --transport orders --sha256 \"$(sha256sum < acme.wasm | cut -c -64)\"\n\nThe signature beside the file (FILE.sig) goes with it. The host tries the component before it serves, and keeps the one before."
)]
pub struct Load {
    /// The component
    pub file: PathBuf,
    /// Transport whose plugin it becomes; its plugin must be a name in the plugins folder
    #[arg(long, value_name = "NAME")]
    pub transport: String,
    /// How strictly.
    #[command(flatten)]
    pub change: Change,
}

pub(super) async fn run(args: &Load, context: &mut Context<'_>) -> Result<(), CliError> {
    let fetched = Fetched::read(&args.file).map_err(|error| sandbox::failed(&error))?;
    let Change { sha256, force } = &args.change;
    let force = force.to_string();
    let mut query = vec![("force", force.as_str())];
    query.extend(sha256.as_deref().map(|sha256| ("sha256", sha256)));
    let path = ["v1", "plugins", &args.transport, "component"];
    let headers: Vec<(&str, &str)> =
        fetched.signature().map(|signature| ("waybill-signature", signature.trim())).into_iter().collect();
    let answer = context.client.put_component(&path, &query, &headers, fetched.bytes().to_vec()).await?;
    served::changed(&args.transport, &answer, context)
}
