//! Consumer groups, created when the operator asks for them.

use serde::Deserialize;
use waybill_plugin::broker::{Pool, Session as _};
use waybill_plugin::deadline::Deadline;
use waybill_plugin::provision::{Change, Provision};
use waybill_plugin::transport::{CallInfo, OpenArgs, PluginError};
use waybill_redis_wire::group::{self, Group};

use crate::Redis;
use crate::config::Config;
use crate::connection::Connection;

/// What is wanted at the server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    groups: Vec<Group>,
}

impl Provision for Redis {
    type Config = Config;

    async fn plan(call: &CallInfo, args: &OpenArgs, config: Config) -> Result<Vec<Change>, PluginError> {
        provision(call, args, config, false).await
    }

    async fn apply(call: &CallInfo, args: &OpenArgs, config: Config) -> Result<Vec<Change>, PluginError> {
        provision(call, args, config, true).await
    }
}

async fn provision(call: &CallInfo, args: &OpenArgs, config: Config, apply: bool) -> Result<Vec<Change>, PluginError> {
    let Some(wanted) = config.own.provision.clone() else { return Ok(Vec::new()) };
    let deadline = Deadline::of_call(call.timeout);
    let mut connection = Pool::<Connection>::new(args, config)?.connect(deadline).await?;
    let mut changes = Vec::with_capacity(wanted.groups.len());
    for group in &wanted.groups {
        changes.push(group::provision(connection.wire(), group, apply, deadline).await?);
    }
    connection.close(deadline).await;
    Ok(changes)
}
