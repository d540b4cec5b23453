//! Sends well; traps in `health`, fails in `tick`, and panics in `close`.
use guests::{CallInfo, Config, HealthReport, Message, OpenArgs, Opened, Outcome, PluginError, Transport};

waybill_plugin::manifest!("manifests/transport.toml");
waybill_plugin::export_transport!(Fixture);

struct Fixture;

impl Transport for Fixture {
    type Config = Config;

    async fn open(_: &CallInfo, _: &OpenArgs, _: Config) -> Result<(Self, Opened), PluginError> {
        Ok((Self, Opened { tick_every: Some(10), ..guests::opened() }))
    }

    async fn send_batch(&self, _: &CallInfo, batch: Vec<Message>) -> Result<Vec<Outcome>, PluginError> {
        Ok(guests::acks(&batch))
    }

    async fn health(&self, _: &CallInfo) -> HealthReport {
        panic!("health panics")
    }

    async fn tick(&self, _: &CallInfo) -> Result<(), PluginError> {
        Err(PluginError::unavailable("FIXTURE.TICK", "the connection is gone"))
    }

    async fn close(&self, _: &CallInfo) {
        panic!("close panics")
    }
}
