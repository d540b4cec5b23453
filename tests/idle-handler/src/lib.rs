//! A handler that has handled everything at once.

use waybill_plugin::config::Empty;
use waybill_plugin::handler::{Handled, Handler, Inbound, Verdict};
use waybill_plugin::transport::{CallInfo, OpenArgs, Opened, PluginError};

waybill_plugin::manifest!();
waybill_plugin::export_handler!(Idle);

struct Idle;

impl Handler for Idle {
    type Config = Empty;

    async fn open(_: &CallInfo, _: &OpenArgs, _: Empty) -> Result<(Self, Opened), PluginError> {
        Ok((Self, Opened::new()))
    }

    async fn handle(&self, _: &CallInfo, _: Inbound) -> Verdict {
        Handled::new().into()
    }

    async fn handle_batch(&self, _: &CallInfo, batch: Vec<Inbound>) -> Result<Vec<Verdict>, PluginError> {
        Ok(batch.iter().map(|_| Verdict::from(Handled::new())).collect())
    }
}
