//! From flags to a configuration.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;

use crate::config::problem::ConfigError;
use crate::config::reader::Flag;
use crate::config::{Config, Inputs, ServerSettings, cache_folder, data_folder, find_file, listener, load};
use crate::term::Term;

/// Which configuration. The environment is laid under the flags by [`ConfigArgs::or_env`].
#[derive(Clone, Debug, Default, Args)]
pub struct ConfigArgs {
    /// Configuration file [env: WAYBILL_CONFIG] [default: ./waybill.toml if it exists, then the platform's]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Folder for the store; overrides store.url [env: WAYBILL_DATA]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

impl ConfigArgs {
    /// With what the environment names where no flag does.
    #[must_use]
    pub fn or_env(&self, env: &BTreeMap<String, String>) -> Self {
        let named = |name: &str| env.get(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        Self {
            config: self.config.clone().or_else(|| named("WAYBILL_CONFIG")),
            data: self.data.clone().or_else(|| named("WAYBILL_DATA")),
        }
    }

    /// Settings given by these flags.
    pub fn flags(&self) -> Vec<Flag> {
        let data = self.data.as_ref().map(|data| Flag {
            path: "store.url",
            flag: "--data",
            value: format!("surrealkv://{}", data.join("store").display()),
        });
        data.into_iter().collect()
    }
}

/// Where a configuration comes from: it can be read again while a host runs.
#[derive(Clone, Debug)]
pub struct Source {
    args: ConfigArgs,
    flags: Vec<Flag>,
    env: BTreeMap<String, String>,
}

impl Source {
    /// What the flags and the environment choose, with further settings given by flags.
    pub fn new(args: &ConfigArgs, further: Vec<Flag>, term: &Term) -> Self {
        let args = args.or_env(&term.env);
        let mut flags = args.flags();
        flags.extend(further);
        Self { args, flags, env: term.env.clone() }
    }

    /// Reads and checks it, as it is now.
    pub fn read(&self) -> Result<Config, ConfigError> {
        load(&self.inputs())
    }

    /// Reads where a host of it listens, whatever else is wrong with it; the second value says why that can't be read.
    pub fn listener(&self) -> (ServerSettings, Option<ConfigError>) {
        listener(&self.inputs())
    }

    fn inputs(&self) -> Inputs {
        let cache = match &self.args.data {
            // A host with a folder of its own keeps everything there.
            Some(data) => Some(data.join("cache")),
            None => cache_folder(),
        };
        Inputs {
            file: find_file(self.args.config.as_deref()),
            env: self.env.clone(),
            flags: self.flags.clone(),
            data: data_folder(),
            cache,
            bundled: waybill_bundled::all().iter().map(|bundled| bundled.name).collect(),
        }
    }
}

/// The file that [`configuration`] reads, in words.
pub fn place(args: &ConfigArgs, term: &Term) -> String {
    match find_file(args.or_env(&term.env).config.as_deref()) {
        Some(file) => std::path::absolute(&file).unwrap_or(file).display().to_string(),
        None => "the defaults: there is no waybill.toml here, nor in the platform's folder".to_owned(),
    }
}

/// Reads the configuration that the flags and the environment choose, with further settings given by flags.
pub fn configuration(args: &ConfigArgs, further: Vec<Flag>, term: &Term) -> Result<Config, ConfigError> {
    Source::new(args, further, term).read()
}
