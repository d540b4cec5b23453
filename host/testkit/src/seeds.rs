//! Running a model over many seeds: what one found, what all found, and sums that are told.

use std::collections::BTreeMap;
use std::fmt;

/// What a model counts.
pub trait Sums: Clone + fmt::Debug + Default + fmt::Display + Send {
    /// Adds what another run counted.
    fn add(&mut self, other: &Self);
}

/// Counts with their names: `counts! { messages, calls, }`.
macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Sums over a run or many.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl $crate::seeds::Sums for Stats {
            fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }
        }

        impl std::fmt::Display for Stats {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let all = [$((stringify!($name), self.$name)),*];
                let words: Vec<String> = all.iter().map(|(name, count)| format!("{name} {count}")).collect();
                f.write_str(&words.join(", "))
            }
        }
    };
}
pub(crate) use counts;

/// What one seed found.
#[derive(Clone, Debug, Default)]
pub struct Outcome<S> {
    /// What was wrong, in the order it was noticed.
    pub violations: Vec<String>,
    pub stats: S,
}

/// What many seeds found.
#[derive(Clone, Debug, Default)]
pub struct Report<S> {
    pub seeds: u64,
    /// Seeds with a violation, with the first one.
    pub failed: BTreeMap<u64, String>,
    pub stats: S,
}

impl<S: Sums> Report<S> {
    fn add(&mut self, seed: u64, outcome: Outcome<S>) {
        self.seeds += 1;
        self.stats.add(&outcome.stats);
        if let Some(first) = outcome.violations.into_iter().next() {
            self.failed.insert(seed, first);
        }
    }

    fn join(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.stats.add(&other.stats);
        self.failed.extend(other.failed);
    }
}

impl<S: Sums> fmt::Display for Report<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} seeds, {} with a violation", self.seeds, self.failed.len())?;
        for (seed, violation) in self.failed.iter().take(10) {
            writeln!(f, "  seed {seed}: {violation}")?;
        }
        write!(f, "{}", self.stats)
    }
}

/// Runs `count` seeds from `first` on, on all processors.
pub fn run_many<S: Sums>(first: u64, count: u64, run: impl Fn(u64) -> Outcome<S> + Sync) -> Report<S> {
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let work = |thread: u64| {
        let mut report = Report::default();
        for seed in (first + thread..first + count).step_by(usize::try_from(threads).unwrap_or(1)) {
            report.add(seed, run(seed));
        }
        report
    };
    let work = &work;
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        let mut report = Report::default();
        for worker in workers {
            match worker.join() {
                Ok(part) => report.join(part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        report
    })
}
