//! The exchange and the queues that messages go to, created when the operator asks for it.

use waybill_plugin::broker::{Pool, Session as _};
use waybill_plugin::deadline::Deadline;
use waybill_plugin::provision::{Change, Provision};
use waybill_plugin::transport::{CallInfo, OpenArgs, PluginError};

use crate::Rabbitmq;
use crate::config::Config;
use crate::connection::Connection;

impl Provision for Rabbitmq {
    type Config = Config;

    async fn plan(call: &CallInfo, args: &OpenArgs, config: Config) -> Result<Vec<Change>, PluginError> {
        provision(call, args, config, false).await
    }

    async fn apply(call: &CallInfo, args: &OpenArgs, config: Config) -> Result<Vec<Change>, PluginError> {
        provision(call, args, config, true).await
    }
}

async fn provision(call: &CallInfo, args: &OpenArgs, config: Config, apply: bool) -> Result<Vec<Change>, PluginError> {
    config.check()?;
    let Some(wanted) = config.own.provision.clone() else { return Ok(Vec::new()) };
    let deadline = Deadline::of_call(call.timeout);
    let pool = Pool::<Connection>::new(args, config)?;
    let mut connection = pool.connect(deadline).await?;
    let usual = pool.endpoint().shared().routing.exchange();
    let changes = waybill_rabbitmq_wire::provision(connection.wire(), &wanted, usual, apply, deadline).await?;
    connection.close(deadline).await;
    Ok(changes)
}
