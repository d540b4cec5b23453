//! How much happened.

use std::fmt;

macro_rules! stats {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Sums over a run or many.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Stats {
            pub(super) fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }
        }

        impl fmt::Display for Stats {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let all = [$((stringify!($name), self.$name)),*];
                let words: Vec<String> = all.iter().map(|(name, count)| format!("{name} {count}")).collect();
                f.write_str(&words.join(", "))
            }
        }
    };
}

stats! {
    published,
    calls,
    /// Calls of an owner that was replaced.
    stale,
    commits,
    /// Commits whose outcome wasn't told.
    unknown,
    takeovers,
    crashes,
    redeliveries,
    processed,
    dead,
    convicted,
    reused,
    rows,
    expired,
    replays,
    revocations,
    restarts,
    lost_acks,
    /// Lost at the source's limit after every delivery ended in a crash.
    excused,
    /// Finished again after the window.
    again,
    too_large,
    duplicates,
}
