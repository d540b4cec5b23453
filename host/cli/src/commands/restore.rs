//! `waybill restore`.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use waybill_store::{OpenError, RestoreError, restore};

use crate::args::Global;
use crate::config::StoreKind;
use crate::exit::{CliError, Exit};
use crate::output::{self, View, column, less, number, size, text, whole};
use crate::serve;
use crate::setup::{ConfigArgs, Source};
use crate::term::Term;

/// The store's folder in a data folder.
const STORE: &str = "store";
/// What may lie beside it: what a start compiled that the store then refused, and the root of a file system.
const NOT_DATA: [&str; 2] = ["cache", "lost+found"];
/// Messages that are listed; all are counted.
const LISTED_MAX: usize = 10_000;

/// From what, and where to.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill restore store.wb --data ./data\n  \
    waybill restore tuesday.wb --earlier monday.wb --data ./data --verify\n  \
    age -d -i key.txt store.wb.age | waybill restore - --data ./data\n\n\
    No host runs meanwhile. The folder is new or empty: nothing is overwritten. It lists the messages that weren't delivered when the backup was \
    made; those that were delivered since are delivered again, with the same ids. Then start a host with --data.")]
#[command(mut_arg("data", |arg| arg.required(true).help("Folder to make, as `waybill serve --data` takes it")))]
#[command(mut_arg("config", |arg| arg.help("Configuration of the host that is to be started on it")))]
pub struct Restore {
    /// The backup, decrypted; `-` for stdin
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Earlier backup that it was made with; more than once for several
    #[arg(long, value_name = "FILE")]
    pub earlier: Vec<PathBuf>,
    /// Read all of it again from the folder, and compare
    #[arg(long)]
    pub verify: bool,
    /// Where to, and for which host.
    #[command(flatten)]
    pub config: ConfigArgs,
}

const VIEW: View<'_> = View {
    columns: &[
        whole("ID", |item| text(item, "id")),
        less(1, column("TENANT", |item| text(item, "tenant"))),
        column("TOPIC", |item| output::topic(item, "topic")),
    ],
    id: |item| text(item, "id"),
    none: "no message waits in it",
};

pub(super) async fn run(args: &Restore, global: &Global, term: &mut Term) -> Result<(), CliError> {
    let config = Source::new(&args.config, Vec::new(), term).read()?;
    let (Some(data), StoreKind::Disk(folder)) = (&args.config.data, &config.store.kind) else {
        return Err(CliError::usage("a backup is restored into a folder", "name a new one with --data"));
    };
    refuse_used(data)?;
    let open = |file: &PathBuf| File::open(file).map_err(CliError::io(format!("opening {}", file.display())));
    let opened = |file: &PathBuf| -> Result<Box<dyn Read>, CliError> { Ok(Box::new(BufReader::new(open(file)?))) };
    let earlier = args.earlier.iter().map(opened).collect::<Result<Vec<_>, CliError>>()?;
    let done = if args.file.as_os_str() == "-" {
        restore(&mut term.input, earlier, folder, args.verify)
    } else {
        restore(BufReader::new(open(&args.file)?), earlier, folder, args.verify)
    };
    let done = done.map_err(|error| refused(&error))?;
    let what = number(done.files, "file", "files");
    let verified = if args.verify { ", read again and the same" } else { "" };
    term.say(&format!("restored {what}, {}, into {}{verified}", size(done.bytes), folder.display()));
    // Opening a store takes far more room than asking a host does.
    let waiting = Box::pin(serve::undelivered(&config, LISTED_MAX, term)).await?;
    if waiting.count > 0 {
        let count = number(waiting.count, "message wasn't", "messages weren't");
        term.say(&format!(
            "{count} delivered when the backup was made: what was delivered since is delivered again, with the same id"
        ));
    }
    if waiting.count > waiting.listed.len() as u64 {
        term.say(&format!(
            "the first {LISTED_MAX} are listed; `waybill outbox list` shows all of them once a host runs"
        ));
    }
    output::list(term, global.format(), &waiting.listed, &VIEW)
}

/// Nothing but what a restore that was cut off has left of the store may be in the data folder.
fn refuse_used(data: &Path) -> Result<(), CliError> {
    let failed = |cause: io::Error| CliError::io(format!("reading {}", data.display()))(cause);
    let entries = match fs::read_dir(data) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(failed)?,
    };
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        if !NOT_DATA.iter().any(|known| name == *known) && name != STORE {
            return Err(refused(&RestoreError::Used {
                dir: data.to_owned(),
                found: name.to_string_lossy().into_owned(),
            }));
        }
    }
    Ok(())
}

fn refused(error: &RestoreError) -> CliError {
    let exit = match error {
        RestoreError::Used { .. } | RestoreError::Open(OpenError::Locked { .. }) => Exit::Conflict,
        _ => Exit::Failed,
    };
    CliError::Host { code: error.code(), what: error.to_string(), exit }
}
