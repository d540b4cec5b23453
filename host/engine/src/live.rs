//! What is in force: settings that may change while the engine runs, routes, and transports by number.
//!
//! A snapshot is never changed; [`crate::Engine::reconfigure`] puts the next one in its place. A transport keeps its number
//! for as long as the engine runs, also when it is removed and comes back, because messages in memory are kept by it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use waybill_core::outbox::owner::{Routing, TransportId};
use waybill_core::port::transport::Transport;
use waybill_core::port::workers::EXTERNAL;

use crate::config::EngineConfig;
use crate::external::External;
use crate::meter::RouteMeters;

/// What outlives a change of a transport's settings.
#[derive(Debug, Default)]
pub(crate) struct LineState {
    pub paused: AtomicBool,
    pub in_flight: AtomicU64,
}

/// One transport.
pub(crate) struct Line {
    /// Its name, as attempts are recorded with it.
    pub name: Arc<str>,
    pub transport: Arc<dyn Transport>,
    pub send_timeout: Duration,
    pub batch: u32,
    /// Some of its routes want payload dedup.
    pub dedup: bool,
    /// It was removed: nothing is sent through it and nobody sees it, but its number stays taken.
    pub removed: bool,
    pub state: Arc<LineState>,
}

impl Line {
    fn new(config: &EngineConfig, transport: &Arc<dyn Transport>, state: Arc<LineState>) -> Self {
        let name = transport.name();
        Self {
            name: Arc::from(name),
            send_timeout: config.send_timeouts.get(name).copied().unwrap_or(config.send_timeout),
            batch: config.batches.get(name).copied().unwrap_or(config.batch).max(1),
            dedup: config.routes.0.iter().any(|route| route.transport == name && route.dedup.is_some()),
            transport: Arc::clone(transport),
            removed: false,
            state,
        }
    }

    /// What a removed transport leaves: its number.
    fn left_by(line: &Self) -> Self {
        Self {
            name: Arc::clone(&line.name),
            transport: Arc::clone(&line.transport),
            send_timeout: line.send_timeout,
            batch: line.batch,
            dedup: false,
            removed: true,
            state: Arc::clone(&line.state),
        }
    }
}

/// A snapshot of all of it.
pub(crate) struct Live {
    pub config: EngineConfig,
    lines: Vec<Arc<Line>>,
    pub routing: Arc<Routing>,
    pub meters: RouteMeters,
}

impl Live {
    /// The first one.
    pub fn new(config: EngineConfig) -> Self {
        Self::following(&[], config)
    }

    /// The one that follows this one, and the transports that are in it no more. A transport of the same name is the same one,
    /// or its giver ends the one before.
    pub fn next(&self, config: EngineConfig) -> (Self, Vec<Arc<Line>>) {
        let next = Self::following(&self.lines, config);
        let is_left = |(old, new): &(&Arc<Line>, &Arc<Line>)| !old.removed && new.removed;
        // A built-in one has nothing to end.
        let left = self.lines.iter().zip(&next.lines).filter(|pair| is_left(pair) && &*pair.0.name != EXTERNAL);
        let left = left.map(|(old, _)| Arc::clone(old)).collect();
        (next, left)
    }

    fn following(before: &[Arc<Line>], config: EngineConfig) -> Self {
        let is_external = config.routes.0.iter().any(|route| route.transport == EXTERNAL);
        let known = |name: &str| before.iter().find(|line| &*line.name == name);
        let external: Option<Arc<dyn Transport>> = is_external.then(|| match known(EXTERNAL) {
            Some(line) => Arc::clone(&line.transport),
            None => Arc::new(External) as _,
        });
        let wanted: Vec<&Arc<dyn Transport>> = config.transports.iter().chain(&external).collect();
        let mut lines: Vec<Arc<Line>> = before
            .iter()
            .map(|line| match wanted.iter().find(|transport| transport.name() == &*line.name) {
                Some(transport) => Arc::new(Line::new(&config, transport, Arc::clone(&line.state))),
                None => Arc::new(Line::left_by(line)),
            })
            .collect();
        let fresh = wanted.iter().filter(|transport| known(transport.name()).is_none());
        lines.extend(fresh.map(|transport| Arc::new(Line::new(&config, transport, Arc::default()))));
        let number = |name: &str| lines.iter().position(|line| &*line.name == name);
        let routing = Routing {
            routes: config.routes.clone(),
            transports: lines.iter().map(|line| line.name.to_string()).collect(),
            external: external.and_then(|_| u16::try_from(number(EXTERNAL)?).ok()).map(TransportId),
            lanes: lines.iter().map(|line| line.transport.limits().lanes.max(1)).collect(),
        };
        let meters = RouteMeters::new(routing.routes.0.len());
        Self { config, lines, routing: Arc::new(routing), meters }
    }

    pub fn get(&self, id: TransportId) -> Option<&Arc<Line>> {
        self.lines.get(usize::from(id.0))
    }

    pub fn find(&self, name: &str) -> Option<(TransportId, &Arc<Line>)> {
        self.iter().find(|(_, line)| &*line.name == name)
    }

    /// All that weren't removed.
    pub fn iter(&self) -> impl Iterator<Item = (TransportId, &Arc<Line>)> {
        let numbered = self.lines.iter().enumerate();
        let numbered = numbered.filter_map(|(index, line)| Some((TransportId(u16::try_from(index).ok()?), line)));
        numbered.filter(|(_, line)| !line.removed)
    }

    pub fn is_paused(&self, id: TransportId) -> bool {
        self.get(id).is_some_and(|line| line.state.paused.load(Ordering::Acquire))
    }
}
