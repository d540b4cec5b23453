//! Alerts out: one task looks at what this host has in memory, keeps the record of incidents, and enqueues a message where one
//! begins or is over.
//!
//! | file | holds |
//! |---|---|
//! | `observe` | what a round sees |
//! | `send` | the message of a notice, and where it goes |
//!
//! The rules themselves are pure ([`waybill_core::alert`]). docs/design/alerts.md says why it is done in this order.

mod observe;
mod send;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use waybill_api::status::{Check, CheckStatus};
use waybill_core::alert::{AlertSettings, Incidents, Phase, Rule};
use waybill_core::port::service::ServiceError;

use crate::service::Outbox;
use observe::{Round, see};

/// How often a host looks.
const ROUND_EVERY: Duration = Duration::from_secs(15);
/// Messages of one incident that a round sends: its beginning and its end.
const SENDS_MAX: usize = 2;
/// Names the record of a host that has the store for itself, whatever the machine is called at the next start.
const ALONE: &str = "local";

/// How the task does, for readiness.
#[derive(Default)]
pub(crate) struct Alerts(Mutex<Status>);

#[derive(Clone, Default)]
struct Status {
    /// Incidents that are open; none = nothing was looked at yet, or there are no alerts.
    open: Option<usize>,
    /// Alerts that are dead letters.
    dead: u64,
    /// Why alerts wait for their transport, if they do.
    held: Option<String>,
    /// Why the last round came to no end, if it didn't.
    trouble: Option<String>,
}

impl Alerts {
    /// What readiness says of alerts; none = there are none.
    pub fn readiness(&self) -> Option<Check> {
        let Status { open, dead, held, trouble } = self.0.lock().clone();
        let check = |status, detail| Some(Check { name: "alerts".to_owned(), status, detail });
        if let Some(trouble) = trouble {
            return check(CheckStatus::Warn, format!("they can't be enqueued: {trouble}"));
        }
        let open = open?;
        if dead > 0 {
            return check(CheckStatus::Warn, format!("nobody got those that are dead letters: {dead}"));
        }
        match held {
            Some(held) => check(CheckStatus::Warn, format!("they can't be sent: {held}")),
            None => check(CheckStatus::Ok, format!("incidents that are open: {open}")),
        }
    }

    fn set(&self, change: impl FnOnce(&mut Status)) {
        change(&mut self.0.lock());
    }
}

/// Starts the task. It does nothing while the configuration asks for no alerts.
pub(crate) fn start(outbox: &Arc<Outbox>) -> JoinHandle<()> {
    let begin = {
        let outbox = Arc::clone(outbox);
        move || watch(Arc::clone(&outbox))
    };
    outbox.context.supervisor.run("alerts", outbox.context.stop.clone(), begin)
}

async fn watch(outbox: Arc<Outbox>) {
    outbox.context.closing.run_until_cancelled(watch_in_rounds(&outbox)).await;
}

async fn watch_in_rounds(outbox: &Outbox) {
    let mut watch: Option<Watch> = None;
    loop {
        sleep(ROUND_EVERY).await;
        let settings = outbox.context.live().config.alerts.clone();
        let Some(settings) = settings else {
            outbox.alerts.set(|status| *status = Status::default());
            continue;
        };
        let result = go_on(outbox, &settings, &mut watch).await;
        if let Err(error) = &result {
            tracing::warn!(code = error.code().as_str(), %error, "alerts can't be enqueued now");
        }
        let trouble = result.err().map(|error| format!("{}: {error}", error.code()));
        outbox.alerts.set(|status| status.trouble = trouble);
    }
}

/// Goes on with the incidents that are known; at first with those of the record.
async fn go_on(outbox: &Outbox, settings: &AlertSettings, watch: &mut Option<Watch>) -> Result<(), ServiceError> {
    let known = match watch.take() {
        Some(known) => known,
        None => Watch::resume(outbox).await?,
    };
    watch.insert(known).go_on(outbox, settings).await
}

/// Incidents, and whether their record says the same.
struct Watch {
    incidents: Incidents,
    is_written: bool,
}

impl Watch {
    /// Goes on with what the record says.
    async fn resume(outbox: &Outbox) -> Result<Self, ServiceError> {
        let record = outbox.context.stores.transact.incidents(home(outbox)).await?;
        if record.is_empty() {
            return Ok(Self { incidents: Incidents::default(), is_written: true });
        }
        let incidents = serde_json::from_str(&record).unwrap_or_else(|error| {
            tracing::warn!(%error, "the record of open incidents can't be read: those that are still so are told anew");
            Incidents::default()
        });
        Ok(Self { incidents, is_written: true })
    }

    async fn go_on(&mut self, outbox: &Outbox, settings: &AlertSettings) -> Result<(), ServiceError> {
        let round = see(outbox, settings, &self.incidents).await;
        if self.incidents.observe(&outbox.context.config.machine, &round.seen, settings.pace) {
            self.is_written = false;
        }
        outbox.alerts.set(|status| {
            status.open = Some(self.incidents.open().count());
            status.dead = round.dead.unwrap_or(status.dead);
            status.held.clone_from(&round.held);
        });
        self.send(outbox, settings, &round).await
    }

    /// Enqueues what is due. The record goes first, so that a host that ends in between makes the same messages again.
    async fn send(&mut self, outbox: &Outbox, settings: &AlertSettings, round: &Round) -> Result<(), ServiceError> {
        for _ in 0..SENDS_MAX {
            let due = self.incidents.due();
            if due.iter().any(|notice| notice.rule == Rule::DiskLow && notice.phase == Phase::Begin) {
                observe::give_reserve(outbox).await;
            }
            self.write(outbox).await?;
            for notice in &due {
                send::enqueue(outbox, settings, round, notice).await?;
                self.incidents.sent(notice);
                self.is_written = false;
            }
        }
        self.write(outbox).await
    }

    async fn write(&mut self, outbox: &Outbox) -> Result<(), ServiceError> {
        if self.is_written {
            return Ok(());
        }
        let record = if self.incidents == Incidents::default() {
            String::new()
        } else {
            serde_json::to_string(&self.incidents).map_err(|error| ServiceError::Unavailable(error.to_string()))?
        };
        outbox.context.stores.transact.note_incidents(home(outbox), &record).await?;
        self.is_written = true;
        Ok(())
    }
}

/// Under which name the record lies.
fn home(outbox: &Outbox) -> &str {
    let config = &outbox.context.config;
    if config.exclusive { ALONE } else { &config.machine }
}
