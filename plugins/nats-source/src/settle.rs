//! Settlements over one connection: each is published to its delivery's own subject. JetStream answers where it is asked to.
//!
//! Acknowledgements go in runs, and the last of a run asks for the answer: a consumer takes what comes over one connection in order, so
//! that one speaks for those before it. Where it doesn't, because another server took the consumer over in between, they were lost,
//! and their messages come again as after any acknowledgement that is lost.

use std::borrow::Cow;
use std::io::Write as _;

use waybill_nats_wire::{Event, Incoming, PONG};
use waybill_plugin::exchange::{Bounds, Side, exchange};
use waybill_plugin::source::{Disposition, Settled, Settlement};
use waybill_plugin::transport::{Fault, PluginError};

use crate::Connection;
use crate::ack;

/// Bytes after which a write begins.
const CHUNK_BYTES: usize = 60 * 1024;

/// What became of the settlements, and why the connection is of no more use if it isn't.
pub(crate) struct Done {
    pub(crate) settled: Vec<Settled>,
    pub(crate) lost: Option<PluginError>,
}

/// Settles and waits for JetStream's word: at most `window` are without one. All are of one consumer. A token that `knows` doesn't know is lost, and never
/// written: in a stream made anew it would acknowledge another message.
pub(crate) async fn settle(
    connection: &mut Connection,
    items: &[Settlement],
    knows: impl Fn(&[u8]) -> bool,
    window: usize,
    bounds: Bounds,
) -> Done {
    let first = connection.take_numbers(items.len());
    let (stream, incoming) = connection.split();
    let inbox = incoming.inbox().to_owned();
    let mut settling = Settling { incoming, batch: Batch::new(items, knows, inbox, first, window) };
    let lost = exchange(stream, &mut settling, bounds).await.err().map(Connection::broken);
    Done { settled: settling.batch.end(lost.as_ref()), lost }
}

struct Settling<'a> {
    incoming: &'a mut Incoming,
    batch: Batch<'a>,
}

impl Side for Settling<'_> {
    fn outgoing(&mut self) -> Vec<u8> {
        let mut piece = if self.incoming.take_pong_due() { PONG.to_vec() } else { Vec::new() };
        self.batch.write(&mut piece);
        piece
    }

    fn waits(&self) -> bool {
        self.batch.waiting > 0
    }

    fn incoming(&mut self, bytes: Vec<u8>) -> Result<(), PluginError> {
        self.incoming.push(bytes);
        let batch = &mut self.batch;
        self.incoming.drain(|event| batch.take(event))?;
        Ok(())
    }
}

/// Where each settlement is.
struct Batch<'a> {
    items: &'a [Settlement],
    settled: Vec<Option<Settled>>,
    /// Whether JetStream was asked to answer.
    asked: Vec<bool>,
    /// Subject prefix of answers.
    inbox: String,
    /// Number of the first.
    first: u64,
    window: usize,
    /// Acknowledgements written since the last one that asks for an answer.
    run: usize,
    /// The last acknowledgement that is written.
    last_ack: Option<usize>,
    /// The first that wasn't written yet.
    next: usize,
    /// Written, and without an answer.
    waiting: usize,
}

impl<'a> Batch<'a> {
    fn new(items: &'a [Settlement], knows: impl Fn(&[u8]) -> bool, inbox: String, first: u64, window: usize) -> Self {
        let is_ours = |token: &[u8]| ack::subject(token).is_some() && knows(token);
        let settled: Vec<Option<Settled>> =
            items.iter().map(|item| (!is_ours(&item.token)).then_some(Settled::Lost)).collect();
        let asked = vec![false; items.len()];
        let last_ack = items.iter().zip(&settled).rposition(|(item, settled)| settled.is_none() && is_ack(item));
        Self { items, settled, asked, inbox, first, window, run: 0, last_ack, next: 0, waiting: 0 }
    }

    fn write(&mut self, piece: &mut Vec<u8>) {
        while piece.len() < CHUNK_BYTES
            && self.waiting < self.window
            && let Some(item) = self.items.get(self.next)
        {
            let place = self.next;
            self.next += 1;
            if !self.is_waiting(place) {
                continue;
            }
            let body = body(&item.disposition);
            piece.extend_from_slice(b"PUB ");
            piece.extend_from_slice(&item.token);
            // Nothing fails that is written to memory.
            let _written = if self.asks(place, item) {
                let number = self.first + place as u64;
                write!(piece, " {}{number} {}\r\n{body}\r\n", self.inbox, body.len())
            } else {
                write!(piece, " {}\r\n{body}\r\n", body.len())
            };
            self.waiting += 1;
        }
    }

