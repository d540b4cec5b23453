//! The rules of the protocol that the model checker leaves out one by one, to prove that it would notice.

/// A rule of the inbox's protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A delivery is settled behind the commit that holds it, not behind the handler's answer.
    SettleAfterCommit,
    /// What was seen isn't handled again.
    AskTheSeenSet,
    /// A second copy of what is in hand is settled with it, not before.
    CopiesJoin,
    /// After an unknown outcome a barrier is committed before the old commit is given up.
    Barrier,
    /// Where a source doesn't replay in order, a message with a key is taken before it is handled.
    TakeBeforeCall,
    /// An orphan is given up only when its source was pulled for long enough, and a pull after that found nothing more.
    OrphansAreAwaited,
    /// Rows are loaded before the first pull.
    RowsBeforePull,
    /// A delivery is settled when every consumer of it has it.
    EveryConsumer,
    /// What only waits is stored when the window is nearly full.
    StoreUnderPressure,
    /// What its source brings a few times more only is stored before it is handled.
    StoreAtLastDeliveries,
    /// The window counts owned time, not the wall clock's.
    OwnedAge,
    /// A pause or a hold costs no attempt.
    HoldsAreFree,
    /// An id that was used for something else is no duplicate.
    CheckContent,
    /// After an unclean end what is called is named in a commit first.
    NameBeforeCall,
    /// Who asks for a pause again after another message went through pays an attempt.
    HoldsAreCharged,
    /// What a commit in flight names stays in memory, whatever is revoked.
    KeepWhatFlies,
    /// A message that waits for its retry holds those behind it in its key.
    FailedHeadHolds,
    /// A newer token of one copy leaves the tokens of others alone.
    KeepOtherCopies,
    /// A message becomes a row only behind rows or takes of everything earlier in its key.
    RowsBehindRows,
    /// A replay has its place as soon as its commit is made.
    RegisterReplay,
    /// What may have been handled is called with a word of it.
    TellMaybeHandled,
    /// A source pulls only what its window has room for, and nothing while rows are at their bound.
    PullIntoRoom,
    /// A message whose events can't be appended where they were to be has failed, and nothing of it is kept.
    RefusedFails,
}

impl Rule {
    /// All rules, in the order of the mutations' numbers, from 1.
    pub const ALL: [Self; 23] = [
        Self::SettleAfterCommit,
        Self::AskTheSeenSet,
        Self::CopiesJoin,
        Self::Barrier,
        Self::TakeBeforeCall,
        Self::RowsBeforePull,
        Self::EveryConsumer,
        Self::StoreUnderPressure,
        Self::StoreAtLastDeliveries,
        Self::OwnedAge,
        Self::HoldsAreFree,
        Self::CheckContent,
        Self::NameBeforeCall,
        Self::HoldsAreCharged,
        Self::KeepWhatFlies,
        Self::FailedHeadHolds,
        Self::KeepOtherCopies,
        Self::RowsBehindRows,
        Self::RegisterReplay,
        Self::TellMaybeHandled,
        Self::PullIntoRoom,
        Self::OrphansAreAwaited,
        Self::RefusedFails,
    ];
}

/// Which rules hold: all, but in a mutation of the model checker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    omitted: Option<Rule>,
}

impl Rules {
    /// All but one. Only for proving that the checker notices: such an owner loses, repeats or reorders messages.
    pub fn without(rule: Rule) -> Self {
        Self { omitted: Some(rule) }
    }
    /// Whether a rule holds.
    pub fn kept(self, rule: Rule) -> bool {
        self.omitted != Some(rule)
    }
}
