//! The messages of a fake broker.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use waybill_core::port::source::{Disposition, Settled, SourceDelivery};

/// How a message stands at the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Waits,
    /// Delivered, and not settled.
    Out,
    Acknowledged,
    Rejected,
    /// Delivered as often as the broker delivers.
    GivenUp,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    pub standing: Standing,
    /// How often it was delivered.
    pub deliveries: u32,
    /// How often it was extended.
    pub extended: u32,
    /// How often it was given back.
    pub released: u32,
    /// How often it was acknowledged.
    pub acknowledged: u32,
}

struct Message {
    delivery: SourceDelivery,
    kept: Kept,
    /// Copies that wait although another one is out.
    repeats: u32,
}

struct Outstanding {
    number: usize,
    session: u64,
    until: Instant,
}

pub(super) struct Broker {
    pub settle_within: Duration,
    pub max_deliveries: Option<u32>,
    pub most_unsettled: usize,
    messages: Vec<Message>,
    out: BTreeMap<Bytes, Outstanding>,
    tokens: u64,
}

impl Default for Broker {
    fn default() -> Self {
        let settle_within = Duration::from_secs(30);
        let (messages, out) = (Vec::new(), BTreeMap::new());
        Self { settle_within, max_deliveries: None, most_unsettled: 0, messages, out, tokens: 0 }
    }
}

impl Broker {
    pub fn push(&mut self, delivery: SourceDelivery) -> usize {
        let number = self.messages.len();
        let kept = Kept { standing: Standing::Waits, deliveries: 0, extended: 0, released: 0, acknowledged: 0 };
        let position = delivery.position.clone().or_else(|| Some(format!("queue/{number}")));
        self.messages.push(Message { delivery: SourceDelivery { position, ..delivery }, kept, repeats: 0 });
        number
    }

    pub fn repeat(&mut self, number: usize) {
        if let Some(message) = self.messages.get_mut(number) {
            message.repeats += 1;
        }
    }

    pub fn give_up(&mut self, number: usize) {
        self.out.retain(|_, out| out.number != number);
        if let Some(message) = self.messages.get_mut(number) {
            message.kept.standing = Standing::GivenUp;
        }
    }

    /// What waits, what is left after it, and when the next delivery's time is over.
    pub fn pull(&mut self, session: u64, _lane: u32, max: usize) -> (Vec<SourceDelivery>, bool, Option<Instant>) {
        self.expire();
        let mut deliveries = Vec::new();
        for number in 0..self.messages.len() {
            if deliveries.len() >= max {
                break;
            }
            deliveries.extend(self.deliver(number, session));
        }
        let waits = |message: &Message| message.kept.standing == Standing::Waits || message.repeats > 0;
        let caught_up = !self.messages.iter().any(waits);
        self.most_unsettled = self.most_unsettled.max(self.out.len());
        (deliveries, caught_up, self.out.values().map(|out| out.until).min())
    }

    fn deliver(&mut self, number: usize, session: u64) -> Option<SourceDelivery> {
        let message = self.messages.get_mut(number)?;
        if message.kept.standing != Standing::Waits {
            message.repeats = message.repeats.checked_sub(1)?;
        } else if self.max_deliveries.is_some_and(|most| message.kept.deliveries >= most) {
            message.kept.standing = Standing::GivenUp;
            return None;
        }
        self.tokens += 1;
        let token = Bytes::from(format!("{session}-{}", self.tokens));
        message.kept.deliveries += 1;
        message.kept.standing = Standing::Out;
        let until = Instant::now() + self.settle_within;
        self.out.insert(token.clone(), Outstanding { number, session, until });
        let deliveries = message.kept.deliveries;
        Some(SourceDelivery {
            token,
            delivery_count: Some(deliveries),
            deliveries_left: self.max_deliveries.map(|most| most.saturating_sub(deliveries)),
            redelivered: deliveries > 1,
            settle_within: Some(self.settle_within),
            ..message.delivery.clone()
        })
    }

    /// What wasn't settled in time waits again.
    fn expire(&mut self) {
        let now = Instant::now();
        let over: Vec<Bytes> =
            self.out.iter().filter(|(_, out)| out.until <= now).map(|(token, _)| token.clone()).collect();
        over.iter().for_each(|token| self.wait_again(token));
    }

    fn wait_again(&mut self, token: &Bytes) {
        let Some(out) = self.out.remove(token) else { return };
        let is_out = self.out.values().any(|other| other.number == out.number);
        if let Some(message) = self.messages.get_mut(out.number)
            && message.kept.standing == Standing::Out
            && !is_out
        {
            message.kept.standing = Standing::Waits;
        }
    }

    /// A connection is gone, or all of them.
    pub fn give_back(&mut self, session: Option<u64>) {
        let gone = self.out.iter().filter(|(_, out)| session.is_none_or(|session| out.session == session));
        let gone: Vec<Bytes> = gone.map(|(token, _)| token.clone()).collect();
        gone.iter().for_each(|token| self.wait_again(token));
    }

    pub fn settle(&mut self, token: &Bytes, disposition: &Disposition) -> Settled {
        self.expire();
        let Some(number) = self.out.get(token).map(|out| out.number) else { return Settled::Lost };
        let until = Instant::now() + self.settle_within;
        match disposition {
            Disposition::Extend => {
                if let Some(out) = self.out.get_mut(token) {
                    out.until = until;
                }
            }
            Disposition::Release | Disposition::Nack(_) => self.wait_again(token),
            Disposition::Ack | Disposition::Reject(_) => {
                self.out.remove(token);
            }
        }
        if let Some(message) = self.messages.get_mut(number) {
            let kept = &mut message.kept;
            match disposition {
                Disposition::Ack => {
                    (kept.standing, kept.acknowledged) = (Standing::Acknowledged, kept.acknowledged + 1)
                }
                Disposition::Reject(_) => kept.standing = Standing::Rejected,
                Disposition::Extend => kept.extended += 1,
                Disposition::Release | Disposition::Nack(_) => kept.released += 1,
            }
        }
        Settled::Done
    }

    pub fn kept(&self, number: usize) -> Kept {
        let never = Kept { standing: Standing::Waits, deliveries: 0, extended: 0, released: 0, acknowledged: 0 };
        self.messages.get(number).map_or(never, |message| message.kept)
    }

    pub fn standings(&self) -> Vec<Standing> {
        self.messages.iter().map(|message| message.kept.standing).collect()
    }

    pub fn unsettled(&self) -> usize {
        self.out.len()
    }
}
