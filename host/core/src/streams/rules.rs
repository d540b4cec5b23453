//! The rules of the protocol that the model checker leaves out one by one, to prove that it would notice.

/// A rule of the streams' protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Whoever gives out a number writes the head: exact appenders, too.
    ExactWritesHead,
    /// An owner's commit goes in only where the heads stand as it took them to be.
    HeadsAreChecked,
    /// A chunk lies under its last seq.
    KeyedByLast,
    /// A reader joins the ring before its last look at the store.
    JoinBeforeLastLook,
    /// The ring is a hint: what a reader has is dropped, what it lacks is read from the store.
    RingIsAHint,
    /// What exact appenders put into a stream is named before anything is numbered in it.
    AdoptFirst,
    /// A scan reads of each stream only up to its feed position.
    ScanEndsAtFeed,
    /// The feed position is taken before the scan.
    FeedBeforeScan,
    /// A checkpoint is the end of the longest settled run, not the highest acknowledged.
    LongestSettledRun,
    /// A seek waits for what is in flight.
    SeekWaits,
    /// Readers compare what a chunk covers, and the first number that is kept, with their position.
    CompareCoverage,
    /// Readers compare the mark of dropped tombstones with their position.
    ComparePurged,
    /// Ids are compared when events are numbered.
    CompareIds,
    /// Direct appends wait for a complete pass that began after they came.
    DirectAfterPass,
    /// Upkeep leaves what a holding relay lacks.
    UpkeepHolds,
    /// Every page of a pass is read from the low end.
    PassFromLowEnd,
    /// Every commit writes the shard's record, also one with checkpoints alone.
    EveryCommitWritesShard,
    /// A scan leaves what the feed hasn't named yet to the feed.
    ScanOnlyNamed,
    /// Who drops a tombstone raises the mark of dropped ones in that commit.
    RaisePurged,
    /// Of a key only the earliest unsettled event is sent.
    OneOfAKey,
    /// After an unknown outcome a barrier is committed before the old commit is given up.
    Barrier,
    /// A refusal frees its key only when its dead letter is durable.
    DeadBeforeNext,
    /// A checkpoint doesn't move over a trimmed range in silence.
    NotOverTrimmed,
    /// No upkeep of a stream in the commit that seeks in it.
    UpkeepApartFromSeek,
    /// The relay's mark waits for streams that are behind.
    MarkWaits,
    /// The relay's mark waits for a stream that was trimmed beyond its checkpoint.
    MarkWaitsForTrimmed,
    /// Who scans again compares the highest place that was trimmed or purged.
    CompareGone,
    /// Who scans again leaves out what it has.
    AgainFromEnd,
    /// An event is published when its commit is known to be in.
    PublishAfterCommit,
    /// What a relay has in memory of all streams has a bound.
    WindowsHaveRoom,
    /// Streams of which nothing can be sent leave their room to those that wait for it.
    BlockedMakeRoom,
    /// Selectors by node and type find what exact appenders put there from when it is named.
    AdoptedAreFound,
    /// Who lacks what a record names of a stream asks whether the stream ever had an event that it wants.
    AskIfSelected,
    /// Where a relay that takes the latest began is kept for the next owner.
    StartIsKept,
    /// A seek goes before where it began.
    SeekBeforeStart,
    /// What retention took before where it began isn't lost to it.
    GoneBeforeStart,
}

impl Rule {
    /// All rules, in the order of the mutations' numbers, from 1.
    pub const ALL: [Self; 36] = [
        Self::ExactWritesHead,
        Self::HeadsAreChecked,
        Self::KeyedByLast,
        Self::JoinBeforeLastLook,
        Self::RingIsAHint,
        Self::AdoptFirst,
        Self::ScanEndsAtFeed,
        Self::FeedBeforeScan,
        Self::LongestSettledRun,
        Self::SeekWaits,
        Self::CompareCoverage,
        Self::ComparePurged,
        Self::CompareIds,
        Self::DirectAfterPass,
        Self::UpkeepHolds,
        Self::PassFromLowEnd,
        Self::EveryCommitWritesShard,
        Self::PublishAfterCommit,
        Self::ScanOnlyNamed,
        Self::RaisePurged,
        Self::OneOfAKey,
        Self::Barrier,
        Self::DeadBeforeNext,
        Self::NotOverTrimmed,
        Self::UpkeepApartFromSeek,
        Self::MarkWaits,
        Self::MarkWaitsForTrimmed,
        Self::CompareGone,
        Self::AgainFromEnd,
        Self::WindowsHaveRoom,
        Self::BlockedMakeRoom,
        Self::StartIsKept,
        Self::SeekBeforeStart,
        Self::GoneBeforeStart,
        Self::AdoptedAreFound,
        Self::AskIfSelected,
    ];
}

/// Which rules hold: all, but in a mutation of the model checker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    omitted: Option<Rule>,
}

impl Rules {
    /// All but one. Only for proving that the checker notices: with such rules events are lost, repeated or out of order.
    pub fn without(rule: Rule) -> Self {
        Self { omitted: Some(rule) }
    }
    /// Whether a rule holds.
    pub fn kept(self, rule: Rule) -> bool {
        self.omitted != Some(rule)
    }
}
