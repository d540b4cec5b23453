//! `waybill serve`: the flags of a host.

use clap::Args;

use crate::config::reader::Flag;
use crate::exit::CliError;
use crate::setup::{ConfigArgs, Source};
use crate::term::Term;

/// Run a host in the foreground.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill serve                                       needs no configuration\n  \
    waybill serve --config /etc/waybill/waybill.toml\n  \
    waybill serve --data ./data --listen 127.0.0.1:0    \"listening on\" tells the port taken\n\n\
    Without a configuration the store is in the platform's data folder, and http: topics reach this machine only.\n\n\
    SIGHUP has the host read its configuration again: all of what can change is put in force, or nothing. \
    SIGTERM or Ctrl-C drains: no new work is taken, what is under way is finished or given back. A second signal ends \
    at once. Everything committed is on disk either way.")]
pub struct Serve {
    /// Which configuration.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Address to listen on; overrides server.listen
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// Time to finish what is under way at the end; overrides server.drain_timeout
    #[arg(long, value_name = "TIME")]
    pub drain_timeout: Option<String>,
    /// Read the configuration again when its file changes; overrides server.watch
    #[arg(long)]
    pub watch: bool,
    /// Level of the log; overrides log.level
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<String>,
    /// text or json; overrides log.format
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<String>,
}

/// Runs a host until a signal ends it.
pub fn run(args: &Serve, term: &mut Term) -> Result<(), CliError> {
    crate::serve::run(Source::new(&args.config, args.flags(), term), term)
}

impl Serve {
    /// Settings given by these flags, but for those of [`ConfigArgs`].
    fn flags(&self) -> Vec<Flag> {
        let given = [
            ("server.listen", "--listen", &self.listen),
            ("server.drain_timeout", "--drain-timeout", &self.drain_timeout),
            ("log.level", "--log-level", &self.log_level),
            ("log.format", "--log-format", &self.log_format),
        ];
        let watch = self.watch.then(|| Flag { path: "server.watch", flag: "--watch", value: "true".to_owned() });
        let texts =
            given.into_iter().filter_map(|(path, flag, value)| value.clone().map(|value| Flag { path, flag, value }));
        texts.chain(watch).collect()
    }
}
