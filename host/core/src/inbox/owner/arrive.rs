//! What a source delivered becomes messages of its consumers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::entry::{Entry, Stage};
use super::hand::{DeliveryId, SettleAs};
use super::{InboxOwner, Rule};
use crate::code::Code;
use crate::ids::{ConsumerName, SourceName};
use crate::inbox::fingerprint::{ContentDigest, Fingerprint};
use crate::inbox::limits::LAST_DELIVERIES;
use crate::inbox::message::InboundMessage;
use crate::inbox::settings::{ConsumerId, OnReusedId, SourceId};
use crate::port::transport::Fault;
use crate::time::Now;

/// One delivery, decoded and checked.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Names it at its source, in the session that brought it.
    pub token: Bytes,
    /// What is ordered and revoked together.
    pub group: Option<String>,
    /// Its source delivers again what isn't settled or extended in this time; none = the source's setting.
    pub settle_within: Option<Duration>,
    /// Deliveries that follow at most if this one isn't settled; none = no limit is known.
    pub deliveries_left: Option<u32>,
    /// It was delivered before.
    pub redelivered: bool,
    pub message: Arc<InboundMessage>,
    /// Neither its sender nor its source names it: its id is ours (`missing_id = "row"`).
    pub anonymous: bool,
    /// Who takes it, in order of the configuration.
    pub consumers: Vec<ConsumerId>,
    /// Why nobody may handle it: it becomes a dead letter. With no consumers and no reason, that is `INBOX.NO_CONSUMER`.
    pub refusal: Option<Fault>,
}

/// Who the dead letters of a source's refused messages belong to: no consumer of that name can be configured.
pub fn refused_consumer(source: &SourceName) -> Option<ConsumerName> {
    ConsumerName::new(format!("~{source}")).ok()
}

impl InboxOwner {
    /// Takes in what a source delivered, in order. `caught_up`: nothing more was waiting there.
    pub fn pulled(&mut self, source: SourceId, session: u64, arrivals: Vec<Arrival>, caught_up: bool, now: Now) {
        self.tick(now);
        if self.sources.session(source) != Some(session) {
            self.restarted(source, session);
        }
        self.sources.pulled(source, caught_up, now.mono);
        for arrival in arrivals {
            self.arrive(source, arrival, now);
        }
        // What this pull brought may be the last that was in hand then.
        self.end_unsure();
    }

    /// Every source has brought again what was in hand when the last owner ended.
    fn end_unsure(&mut self) {
        let sources = self.config.settings.sources.iter().enumerate();
        let mut all = sources.map(|(number, settings)| (u16::try_from(number).map(SourceId), settings));
        self.unsure &=
            !all.all(|(id, settings)| id.is_ok_and(|id| self.sources.has_waited(id, settings.orphan_wait())));
    }

    fn arrive(&mut self, source: SourceId, arrival: Arrival, now: Now) {
        let Some(settings) = self.config.settings.source(source) else { return };
        let (settle_within, rejects) = (arrival.settle_within.unwrap_or(settings.settle_within), settings.rejects);
        let position: Option<Arc<str>> = arrival.message.position.as_deref().map(Arc::from);
        // A newer delivery of what lies at one position: the older one's token is of no use any more.
        if let Some(old) = position.as_ref().and_then(|position| self.hand.at(source, position)) {
            self.lose_delivery(old);
        }
        if let Some(position) = &position {
            self.positions.came(source, position);
        }
        let group = arrival.group.as_deref().map(Arc::from);
        let until = now.mono + settle_within;
        let delivery = self.hand.take(source, arrival.token.clone(), position, group, settle_within, until);
        self.hand.weigh(delivery, arrival.message.payload.len());
        match &arrival.refusal {
            Some(fault) if rejects && fault.code == Code::INBOX_PAYLOAD_TOO_LARGE.as_str() => {
                self.hand.settle(delivery, SettleAs::Reject(fault.clone()));
                return;
            }
            _ => {}
        }
        let digest = self.record.secret.of_content(&arrival.message.payload);
        if arrival.refusal.is_some() || arrival.consumers.is_empty() {
            let no_consumer = || Fault::new(Code::INBOX_NO_CONSUMER, "no consumer of the source takes its subject");
            let fault = arrival.refusal.clone().unwrap_or_else(no_consumer);
            if let Some(name) = refused_consumer(&arrival.message.source) {
                self.arrive_at(source, delivery, &arrival, None, name, digest, Some(fault));
            }
            return;
        }
        // All of them before the first can be done with it.
        for consumer in arrival.consumers.clone() {
            if let Some(name) = self.config.settings.consumer(consumer).map(|settings| settings.name.clone()) {
                self.arrive_at(source, delivery, &arrival, Some(consumer), name, digest, None);
            }
        }
        self.join_released(delivery);
    }

