//! From flags to a configuration.

use std::collections::BTreeMap;

use crate::args::serve::ConfigArgs;
use crate::config::problem::ConfigError;
use crate::config::reader::Flag;
use crate::config::{Config, Inputs, cache_folder, data_folder, find_file, load};
use crate::term::Term;

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
        let cache = match &self.args.data {
            // A host with a folder of its own keeps everything there.
            Some(data) => Some(data.join("cache")),
            None => cache_folder(),
        };
        load(&Inputs {
            file: find_file(self.args.config.as_deref()),
            env: self.env.clone(),
            flags: self.flags.clone(),
            data: data_folder(),
            cache,
            bundled: waybill_bundled::all().iter().map(|bundled| bundled.name).collect(),
        })
    }
}

/// Reads the configuration that the flags and the environment choose, with further settings given by flags.
pub fn configuration(args: &ConfigArgs, further: Vec<Flag>, term: &Term) -> Result<Config, ConfigError> {
    Source::new(args, further, term).read()
}
