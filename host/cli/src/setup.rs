//! From flags to a configuration.

use crate::args::serve::ConfigArgs;
use crate::config::problem::ConfigError;
use crate::config::reader::Flag;
use crate::config::{Config, Inputs, cache_folder, data_folder, find_file, load};
use crate::term::Term;

/// What a configuration is read from, given the flags.
pub fn inputs(args: &ConfigArgs, flags: Vec<Flag>, term: &Term) -> Inputs {
    let cache = match &args.data {
        // A host with a folder of its own keeps everything there.
        Some(data) => Some(data.join("cache")),
        None => cache_folder(),
    };
    Inputs {
        file: find_file(args.config.as_deref()),
        env: term.env.clone(),
        flags,
        data: data_folder(),
        cache,
        bundled: waybill_bundled::all().iter().map(|bundled| bundled.name).collect(),
    }
}

/// Reads the configuration that the flags choose.
pub fn configuration(args: &ConfigArgs, flags: Vec<Flag>, term: &Term) -> Result<Config, ConfigError> {
    load(&inputs(args, flags, term))
}
