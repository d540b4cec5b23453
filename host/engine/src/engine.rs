//! The engine as a whole: start, service, drain.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use waybill_core::ids::ShardId;

use crate::admission::Admission;
use crate::clock::Clock;
use crate::config::{EngineConfig, Stores};
use crate::janitor;
use crate::meter::Meter;
use crate::service::Outbox;
use crate::service::operations::{self, Operations};
use crate::shard::{Commits, Context, DoorBell, ShardHandle};
use crate::transports::Transports;

/// Background work gets this long to come to a safe point when the host drains.
const BACKGROUND_TIMEOUT: Duration = Duration::from_secs(5);
/// Each transport gets this long to end in good order.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// A running engine. Dropping it ends it where it is, as a crash would: what was being sent is suspect at the next start.
/// [`Engine::drain`] ends it in good order.
pub struct Engine {
    outbox: Arc<Outbox>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    background: Mutex<Vec<JoinHandle<()>>>,
}

impl Engine {
    /// Starts the actors of all shards and the background work. Returns at once; readiness tells when shards are owned.
    pub fn start(config: EngineConfig, stores: Stores, clock: Arc<dyn Clock>) -> Self {
        let shards = config.shards.max(1);
        let admission = Admission::new(config.waiting_messages_max, config.waiting_bytes_max);
        let transports = Transports::new(&config);
        let context = Arc::new(Context {
            host: Arc::from(config.host.as_str()),
            meter: Meter::new(&transports.routing),
            config,
            stores,
            transports,
            clock,
            door: DoorBell::default(),
            commits: Commits::default(),
            closing: CancellationToken::new(),
            stop: CancellationToken::new(),
        });
        let mut tasks = Vec::new();
        let mut handles = Vec::new();
        for shard in 0..shards {
            let (handle, task) = ShardHandle::start(ShardId(shard), Arc::clone(&context));
            handles.push(handle);
            tasks.push(task);
        }
        let outbox = Arc::new(Outbox {
            context: Arc::clone(&context),
            shards: handles,
            admission,
            operations: Arc::new(Operations::default()),
            spread: std::sync::atomic::AtomicU64::new(0),
            draining: std::sync::atomic::AtomicBool::new(false),
        });
        let background = vec![
            tokio::spawn(janitor::retire(Arc::clone(&outbox))),
            tokio::spawn(operations::run_all(Arc::clone(&outbox))),
        ];
        Self { outbox, tasks: Mutex::new(tasks), background: Mutex::new(background) }
    }

    /// The outbox as a service.
    pub fn outbox(&self) -> Arc<dyn waybill_core::port::service::OutboxService> {
        Arc::clone(&self.outbox) as Arc<dyn waybill_core::port::service::OutboxService>
    }

    /// Says that a doorstep commit of this process ended that didn't go through the service (the Rust library's
    /// `enqueue_in_tx`).
    pub fn knock(&self) {
        self.outbox.knock();
    }

    /// Readiness fails from now on; messages are still taken until [`Engine::drain`].
    pub fn begin_drain(&self) {
        self.outbox.draining.store(true, std::sync::atomic::Ordering::Release);
    }

    /// Stops taking and sending messages, waits for sends under way at most `timeout`, gives the shards back, and
    /// closes the transports. True when everything ended in good order.
    pub async fn drain(&self, timeout: Duration) -> bool {
        self.begin_drain();
        self.outbox.context.closing.cancel();
        // Bulk operations note how far they are; the next start goes on with them.
        let background: Vec<JoinHandle<()>> = self.background.lock().drain(..).collect();
        for task in background {
            let _late = tokio::time::timeout(BACKGROUND_TIMEOUT, task).await;
        }
        let deadline = tokio::time::Instant::now() + timeout;
        let releases = self.outbox.shards.iter().map(|shard| shard.release(timeout));
        futures::future::join_all(releases).await;
        let tasks: Vec<JoinHandle<()>> = self.tasks.lock().drain(..).collect();
        let mut orderly = true;
        for task in tasks {
            orderly &= tokio::time::timeout(BACKGROUND_TIMEOUT, task).await.is_ok();
        }
        let context = &self.outbox.context;
        // What is still being sent can't be settled any more.
        let close = deadline.saturating_duration_since(tokio::time::Instant::now()).min(CLOSE_TIMEOUT);
        futures::future::join_all(context.transports.iter().map(|(_, line)| line.transport.close(close))).await;
        orderly
            && context.transports.iter().all(|(_, line)| line.in_flight.load(std::sync::atomic::Ordering::Acquire) == 0)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.outbox.context.closing.cancel();
        self.outbox.context.stop.cancel();
    }
}
