//! A source whose ticks name `amount` deliveries that are lost and as many groups that are revoked.
use guests::{CallInfo, Config, OpenArgs, Opened, PluginError};
use waybill_plugin::source::{Notices, Pulled, Settled, Settlement, Source, SourceArgs};

waybill_plugin::manifest!("manifests/source.toml");
waybill_plugin::export_source!(Fixture);

struct Fixture(usize);
impl Source for Fixture {
    type Config = Config;
    async fn open(_: &CallInfo, _: &OpenArgs, _: &SourceArgs, config: Config) -> Result<(Self, Opened), PluginError> {
        Ok((Self(config.amount), Opened { tick_every: Some(100), ..Opened::new() }))
    }
    async fn pull(&self, _: &CallInfo, _: u32, _: u32, _: u32) -> Result<Pulled, PluginError> {
        Ok(Pulled::new(Vec::new()))
    }
    async fn settle(&self, _: &CallInfo, items: Vec<Settlement>) -> Result<Vec<Settled>, PluginError> {
        Ok(items.iter().map(|_| Settled::Lost).collect())
    }
    async fn tick(&self, _: &CallInfo) -> Result<Notices, PluginError> {
        let names = 0..self.0;
        Ok(Notices {
            revoked: names.clone().map(|number| format!("group-{number}")).collect(),
            lost: names.map(|number| number.to_be_bytes().to_vec()).collect(),
            ..Notices::waiting()
        })
    }
}
