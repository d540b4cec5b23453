//! How much happened.

use crate::seeds::counts;

counts! {
    /// Events that got a number.
    numbered,
    exact,
    exact_refused,
    /// Commits that named what exact appenders put there.
    adopted,
    /// Repeats of an id that were dropped.
    duplicates,
    commits,
    /// Commits that found a head elsewhere.
    moved,
    conflicts,
    /// Commits whose outcome wasn't told.
    unknown,
    too_large,
    takeovers,
    leases_lost,
    crashes,
    merges,
    trimmed,
    compacted,
    purges,
    deliveries,
    lagged,
    expired,
    resumed,
    /// Readers of all streams that came back with the numbers that they had.
    by_numbers,
    /// Readers of all streams that scanned again.
    rescans,
    sends,
    /// Of these the ones that went behind another one of their key, in the same call.
    behind,
    arrivals,
    /// Arrivals that were repeats.
    repeats,
    dead,
    seeks,
    overtaken,
    /// Events that were there before a relay that takes the latest.
    left_out,
}

impl Stats {
    /// What some hundred seeds should meet, and didn't.
    pub fn missing(&self) -> Vec<&'static str> {
        let counts = [
            ("exact", self.exact, 1_000),
            ("adopted", self.adopted, 500),
            ("duplicates", self.duplicates, 100),
            ("moved", self.moved, 100),
            ("conflicts", self.conflicts, 100),
            ("unknown", self.unknown, 500),
            ("takeovers", self.takeovers, 1_000),
            ("crashes", self.crashes, 300),
            ("merges", self.merges, 1_000),
            ("trimmed", self.trimmed, 1_000),
            ("compacted", self.compacted, 1_000),
            ("purges", self.purges, 100),
            ("lagged", self.lagged, 100),
            ("expired", self.expired, 100),
            ("resumed", self.resumed, 1_000),
            ("behind", self.behind, 100),
            ("by_numbers", self.by_numbers, 50),
            ("rescans", self.rescans, 50),
            ("repeats", self.repeats, 300),
            ("dead", self.dead, 300),
            ("seeks", self.seeks, 100),
            ("overtaken", self.overtaken, 10),
            ("left_out", self.left_out, 300),
        ];
        counts.into_iter().filter(|(_, count, least)| count < least).map(|(name, ..)| name).collect()
    }
}
