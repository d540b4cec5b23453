//! Why a change of a slot's plugin was refused. The running generation goes on.

use std::time::Duration;

use thiserror::Error;
use waybill_core::code::Code;
use waybill_core::port::step_needs::NeededStep;

use super::record::{BadDigest, Why};
use crate::error::SandboxError;
use crate::verify::VerifyError;

/// Steps that a refusal names one by one.
const MISSING_SHOWN_MAX: usize = 10;

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
    /// Too many generations before it still end their calls, or are tried.
    #[error(
        "{endpoint:?} keeps its plugin: of earlier changes {} hold all room for another one, and none ended within {within:?}: wait until \
         their calls have ended (`drain_timeout` at most), and load it again",
        numbers(.holding)
    )]
    NoRoom {
        endpoint: String,
        /// Numbers of the generations that drain, or are tried.
        holding: Vec<u32>,
        within: Duration,
    },
    /// Running sagas would be without something that they still call.
    #[error(
        "{endpoint:?} keeps its plugin: running sagas still call what would be gone, {}: give a component that serves it, or wait until \
         they have ended (`waybill saga list`); taken by force, their calls wait until something serves them",
        words(.missing)
    )]
    StepsNeeded {
        endpoint: String,
        /// What it lacks, by step.
        missing: Vec<NeededStep>,
    },
    /// Running sagas may still call a step by its name alone that another participant serves, and this one would serve it too.
    #[error(
        "{endpoint:?} is kept as it is: it would serve what running sagas call of another participant by the name alone, {}, and nobody \
         would know which is meant: give the step another name here, or wait until they have ended (`waybill saga list`); taken by force, \
         their calls wait until only one serves it",
        words(.unclear)
    )]
    StepsUnclear {
        endpoint: String,
        /// What would be served twice, by step.
        unclear: Vec<NeededStep>,
    },
    /// What they still call isn't known now.
    #[error(
        "{endpoint:?} keeps its plugin: what running sagas still call of it isn't known now, because {why}: load it again in a moment"
    )]
    NeedsUnknown { endpoint: String, why: String },
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
            Self::NoRoom { .. } => Code::PLUGIN_DRAINING,
            Self::StepsNeeded { .. } => Code::PLUGIN_STEP_NEEDED,
            Self::StepsUnclear { .. } => Code::PLUGIN_AMBIGUOUS_STEP,
            Self::NeedsUnknown { .. } => Code::PROVIDER_UNAVAILABLE,
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
            Self::ProbeFailed { .. } | Self::NoRoom { .. } => true,
            Self::NeedsUnknown { .. } => true,
            // Sagas may take days to end: whoever wants it asks again then.
            Self::StepsNeeded { .. } | Self::StepsUnclear { .. } => false,
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

/// What sagas still call, for people: the first of it, and how much more there is.
fn words(missing: &[NeededStep]) -> String {
    let mut words: Vec<String> = missing.iter().take(MISSING_SHOWN_MAX).map(ToString::to_string).collect();
    let more = missing.len().saturating_sub(MISSING_SHOWN_MAX);
    words.extend((more > 0).then(|| format!("and {more} more")));
    words.join(", ")
}

/// Generations by their numbers, for people.
fn numbers(generations: &[u32]) -> String {
    let numbers: Vec<String> = generations.iter().map(ToString::to_string).collect();
    format!("generations {}", numbers.join(", "))
}
