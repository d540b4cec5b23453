//! The smaller commands.

use clap::{Args, Subcommand};
use clap_complete::Shell;

use super::author;
use super::generations;
use super::serve::ConfigArgs;

/// One screen.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  waybill status\n  waybill status --url https://10.0.0.7:7070 --token-file ~/.waybill.token -o json"
)]
pub struct Status {}

/// Transports.
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  waybill transport list\n  waybill transport pause orders-nats\n  waybill transport resume orders-nats\n  waybill transport provision orders-nats --dry-run"
)]
pub enum Transport {
    /// All, with plugin, breaker and health
    List,
    /// Stop sending through it; messages wait
    Pause(Name),
    /// Go on sending
    Resume(Name),
    /// Ask it how it is, and try its held destinations again now
    Probe(Name),
    /// Create what is missing at its peer: streams, queues, topics
    Provision(Provision),
}

/// How a transport's peer is provisioned.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  waybill transport provision orders-nats --dry-run\n  waybill transport provision orders-nats --yes -o json\n\nWhat would lose data is never changed; if there is any of it, the exit code is 4."
)]
pub struct Provision {
    /// Its name in the configuration
    pub name: String,
    /// Only show what would be done
    #[arg(long)]
    pub dry_run: bool,
    /// Don't ask; needed where there is no terminal to ask on
    #[arg(short, long)]
    pub yes: bool,
}

/// Which transport.
#[derive(Debug, Args)]
pub struct Name {
    /// Its name in the configuration
    pub name: String,
}

/// Plugins.
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  waybill plugin new --world transport --lang rust my-broker\n  waybill plugin test\n  waybill plugin list\n  waybill plugin reload orders\n  waybill plugin inspect http\n  waybill plugin inspect ./my-transport.wasm -o json"
)]
pub enum Plugin {
    /// Make a project that builds and passes its tests
    New(author::New),
    /// Build a project's component, with its manifest inside
    Build(author::Build),
    /// Does a plugin keep the contract: run the conformance suite on it
    Test(author::Test),
    /// Would this host load it, and if not, why
    Check(author::Check),
    /// Build and reload into a running host on every save
    Dev(author::Dev),
    /// The plugins of a host, with generation, signature and state
    List(generations::List),
    /// Hand a component over to a host: tried, then live
    Load(generations::Load),
    /// Have a host read a plugin from its source again
    Reload(generations::Reload),
    /// Go back to the generation before
    Rollback(generations::Rollback),
    /// Is a component the one that was meant, and who signed it
    Verify(generations::Verify),
    /// Sign a component
    Sign(generations::Sign),
    /// Make a key to sign with
    Keygen(generations::Keygen),
    /// What a plugin is and asks for: manifest, world, grants it wants, digest
    Inspect(Inspect),
    /// Run one step of a participant by hand, in the real sandbox
    Call(Box<super::call::Call>),
}

impl Plugin {
    /// Whether it is about a running host, not about files of this machine.
    pub fn asks_a_host(&self) -> bool {
        match self {
            Self::List(args) => !args.bundled,
            Self::Load(_) | Self::Reload(_) | Self::Rollback(_) => true,
            Self::Verify(_) | Self::Sign(_) | Self::Keygen(_) | Self::Inspect(_) | Self::Call(_) => false,
            // `dev` asks one too, after each build.
            Self::New(_) | Self::Build(_) | Self::Test(_) | Self::Check(_) | Self::Dev(_) => false,
        }
    }
}

/// Which plugin.
#[derive(Debug, Args)]
pub struct Inspect {
    /// A bundled plugin's name, or the path of a .wasm
    pub plugin: String,
}

/// Configuration.
#[derive(Debug, Subcommand)]
pub enum Config {
    /// Is it right; loads the plugins too
    Check(ConfigCheck),
    /// Every setting in effect
    Show(ConfigShow),
    /// Where the file and the data are
    Path(ConfigPath),
    /// What differs between what a running host reads now and what is in force there
    Diff(ConfigDiff),
    /// Have a running host read its configuration again
    Reload(ConfigReload),
}

impl Config {
    /// Whether it is about a running host, not about files of this machine.
    pub fn asks_a_host(&self) -> bool {
        matches!(self, Self::Diff(_) | Self::Reload(_))
    }
}

/// Diff.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  waybill config diff\n  waybill config diff -o ids        only the keys\n\nThe host reads its own file, environment and flags; plugins are loaded, nothing changes."
)]
pub struct ConfigDiff {}

/// Reload.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  waybill config reload --dry-run\n  waybill config reload\n\nAll of what can change while a host runs is put in force, or nothing: transports and routes, retries, weights, times. \
    What needs a restart is named. SIGHUP does the same, and so does a change of the file with server.watch = true."
)]
pub struct ConfigReload {
    /// Only show what would change
    #[arg(long)]
    pub dry_run: bool,
}

/// Check.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  waybill config check\n  waybill config check --config new.toml && systemctl restart waybill"
)]
pub struct ConfigCheck {
    /// Which.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Don't load the plugins
    #[arg(long)]
    pub no_plugins: bool,
}

/// Show.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  waybill config show\n  waybill config show --origin        with file, line and column, variable or flag of each"
)]
pub struct ConfigShow {
    /// Which.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Where each setting comes from
    #[arg(long)]
    pub origin: bool,
}

/// Path.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  waybill config path\n  $EDITOR \"$(waybill config path -o ids)\"")]
pub struct ConfigPath {
    /// Which.
    #[command(flatten)]
    pub config: ConfigArgs,
}

/// The audit trail.
#[derive(Debug, Subcommand)]
pub enum Audit {
    /// Latest events, oldest first
    #[command(visible_alias = "tail")]
    List(AuditList),
}

/// Latest events.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  waybill audit list\n  waybill audit list --limit 500 -o jsonl\n  waybill audit tail -f"
)]
pub struct AuditList {
    /// Most events, up to 1,000
    #[arg(long, default_value_t = 50, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub limit: u16,
    /// Only this tenant
    #[arg(long)]
    pub tenant: Option<String>,
    /// Go on with what comes
    #[arg(short, long)]
    pub follow: bool,
}

/// Checks of this machine.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  waybill doctor\n  waybill doctor --config /etc/waybill/waybill.toml -o json")]
pub struct Doctor {
    /// Which configuration.
    #[command(flatten)]
    pub config: ConfigArgs,
}

/// Completion script.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  waybill completions bash > ~/.local/share/bash-completion/completions/waybill\n  waybill completions zsh > \"${fpath[1]}/_waybill\"\n  waybill completions fish > ~/.config/fish/completions/waybill.fish"
)]
pub struct Completions {
    /// Shell
    pub shell: Shell,
}
