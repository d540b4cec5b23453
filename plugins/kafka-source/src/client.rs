//! The cluster as the pool keeps it.

use waybill_kafka_wire::{self as wire, Cluster, Identity};
use waybill_plugin::broker::{Address, Codes, Endpoint, Session};
use waybill_plugin::deadline::Deadline;
use waybill_plugin::host::net_types::TlsOptions;
use waybill_plugin::transport::{OpenArgs, PluginError};

use crate::config::{Config, Keys};

pub(crate) struct Shared(Identity);

impl AsRef<Identity> for Shared {
    fn as_ref(&self) -> &Identity {
        &self.0
    }
}

/// Connections to the servers of a cluster.
pub(crate) struct Client {
    pub(crate) cluster: Cluster,
}

impl Session for Client {
    type Keys = Keys;
    type Shared = Shared;
    const CODES: &'static Codes = wire::CODES;

    fn share(args: &OpenArgs, config: &Config, _: &TlsOptions) -> Result<Shared, PluginError> {
        Identity::read(&args.name, config.own.sasl).map(Shared)
    }

    async fn open(endpoint: &Endpoint<Self>, address: &Address, deadline: Deadline) -> Result<Self, PluginError> {
        Ok(Self { cluster: Cluster::enter(endpoint, address, deadline).await? })
    }

    fn address(&self) -> &Address {
        self.cluster.address()
    }

    async fn catch_up(&mut self, _: Deadline) -> Result<(), PluginError> {
        self.cluster.catch_up().await;
        Ok(())
    }

    async fn ping(&mut self, endpoint: &Endpoint<Self>, deadline: Deadline) -> Result<Option<String>, PluginError> {
        self.cluster.refresh(endpoint, &[], false, deadline).await.map(|()| None)
    }

    fn ping_timeout(config: &Config) -> u32 {
        config.own.ack_timeout
    }

    async fn close(self, _: Deadline) {
        self.cluster.close().await;
    }

    fn take_discovered(&mut self, _: &Endpoint<Self>) -> Option<Vec<String>> {
        self.cluster.take_discovered()
    }
}
