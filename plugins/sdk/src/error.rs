//! Short ways to fail a whole call.

use crate::transport::{ErrorKind, Fault, PluginError};

impl PluginError {
    /// A failed call of a class.
    pub fn new(kind: ErrorKind, fault: Fault) -> Self {
        Self { kind, fault }
    }

    /// The configuration can't work; `path` is the place, with dots.
    pub fn invalid_config(path: &str, reason: &str) -> Self {
        let fault = Fault::new("PLUGIN.INVALID_CONFIG", format!("config at `{path}`: {reason}"));
        Self::new(ErrorKind::InvalidConfig, fault.with_attribute("path", path))
    }

    /// Credentials or rights refused.
    pub fn denied(code: &str, reason: impl Into<String>) -> Self {
        Self::new(ErrorKind::Denied, Fault::new(code, reason))
    }

    /// Peer unreachable or connection lost.
    pub fn unavailable(code: &str, reason: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, Fault::new(code, reason))
    }

    /// A defect of the plugin.
    pub fn internal(reason: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, Fault::new("PLUGIN.INTERNAL", reason))
    }
}
