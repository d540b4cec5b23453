//! A table that claims `amount` rows more than it may, and answers one replay too few.
use guests::{CallInfo, Config, OpenArgs, Opened, PluginError};
use waybill_plugin::table::{
    Claim, ClaimArgs, Claimed, ClaimedRow, ContextStats, DeadPage, Ended, Found, Mark, Table, TableArgs,
};

waybill_plugin::manifest!("manifests/table.toml");
waybill_plugin::export_table!(Fixture);

struct Fixture(usize);
impl Table for Fixture {
    type Config = Config;
    async fn open(_: &CallInfo, _: &OpenArgs, _: &TableArgs, config: Config) -> Result<(Self, Opened), PluginError> {
        Ok((Self(config.amount), Opened::new()))
    }
    async fn claim(&self, _: &CallInfo, args: ClaimArgs) -> Result<Claimed, PluginError> {
        let row = |number: usize| ClaimedRow { aggregate: number.to_string(), found: Found::Elsewhere };
        Ok(Claimed::new(Claim(1), (0..args.batch as usize + self.0).map(row).collect()))
    }
    async fn commit(&self, _: &CallInfo, _: Claim, _: Vec<Mark>) -> Result<Ended, PluginError> {
        Ok(Ended::Committed)
    }
    async fn stats(&self, _: &CallInfo) -> Result<Vec<ContextStats>, PluginError> {
        Ok(Vec::new())
    }
    async fn dead(&self, _: &CallInfo, _: Option<String>, _: u32) -> Result<DeadPage, PluginError> {
        Ok(DeadPage { rows: Vec::new(), next: None })
    }
    async fn replay(&self, _: &CallInfo, ids: Vec<String>) -> Result<Vec<bool>, PluginError> {
        Ok(vec![true; ids.len().saturating_sub(1)])
    }
}
