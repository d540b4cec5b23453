//! The stream that messages land in, created or changed when the operator asks for it.

use serde::Deserialize;
use serde_json::Value;
use waybill_nats_wire::stream::{self, Stream};
use waybill_plugin::broker::{Pool, Session as _};
use waybill_plugin::deadline::Deadline;
use waybill_plugin::provision::{Change, Provision};
use waybill_plugin::transport::{CallInfo, OpenArgs, PluginError};

use crate::config::Config;
use crate::{Connection, Nats};

/// Longest wait for the duplicate window while opening, in milliseconds.
const WINDOW_MS_MAX: u32 = 1_000;

/// What is wanted at the server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    pub(crate) stream: Stream,
}

impl Provision for Nats {
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
    let Some(wanted) = &config.own.provision else { return Ok(Vec::new()) };
    let wanted = wanted.stream.document(config.own.stream.as_deref())?;
    let deadline = Deadline::of_call(call.timeout);
    let mut connection = Pool::<Connection>::new(args, config)?.connect(deadline).await?;
    let change = stream::provision(&mut connection, wanted, apply, deadline).await?;
    connection.close(deadline).await;
    Ok(vec![change])
}

/// How long a stream remembers ids, in milliseconds, as far as it tells us.
pub(crate) async fn dedup_window(connection: &mut Connection, name: &str, deadline: Deadline) -> Option<u32> {
    // Not every user may ask, and nothing depends on it.
    let config = stream::config(connection, name, deadline.at_most(WINDOW_MS_MAX)).await.ok()??;
    let nanos = config.get("duplicate_window").and_then(Value::as_u64)?;
    u32::try_from(nanos / 1_000_000).ok()
}
