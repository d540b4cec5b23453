//! Event streams of a host as configured.

use std::collections::BTreeMap;
use std::sync::Arc;

use waybill_core::port::stream_store::StreamStore;
use waybill_core::streams::settings::StreamsSettings;
use waybill_core::streams::wire::Broker;

/// Event streams of a host. Whoever puts other settings in force gives the same store.
#[derive(Clone, Default)]
pub struct StreamsConfig {
    /// Where they are kept; none = this host has none. It is as at the start.
    pub store: Option<Arc<dyn StreamStore>>,
    /// Which store it is, anew after a restore: cursors of another one are refused. It is as at the start.
    pub incarnation: u64,
    /// What the transports of relays speak, by their names; one that isn't here is of a plugin that the host knows nothing of.
    pub brokers: BTreeMap<String, Broker>,
    pub settings: Arc<StreamsSettings>,
}
