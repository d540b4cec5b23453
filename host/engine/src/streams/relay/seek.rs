//! Operators set a relay's place in a stream.

use waybill_core::port::missing::Missing;
use waybill_core::port::service::ServiceError;

use super::super::SHUTTING_DOWN;
use super::super::actor::Actor;
use super::super::mail::SeekAsk;
use super::Seek;

impl Actor {
    /// What is in flight in the stream ends first; then the place is set in a commit.
    pub(in crate::streams) fn seek(&mut self, ask: SeekAsk) {
        let SeekAsk { relay: name, stream, checkpoint, upto, reply } = ask;
        if self.is_ending() {
            let _gone = reply.send(Err(ServiceError::Unavailable(SHUTTING_DOWN.to_owned())));
            return;
        }
        let driver = self.relays.iter_mut().find(|driver| *driver.name() == name);
        let relay = self.owner.relays_mut().get_mut(&name);
        match (driver, relay) {
            // One that came while the commit of another is out would be taken for that one, and answered with it.
            (Some(driver), Some(_)) if driver.seeks.iter().any(|seek| seek.stream == stream) => {
                let _gone = reply.send(Err(ServiceError::State {
                    what: "relay",
                    id: name.to_string(),
                    state: format!("seeking in {stream}"),
                    fix: "wait until that has ended",
                }));
            }
            (Some(driver), Some(relay)) => {
                relay.seek(&stream, &checkpoint, upto);
                driver.seeks.push(Seek { stream, reply });
            }
            _ => {
                let _gone = reply.send(Err(ServiceError::NotFound { what: Missing::Relay, id: name.to_string() }));
            }
        }
    }

    /// A commit is in: those whose seek is done are told.
    pub(super) fn answer_seeks(&mut self, at: usize) {
        let Some(driver) = self.relays.get_mut(at) else { return };
        if driver.seeks.is_empty() {
            return;
        }
        let (done, waiting): (Vec<Seek>, Vec<Seek>) = std::mem::take(&mut driver.seeks)
            .into_iter()
            .partition(|seek| !self.owner.relays().is_seeking(&seek.stream));
        driver.seeks = waiting;
        for seek in done {
            let _gone = seek.reply.send(Ok(()));
        }
    }
}
