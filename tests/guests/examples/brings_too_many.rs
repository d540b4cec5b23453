//! A source that brings more than was asked for, and answers too few results.
use guests::{CallInfo, Config, OpenArgs, Opened, PluginError};
use waybill_plugin::source::{Delivery, Pulled, Settled, Settlement, Source, SourceArgs};

waybill_plugin::manifest!("manifests/source.toml");
waybill_plugin::export_source!(Fixture);

struct Fixture(usize);
impl Source for Fixture {
    type Config = Config;
    async fn open(_: &CallInfo, _: &OpenArgs, _: &SourceArgs, config: Config) -> Result<(Self, Opened), PluginError> {
        Ok((Self(config.amount), Opened::new()))
    }
    async fn pull(&self, _: &CallInfo, max: u32, _: u32, _: u32) -> Result<Pulled, PluginError> {
        let count = max as usize + self.0;
        Ok(Pulled::new((0..count).map(|_| Delivery::new([1], "numbers", "1")).collect()))
    }
    async fn settle(&self, _: &CallInfo, items: Vec<Settlement>) -> Result<Vec<Settled>, PluginError> {
        Ok(items.iter().skip(1).map(|_| Settled::Done).collect())
    }
}