    /// Whether an order asks for an answer: any but an acknowledgement does, and of each half of the window one of those, so that there
    /// is always an answer to come.
    fn asks(&mut self, place: usize, item: &Settlement) -> bool {
        self.run += usize::from(is_ack(item));
        let asks = !is_ack(item) || self.last_ack == Some(place) || self.run >= self.window / 2;
        if asks && is_ack(item) {
            self.run = 0;
        }
        if let Some(asked) = self.asked.get_mut(place) {
            *asked = asks;
        }
        asks
    }

    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Answer(number, message) => {
                let place = number.checked_sub(self.first).and_then(|place| usize::try_from(place).ok());
                if let Some(place) = place.filter(|place| self.is_waiting(*place)) {
                    // Nobody listens there: the consumer is gone, and its deliveries with it.
                    let settled = if message.status() == Some(503) { Settled::Lost } else { Settled::Done };
                    self.answer(place, settled);
                }
            }
            Event::NoPublish(subject) => {
                for place in 0..self.next {
                    let is_it = self.items.get(place).is_some_and(|item| item.token == subject.as_bytes());
                    if is_it && self.is_waiting(place) {
                        let reason = "our user may not acknowledge: allow it to publish to `$JS.ACK.>`";
                        self.answer(place, Settled::Failed(Fault::new("NATS.PERMISSIONS", reason)));
                    }
                }
            }
            Event::Delivery(_) | Event::Pong => {}
        }
    }

    fn is_waiting(&self, place: usize) -> bool {
        place < self.next && self.settled.get(place).is_some_and(Option::is_none)
    }

    /// What became of one, and of those before it that it speaks for.
    fn answer(&mut self, place: usize, settled: Settled) {
        let speaks = self.has_asked(place) && self.items.get(place).is_some_and(is_ack);
        let before = (0..place).rev().take_while(|before| {
            let ends_run = self.has_asked(*before) && self.items.get(*before).is_some_and(is_ack);
            speaks && !ends_run
        });
        let silent: Vec<usize> = before.filter(|before| self.is_waiting(*before) && !self.has_asked(*before)).collect();
        for place in silent.into_iter().chain([place]) {
            if let Some(slot) = self.settled.get_mut(place) {
                *slot = Some(settled.clone());
                self.waiting = self.waiting.saturating_sub(1);
            }
        }
    }

    fn has_asked(&self, place: usize) -> bool {
        self.asked.get(place).is_some_and(|asked| *asked)
    }

    /// One answer an item.
    fn end(self, lost: Option<&PluginError>) -> Vec<Settled> {
        let failed = || match lost {
            Some(error) => Settled::Failed(error.fault.clone()),
            None => Settled::Failed(Fault::new("NATS.CANCELLED", "the host ended the call")),
        };
        self.settled.into_iter().map(|settled| settled.unwrap_or_else(failed)).collect()
    }
}

fn is_ack(item: &Settlement) -> bool {
    matches!(item.disposition, Disposition::Ack)
}

