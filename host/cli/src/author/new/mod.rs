//! `waybill plugin new`: a project that builds and passes its tests as it is made.
//!
//! Everything it writes is inside this binary ([`scaffold`]), so an author needs nothing of Waybill's repository.

mod declarations;
mod scaffold;
mod sdk;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::json;

use super::project::Language;
use crate::exit::CliError;
use crate::output::{self, Format};
use crate::term::Term;

/// What a component is held against.
pub(in crate::author) use scaffold::contract;

/// What a plugin implements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AuthorWorld {
    /// Delivers messages
    Transport,
    /// Does the steps of sagas
    Participant,
    /// Handles messages that came in
    Handler,
    /// Brings messages in
    Source,
    /// Decides what follows a failure
    Backoff,
}

impl AuthorWorld {
    /// Its name in a manifest.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Transport => "transport",
            Self::Participant => "participant",
            Self::Handler => "handler",
            Self::Source => "source",
            Self::Backoff => "backoff",
        }
    }
}

/// What a project is made from, where a world has several to offer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Template {
    /// Asks somebody over HTTP, or nobody
    #[default]
    Plain,
    /// Speaks a protocol of its own over TCP (transports in Rust)
    Net,
}

/// A new project.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  waybill plugin new --world transport --lang rust my-broker\n  waybill plugin new --world transport --lang rust --template net my-queue\n  waybill plugin new --world backoff --lang js gentle --dir plugins/gentle\n\nThe project builds and passes its tests as it is; its README says how."
)]
pub struct New {
    /// The plugin's name: lower-case letters, digits and dashes
    pub name: String,
    /// What it implements
    #[arg(long, value_enum, value_name = "WORLD")]
    pub world: AuthorWorld,
    /// What it is written in
    #[arg(long, value_enum, value_name = "LANG")]
    pub lang: Language,
    /// What it starts from
    #[arg(long, value_enum, value_name = "TEMPLATE", default_value_t)]
    pub template: Template,
    /// Folder to make; its name otherwise
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Use the author's crate in this folder instead of a copy inside the project (Rust only)
    #[arg(long, value_name = "DIR")]
    pub sdk: Option<PathBuf>,
}

/// Longest name, in bytes: the manifest's bound.
const NAME_BYTES_MAX: usize = 64;
/// Names that cargo or the Rust compiler keep for themselves.
const RUST_RESERVED: [&str; 8] =
    ["alloc", "build", "core", "proc-macro", "std", "test", "waybill-plugin", "wit-bindgen"];

pub fn run(args: &New, format: Format, term: &mut Term) -> Result<(), CliError> {
    check(args)?;
    let folder = args.dir.clone().unwrap_or_else(|| PathBuf::from(&args.name));
    check_folder(&folder)?;
    let sdk = args.sdk.as_deref().map(sdk::at).transpose()?;
    let files = scaffold::files(&args.name, (args.world, args.lang, args.template), sdk.as_deref())?;
    for (name, bytes) in &files {
        write(&folder.join(name), bytes)?;
    }
    let names: Vec<&String> = files.keys().collect();
    let shown = folder.display().to_string();
    let item = json!({
        "name": args.name,
        "world": scaffold::world_name(args.world, args.lang),
        "language": args.lang.as_str(),
        "folder": shown,
        "files": names,
    });
    let rows = vec![
        ("folder".to_owned(), shown.clone()),
        ("world".to_owned(), scaffold::world_name(args.world, args.lang)),
        ("files".to_owned(), files.len().to_string()),
    ];
    output::one(term, format, &format!("{item:#}"), &shown, rows)?;
    term.say(&format!("next: cd {shown}, then {}waybill plugin build and waybill plugin test", first_step(args.lang)));
    Ok(())
}

/// What has to be done once before a build.
fn first_step(language: Language) -> &'static str {
    match language {
        Language::Rust => "",
        Language::Js => "npm install, ",
        Language::Python => "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt, ",
    }
}

fn check(args: &New) -> Result<(), CliError> {
    let name = &args.name;
    let letters = name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    if !letters || name.len() > NAME_BYTES_MAX {
        return Err(CliError::usage(
            format!("{name:?} can't name a plugin"),
            format!("write lower-case letters, digits and dashes, a letter first, at most {NAME_BYTES_MAX} in all"),
        ));
    }
    if args.lang == Language::Rust && RUST_RESERVED.contains(&name.as_str()) {
        return Err(CliError::usage(format!("Rust keeps the name {name:?} for itself"), "choose another one"));
    }
    if args.lang == Language::Python && args.world == AuthorWorld::Backoff {
        return Err(CliError::usage(
            "a retry policy can't be written in Python: each decision runs in a fresh instance with fuel for 10 ms, and starting CPython alone takes more",
            "choose --lang rust or --lang js",
        ));
    }
    if args.template == Template::Net && (args.world, args.lang) != (AuthorWorld::Transport, Language::Rust) {
        return Err(CliError::usage(
            "the template `net` is a transport in Rust",
            "choose --world transport --lang rust, or leave --template out",
        ));
    }
    if args.sdk.is_some() && args.lang != Language::Rust {
        return Err(CliError::usage("--sdk is the author's crate for Rust", "leave it out"));
    }
    Ok(())
}

/// The folder may be there, but nothing may be in it: nobody's files are overwritten.
fn check_folder(folder: &Path) -> Result<(), CliError> {
    let taken = |what: &str| {
        Err(CliError::usage(format!("{} {what}", folder.display()), "choose another folder with --dir, or remove it"))
    };
    match std::fs::read_dir(folder) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => taken("is there and isn't empty"),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(_) if folder.is_file() => taken("is a file"),
        Err(cause) => Err(CliError::io(format!("looking into {}", folder.display()))(cause)),
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), CliError> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(CliError::io(format!("making {}", folder.display())))?;
    }
    std::fs::write(path, bytes).map_err(CliError::io(format!("writing {}", path.display())))
}
