//! Commands for authors of plugins.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::serve::ConfigArgs;

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

/// What a plugin is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Language {
    /// Small and fast components
    Rust,
    /// QuickJS inside, 1.6 MB
    Js,
    /// CPython inside, 19 MB
    Python,
}

impl Language {
    /// Its name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Js => "js",
            Self::Python => "python",
        }
    }
}

/// A new project.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  waybill plugin new --world transport --lang rust my-broker\n  waybill plugin new --world backoff --lang js gentle --dir plugins/gentle\n\nThe project builds and passes its tests as it is; its README says how."
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
    /// Folder to make; its name otherwise
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Use the author's crate in this folder instead of a copy inside the project (Rust only)
    #[arg(long, value_name = "DIR")]
    pub sdk: Option<PathBuf>,
}

/// A build.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  waybill plugin build\n  waybill plugin build plugins/gentle --out dist/gentle.wasm\n  waybill plugin build -o json\n\nNeeds the language's own tools and says what to install where they are missing: Rust with wasm32-wasip2, Node.js with jco,\nor Python with componentize-py."
)]
pub struct Build {
    /// The project's folder
    #[arg(default_value = ".", value_name = "DIR")]
    pub dir: PathBuf,
    /// Where the component goes; NAME.wasm in the project otherwise
    #[arg(long = "out", value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// A run of the conformance suite.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  waybill plugin test\n  waybill plugin test my-broker.wasm --cases tests --config '{\"url\":\"http://${peer}/\"}'\n  waybill plugin test -o json\n\nA project is built first. Its cases are in tests/*.toml; ${peer} in them is the address of the peer that the suite plays.\nThe exit code is 1 if a check failed."
)]
pub struct Test {
    /// A project's folder, or a component
    #[arg(default_value = ".", value_name = "DIR|FILE")]
    pub plugin: PathBuf,
    /// Configuration for a plugin without cases: JSON, or a file of it
    #[arg(long, value_name = "JSON|FILE")]
    pub config: Option<String>,
    /// Folder of the cases; tests/ of a project otherwise
    #[arg(long, value_name = "DIR")]
    pub cases: Option<PathBuf>,
    /// Take the component that is there instead of building it
    #[arg(long)]
    pub no_build: bool,
}

/// Whether a host would load a plugin.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  waybill plugin check my-broker.wasm\n  waybill plugin check orders --config waybill.toml --probe      the plugin of [transport.orders]\n  waybill plugin check new.wasm --transport orders --probe       a new one in its place\n\nThe exit code is 1 if a check failed."
)]
pub struct Check {
    /// A component, a bundled plugin's name, or the name of a transport or participant in the configuration
    #[arg(value_name = "FILE|NAME|TRANSPORT|PARTICIPANT")]
    pub plugin: String,
    /// Check it in the place of this transport's plugin
    #[arg(long, value_name = "NAME", conflicts_with = "participant")]
    pub transport: Option<String>,
    /// Check it in the place of this participant's plugin
    #[arg(long, value_name = "NAME")]
    pub participant: Option<String>,
    /// Also open it once beside what serves, and ask how it is
    #[arg(long)]
    pub probe: bool,
    /// Which configuration.
    #[command(flatten)]
    pub config: ConfigArgs,
}

/// Work on a plugin against a running host.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  waybill plugin dev --transport orders\n  waybill plugin dev plugins/my-broker --transport orders --url http://127.0.0.1:7070\n\nOn every save: builds, opens it once in a sandbox of its own, and loads it into the host. What fails is shown, and what\nserves goes on. Without --transport it only builds and opens. Ends with Ctrl-C."
)]
pub struct Dev {
    /// The project's folder
    #[arg(default_value = ".", value_name = "DIR")]
    pub dir: PathBuf,
    /// Transport of the running host whose plugin it replaces
    #[arg(long, value_name = "NAME")]
    pub transport: Option<String>,
}
