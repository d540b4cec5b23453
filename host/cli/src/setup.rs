//! From flags to a configuration.

use crate::args::serve::ConfigArgs;
use crate::config::problem::ConfigError;
use crate::config::reader::Flag;
use crate::config::{Config, Inputs, cache_folder, data_folder, find_file, load};
use crate::term::Term;

/// What a configuration is read from, given the flags.
fn inputs(args: &ConfigArgs, flags: Vec<Flag>, term: &Term) -> Inputs {
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

/// Reads the configuration that the flags and the environment choose, with further settings given by flags.
pub fn configuration(args: &ConfigArgs, further: Vec<Flag>, term: &Term) -> Result<Config, ConfigError> {
    let args = args.or_env(&term.env);
    let mut flags = args.flags();
    flags.extend(further);
    load(&inputs(&args, flags, term))
}
