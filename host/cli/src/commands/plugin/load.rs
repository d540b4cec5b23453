//! `waybill plugin load`.

use std::path::PathBuf;

use clap::Args;
use waybill_sandbox::Fetched;

use super::served::{self, Change};
use crate::author::place::PlaceArgs;
use crate::author::sandbox;
use crate::commands::Context;
use crate::exit::CliError;

/// Hand a component over.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  waybill plugin load ./acme.wasm --transport orders\n  waybill plugin load ./acme.wasm --participant shop\n  waybill plugin load ./acme.wasm --transport orders --sha256 \"$(sha256sum < acme.wasm | cut -c -64)\"\n\nThe signature beside the file (FILE.sig) goes with it. The host tries the component before it serves, and keeps the one before."
)]
pub struct Load {
    /// The component
    pub file: PathBuf,
    /// Whose plugin it becomes; that plugin must be a name in the plugins folder.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// How strictly.
    #[command(flatten)]
    pub change: Change,
}

pub(super) async fn run(args: &Load, context: &mut Context<'_>) -> Result<(), CliError> {
    let name = args.place.name().ok_or_else(|| {
        CliError::usage(
            "whose plugin it becomes isn't said",
            "add --transport NAME, --participant NAME, --handler CONSUMER or --backoff",
        )
    })?;
    let fetched = Fetched::read(&args.file).map_err(|error| sandbox::failed(&error))?;
    let Change { sha256, force } = &args.change;
    let force = force.to_string();
    let mut query = vec![("force", force.as_str())];
    query.extend(sha256.as_deref().map(|sha256| ("sha256", sha256)));
    let path = ["v1", "plugins", &name, "component"];
    let headers: Vec<(&str, &str)> =
        fetched.signature().map(|signature| ("waybill-signature", signature.trim())).into_iter().collect();
    let answer = context.client.put_component(&path, &query, &headers, fetched.bytes().to_vec()).await?;
    served::changed(&name, &answer, context)
}
