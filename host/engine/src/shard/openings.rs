//! The wait of a transport that is down ends when an instance of it has opened, not only when its own time is over.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use waybill_core::outbox::owner::TransportId;
use waybill_core::port::transport::Fault;

use super::actor::Actor;
use super::mail::Mail;

/// How long an opening is waited for: as long as a transport that is down is waited for at most. By then it has been tried, and
/// whoever found it still down waits anew.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Transports whose next opening is waited for: one waits for each, however many calls found it down.
#[derive(Default)]
pub struct Awaited(BTreeSet<TransportId>);

impl Actor {
    /// A transport was found down. Who asked to be left alone for a time is left alone.
    pub(super) fn await_opening(&mut self, transport: TransportId, fault: &Fault) {
        let live = self.context.live();
        let Some(entry) = live.get(transport).filter(|_| fault.after.is_none()) else { return };
        if !self.awaited.0.insert(transport) {
            return;
        }
        let (waited, mail, stop) = (Arc::clone(&entry.transport), self.sender.clone(), self.context.stop.clone());
        tokio::spawn(async move {
            let ended = stop.run_until_cancelled(timeout(WAIT_MAX, waited.opened())).await;
            let opened = matches!(ended, Some(Ok(())));
            let _gone = mail.send(Mail::Awaited { transport, opened });
        });
    }

    /// The wait for an opening is over.
    pub(super) fn awaited(&mut self, transport: TransportId, opened: bool) {
        self.awaited.0.remove(&transport);
        if opened {
            let now = self.context.clock.now();
            self.owner.retry_hold(&super::dispatch::whole(transport), now);
        }
    }
}