    #[expect(clippy::too_many_arguments, reason = "one delivery at one consumer")]
    fn arrive_at(
        &mut self,
        source: SourceId,
        delivery: DeliveryId,
        arrival: &Arrival,
        consumer: Option<ConsumerId>,
        name: ConsumerName,
        digest: ContentDigest,
        refusal: Option<Fault>,
    ) {
        let message = &arrival.message;
        let fingerprint = self.fingerprint_of(consumer, &name, message, digest);
        let known = self.entries.seq_of(fingerprint);
        let Some(seq) = known else {
            let seq = self.next_seq();
            let mut entry = Entry::new(seq, fingerprint, digest, Arc::clone(message));
            let key = message.key.as_ref().filter(|_| refusal.is_none());
            entry.order = key.map(|key| self.record.secret.of_key(&name, &message.tenant, key));
            (entry.source, entry.consumer, entry.consumer_name) = (Some(source), consumer, Some(name));
            (entry.refusal, entry.anonymous) = (refusal, arrival.anonymous);
            entry.maybe_handled = self.touched.came(fingerprint) || self.unsure;
            self.entries.insert(entry);
            return self.join(seq, delivery, arrival);
        };
        let Some(entry) = self.entries.get(seq) else { return };
        if entry.is_orphan() {
            let order = entry.order;
            let is_committing = matches!(entry.stage, Stage::Committing(_));
            let message = Arc::clone(message);
            self.orphans.remove(&seq);
            self.decided.remove(&seq);
            self.entries.fill(seq, |entry| {
                (entry.source, entry.consumer, entry.consumer_name) = (Some(source), consumer, Some(name));
                (entry.digest, entry.refusal) = (digest, refusal);
                entry.context = Arc::from(message.context.as_str());
                entry.received_at = message.received_at;
                entry.order = order;
                entry.message = Some(message);
                if !is_committing {
                    entry.stage = Stage::LookUp;
                }
            });
            return self.join(seq, delivery, arrival);
        }
        if entry.digest != digest && self.is_reuse(consumer) {
            return self.arrive_reused(source, delivery, arrival, consumer, name, digest);
        }
        self.join(seq, delivery, arrival);
    }

    /// What a message goes by in memory. A consumer without a seen set handles every delivery, so while one is in hand another content
    /// under its id is one more message.
    fn fingerprint_of(
        &self,
        consumer: Option<ConsumerId>,
        name: &ConsumerName,
        message: &InboundMessage,
        digest: ContentDigest,
    ) -> Fingerprint {
        let by_id = self.record.secret.of_id(name, &message.id);
        let settings = consumer.and_then(|consumer| self.config.settings.consumer(consumer));
        if settings.is_none_or(|settings| settings.idempotent) {
            return by_id;
        }
        let with_content = self.record.secret.of_reused(name, &message.id, digest);
        let is_known = self.entries.seq_of(with_content).is_some();
        let other = self.entries.seq_of(by_id).and_then(|seq| self.entries.get(seq));
        let is_other = other.is_some_and(|other| !other.is_orphan() && other.digest != digest);
        if is_known || is_other { with_content } else { by_id }
    }

