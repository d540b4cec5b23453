//! `waybill plugin` on a running host, and what belongs to trusting a component.

use std::path::PathBuf;

use clap::Args;

/// Which plugins to list.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  waybill plugin list\n  waybill plugin list -o json        with every generation that is remembered\n  waybill plugin list --bundled      the ones in this binary; needs no host"
)]
pub struct List {
    /// The ones in this binary instead
    #[arg(long)]
    pub bundled: bool,
}

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

/// Read a component again.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  waybill plugin reload orders\n  waybill plugin reload orders --force")]
pub struct Reload {
    /// Transport
    pub transport: String,
    /// How strictly.
    #[command(flatten)]
    pub change: Change,
}

/// How strictly a component is judged.
#[derive(Debug, Args)]
pub struct Change {
    /// Digest that the component must have
    #[arg(long, value_name = "HEX")]
    pub sha256: Option<String>,
    /// Take one that was rolled back before, one whose peer can't be reached, and one that serves already
    #[arg(long)]
    pub force: bool,
}

/// Go back.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  waybill plugin rollback orders --reason \"loses headers\"")]
pub struct Rollback {
    /// Transport
    pub transport: String,
    /// Why, for the history and the audit trail
    #[arg(long, default_value = "", hide_default_value = true)]
    pub reason: String,
}

/// Check a component.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  waybill plugin verify acme.wasm --key 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n  waybill plugin verify acme.wasm --sha256 7b1f...\n\nWithout --key it tells whose signature it is, not whether you should trust them."
)]
pub struct Verify {
    /// The component; its signature is FILE.sig
    pub file: PathBuf,
    /// Public key that must have signed it
    #[arg(long, value_name = "BASE64")]
    pub key: Option<String>,
    /// Digest that it must have
    #[arg(long, value_name = "HEX")]
    pub sha256: Option<String>,
}

/// Sign a component.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  waybill plugin sign acme.wasm --key acme.pem        writes acme.wasm.sig\n\nThe key is an ed25519 private key in PEM, from `waybill plugin keygen` or `openssl genpkey -algorithm ed25519`."
)]
pub struct Sign {
    /// The component, as it will be loaded: any later change needs a new signature
    pub file: PathBuf,
    /// File of the private key
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
}

/// Make a key.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  waybill plugin keygen acme.pem        writes the private key, prints the line for waybill.toml"
)]
pub struct Keygen {
    /// File for the private key; it must not be there yet
    pub file: PathBuf,
}
