//! Whether there was a session of our name at the server before this instance. An instance ends with each longer outage, and that is
//! when servers forget: so it is kept in the host's durable state, if that is granted.

use waybill_plugin::host::kv;

/// What is known of the time before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Earlier {
    /// There was a session, with subscriptions.
    Session,
    /// There was none.
    Nothing,
    /// Nobody keeps it.
    Unknown,
}

impl Earlier {
    /// What was noted for this client.
    pub(crate) fn read(client: &str) -> Self {
        match kv::get(&key(client)) {
            Ok(Some(_)) => Self::Session,
            Ok(None) => Self::Nothing,
            // Not granted, or the store is away: asking never keeps messages from coming.
            Err(_) => Self::Unknown,
        }
    }

    /// How many sessions were forgotten, where servers had none of ours so many times.
    pub(crate) fn forgotten(self, missing: u64) -> u64 {
        if self == Self::Session { missing } else { 0 }
    }
}

/// Notes that the server has a session of this client, with subscriptions. Answers whether it is kept.
pub(crate) fn note(client: &str) -> bool {
    kv::put(&key(client), b"subscribed", &kv::Expectation::Anything).is_ok()
}

fn key(client: &str) -> String {
    format!("session/{client}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_is_missing_is_forgotten_only_if_there_was_one() {
        let all = [Earlier::Session, Earlier::Nothing, Earlier::Unknown];
        assert_eq!(all.map(|earlier| earlier.forgotten(2)), [2, 0, 0]);
        assert_eq!(Earlier::Session.forgotten(0), 0);
    }
}
