//! `waybill backup`.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use waybill_core::code::Code;
use waybill_core::port::backup::HeldFile;
use waybill_store::{ArchiveError, held_files};

use super::Context;
use crate::client::BackupStream;
use crate::exit::{CliError, Exit};
use crate::output::{number, size};

/// Where to, and what is there already.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill backup store.wb\n  \
    waybill backup tuesday.wb --earlier monday.wb     without what monday.wb has\n  \
    waybill backup - | age -r age1... > store.wb.age\n\n\
    The host goes on; it needs the role backup, for all tenants. A backup has everything that is stored in clear text, so its file is its owner's \
    alone. `waybill restore` makes a data folder of it.")]
pub struct Backup {
    /// File to make, `-` for stdout
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Earlier backup, decrypted: what it has is left out, and restoring needs it too; more than once for several
    #[arg(long, value_name = "FILE")]
    pub earlier: Vec<PathBuf>,
}

pub(super) async fn run(args: &Backup, context: &mut Context<'_>) -> Result<(), CliError> {
    let is_stdout = args.file.as_os_str() == "-";
    if !is_stdout {
        refuse_there(&args.file)?;
    }
    let asked = json!({ "earlier": known(&args.earlier)? });
    if is_stdout {
        let mut stream = context.client.back_up(&asked).await?;
        let out = &mut context.term.out;
        while let Some(piece) = stream.next().await? {
            out.write_all(&piece).map_err(|cause| not_written("stdout", &cause))?;
        }
        return out.flush().map_err(|cause| not_written("stdout", &cause));
    }
    let part = beside(&args.file);
    let file = make(&part)?;
    let finished = async {
        take(context, &asked, file, &part).await?;
        // What is on the disk, from its beginning to its end.
        let held = held(&part)?;
        refuse_there(&args.file)?;
        fs::rename(&part, &args.file).map_err(|cause| not_written(&args.file.display().to_string(), &cause))?;
        Ok::<_, CliError>(held)
    };
    let held = match finished.await {
        Ok(held) => held,
        Err(error) => {
            // Half of it helps nobody; that it can't be removed is of no matter beside why.
            let _ = fs::remove_file(&part);
            return Err(error);
        }
    };
    sync_folder_of(&args.file).map_err(|cause| not_written(&args.file.display().to_string(), &cause))?;
    let bytes = fs::metadata(&args.file).map_or(0, |file| file.len());
    context.term.say(&format!(
        "{} has {}, {}; read again and whole",
        args.file.display(),
        number(held.len() as u64, "file", "files"),
        size(bytes)
    ));
    Ok(())
}

/// Writes the host's answer to its end.
async fn take(context: &Context<'_>, asked: &Value, mut file: File, part: &Path) -> Result<(), CliError> {
    let mut stream: BackupStream<'_> = context.client.back_up(asked).await?;
    let failed = |cause: io::Error| not_written(&part.display().to_string(), &cause);
    while let Some(piece) = stream.next().await? {
        file.write_all(&piece).map_err(failed)?;
    }
    file.sync_all().map_err(failed)
}

/// A broken pipe ends other commands quietly: a backup that isn't whole is never a success.
fn not_written(what: &str, cause: &io::Error) -> CliError {
    CliError::Host {
        code: Code::CLI_IO,
        what: format!("writing the backup to {what} failed: {cause}"),
        exit: Exit::Failed,
    }
}

fn refuse_there(file: &Path) -> Result<(), CliError> {
    if fs::symlink_metadata(file).is_err() {
        return Ok(());
    }
    Err(CliError::usage(format!("{} is there already, and nothing is overwritten", file.display()), "name a new file"))
}

/// The name under which a backup is written until it is whole.
fn beside(file: &Path) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    file.with_file_name(name)
}

/// Makes the file, for its owner alone. One that a backup left which was killed is removed.
fn make(part: &Path) -> Result<File, CliError> {
    let failed = |cause: io::Error| not_written(&part.display().to_string(), &cause);
    if let Ok(left) = File::open(part) {
        match left.try_lock() {
            Ok(()) => fs::remove_file(part).map_err(failed)?,
            Err(TryLockError::WouldBlock) => {
                return Err(CliError::usage(
                    format!("another backup is just being written to {}", part.display()),
                    "wait for it, or name another file",
                ));
            }
            Err(TryLockError::Error(cause)) => return Err(failed(cause)),
        }
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(part).map_err(failed)?;
    file.lock().map_err(failed)?;
    Ok(file)
}

fn sync_folder_of(file: &Path) -> io::Result<()> {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

/// What earlier backups have. Of one name the last that was given counts.
fn known(earlier: &[PathBuf]) -> Result<Vec<HeldFile>, CliError> {
    let mut known: HashMap<String, HeldFile> = HashMap::new();
    for backup in earlier {
        known.extend(held(backup)?.into_iter().map(|file| (file.name.clone(), file)));
    }
    Ok(known.into_values().collect())
}

/// Reads a backup to its end.
fn held(backup: &Path) -> Result<Vec<HeldFile>, CliError> {
    let place = backup.display();
    let file = File::open(backup).map_err(CliError::io(format!("opening {place}")))?;
    held_files(BufReader::new(file)).map_err(|cause: ArchiveError| CliError::Host {
        code: Code::STORAGE_BACKUP_UNREADABLE,
        what: format!("{place}: {cause}"),
        exit: Exit::Failed,
    })
}
