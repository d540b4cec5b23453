//! A transport that acknowledges everything at once: for measuring.

use waybill_plugin::config::Empty;
use waybill_plugin::transport::{CallInfo, Message, OpenArgs, Opened, Outcome, PluginError, Receipt, Transport};

waybill_plugin::manifest!();
waybill_plugin::export_transport!(Noop);

/// Calls at once. None of them waits, so more would gain nothing.
const CONCURRENT_CALLS: u32 = 16;

struct Noop;

impl Transport for Noop {
    type Config = Empty;

    async fn open(_: &CallInfo, _: &OpenArgs, _: Empty) -> Result<(Self, Opened), PluginError> {
        Ok((Self, Opened { max_concurrent_calls: CONCURRENT_CALLS, ..Opened::new() }))
    }

    async fn send_batch(&self, _: &CallInfo, batch: Vec<Message>) -> Result<Vec<Outcome>, PluginError> {
        Ok(batch.iter().map(|_| Outcome::Ack(Receipt::new())).collect())
    }
}