/// What JetStream takes for an order.
fn body(disposition: &Disposition) -> Cow<'static, str> {
    match disposition {
        Disposition::Ack => "+ACK".into(),
        Disposition::Nack(Some(millis)) => format!("-NAK {{\"delay\":{}}}", u64::from(*millis) * 1_000_000).into(),
        // At once. JetStream counts it, whatever it is for.
        Disposition::Nack(None) | Disposition::Release => "-NAK".into(),
        Disposition::Reject(_) => "+TERM".into(),
        Disposition::Extend => "+WPI".into(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use waybill_nats_wire::codec::Message;

    fn item(number: u64, disposition: Disposition) -> Settlement {
        let token = format!("$JS.ACK.ORDERS.ship.1.{number}.{number}.1795697050623582361.0").into_bytes();
        Settlement { token, disposition }
    }

    fn written(batch: &mut Batch<'_>) -> String {
        let mut piece = Vec::new();
        batch.write(&mut piece);
        String::from_utf8(piece).unwrap()
    }

    fn answer(batch: &mut Batch<'_>, number: u64, headers: &[u8]) {
        let message = Message { subject: b"_INBOX.x.1", reply: b"", headers, payload: b"", omitted: None };
        batch.take(Event::Answer(number, message));
    }

    #[test]
    fn each_disposition_is_written_as_jetstream_takes_it() {
        for (disposition, expected) in [
            (Disposition::Ack, "+ACK"),
            (Disposition::Nack(None), "-NAK"),
            (Disposition::Nack(Some(1_500)), "-NAK {\"delay\":1500000000}"),
            (Disposition::Release, "-NAK"),
            (Disposition::Reject(Fault::new("A", "b")), "+TERM"),
            (Disposition::Extend, "+WPI"),
        ] {
            let items = [item(1, disposition)];
            let text = written(&mut Batch::new(&items, |_| true, "_INBOX.x.".to_owned(), 5, 1));
            let line = "PUB $JS.ACK.ORDERS.ship.1.1.1.1795697050623582361.0 _INBOX.x.5 ";
            assert_eq!(text, format!("{line}{}\r\n{expected}\r\n", expected.len()));
        }
    }

    #[test]
    fn an_answer_settles_its_own_and_no_more_wait_than_the_window_holds() {
        let items: Vec<Settlement> = (1..=4).map(|number| item(number, Disposition::Ack)).collect();
        let mut batch = Batch::new(&items, |_| true, "_INBOX.x.".to_owned(), 5, 2);
        assert_eq!(written(&mut batch).matches("PUB").count(), 2);
        answer(&mut batch, 6, b"NATS/1.0 503\r\n\r\n");
        answer(&mut batch, 6, b"");
        answer(&mut batch, 8, b"");
        answer(&mut batch, 4, b"");
        assert_eq!(written(&mut batch).matches("PUB").count(), 1);
        answer(&mut batch, 5, b"");
        batch.take(Event::NoPublish(String::from_utf8(items.get(2).unwrap().token.clone()).unwrap()));
        let lost = PluginError::unavailable("NATS.LOST", "gone");
        let settled = batch.end(Some(&lost));
        let codes: Vec<String> = settled
            .iter()
            .map(|settled| match settled {
                Settled::Done => "done".to_owned(),
                Settled::Lost => "lost".to_owned(),
                Settled::Failed(fault) => fault.code.clone(),
            })
            .collect();
        assert_eq!(codes, ["done", "lost", "NATS.PERMISSIONS", "NATS.LOST"]);
    }

    #[test]
    fn the_last_of_a_run_of_acknowledgements_speaks_for_those_before_it_and_for_nothing_else() {
        let acks = (1..=5).map(|number| item(number, Disposition::Ack));
        let items: Vec<Settlement> = acks.chain([item(6, Disposition::Extend), item(7, Disposition::Ack)]).collect();
        // The last one isn't ours any more, so the one before it ends the last run.
        let ours = |token: &[u8]| token != items.last().unwrap().token;
        let mut batch = Batch::new(&items, ours, "_INBOX.x.".to_owned(), 5, 6);
        let text = written(&mut batch);
        let asked: Vec<u64> = (5..12).filter(|number| text.contains(&format!(" _INBOX.x.{number} "))).collect();
        assert_eq!(
            (asked, text.matches("PUB").count()),
            (vec![7, 9, 10], 6),
            "each third one, the last one, and what is no ack"
        );
        answer(&mut batch, 9, b"NATS/1.0 503\r\n\r\n");
        assert_eq!(batch.waiting, 4, "the second run is told, and nothing of the first");
        answer(&mut batch, 7, b"");
        answer(&mut batch, 10, b"");
        let expected =
            [Settled::Done, Settled::Done, Settled::Done, Settled::Lost, Settled::Lost, Settled::Done, Settled::Lost];
        assert_eq!((batch.waiting, batch.end(None)), (0, expected.to_vec()));
    }

    #[test]
    fn a_token_of_another_is_lost_and_never_written() {
        let odd = Settlement { token: b"$JS.API.STREAM.DELETE.X".to_vec(), disposition: Disposition::Ack };
        let items = [odd, item(1, Disposition::Ack)];
        let mut batch = Batch::new(&items, |token| !token.starts_with(b"$JS.ACK"), "_INBOX.x.".to_owned(), 0, 2);
        assert_eq!(written(&mut batch), "");
        assert_eq!((batch.waiting, batch.end(None)), (0, vec![Settled::Lost, Settled::Lost]));
    }
}
