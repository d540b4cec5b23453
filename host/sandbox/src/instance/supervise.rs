//! Keeps a lane alive: opens, serves, replaces, waits.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use waybill_bindings::api::types::OpenPurpose;
use waybill_core::code::Code;
use waybill_core::port::transport::{CallError, ErrorKind, Fault};

use super::broken::Broken;
use super::budget::{Restart, RestartBudget};
use super::command::Command;
use super::crash::Crash;
use super::lane::{Lane, LaneStatus, closed, lost};
use super::open::{Endpoint, OpenFailure, open};
use super::serve::{Ended, Serving, serve};
use crate::meters::Counted;

/// Tells how the first `open` went.
pub(crate) type FirstOpen = oneshot::Sender<Result<(), CallError>>;

/// Runs a lane until its endpoint ends.
pub(crate) async fn supervise(
    endpoint: Arc<Endpoint>,
    lane: Arc<Lane>,
    mut inbox: mpsc::Receiver<Command>,
    first: FirstOpen,
) {
    let mut keeper = Keeper {
        endpoint: &endpoint,
        lane: &lane,
        inbox: &mut inbox,
        budget: RestartBudget::default(),
        first: Some(first),
        opened_before: false,
        broken: None,
    };
    // What a panic of the host cuts off is told to its caller as lost; the lane goes on with what waits in it.
    loop {
        let ended = {
            // Pinned where it is made: it is large.
            let run = pin!(keeper.run());
            AssertUnwindSafe(run).catch_unwind().await
        };
        let Err(panic) = ended else { break };
        let pause = endpoint.context.task_failed("plugin lane", &*panic);
        let fault = Fault::new(Code::PLUGIN_HOST_PANIC, "the lane failed in the host: see its log and report it");
        keeper.told_first(Err(lost(&fault.reason)));
        if keeper.wait(pause, fault).await.is_break() {
            break;
        }
    }
    drop(keeper);
    lane.set(LaneStatus::Closed);
    inbox.close();
    while let Some(command) = inbox.recv().await {
        refuse(command, closed());
    }
}

struct Keeper<'a> {
    endpoint: &'a Endpoint,
    lane: &'a Lane,
    inbox: &'a mut mpsc::Receiver<Command>,
    budget: RestartBudget,
    first: Option<FirstOpen>,
    opened_before: bool,
    /// Its breaker is open, or was and it hasn't been opened since.
    broken: Option<Broken<'a>>,
}

