//! A plugin host with its compile cache, or without one that can't be used.

use waybill_sandbox::{SandboxError, SandboxOptions};

/// What `open` makes of these options; of the same without a cache where it says that the cache isn't usable, and the log tells it.
pub fn open_with_or_without<T>(
    options: SandboxOptions,
    open: impl Fn(SandboxOptions) -> Result<T, SandboxError>,
) -> Result<T, SandboxError> {
    match open(options.clone()) {
        Err(error @ SandboxError::Cache { .. }) => {
            tracing::warn!(code = error.code(), %error, "this program goes on without a compile cache: plugins are compiled at every start, and a host forgets what it knew of bad ones");
            open(SandboxOptions { cache_dir: None, ..options })
        }
        opened => opened,
    }
}
