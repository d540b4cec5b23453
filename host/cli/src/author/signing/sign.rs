//! `waybill plugin sign`.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use waybill_sandbox::{SigningKey, signature_path};

use super::{fetch, refused};
use crate::author::inspect;
use crate::exit::CliError;
use crate::output::{self, Format};
use crate::term::Term;

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

/// Writes a component's signature beside it.
pub fn run(args: &Sign, format: Format, term: &mut Term) -> Result<(), CliError> {
    let pem = std::fs::read_to_string(&args.key).map_err(CliError::io(format!("reading {}", args.key.display())))?;
    let key = SigningKey::parse_pem(&pem).map_err(|error| refused(&args.key, &error))?;
    let bytes = fetch(&args.file)?;
    // A file that no host would load isn't worth a signature.
    inspect::read(bytes.bytes(), &args.file.display().to_string())?;
    let signature = key.sign(bytes.bytes());
    let path = signature_path(&args.file);
    std::fs::write(&path, format!("{signature}\n")).map_err(CliError::io(format!("writing {}", path.display())))?;
    let shown = path.display().to_string();
    let all = json!({ "signature": shown, "digest": bytes.digest(), "key": key.public().to_string() });
    let rows = vec![
        ("signature".to_owned(), shown.clone()),
        ("digest".to_owned(), bytes.digest().to_owned()),
        ("key".to_owned(), key.public().to_string()),
    ];
    output::one(term, format, &all.to_string(), &shown, rows)
}
