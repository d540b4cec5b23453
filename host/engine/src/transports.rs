//! The transports of this host, by number, with what the engine keeps of each.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use waybill_core::outbox::owner::{Routing, TransportId};
use waybill_core::port::transport::Transport;
use waybill_core::port::workers::EXTERNAL;

use crate::config::EngineConfig;
use crate::external::External;

/// One transport.
pub(crate) struct Line {
    /// Its name, as attempts are recorded with it.
    pub name: Arc<str>,
    pub transport: Arc<dyn Transport>,
    pub send_timeout: Duration,
    pub batch: u32,
    /// Some of its routes want payload dedup.
    pub dedup: bool,
    pub paused: AtomicBool,
    pub in_flight: AtomicU64,
}

/// All of them.
pub(crate) struct Transports {
    lines: Vec<Line>,
    pub routing: Arc<Routing>,
}

impl Transports {
    pub fn new(config: &EngineConfig) -> Self {
        let is_external = config.routes.0.iter().any(|route| route.transport == EXTERNAL);
        let external: Option<Arc<dyn Transport>> = is_external.then(|| Arc::new(External) as _);
        let lines: Vec<Line> = config
            .transports
            .iter()
            .chain(&external)
            .map(|transport| Line {
                name: Arc::from(transport.name()),
                send_timeout: config.send_timeouts.get(transport.name()).copied().unwrap_or(config.send_timeout),
                batch: config.batches.get(transport.name()).copied().unwrap_or(config.batch).max(1),
                dedup: config.routes.0.iter().any(|route| route.transport == transport.name() && route.dedup.is_some()),
                transport: Arc::clone(transport),
                paused: AtomicBool::new(false),
                in_flight: AtomicU64::new(0),
            })
            .collect();
        let routing = Routing {
            routes: config.routes.clone(),
            transports: lines.iter().map(|line| line.transport.name().to_owned()).collect(),
            external: external.and_then(|_| u16::try_from(lines.len().checked_sub(1)?).ok()).map(TransportId),
            lanes: lines.iter().map(|line| line.transport.limits().lanes.max(1)).collect(),
        };
        Self { lines, routing: Arc::new(routing) }
    }

    pub fn get(&self, id: TransportId) -> Option<&Line> {
        self.lines.get(usize::from(id.0))
    }

    pub fn find(&self, name: &str) -> Option<(TransportId, &Line)> {
        self.iter().find(|(_, line)| line.transport.name() == name)
    }

    pub fn iter(&self) -> impl Iterator<Item = (TransportId, &Line)> {
        self.lines.iter().enumerate().filter_map(|(index, line)| Some((TransportId(u16::try_from(index).ok()?), line)))
    }

    pub fn is_paused(&self, id: TransportId) -> bool {
        self.get(id).is_some_and(|line| line.paused.load(Ordering::Acquire))
    }
}
