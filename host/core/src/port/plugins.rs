//! Why a change of a plugin is refused.

use thiserror::Error;

use crate::code::Code;

/// Why a change was refused. The running generation goes on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PluginsError {
    /// Nothing is known by this name.
    #[error(
        "nothing is served under the name {0:?}: a transport has its own name, and others are `handler.NAME`, `participant.NAME`, \
         `source.NAME` and `outbox.backoff` (`waybill plugin list` shows them)"
    )]
    NotFound(String),
    /// It can't be done.
    #[error("{reason}")]
    Refused {
        code: Code,
        /// What is wrong, and what to do.
        reason: String,
    },
}

impl PluginsError {
    pub fn code(&self) -> Code {
        match self {
            Self::NotFound(_) => Code::TRANSPORT_NOT_FOUND,
            Self::Refused { code, .. } => *code,
        }
    }
}