    /// Whether another content under a known id is another message.
    pub(super) fn is_reuse(&self, consumer: Option<ConsumerId>) -> bool {
        let settings = consumer.and_then(|consumer| self.config.settings.consumer(consumer));
        let is_duplicate = settings.is_some_and(|settings| settings.on_reused_id == OnReusedId::Duplicate);
        self.is_rule_kept(Rule::CheckContent) && !is_duplicate
    }

    /// An id that was used for something else: a message of its own that nobody handles, under id and content.
    fn arrive_reused(
        &mut self,
        source: SourceId,
        delivery: DeliveryId,
        arrival: &Arrival,
        consumer: Option<ConsumerId>,
        name: ConsumerName,
        digest: ContentDigest,
    ) {
        let seq = self.reused_entry(source, consumer, name, digest, &arrival.message);
        self.join(seq, delivery, arrival);
    }

    /// The message that stands for an id with another content; made if it isn't there.
    pub(super) fn reused_entry(
        &mut self,
        source: SourceId,
        consumer: Option<ConsumerId>,
        name: ConsumerName,
        digest: ContentDigest,
        message: &Arc<InboundMessage>,
    ) -> crate::ids::Seq {
        let fingerprint = self.record.secret.of_reused(&name, &message.id, digest);
        if let Some(seq) = self.entries.seq_of(fingerprint) {
            return seq;
        }
        let seq = self.next_seq();
        let mut entry = Entry::new(seq, fingerprint, digest, Arc::clone(message));
        (entry.source, entry.consumer, entry.consumer_name) = (Some(source), consumer, Some(name));
        let reason = "the same id was used before for another payload";
        entry.refusal = Some(Fault::new(Code::INBOX_ID_REUSED, reason));
        entry.reused = true;
        self.entries.insert(entry);
        self.consider(seq);
        seq
    }

    /// A delivery of a message that is in memory.
    fn join(&mut self, seq: crate::ids::Seq, delivery: DeliveryId, arrival: &Arrival) {
        let keeps_others = self.is_rule_kept(Rule::KeepOtherCopies);
        let Some(entry) = self.entries.get_mut(seq) else { return };
        if !keeps_others {
            entry.copies.clear();
        }
        if !entry.copies.contains(&delivery) {
            entry.copies.push(delivery);
        }
        entry.withdrawn = false;
        entry.maybe_handled |= arrival.redelivered;
        entry.store_first |= arrival.anonymous || arrival.deliveries_left.is_some_and(|left| left <= LAST_DELIVERIES);
        self.hand.wait_for(delivery, seq);
        self.consider(seq);
    }

    /// A row was read whose deliveries waited to see that it can be.
    pub(super) fn settle_released(&mut self, seq: crate::ids::Seq) {
        let copies = self.entries.get(seq).filter(|entry| entry.releasable).map(|entry| entry.copies.clone());
        self.done_with_copies(seq, &copies.unwrap_or_default());
    }

    /// A delivery has been joined to all its messages: of those that are stored and released it waits no longer. A row that has still to
    /// be read may turn out to be unreadable, and then the delivery is the only copy: it waits, if there is memory to read the row now.
    fn join_released(&mut self, delivery: DeliveryId) {
        let joins = self.is_rule_kept(Rule::CopiesJoin);
        let open = self.hand.get(delivery).map(|held| held.open.clone()).unwrap_or_default();
        let reads = !self.entries.is_row_memory_full();
        for seq in open {
            let is_done = self.entries.get(seq).is_some_and(|entry| {
                let is_read = entry.message.is_some() || !reads;
                entry.is_row() && entry.releasable && is_read || !joins && entry.copies.len() > 1 && !entry.is_orphan()
            });
            if is_done {
                self.done_with(delivery, seq);
                self.consider(seq);
            }
        }
    }
}
