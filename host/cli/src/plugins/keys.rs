//! `waybill plugin verify, sign, keygen`: who vouches for a component. Needs no host.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use serde_json::json;
use waybill_sandbox::{
    Fetched, PublicKey, Signature, SignatureState, SigningKey, Trust, VerifyError, signature_path, verify,
};

use crate::args::Format;
use crate::args::generations::{Keygen, Sign, Verify};
use crate::exit::{CliError, Exit};
use crate::output;
use crate::term::Term;

/// Name under which the key of `--key` is trusted.
const GIVEN: &str = "the key given";

fn refused(path: &Path, error: &VerifyError) -> CliError {
    let exit = if matches!(error, VerifyError::Key { .. }) { Exit::Usage } else { Exit::Failed };
    CliError::Host { code: error.code(), what: format!("{}: {error}", path.display()), exit }
}

fn fetch(path: &Path) -> Result<Fetched, CliError> {
    Fetched::read(path).map_err(|error| CliError::Host {
        code: error.code(),
        what: error.to_string(),
        exit: Exit::Failed,
    })
}

/// Checks a component's digest and signature.
pub fn check(args: &Verify, format: Format, term: &mut Term) -> Result<(), CliError> {
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

/// Writes a component's signature beside it.
pub fn sign(args: &Sign, format: Format, term: &mut Term) -> Result<(), CliError> {
    let pem = std::fs::read_to_string(&args.key).map_err(CliError::io(format!("reading {}", args.key.display())))?;
    let key = SigningKey::parse_pem(&pem).map_err(|error| refused(&args.key, &error))?;
    let bytes = fetch(&args.file)?;
    // A file that no host would load isn't worth a signature.
    waybill_sandbox::inspect(bytes.bytes()).map_err(|error| CliError::Host {
        code: error.code(),
        what: format!("{}: {error}", args.file.display()),
        exit: Exit::Failed,
    })?;
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

/// Makes a key pair.
pub fn keygen(args: &Keygen, format: Format, term: &mut Term) -> Result<(), CliError> {
    let key = SigningKey::generate().map_err(|error| refused(&args.file, &error))?;
    let failed = || CliError::io(format!("writing {}", args.file.display()));
    let mut file = private(&args.file).map_err(failed())?;
    file.write_all(key.to_pem().as_bytes()).map_err(failed())?;
    file.sync_all().map_err(failed())?;
    let public = key.public().to_string();
    let name = args.file.file_stem().map_or("mine".into(), |name| name.to_string_lossy().into_owned());
    term.say(&format!(
        "{} holds the private key: keep it secret; hosts that shall trust it get, under [plugins]:",
        args.file.display()
    ));
    let line = format!("trusted_keys = {{ {name:?} = {public:?} }}");
    match format {
        Format::Table => term.line(&line),
        Format::Ids => term.line(&public),
        Format::Json | Format::Jsonl => term.line(&json!({ "public": public, "config": line }).to_string()),
    }
}

/// A new file that only this user can read.
fn private(path: &Path) -> std::io::Result<std::fs::File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
