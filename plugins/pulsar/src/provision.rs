//! Namespaces, topics and subscriptions, created when the operator asks for it.

use waybill_plugin::deadline::Deadline;
use waybill_plugin::provision::{Change, Provision};
use waybill_plugin::secret;
use waybill_plugin::transport::{CallInfo, OpenArgs, PluginError};
use waybill_pulsar_wire::{Admin, Credentials};

use crate::Pulsar;
use crate::config::Config;

impl Provision for Pulsar {
    type Config = Config;

    async fn plan(call: &CallInfo, _: &OpenArgs, config: Config) -> Result<Vec<Change>, PluginError> {
        provision(call, config, false).await
    }

    async fn apply(call: &CallInfo, _: &OpenArgs, config: Config) -> Result<Vec<Change>, PluginError> {
        provision(call, config, true).await
    }
}

async fn provision(call: &CallInfo, config: Config, apply: bool) -> Result<Vec<Change>, PluginError> {
    config.check()?;
    let Some(wanted) = &config.own.provision else { return Ok(Vec::new()) };
    let has_certificate = secret::bytes("tls_cert", "PULSAR.TLS")?.is_some();
    let credentials = Credentials::read(config.own.auth, has_certificate)?;
    let admin = Admin::new(&wanted.admin_url, credentials, Deadline::of_call(call.timeout))?;
    admin.provision(wanted, &config.own.namespace, apply).await
}
