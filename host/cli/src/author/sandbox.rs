//! The sandbox that commands run plugins in.

use std::path::PathBuf;

use waybill_sandbox::{CompileLimits, Fleet, FleetOptions, Sandbox, SandboxError, SandboxOptions};

use crate::compile::{compiler, open_with_or_without};
use crate::exit::{CliError, Exit};
use crate::logging;
use crate::term::Term;

/// What is shown of the log: a plugin's own words, warnings of this program, and errors.
const LOG: &str = "error,waybill_cli=warn,waybill::plugin=info";

/// The section that says which line an instruction was made of.
const LINES: &[u8] = b".debug_line";

/// Where components are kept compiled, so that each is compiled once.
#[derive(Clone, Debug, Default)]
pub struct Cache {
    /// The folder; none = nowhere.
    pub folder: Option<PathBuf>,
    /// File of the key that seals what is kept.
    pub seal_key: Option<PathBuf>,
    /// Traps tell lines of source text. What is compiled for that is of no use to a host.
    pub lines: bool,
}

impl Cache {
    /// The same for a component: with its lines, if it was built with debug information.
    pub fn of(self, component: &[u8]) -> Self {
        let has_lines = component.windows(LINES.len()).any(|bytes| bytes == LINES);
        Self { lines: has_lines, ..self }
    }

    fn options(self, limits: CompileLimits, term: &Term) -> SandboxOptions {
        let Self { folder: cache_dir, seal_key, lines } = self;
        SandboxOptions { cache_dir, seal_key, lines, compiler: compiler(limits, term), ..SandboxOptions::default() }
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
