//! A handler that answers one verdict too few.
use guests::{CallInfo, Config, OpenArgs, Opened, PluginError};
use waybill_plugin::handler::{Handled, Handler, Inbound, Verdict};

waybill_plugin::manifest!("manifests/handler.toml");
waybill_plugin::export_handler!(Fixture);

struct Fixture;
impl Handler for Fixture {
    type Config = Config;
    async fn open(_: &CallInfo, _: &OpenArgs, _: Config) -> Result<(Self, Opened), PluginError> {
        Ok((Self, Opened::new()))
    }
    async fn handle(&self, _: &CallInfo, _: Inbound) -> Verdict {
        Handled::new().into()
    }
    async fn handle_batch(&self, _: &CallInfo, batch: Vec<Inbound>) -> Result<Vec<Verdict>, PluginError> {
        Ok(batch.iter().skip(1).map(|_| Handled::new().into()).collect())
    }
}
