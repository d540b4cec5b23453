//! What is in force: settings that may change while the engine runs, routes, and transports by number.
//!
//! A snapshot is never changed; [`crate::Engine::reconfigure`] puts the next one in its place. A transport keeps its number
//! for as long as the engine runs, also when it is removed and comes back, because messages in memory are kept by it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use waybill_core::outbox::owner::{Routing, TransportId};
use waybill_core::outbox::rates::{Bounded, Rate};
use waybill_core::port::transport::Transport;
use waybill_core::port::workers::EXTERNAL;

use crate::config::EngineConfig;
use crate::external::External;
use crate::meter::RouteMeters;

/// What outlives a change of a transport's settings.
#[derive(Debug, Default)]
pub(crate) struct TransportState {
    pub paused: AtomicBool,
    pub in_flight: AtomicU64,
}

pub(crate) struct TransportEntry {
    /// Its name, as attempts are recorded with it.
    pub name: Arc<str>,
    pub transport: Arc<dyn Transport>,
    pub send_timeout: Duration,
    pub batch: u32,
    /// Some of its routes want payload dedup.
    pub dedup: bool,
    /// It was removed: nothing is sent through it and nobody sees it, but its number stays taken.
    pub removed: bool,
    pub state: Arc<TransportState>,
}

impl TransportEntry {
    fn new(config: &EngineConfig, transport: &Arc<dyn Transport>, state: Arc<TransportState>) -> Self {
        let name = transport.name();
        let settings = config.endpoints.iter().find(|settings| settings.name == name);
        let own = settings.map(|settings| settings.grants.limits).unwrap_or_default();
        Self {
            name: Arc::from(name),
            send_timeout: own.call_time.unwrap_or(config.send_timeout),
            batch: own.max_batch.unwrap_or(config.batch).max(1),
            dedup: config.routes.0.iter().any(|route| route.transport == name && route.dedup.is_some()),
            transport: Arc::clone(transport),
            removed: false,
            state,
        }
    }

    /// What a removed transport leaves: its number.
    fn left_by(entry: &Self) -> Self {
        Self {
            name: Arc::clone(&entry.name),
            transport: Arc::clone(&entry.transport),
            send_timeout: entry.send_timeout,
            batch: entry.batch,
            dedup: false,
            removed: true,
            state: Arc::clone(&entry.state),
        }
    }
}

/// A snapshot of all of it.
pub(crate) struct Live {
    pub config: EngineConfig,
    entries: Vec<Arc<TransportEntry>>,
    pub routing: Arc<Routing>,
    pub meters: RouteMeters,
}

impl Live {
    pub fn new(config: EngineConfig) -> Self {
        Self::following(&[], config)
    }

    /// The one that follows this one, and the transports that are in it no more. A transport of the same name is the same one,
    /// or its giver ends the one before.
    pub fn next(&self, config: EngineConfig) -> (Self, Vec<Arc<TransportEntry>>) {
        let next = Self::following(&self.entries, config);
        let is_left = |(old, new): &(&Arc<TransportEntry>, &Arc<TransportEntry>)| !old.removed && new.removed;
        // A built-in one has nothing to end.
        let left = self.entries.iter().zip(&next.entries).filter(|pair| is_left(pair) && &*pair.0.name != EXTERNAL);
        let left = left.map(|(old, _)| Arc::clone(old)).collect();
        (next, left)
    }

    fn following(before: &[Arc<TransportEntry>], config: EngineConfig) -> Self {
        let is_external = config.routes.0.iter().any(|route| route.transport == EXTERNAL);
        let known = |name: &str| before.iter().find(|entry| &*entry.name == name);
        let external: Option<Arc<dyn Transport>> = is_external.then(|| match known(EXTERNAL) {
            Some(entry) => Arc::clone(&entry.transport),
            None => Arc::new(External) as _,
        });
        let wanted: Vec<&Arc<dyn Transport>> = config.transports.iter().chain(&external).collect();
        let mut entries: Vec<Arc<TransportEntry>> = before
            .iter()
            .map(|entry| match wanted.iter().find(|transport| transport.name() == &*entry.name) {
                Some(transport) => Arc::new(TransportEntry::new(&config, transport, Arc::clone(&entry.state))),
                None => Arc::new(TransportEntry::left_by(entry)),
            })
            .collect();
        let fresh = wanted.iter().filter(|transport| known(transport.name()).is_none());
        entries.extend(fresh.map(|transport| Arc::new(TransportEntry::new(&config, transport, Arc::default()))));
        let number = |name: &str| entries.iter().position(|entry| &*entry.name == name);
        let routing = Routing {
            routes: config.routes.clone(),
            transports: entries.iter().map(|entry| entry.name.to_string()).collect(),
            external: external.and_then(|_| u16::try_from(number(EXTERNAL)?).ok()).map(TransportId),
            lanes: entries.iter().map(|entry| entry.transport.limits().lanes.max(1)).collect(),
        };
        let meters = RouteMeters::new(routing.routes.0.len());
        Self { config, entries, routing: Arc::new(routing), meters }
    }

    /// What tenants and transports may send a second.
    pub fn rates(&self) -> impl Iterator<Item = (Bounded, Rate)> {
        let tenants = self.config.rates.iter().map(|(tenant, rate)| (Bounded::Tenant(tenant.clone()), *rate));
        let transports = self.config.endpoints.iter().filter_map(|settings| {
            let (id, _) = self.find(&settings.name)?;
            Some((Bounded::Transport(id), settings.rate?))
        });
        tenants.chain(transports)
    }

    pub fn get(&self, id: TransportId) -> Option<&Arc<TransportEntry>> {
        self.entries.get(usize::from(id.0))
    }

    pub fn find(&self, name: &str) -> Option<(TransportId, &Arc<TransportEntry>)> {
        self.iter().find(|(_, entry)| &*entry.name == name)
    }

    /// All that weren't removed.
    pub fn iter(&self) -> impl Iterator<Item = (TransportId, &Arc<TransportEntry>)> {
        let numbered = self.entries.iter().enumerate();
        let numbered = numbered.filter_map(|(index, entry)| Some((TransportId(u16::try_from(index).ok()?), entry)));
        numbered.filter(|(_, entry)| !entry.removed)
    }

    pub fn is_paused(&self, id: TransportId) -> bool {
        self.get(id).is_some_and(|entry| entry.state.paused.load(Ordering::Acquire))
    }
}
