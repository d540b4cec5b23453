//! `waybill plugin verify`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use waybill_sandbox::{PublicKey, Signature, SignatureState, Trust, VerifyError, verify};

use super::{fetch, refused};
use crate::exit::CliError;
use crate::output::{self, Format};
use crate::term::Term;

/// Name under which the key of `--key` is trusted.
const GIVEN: &str = "the key given";

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

/// Checks a component's digest and signature.
pub fn run(args: &Verify, format: Format, term: &mut Term) -> Result<(), CliError> {
    let fetched = fetch(&args.file)?;
    let failed = |error: VerifyError| refused(&args.file, &error);
    let mut trust = Trust::default();
    if let Some(text) = &args.key {
        let key = PublicKey::parse(text).map_err(failed)?;
        trust = Trust { keys: BTreeMap::from([(GIVEN.to_owned(), key)]), required: true };
    }
    let state = verify(&fetched, &trust, args.sha256.as_deref()).map_err(failed)?;
    let signature = fetched.signature().map(Signature::parse).transpose().map_err(failed)?;
    if let Some(signature) = &signature {
        signature.check(fetched.bytes()).map_err(failed)?;
    }
    let signer = signature.map(|signature| signature.key.to_string());
    let words = match (&state, &signer) {
        (SignatureState::SignedBy(_), _) => "good, by the key given".to_owned(),
        (_, Some(signer)) => format!("good, by {signer}: whether you trust that key is yours to say"),
        (_, None) => "none".to_owned(),
    };
    let all = json!({
        "file": args.file.display().to_string(),
        "digest": fetched.digest(),
        "signed_by": signer,
        "trusted": matches!(state, SignatureState::SignedBy(_)),
    });
    let rows = vec![("digest".to_owned(), fetched.digest().to_owned()), ("signature".to_owned(), words)];
    output::one(term, format, &all.to_string(), fetched.digest(), rows)
}
