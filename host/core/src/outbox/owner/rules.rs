//! The rules of the protocol that the model checker leaves out one by one, to prove that it would notice.

/// A rule of the owner's protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Every commit bumps beat and nonce, also when it changes nothing else.
    AlwaysBeat,
    /// A doorstep pass reads from the low end.
    PassFromLowEnd,
    /// A pass's upper stamp is fixed when it begins, and every page of it is read from the low end up to that.
    PassUpperFixed,
    /// Direct requests are sequenced only after a completed pass.
    DirectAfterPass,
    /// After an unknown outcome a barrier is committed before the old commit is given up.
    Barrier,
    /// A key moves on only when the settlement before is known committed.
    KeyWaitsForCommit,
    /// Only what is durably claimed is sent.
    ClaimBeforeSend,
    /// A scan skips keys that have a resume point.
    SkipResumedKeys,
    /// Only direct requests that arrived before the pass began follow it.
    DirectBeforePass,
    /// A segment with a message that could be sent isn't evicted, and nothing is sent from one that the commit that is
    /// out gives up.
    EvictIdleOnly,
    /// A store that says less than what was committed has lost it: the owner stops.
    StoreNeverBack,
    /// A retry waits no longer than its own delay, whatever the clock says of its row.
    RetryWithinDelay,
    /// A cautious owner sends only what a commit has named.
    NameBeforeSend,
    /// Half of the suspects are on trial at once.
    TrialByHalves,
    /// The next trial begins when the one before is over.
    OneTrial,
    /// A suspect is on trial by itself only after its owner has lived a while without it.
    QuietBeforeAlone,
    /// Whoever settles is no suspect any more.
    SettledIsCleared,
    /// An end that the process outlived is no crash.
    OnlyDeathIsACrash,
    /// What can't be read goes to quarantine, or becomes a dead letter; nothing of it is dropped.
    QuarantineUnreadable,
    /// What lies on the doorstep of another shard than its key's is carried to its own.
    CarryStrays,
    /// No more is sent than rates allow.
    KeepRates,
}

impl Rule {
    /// All rules, in the order of the mutations' numbers, from 1.
    pub const ALL: [Self; 21] = [
        Self::AlwaysBeat,
        Self::PassFromLowEnd,
        Self::PassUpperFixed,
        Self::DirectAfterPass,
        Self::Barrier,
        Self::KeyWaitsForCommit,
        Self::ClaimBeforeSend,
        Self::SkipResumedKeys,
        Self::DirectBeforePass,
        Self::EvictIdleOnly,
        Self::StoreNeverBack,
        Self::RetryWithinDelay,
        Self::NameBeforeSend,
        Self::TrialByHalves,
        Self::OneTrial,
        Self::QuietBeforeAlone,
        Self::SettledIsCleared,
        Self::OnlyDeathIsACrash,
        Self::QuarantineUnreadable,
        Self::CarryStrays,
        Self::KeepRates,
    ];
}

/// Which rules hold: all, but in a mutation of the model checker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    omitted: Option<Rule>,
}

impl Rules {
    /// All but one. Only for proving that the checker notices: such an owner loses or reorders messages. It isn't behind a feature:
    /// tests and binary would then have two cores, and core and all above it would be compiled twice.
    pub fn without(rule: Rule) -> Self {
        Self { omitted: Some(rule) }
    }
    /// Whether a rule holds.
    pub fn kept(self, rule: Rule) -> bool {
        self.omitted != Some(rule)
    }
}
