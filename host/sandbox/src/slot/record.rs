//! One generation of a slot as it is remembered: where it stands, what it is, and why something happened to it.

use waybill_core::time::UnixMillis;

/// Where a generation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// Its bytes are here.
    Fetched,
    /// They are the ones that were meant, by digest and signature.
    Verified,
    Compiled,
    Linked,
    /// An instance of it is being tried.
    Probing,
    Live,
    /// Takes no more calls; ends those under way.
    Draining,
    /// Its instances have ended.
    Gone,
    /// Ended before it ever became live.
    Rejected,
}

impl Phase {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Fetched => "fetched",
            Self::Verified => "verified",
            Self::Compiled => "compiled",
            Self::Linked => "linked",
            Self::Probing => "probing",
            Self::Live => "live",
            Self::Draining => "draining",
            Self::Gone => "gone",
            Self::Rejected => "rejected",
        }
    }

    /// Whether it is on its way to serving.
    pub const fn is_candidate(self) -> bool {
        matches!(self, Self::Fetched | Self::Verified | Self::Compiled | Self::Linked | Self::Probing)
    }

    /// Whether `to` may follow: a candidate goes forward (an already loaded plugin skips steps), everything else one step.
    pub const fn may_become(self, to: Self) -> bool {
        match to {
            Self::Fetched => false,
            Self::Verified | Self::Compiled | Self::Linked | Self::Probing => {
                self.is_candidate() && (self as u8) < (to as u8)
            }
            Self::Live => matches!(self, Self::Linked | Self::Probing),
            Self::Draining => matches!(self, Self::Live),
            Self::Gone => matches!(self, Self::Draining),
            Self::Rejected => self.is_candidate(),
        }
    }
}

/// Why something happened to a generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why {
    pub code: String,
    pub reason: String,
}

impl Why {
    /// A code and a sentence.
    pub fn new(code: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { code: code.into(), reason: reason.into() }
    }
}

/// What a component says of itself, and who vouches for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Plugin by its manifest.
    pub plugin: String,
    /// Version by its manifest.
    pub version: String,
    /// Who vouches for it, in a word or two.
    pub signature: String,
}

/// One generation as remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Number, from 1; grows with every candidate.
    pub number: u32,
    /// `sha256:<hex>` of the component; empty when its bytes couldn't be read.
    pub digest: String,
    /// What it says of itself, once that is read.
    pub named: Option<Named>,
    pub phase: Phase,
    /// Since when it stands there; of a generation that was live: since when it was.
    pub since: UnixMillis,
    /// Until when it was live.
    pub until: Option<UnixMillis>,
    /// Why it was refused, rolled back, or came back.
    pub why: Option<Why>,
}

/// A component that isn't used again by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadDigest {
    /// `sha256:<hex>`.
    pub digest: String,
    pub why: Why,
    /// When that was noticed.
    pub at: UnixMillis,
}
