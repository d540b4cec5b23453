//! What a [`super::FakeTransport`] was given.

use bytes::Bytes;
use tokio::time::Instant;
use waybill_core::message::Delivery;

/// One delivery as handed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Number of the call, from 1.
    pub call: u64,
    /// Lane of the call.
    pub lane: u32,
    /// Messages in the call.
    pub batch: usize,
    /// When the call began.
    pub at: Instant,
    pub generation: u32,
    pub id: String,
    pub tenant: String,
    pub key: Option<String>,
    pub destination: String,
    pub payload: Bytes,
    /// Counts from 1, as the delivery says.
    pub attempt: u32,
    /// How often it was put back from the dead letters.
    pub replays: u32,
    pub epoch: u64,
    /// Place in the order.
    pub seq: u64,
}

impl Sent {
    pub(super) fn new(call: u64, lane: u32, batch: usize, at: Instant, generation: u32, delivery: &Delivery) -> Self {
        let message = &delivery.message;
        Self {
            call,
            lane,
            batch,
            at,
            generation,
            id: message.id.to_string(),
            tenant: message.tenant.to_string(),
            key: message.key.as_ref().map(ToString::to_string),
            destination: delivery.destination.clone(),
            payload: delivery.payload.clone(),
            attempt: delivery.attempt,
            replays: message.replays,
            epoch: delivery.lease_epoch,
            seq: delivery.seq.0,
        }
    }

    /// The payload as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.payload).unwrap_or("<not text>")
    }
}

/// Everything that was handed over, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Log {
    pub sent: Vec<Sent>,
}

impl Log {
    /// Payloads as texts, in order.
    pub fn texts(&self) -> Vec<&str> {
        self.sent.iter().map(Sent::text).collect()
    }
    /// Deliveries of one payload.
    pub fn of(&self, text: &str) -> Vec<&Sent> {
        self.sent.iter().filter(|sent| sent.text() == text).collect()
    }
    /// How often a payload was delivered.
    pub fn count(&self, text: &str) -> usize {
        self.of(text).len()
    }
    /// Payloads of one key as texts, in order.
    pub fn of_key(&self, key: &str) -> Vec<&str> {
        self.sent.iter().filter(|sent| sent.key.as_deref() == Some(key)).map(Sent::text).collect()
    }
    /// Payloads of one tenant as texts, in order.
    pub fn of_tenant(&self, tenant: &str) -> Vec<&str> {
        self.sent.iter().filter(|sent| sent.tenant == tenant).map(Sent::text).collect()
    }
}
