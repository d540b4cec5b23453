//! The rules of direct publishing that the model checker leaves out one by one, to prove that it would notice.

/// A rule of the lanes (`docs/design/inbox.md`, Tables).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A row is marked only when the broker has answered.
    MarkAfterAnswer,
    /// Nothing is sent behind a row that the claim couldn't lock.
    StopBehindUnlocked,
    /// Nothing is sent behind a row of its aggregate that wasn't acknowledged.
    StopBehindUnacknowledged,
    /// Of an aggregate one row is out at a time.
    OneAtATime,
    /// A transaction with an acknowledgement in hand isn't given up.
    KeepAcknowledged,
    /// A lane goes on with one row after a lost transaction or a trap.
    ShrinkAfterLoss,
    /// After an unclean end a batch is named before it goes.
    NameBeforeSend,
    /// What is left out for a time is held in memory.
    HoldInMemory,
    /// A lane whose lock is refused for long goes on without it.
    LosePatience,
    /// A trap costs an attempt only if the row was alone in its call.
    TrapCostsOnlyAlone,
    /// Who is blocked again after another row went through pays an attempt.
    BlocksAreCharged,
    /// Only what went through of its own scope is another row for it.
    BlocksByScope,
    /// A row that can't be marked is set apart.
    SetApart,
    /// What is held is looked at again when the claim answers.
    LookAgain,
    /// The window grows while it is full and brings less than a batch.
    WindowGrows,
    /// What a stranger has locked is held for twice as long each time.
    LockedHoldDoubles,
    /// A row that is blocked waits for twice as long each time.
    BlockedPauseDoubles,
    /// The time of caution doubles with each unclean end, and lasts while suspects wait.
    CautionGrows,
}

impl Rule {
    /// All rules, in the order of the mutations' numbers, from 1.
    pub const ALL: [Self; 18] = [
        Self::MarkAfterAnswer,
        Self::StopBehindUnlocked,
        Self::StopBehindUnacknowledged,
        Self::OneAtATime,
        Self::KeepAcknowledged,
        Self::ShrinkAfterLoss,
        Self::NameBeforeSend,
        Self::HoldInMemory,
        Self::LosePatience,
        Self::TrapCostsOnlyAlone,
        Self::BlocksAreCharged,
        Self::SetApart,
        Self::LookAgain,
        Self::WindowGrows,
        Self::LockedHoldDoubles,
        Self::BlockedPauseDoubles,
        Self::CautionGrows,
        Self::BlocksByScope,
    ];
}

/// Which rules hold: all, but in a mutation of the model checker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    omitted: Option<Rule>,
}

impl Rules {
    /// All but one. Only for proving that the checker notices: such lanes lose, repeat or reorder rows.
    pub fn without(rule: Rule) -> Self {
        Self { omitted: Some(rule) }
    }
    /// Whether a rule holds.
    pub fn kept(self, rule: Rule) -> bool {
        self.omitted != Some(rule)
    }
}
