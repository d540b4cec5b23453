//! Whether another client goes by our name. Many servers don't say so: MQTT 3.1.1 has no word for it, and Mosquitto 2.0.11 says
//! none by MQTT 5 either. They end the connection as an outage would, and two clients take the session from each other for ever.

use std::cell::Cell;
use std::time::Duration;

use waybill_plugin::transport::{ErrorKind, Fault, PluginError};

/// So many connections in a row that end soon and without a word are another client's doing.
const CUTS_MAX: u32 = 3;
/// A connection that lasted as long ended of something else.
const SOON: Duration = Duration::from_secs(10);

/// How the latest connections ended.
#[derive(Default)]
pub(crate) struct Rivals {
    cuts: Cell<u32>,
}

impl Rivals {
    /// Notes how a connection ended that lasted so long, and answers what to tell of it.
    pub(crate) fn ended(&self, error: PluginError, lasted: Duration, lost: &str) -> PluginError {
        let is_cut = error.fault.code == lost && lasted < SOON;
        self.cuts.set(if is_cut { self.cuts.get() + 1 } else { 0 });
        if self.cuts.get() < CUTS_MAX {
            return error;
        }
        self.cuts.set(0);
        let reason = format!(
            "{CUTS_MAX} connections in a row ended soon after their login and without a word, as they do where another client comes \
             with the same `client_id`: {}",
            error.fault.reason
        );
        PluginError::new(ErrorKind::Fenced, Fault::new("MQTT.TAKEN_OVER", reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOST: &str = "MQTT.LOST";

    fn end(rivals: &Rivals, code: &str, seconds: u64) -> ErrorKind {
        rivals.ended(PluginError::unavailable(code, "x"), Duration::from_secs(seconds), LOST).kind
    }

    #[test]
    fn connections_that_are_cut_one_after_the_other_are_taken_over() {
        let rivals = Rivals::default();
        for _ in 0..2 {
            assert_eq!(end(&rivals, LOST, 9), ErrorKind::Unavailable);
            assert_eq!(end(&rivals, LOST, 0), ErrorKind::Unavailable);
            assert_eq!(end(&rivals, LOST, 0), ErrorKind::Fenced);
        }
    }

    #[test]
    fn what_lasted_or_ended_otherwise_is_no_takeover() {
        for (code, seconds) in [(LOST, 10), ("MQTT.STALE", 0)] {
            let rivals = Rivals::default();
            for _ in 0..2 {
                end(&rivals, LOST, 0);
            }
            assert_eq!(end(&rivals, code, seconds), ErrorKind::Unavailable, "{code}");
            assert_eq!(end(&rivals, LOST, 0), ErrorKind::Unavailable, "counted anew");
        }
    }
}
