//! The sandbox that commands run plugins in.

use std::path::PathBuf;

use waybill_sandbox::{CompileLimits, Fleet, FleetOptions, Sandbox, SandboxError, SandboxOptions};

use crate::compile::{compiler, open_with_or_without};
use crate::exit::{CliError, Exit};
use crate::logging;
use crate::term::Term;

/// What is shown of the log: a plugin's own words, warnings of this program, and errors.
const LOG: &str = "error,waybill_cli=warn,waybill::plugin=info";

/// Where components are kept compiled, so that each is compiled once.
#[derive(Clone, Debug, Default)]
pub struct Cache {
    /// The folder; none = nowhere.
    pub folder: Option<PathBuf>,
    /// File of the key that seals what is kept.
    pub seal_key: Option<PathBuf>,
}

impl Cache {
    fn options(self, limits: CompileLimits, term: &Term) -> SandboxOptions {
        let (cache_dir, seal_key) = (self.folder, self.seal_key);
        SandboxOptions { cache_dir, seal_key, compiler: compiler(limits, term), ..SandboxOptions::default() }
    }
}

/// A sandbox for components. What plugins log is shown.
pub fn open(cache: Cache, limits: CompileLimits, term: &Term) -> Result<Sandbox, CliError> {
    if !term.quiet {
        logging::start(LOG, false, term.color_errors());
    }
    open_with_or_without(cache.options(limits, term), sealed).map_err(|error| failed(&error))
}

/// A plugin host, for what is loaded as a host loads it.
pub fn fleet(cache: Cache, limits: CompileLimits, options: &FleetOptions, term: &Term) -> Result<Fleet, SandboxError> {
    open_with_or_without(cache.options(limits, term), |sandbox| Fleet::new(sealed(sandbox)?, options.clone()))
}

fn sealed(options: SandboxOptions) -> Result<Sandbox, SandboxError> {
    let sandbox = Sandbox::new(options)?;
    sandbox.keep_seal()?;
    Ok(sandbox)
}

/// Why a plugin can't be run.
pub fn failed(error: &SandboxError) -> CliError {
    CliError::Host { code: error.code(), what: error.to_string(), exit: Exit::Failed }
}
