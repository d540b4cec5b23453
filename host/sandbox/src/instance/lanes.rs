//! The lanes of one endpoint, and how callers reach them: transports, sources, tables and handlers serve through these.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use waybill_core::port::source::LaneNotices;
use waybill_core::port::transport::{CallError, ErrorKind, Fault, Health, HealthReport};

use super::command::{Claim, Command};
use super::lane::{Facts, Lane, LaneStatus, busy, closed, lost};
use super::notices::NoticeBoard;
use super::open::{Endpoint, open_error};
use super::supervise::supervise;
use super::work::{Answer, Work};
use crate::error::SandboxError;
use crate::limits::LANE_QUEUE;

/// What a caller waits beyond a call's deadline for the instance's own verdict on it.
const VERDICT_GRACE: Duration = Duration::from_secs(5);

/// How the first `open`s go.
pub(crate) type Opening = BoxFuture<'static, Result<(), SandboxError>>;

/// All lanes of an endpoint. Dropping them ends them at once, without `close`.
pub(crate) struct Lanes {
    pub(crate) endpoint: Arc<Endpoint>,
    /// What instances tell besides.
    notices: Arc<NoticeBoard>,
    handles: Vec<Handle>,
}

struct Handle {
    lane: Arc<Lane>,
    inbox: mpsc::Sender<Command>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Lanes {
    /// Starts a lane an instance: calls wait in it until it is open. The second value tells how the first `open`s went (the
    /// last refusal, if there was any) and needn't be awaited: the lanes go on all the same.
    pub(crate) fn start(endpoint: Endpoint) -> (Self, Opening) {
        let endpoint = Arc::new(endpoint);
        let notices = Arc::new(NoticeBoard::default());
        let mut handles = Vec::new();
        let mut firsts = Vec::new();
        for number in 0..endpoint.instances {
            let (inbox, commands) = mpsc::channel(LANE_QUEUE);
            let (first, opened) = oneshot::channel();
            let lane = Arc::new(Lane::new(number, Arc::clone(&notices)));
            let task = tokio::spawn(supervise(Arc::clone(&endpoint), Arc::clone(&lane), commands, first));
            handles.push(Handle { lane, inbox, task: Mutex::new(Some(task)) });
            firsts.push(opened);
        }
        let name = endpoint.name.clone();
        let opening = async move {
            let mut result = Ok(());
            for first in firsts {
                if let Err(error) = first.await.unwrap_or_else(|_| Err(closed())) {
                    result = Err(open_error(&name, error));
                }
            }
            result
        };
        (Self { endpoint, notices, handles }, Box::pin(opening))
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.handles.len()
    }

    /// What the open instances said of themselves.
    pub(crate) fn facts(&self) -> impl Iterator<Item = Facts> {
        self.handles.iter().filter_map(|handle| handle.lane.facts.lock().clone())
    }

    /// Abilities that every open instance named.
    pub(crate) fn features(&self) -> Vec<String> {
        let mut each = self.facts();
        let mut features = each.next().map(|facts| facts.features).unwrap_or_default();
        for facts in each {
            features.retain(|feature| facts.features.contains(feature));
        }
        features
    }

    /// How each lane is: a word and the reason.
    pub(crate) fn statuses(&self) -> Vec<(&'static str, Option<Fault>)> {
        self.handles
            .iter()
            .map(|handle| match handle.lane.status() {
                LaneStatus::Opening => ("opening", None),
                LaneStatus::Serving => ("serving", None),
                LaneStatus::Waiting { fault, .. } => ("waiting", Some(fault)),
                LaneStatus::Refused { fault, .. } => ("refused", Some(fault)),
                LaneStatus::Closed => ("closed", None),
            })
            .collect()
    }

    /// Tries `open` again on every lane that waits or was refused.
    pub(crate) fn reopen(&self) {
        for handle in &self.handles {
            if matches!(handle.lane.status(), LaneStatus::Refused { .. } | LaneStatus::Waiting { .. }) {
                handle.lane.reopen.notify_one();
            }
        }
    }

    /// A lane that serves; the first if none does.
    pub(crate) fn open_one(&self) -> u32 {
        let mut lanes = self.handles.iter().map(|handle| &handle.lane);
        lanes.find(|lane| matches!(lane.status(), LaneStatus::Serving)).map_or(0, |lane| lane.number)
    }

    /// Whether the instance that now serves in a lane is the one of this session.
    pub(crate) fn serves(&self, lane: u32, session: u64) -> bool {
        self.handle(lane).is_some_and(|handle| {
            matches!(handle.lane.status(), LaneStatus::Serving)
                && handle.lane.facts.lock().as_ref().is_some_and(|facts| facts.session == session)
        })
    }

    fn handle(&self, lane: u32) -> Option<&Handle> {
        let count = u32::try_from(self.handles.len()).unwrap_or(u32::MAX).max(1);
        self.handles.get((lane % count) as usize)
    }

    /// Hands work to a lane and waits for the answer.
    pub(crate) async fn ask(&self, lane: u32, work: Work, deadline: Instant) -> Result<Answer, CallError> {
        let Some(handle) = self.handle(lane) else { return Err(closed()) };
        if let Some(error) = handle.lane.refusal() {
            return Err(error);
        }
        let claim = Arc::new(Claim::default());
        let (reply, mut answer) = oneshot::channel();
        let command = Command { work, deadline, claim: Arc::clone(&claim), reply };
        match timeout_at(deadline, handle.inbox.send(command)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Err(closed()),
            Err(_) => return Err(busy()),
        }
        let answered = match timeout_at(deadline, &mut answer).await {
            Ok(answered) => answered,
            Err(_) if claim.give_up() => return Err(busy()),
            // An instance has it: its verdict is due now, and knows more than we do.
            Err(_) => match timeout_at(deadline + VERDICT_GRACE, answer).await {
                Ok(answered) => answered,
                Err(_) => return Err(lost("the instance gave no verdict in time")),
            },
        };
        answered.unwrap_or_else(|_| Err(lost("the instance's task ended without a verdict")))
    }

    /// Hands the same work to every open lane at once. Lanes without an instance have nothing to be asked.
    pub(crate) async fn ask_all(
        &self,
        work: impl Fn() -> Work,
        deadline: Instant,
    ) -> impl Iterator<Item = Result<Answer, CallError>> {
        let open = self.handles.iter().filter(|handle| matches!(handle.lane.status(), LaneStatus::Serving));
        let asks = open.map(|handle| self.ask(handle.lane.number, work(), deadline));
        futures::future::join_all(asks).await.into_iter()
    }

    /// What an instance tells besides, as soon as one does.
    pub(crate) async fn next_notices(&self) -> LaneNotices {
        self.notices.next().await
    }

    /// Asks every lane how it is; the worst counts.
    pub(crate) async fn health(&self) -> HealthReport {
        let deadline = Instant::now() + self.endpoint.context.limits.health_timeout;
        let asks = self.handles.iter().map(|handle| self.lane_health(handle, deadline));
        worst(futures::future::join_all(asks).await)
    }

    /// How every lane is, without asking the guests: for worlds that have no `health`.
    pub(crate) fn health_seen(&self) -> HealthReport {
        worst(self.handles.iter().map(|handle| match handle.lane.refusal() {
            None => HealthReport { health: Health::Ready, detail: None },
            Some(error) => failed(handle.lane.number, error),
        }))
    }

    async fn lane_health(&self, handle: &Handle, deadline: Instant) -> HealthReport {
        let number = handle.lane.number;
        if let LaneStatus::Waiting { fault, .. } | LaneStatus::Refused { fault, .. } = handle.lane.status() {
            return down(number, &fault);
        }
        match self.ask(number, Work::Health, deadline).await {
            Ok(Answer::Health(report)) => {
                handle.lane.reported.set(report.clone());
                report
            }
            Ok(_) => down(number, &other_question().fault),
            Err(error) => failed(number, error),
        }
    }

    /// Takes no more work: what waits in the lanes is given back, and no instance is opened any more. Calls under way go on.
    pub(crate) fn retire(&self) {
        self.endpoint.context.closing.cancel();
    }

    /// Ends all lanes in good order within `timeout`.
    pub(crate) async fn close(&self, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        self.retire();
        let tasks: Vec<_> = self.handles.iter().filter_map(|handle| handle.task.lock().take()).collect();
        let all = futures::future::join_all(tasks);
        tokio::pin!(all);
        if timeout_at(deadline, &mut all).await.is_err() {
            for handle in &self.handles {
                handle.lane.abort.cancel();
            }
            // An aborted lane only drops its Store.
            let _ = timeout_at(deadline + VERDICT_GRACE, all).await;
        }
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        self.endpoint.context.closing.cancel();
        for handle in &self.handles {
            handle.lane.abort.cancel();
        }
    }
}

/// The answer when an instance speaks of something else.
pub(crate) fn other_question() -> CallError {
    lost("the instance answered another question")
}

fn worst(reports: impl IntoIterator<Item = HealthReport>) -> HealthReport {
    reports
        .into_iter()
        .max_by_key(|report| severity(report.health))
        .unwrap_or(HealthReport { health: Health::Down, detail: Some("no instances".to_owned()) })
}

fn failed(number: u32, error: CallError) -> HealthReport {
    if error.kind == ErrorKind::Throttled {
        // A peer that asks to wait isn't down.
        HealthReport { health: Health::Blocked, detail: Some(error.fault.reason) }
    } else if error.fault.code == busy().fault.code {
        // Every instance is at work: that is no trouble.
        HealthReport { health: Health::Degraded, detail: Some(error.fault.reason) }
    } else {
        down(number, &error.fault)
    }
}

fn down(number: u32, fault: &Fault) -> HealthReport {
    let detail = format!("instance {number}: {}: {}", fault.code, fault.reason);
    HealthReport { health: Health::Down, detail: Some(detail) }
}

fn severity(health: Health) -> u8 {
    match health {
        Health::Ready => 0,
        Health::Degraded => 1,
        Health::Blocked => 2,
        Health::Down => 3,
    }
}
