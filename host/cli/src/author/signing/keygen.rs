//! `waybill plugin keygen`.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use waybill_sandbox::SigningKey;

use super::refused;
use crate::exit::CliError;
use crate::output::{self, Format};
use crate::term::Term;

/// Make a key.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  waybill plugin keygen acme.pem        writes the private key, prints the line for waybill.toml"
)]
pub struct Keygen {
    /// File for the private key; it must not be there yet
    pub file: PathBuf,
}

/// Makes a key pair.
pub fn run(args: &Keygen, format: Format, term: &mut Term) -> Result<(), CliError> {
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
    let all = json!({ "public": public, "config": line });
    output::answer(term, format, &all.to_string(), &public, |term| term.line(&line))
}

/// A new file that only this user can read.
fn private(path: &Path) -> std::io::Result<std::fs::File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
