//! CPU time of one instance, and its budget.
//!
//! Every poll of an instance is timed by the thread's CPU clock, so waiting costs nothing and neighbours don't count. The
//! epoch callback makes a busy guest give way every tick; that is where an overdrawn budget becomes a trap. A call brings
//! its allowance along; calls that run at once share what they brought.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use metrics::Counter;

/// One part in this many of the time that passes is credited without a call: what a guest does between calls (reading a
/// connection, heartbeats) costs little, and one that spins uses ten times as much.
const BACKGROUND_PART: i64 = 10;

/// Instances that are being polled at this moment, in the whole process.
static AT_WORK: AtomicUsize = AtomicUsize::new(0);

/// Whether any guest runs at this moment.
pub(crate) fn guests_are_at_work() -> bool {
    AT_WORK.load(Ordering::Relaxed) > 0
}

/// One guest runs until this is dropped.
struct AtWork;

impl AtWork {
    fn begin() -> Self {
        AT_WORK.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        AT_WORK.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The account of one instance, in microseconds.
#[derive(Debug)]
pub(crate) struct CpuMeter {
    left: AtomicI64,
    most: i64,
    start: Instant,
    /// When time was last credited, since `start`.
    credited: AtomicI64,
    /// All that was ever used.
    used: Counter,
}

impl CpuMeter {
    /// An account that starts with `first` and holds at most `most` once it is open. What is used is counted in `used`.
    pub(crate) fn new(first: Duration, most: Duration, used: Counter) -> Self {
        Self {
            left: AtomicI64::new(micros(first)),
            most: micros(most),
            start: Instant::now(),
            credited: AtomicI64::new(0),
            used,
        }
    }

    /// A call brings its allowance.
    pub(crate) fn credit(&self, allowance: Duration) {
        self.add(micros(allowance));
    }

    /// What is left over from opening isn't kept.
    pub(crate) fn opened(&self, allowance: Duration) {
        self.left.store(micros(allowance), Ordering::Relaxed);
    }

    /// Whether there is none left at this moment.
    pub(crate) fn is_overdrawn(&self) -> bool {
        let now = micros(self.start.elapsed());
        let since = now.saturating_sub(self.credited.swap(now, Ordering::Relaxed));
        let background = since.max(0) / BACKGROUND_PART;
        self.left.fetch_add(background, Ordering::Relaxed).saturating_add(background) < 0
    }

    fn add(&self, more: i64) {
        let most = self.most;
        // `fetch_update` with `Some` always succeeds.
        let _ = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            Some(left.max(0).saturating_add(more).min(most))
        });
    }

    fn spend(&self, used: Duration) {
        let used = micros(used);
        self.left.fetch_sub(used, Ordering::Relaxed);
        self.used.increment(used.unsigned_abs());
    }

    /// Runs `work` on this account.
    pub(crate) async fn charge<F: Future>(&self, work: F) -> F::Output {
        let mut work = pin!(work);
        std::future::poll_fn(|cx| {
            let _at_work = AtWork::begin();
            let before = thread_cpu_time();
            let polled = work.as_mut().poll(cx);
            self.spend(thread_cpu_time().saturating_sub(before));
            polled
        })
        .await
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX / 4)
}

#[cfg(unix)]
fn thread_cpu_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}

#[cfg(not(unix))]
fn thread_cpu_time() -> Duration {
    // Wall time: counts a descheduled guest as busy, which only makes the budget stricter.
    use std::sync::LazyLock;
    use std::time::Instant;
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credit_is_capped_and_forgives_debt() {
        let meter = CpuMeter::new(Duration::from_millis(1), Duration::from_millis(3), Counter::noop());
        meter.spend(Duration::from_secs(3600));
        assert!(meter.is_overdrawn());
        meter.credit(Duration::from_millis(2));
        assert_eq!(meter.left.load(Ordering::Relaxed), 2_000);
        meter.credit(Duration::from_secs(9));
        assert_eq!(meter.left.load(Ordering::Relaxed), 3_000);
    }

    #[test]
    fn a_little_work_between_calls_is_no_debt() {
        let meter = CpuMeter::new(Duration::ZERO, Duration::from_millis(3), Counter::noop());
        meter.credited.store(-1_000_000, Ordering::Relaxed);
        meter.spend(Duration::from_millis(50));
        assert!(!meter.is_overdrawn(), "a second has passed");
        meter.spend(Duration::from_millis(500));
        assert!(meter.is_overdrawn());
    }

    #[tokio::test]
    async fn waiting_is_free_and_work_is_not() {
        let meter = CpuMeter::new(Duration::from_secs(1), Duration::from_secs(1), Counter::noop());
        meter
            .charge(async {
                tokio::time::sleep(Duration::from_millis(5)).await;
                let mut sum = 0_u64;
                for n in 0..2_000_000_u64 {
                    sum = std::hint::black_box(sum.wrapping_add(n));
                }
                sum
            })
            .await;
        let spent = 1_000_000 - meter.left.load(Ordering::Relaxed);
        assert!(spent > 0, "{spent}");
    }
}
