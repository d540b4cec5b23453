//! The topics, created when the operator asks for them. A group needs nothing: it is made by its first member.

use waybill_kafka_wire::provision;
use waybill_plugin::broker::{Pool, Session as _};
use waybill_plugin::deadline::Deadline;
use waybill_plugin::provision::{Change, Provision};
use waybill_plugin::transport::{CallInfo, OpenArgs, PluginError};

use crate::KafkaSource;
use crate::client::Client;
use crate::config::Config;

impl Provision for KafkaSource {
    type Config = Config;

    async fn plan(call: &CallInfo, args: &OpenArgs, config: Config) -> Result<Vec<Change>, PluginError> {
        provide(call, args, config, false).await
    }

    async fn apply(call: &CallInfo, args: &OpenArgs, config: Config) -> Result<Vec<Change>, PluginError> {
        provide(call, args, config, true).await
    }
}

async fn provide(call: &CallInfo, args: &OpenArgs, config: Config, apply: bool) -> Result<Vec<Change>, PluginError> {
    let wanted = config.own.wanted();
    let deadline = Deadline::of_call(call.timeout);
    let pool = Pool::<Client>::new(args, config)?;
    let mut client = pool.connect(deadline).await?;
    let changes = provision::provision(&mut client.cluster, pool.endpoint(), &wanted, apply, deadline).await?;
    client.close(deadline).await;
    Ok(changes)
}