impl Keeper<'_> {
    async fn run(&mut self) {
        let context = &self.endpoint.context;
        loop {
            self.lane.set(LaneStatus::Opening);
            let opening = open(self.endpoint, self.lane.number, OpenPurpose::Serve, self.lane.reported.clone());
            let opened = tokio::select! {
                biased;
                () = context.closing.cancelled() => return,
                opened = opening => opened,
            };
            let live = match opened {
                Ok(live) => live,
                Err(failure) => {
                    if self.open_failed(failure).await.is_break() {
                        return;
                    }
                    continue;
                }
            };
            if std::mem::replace(&mut self.opened_before, true) {
                context.meters.restarts.increment(1);
            }
            if let Some(peer) = &live.facts.peer {
                tracing::debug!(transport = %context.name, instance = self.lane.number, %peer, "open");
            }
            *self.lane.facts.lock() = Some(live.facts.clone());
            self.lane.set(LaneStatus::Serving);
            self.broken = None;
            // Before anybody is told, so that whoever waited finds it counted.
            let counted = Counted::new(&context.meters.instances_open);
            self.told_first(Ok(()));
            context.openings.send_modify(|count| *count = count.wrapping_add(1));
            let serving = Serving { context, lane: self.lane, inbox: self.inbox, budget: &mut self.budget };
            let ended = serve(live, serving).await;
            drop(counted);
            let fault = match ended {
                Ended::Closed => return,
                Ended::Recycled(fault) => fault,
                Ended::Crashed(crash) => self.note(crash),
            };
            if self.lost(fault).await.is_break() {
                return;
            }
        }
    }

    /// Logs and counts a crash.
    fn note(&self, crash: Crash) -> Fault {
        let context = &self.endpoint.context;
        crash.count(context);
        context.lost(&crash.fault);
        tracing::warn!(
            target: "waybill::plugin", transport = %context.name, plugin = %context.plugin, generation = context.generation,
            instance = self.lane.number, code = %crash.fault.code, reason = %crash.fault.reason, "an instance was lost"
        );
        let told = format!("an instance was lost: {}: {}", crash.fault.code, crash.fault.reason);
        context.note(Some(self.lane.number), told);
        crash.fault
    }

    /// After a lost instance: at once, or when the breaker lets another try.
    async fn lost(&mut self, fault: Fault) -> Flow {
        match self.budget.lost(Instant::now()) {
            Restart::AtOnce => Flow::Continue(()),
            Restart::After(delay) => {
                let endpoint = self.endpoint;
                self.broken.get_or_insert_with(|| Broken::new(&endpoint.context, &fault));
                let reason =
                    format!("the breaker is open after repeated failures, the last: {}: {}", fault.code, fault.reason);
                self.wait(delay, Fault::new(Code::PLUGIN_BREAKER_OPEN, reason)).await
            }
        }
    }

    async fn open_failed(&mut self, failure: OpenFailure) -> Flow {
        let context = &self.endpoint.context;
        match failure {
            OpenFailure::Crashed(crash) => {
                self.told_first(Err(crash.call_error()));
                let fault = self.note(crash);
                self.lost(fault).await
            }
            OpenFailure::Told(error) => {
                self.told_first(Err(error.clone()));
                tracing::warn!(
                    target: "waybill::plugin", transport = %context.name, plugin = %context.plugin, instance = self.lane.number,
                    kind = ?error.kind, code = %error.fault.code, reason = %error.fault.reason, "open failed"
                );
                let told = format!("open failed: {}: {}", error.fault.code, error.fault.reason);
                context.note(Some(self.lane.number), told);
                match error.kind {
                    ErrorKind::InvalidConfig | ErrorKind::Denied | ErrorKind::Unsupported => {
                        self.lane.set(LaneStatus::Refused { kind: error.kind, fault: error.fault });
                        self.idle(None).await
                    }
                    _ => {
                        let delay = self.budget.reopen_after(error.fault.after);
                        self.wait(delay, error.fault).await
                    }
                }
            }
        }
    }

    async fn wait(&mut self, delay: Duration, fault: Fault) -> Flow {
        let until = Instant::now() + delay;
        self.lane.set(LaneStatus::Waiting { until, fault });
        let _open = Counted::new(&self.endpoint.context.meters.breaker);
        self.idle(Some(until)).await
    }

    /// Answers what comes meanwhile, until the time is there, somebody asks for another try, or it all ends.
    async fn idle(&mut self, until: Option<Instant>) -> Flow {
        let context = &self.endpoint.context;
        loop {
            tokio::select! {
                biased;
                () = context.closing.cancelled() => return Flow::Break(()),
                () = self.lane.abort.cancelled() => return Flow::Break(()),
                () = self.lane.reopen.notified() => return Flow::Continue(()),
                () = at(until) => return Flow::Continue(()),
                command = self.inbox.recv() => match command {
                    None => return Flow::Break(()),
                    Some(command) => refuse(command, self.lane.refusal().unwrap_or_else(closed)),
                },
            }
        }
    }

    fn told_first(&mut self, result: Result<(), CallError>) {
        if let Some(first) = self.first.take() {
            // Nobody waits for it when the transport is kept supervised whatever happens.
            let _ = first.send(result);
        }
    }
}

type Flow = std::ops::ControlFlow<()>;

/// Answers a command that no instance will take.
fn refuse(command: Command, error: CallError) {
    if command.claim.take() {
        let _ = command.reply.send(Err(error));
    }
}

async fn at(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
}
