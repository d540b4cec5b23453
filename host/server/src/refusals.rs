//! Callers that were turned away: counted each, logged at a bounded rate.

use std::net::SocketAddr;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::limits::REFUSALS_LOGGED_MAX;
use crate::metrics;
use crate::problem::Problem;

/// The time that [`REFUSALS_LOGGED_MAX`] is about.
const MINUTE: Duration = Duration::from_secs(60);
/// What is logged of a detail: callers' own texts stand in it. Characters.
const DETAIL_MAX: usize = 200;

/// Address of who sent a request; put into it by the connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub SocketAddr);

/// Lines of the log about callers that were turned away.
#[derive(Default)]
pub(crate) struct Refusals(LogRate);

/// Counts lines of the log, so that nobody fills it.
#[derive(Default)]
pub(crate) struct LogRate(Mutex<Option<Minute>>);

#[derive(Clone, Copy)]
struct Minute {
    began: Instant,
    logged: u32,
    left_out: u64,
}

impl Refusals {
    /// Whether a refusal is about who may do what: 401, 403 and 421.
    pub(crate) fn concern(problem: &Problem) -> bool {
        matches!(problem.code.status(), 401 | 403 | 421)
    }

    pub(crate) fn note(&self, problem: &Problem, peer: Option<Peer>, route: &str) {
        metrics::refused(problem.code, route);
        let Some(left_out) = self.0.turn() else { return };
        let remote = peer.map_or_else(|| "unknown".to_owned(), |Peer(address)| address.to_string());
        let detail: String = problem.detail.chars().take(DETAIL_MAX).collect();
        tracing::warn!(code = problem.code.as_str(), %remote, route, ?detail, left_out, "a caller was refused");
    }
}

impl LogRate {
    /// Whether this one is logged, and how many weren't since the last line.
    pub(crate) fn turn(&self) -> Option<u64> {
        let mut minute = self.0.lock();
        let now = Instant::now();
        let fresh = |left_out| Minute { began: now, logged: 0, left_out };
        let current = match *minute {
            Some(minute) if now.duration_since(minute.began) < MINUTE => minute,
            past => fresh(past.map_or(0, |minute| minute.left_out)),
        };
        if current.logged >= REFUSALS_LOGGED_MAX {
            *minute = Some(Minute { left_out: current.left_out + 1, ..current });
            return None;
        }
        *minute = Some(Minute { logged: current.logged + 1, left_out: 0, ..current });
        Some(current.left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn lines_are_bounded_and_what_was_left_out_is_told_later() {
        let refusals = LogRate::default();
        for _ in 0..REFUSALS_LOGGED_MAX {
            assert_eq!(refusals.turn(), Some(0));
        }
        for _ in 0..7 {
            assert_eq!(refusals.turn(), None);
        }
        tokio::time::advance(MINUTE).await;
        assert_eq!((refusals.turn(), refusals.turn()), (Some(7), Some(0)));
    }
}
