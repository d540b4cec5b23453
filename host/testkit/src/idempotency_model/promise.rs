//! What a key promises, written as one life from its first begin to its end, without the words of the rules it judges.

use waybill_core::idempotency::{Answer, Begun, Reply};
use waybill_core::ids::HoldToken;

/// One life of a key. Instants are milliseconds.
#[derive(Clone, Debug)]
pub struct Life {
    /// What it is of.
    pub hash: u8,
    /// Every token that had it, first to last.
    pub holders: Vec<HoldToken>,
    /// Until when the last of them is alone with it.
    pub alone_until: u64,
    /// What came of it.
    pub outcome: Option<Outcome>,
    pub end: u64,
    /// When something last happened to it.
    pub latest: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Result(Answer),
    Error(String),
}

impl Life {
    /// A life that a begin starts.
    pub fn new(hash: u8, token: &HoldToken, now: u64, ttl: u64, lease: u64) -> Self {
        Self {
            hash,
            holders: vec![token.clone()],
            alone_until: now + lease,
            outcome: None,
            end: now + ttl.max(lease),
            latest: now,
        }
    }

    /// Whether this token may still say what comes of it.
    pub fn is_of(&self, token: &HoldToken) -> bool {
        self.outcome.is_none() && self.holders.last() == Some(token)
    }

    /// What a begin with this hash and token hears, and whether it has the key then.
    pub fn hears(&self, hash: u8, token: &HoldToken, now: u64) -> Hears {
        match &self.outcome {
            _ if hash != self.hash => Hears::Mismatch,
            Some(outcome) => Hears::Outcome(outcome.clone()),
            None if self.holders.last() == Some(token) => Hears::Yours,
            None if self.alone_until > now => Hears::Busy(self.alone_until),
            None => Hears::Yours,
        }
    }
}

/// What a begin has to hear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hears {
    /// It has the key.
    Yours,
    /// Somebody else has it until then.
    Busy(u64),
    /// It is of something else.
    Mismatch,
    /// It is over and done.
    Outcome(Outcome),
}

/// What was heard, in the same words.
pub fn heard(reply: &Reply) -> Hears {
    match reply {
        Reply::Begin(Begun::New(_)) => Hears::Yours,
        Reply::Begin(Begun::Busy { lease_until }) => Hears::Busy(lease_until.0),
        Reply::Begin(Begun::Mismatch) => Hears::Mismatch,
        Reply::Begin(Begun::Succeeded(answer)) => Hears::Outcome(Outcome::Result(answer.clone())),
        Reply::Begin(Begun::Failed(error)) => Hears::Outcome(Outcome::Error(error.clone())),
        other => panic!("a begin heard {other:?}"),
    }
}
