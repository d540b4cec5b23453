//! Compiling plugins: in a process of its own, and once, if there is a cache that can be used.

use waybill_sandbox::{CompileLimits, CompilerProcess, SandboxError, SandboxOptions};

use crate::term::Term;

/// First argument of this program when it is to compile a component for another one, and nothing else.
pub const COMPILE: &str = "compile-component";

/// The process that compiles plugins which aren't bundled: this program once more, if it can be run.
pub fn compiler(limits: CompileLimits, term: &Term) -> Option<CompilerProcess> {
    let program = term.program.clone()?;
    Some(CompilerProcess { program, arguments: vec![COMPILE.into()], limits })
}

/// What `open` makes of these options; of the same without a cache where it says that the cache isn't usable, and the log tells it.
pub fn open_with_or_without<T>(
    options: SandboxOptions,
    open: impl Fn(SandboxOptions) -> Result<T, SandboxError>,
) -> Result<T, SandboxError> {
    match open(options.clone()) {
        Err(error @ SandboxError::Cache { .. }) => {
            tracing::warn!(code = error.code().as_str(), %error, "this program goes on without a compile cache: plugins are compiled at every start, and a host forgets what it knew of bad ones");
            open(SandboxOptions { cache_dir: None, ..options })
        }
        opened => opened,
    }
}
