//! Why a change of a slot's plugin was refused. The running generation goes on.

use thiserror::Error;
use waybill_core::code::Code;

use super::record::{BadDigest, Why};
use crate::error::SandboxError;
use crate::verify::VerifyError;

/// A change of plugin was refused.
#[derive(Debug, Error)]
pub enum SwapError {
    /// It can't be loaded, configured or opened.
    #[error(transparent)]
    Plugin(#[from] SandboxError),
    /// It isn't the one that was meant, or nobody trusted vouches for it.
    #[error(transparent)]
    Verify(#[from] VerifyError),
    /// An instance of it was tried and didn't work.
    #[error(
        "{endpoint:?} keeps its plugin: the new one failed its probe: {}: {}: correct it, its config or its peer and load it again",
        .why.code, .why.reason
    )]
    ProbeFailed {
        endpoint: String,
        /// What the probe said.
        why: Why,
    },
    /// It was rolled back before.
    #[error(
        "{} was rolled back on {} ({}: {}) and isn't used again by itself: give a corrected component, or use `waybill plugin reload {endpoint} --force`",
        .bad.digest, .bad.at, .bad.why.code, .bad.why.reason
    )]
    RememberedBad {
        endpoint: String,
        /// Which, and what it did.
        bad: BadDigest,
    },
    /// A component can't be handed over to this transport.
    #[error(
        "the plugin of {endpoint:?} comes from {source_words}, which isn't a file of the plugins folder: set `plugins.folder`, and `plugin = \"NAME\"` for NAME.wasm in it"
    )]
    NotInFolder {
        endpoint: String,
        /// Where its plugin comes from.
        source_words: String,
    },
    /// Nothing to go back to.
    #[error("{endpoint:?} has no earlier generation to go back to: load the component you want instead")]
    NoPrevious { endpoint: String },
    /// The slot has ended.
    #[error("{endpoint:?} has ended: the host is stopping, or the transport was removed")]
    Closed { endpoint: String },
}

impl SwapError {
    pub fn code(&self) -> Code {
        match self {
            Self::Plugin(error) => error.code(),
            Self::Verify(error) => error.code(),
            Self::ProbeFailed { .. } => Code::PLUGIN_PROBE_FAILED,
            Self::RememberedBad { .. } => Code::PLUGIN_REMEMBERED_BAD,
            Self::NotInFolder { .. } => Code::PLUGIN_NOT_IN_FOLDER,
            Self::NoPrevious { .. } => Code::PLUGIN_NO_PREVIOUS,
            Self::Closed { .. } => Code::PLUGIN_CLOSED,
        }
    }

    /// Whether the same act may succeed later without a change.
    pub fn retryable(&self) -> bool {
        match self {
            Self::Plugin(error) => error.retryable(),
            Self::Verify(error) => error.retryable(),
            Self::ProbeFailed { .. } => true,
            Self::RememberedBad { .. } | Self::NotInFolder { .. } | Self::NoPrevious { .. } | Self::Closed { .. } => {
                false
            }
        }
    }

    /// As it is remembered in the history.
    pub(super) fn why(&self) -> Why {
        Why::new(self.code(), self.to_string())
    }
}
