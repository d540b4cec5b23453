//! What enters the order in the next commit: due scheduled messages, the doorstep, direct requests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::super::Rule;
use super::super::next_commit::{ExistingId, PassEnd};
use super::room::Part;
use super::{CommitBuilder, Entering};
use crate::annotation::Annotation;
use crate::code::Code;
use crate::ids::{MessageId, Place, Seq, ShardId, Tenant, host_made_id};
use crate::limits::{INLINE_PAYLOAD_BYTES_MAX, SEGMENT_BYTES_MAX, SEGMENT_MESSAGES_MAX};
use crate::message::{Message, Payload};
use crate::outbox::records::{
    DeadLetter, DeadState, DoorKey, DoorRow, Entry, IdOrigin, IdRecord, IdState, Malformed, OpenSegment, Scheduled,
    Segment, blob_name, content_digest,
};
use crate::outbox::weight;
use crate::port::store::Write;
use crate::time::Monotonic;
use crate::topic::Topic;

impl CommitBuilder<'_> {
    pub(super) fn sequence(&mut self) {
        if self.owner.releasing {
            return;
        }
        let mut due = self.owner.next.schedule.take_due().into_iter();
        for scheduled in due.by_ref() {
            self.bytes += scheduled.message.weight() + weight::ROW_BYTES;
            self.put(Write::DeleteScheduled { due: scheduled.due, id: scheduled.message.id.clone() });
            let source = Entering::Ready { message: Arc::clone(&scheduled.message), new_id: false };
            self.enter(&scheduled.message.tenant, source);
            self.flight.scheduled_taken.push(scheduled);
            if self.is_full(Part::Entering) {
                break;
            }
        }
        self.owner.next.schedule.put_back(due.collect());
        let direct_after_pass = self.owner.is_rule_kept(Rule::DirectAfterPass);
        if !direct_after_pass {
            self.directs(Monotonic(Duration::MAX));
        }
        let Some((mut pass, page)) = self.owner.next.doorstep.begin_page() else { return };
        let mut existing = page.existing.into_iter();
        let mut seen = BTreeMap::new();
        let mut complete = page.complete;
        for (index, row) in page.rows.into_iter().enumerate() {
            if index > 0 && self.is_full(Part::Entering) {
                // The rest is read again by the next page.
                complete = false;
                break;
            }
            pass.after = Some(row.key.clone());
            self.put(Write::DeleteDoor(row.key.clone()));
            self.door_row(row, &mut existing, &mut seen);
        }
        let began = pass.began;
        let until_nanos = pass.until_nanos;
        self.flight.page_end = Some(if complete { PassEnd::Over { until_nanos } } else { PassEnd::GoesOn(pass) });
        if complete && direct_after_pass {
            let until = if self.owner.is_rule_kept(Rule::DirectBeforePass) { began } else { Monotonic(Duration::MAX) };
            self.directs(until);
        }
    }

    pub(super) fn door_row(
        &mut self,
        row: DoorRow,
        existing: &mut impl Iterator<Item = Option<ExistingId>>,
        seen: &mut BTreeMap<(Tenant, MessageId), [u8; 32]>,
    ) {
        let messages = match row.content {
            Ok(messages) => messages,
            Err(malformed) => return self.malformed(&row.key, &malformed),
        };
        for (ordinal, message) in messages.into_iter().enumerate() {
            let found = existing.next().flatten();
            let caller_id = message.caller_id.then_some(&message.id);
            let shard = ShardId::of(
                &message.tenant,
                message.key.as_ref(),
                caller_id,
                u64::from(self.owner.config.shard.0),
                self.owner.config.shards,
            );
            if shard != self.owner.config.shard && self.owner.is_rule_kept(Rule::CarryStrays) {
                let mut key = row.key.clone();
                key.ulid = format!("{}-{ordinal}", key.ulid);
                self.put(Write::ForwardDoor { shard, key, messages: vec![message] });
                continue;
            }
            self.bytes += weight::of_entering(&message, true);
            if self.is_repeat(&message, found, seen) {
                continue;
            }
            if message.not_before.is_some_and(|due| due > self.now.wall) {
                self.schedule(message);
            } else {
                let tenant = message.tenant.clone();
                self.enter(&tenant, Entering::Ready { message, new_id: true });
            }
        }
    }

    /// Whether a doorstep message's id is taken, by an earlier commit or earlier in this page. A repeat of the same message
    /// is dropped; another message is dealt with as a conflict.
    fn is_repeat(
        &mut self,
        message: &Arc<Message>,
        found: Option<ExistingId>,
        seen: &mut BTreeMap<(Tenant, MessageId), [u8; 32]>,
    ) -> bool {
        let is_same = match found {
            Some(existing) => existing.same,
            None if !message.caller_id => return false,
            None => {
                let content = content_digest(message);
                let identity = (message.tenant.clone(), message.id.clone());
                match seen.get(&identity) {
                    Some(earlier) => *earlier == content,
                    None => {
                        self.new_ids.insert(identity.clone());
                        seen.insert(identity, content);
                        return false;
                    }
                }
            }
        };
        if !is_same {
            self.conflicting(Arc::clone(message));
        }
        true
    }

    /// A doorstep message whose id belongs to another message: committed with its business write, so it may not vanish.
    pub(super) fn conflicting(&mut self, message: Arc<Message>) {
        let reason = format!("id {} of tenant {} belongs to a different message", message.id, message.tenant);
        let place = self.take_place();
        let dead = DeadLetter {
            place,
            message: self.stored(message, place),
            code: Code::STORAGE_CONFLICT.into(),
            reason,
            attempts: 0,
            suspect: 0,
            died_at: self.now.wall,
            state: DeadState::Dead,
            holds_key: false,
            history: Vec::new(),
        };
        self.dies(Arc::new(dead));
    }

    pub(super) fn malformed(&mut self, key: &DoorKey, malformed: &Malformed) {
        if !self.owner.is_rule_kept(Rule::QuarantineUnreadable) {
            return;
        }
        let place = self.take_place();
        let (Ok(topic), Ok(tenant)) = (Topic::parse("custom:malformed-door-row"), Tenant::new("default")) else {
            return;
        };
        let now = self.now.wall;
        self.bytes += malformed.raw.len();
        let message = Message {
            id: host_made_id(place),
            caller_id: false,
            tenant,
            topic,
            key: None,
            headers: vec![("door-row".to_owned(), format!("{}-{}-{}", key.nanos, key.ordinal, key.ulid))],
            payload: Payload::Inline(Bytes::from(malformed.raw.clone())),
            event_type: "malformed-door-row".to_owned(),
            event_version: 1,
            annotations: [(Annotation::ContentType, "application/json")].into(),
            occurred_at: now,
            created_at: now,
            not_before: None,
            expires_at: None,
            statements: None,
            replays: 0,
            replayed_by: None,
        };
        let dead = DeadLetter {
            place,
            message: self.stored(Arc::new(message), place),
            code: Code::OUTBOX_MALFORMED.into(),
            reason: malformed.reason.clone(),
            attempts: 0,
            suspect: 0,
            died_at: now,
            state: DeadState::Dead,
            holds_key: false,
            history: Vec::new(),
        };
        self.dies(Arc::new(dead));
    }

    pub(super) fn directs(&mut self, until: Monotonic) {
        let mut taken = 0;
        while let Some(direct) = self.owner.next.requests.front() {
            let fits = self.bytes + direct.bytes <= self.owner.next.bytes.get();
            let full = !fits && (taken > 0 || self.is_full(Part::Request));
            // An id that enters with a doorstep message in this commit: the request is looked up again after it.
            let id_enters = !self.new_ids.is_empty()
                && direct.request.messages.iter().any(|draft| {
                    draft.message.caller_id
                        && self.new_ids.contains(&(draft.message.tenant.clone(), draft.message.id.clone()))
                });
            if direct.request.arrived > until || full || id_enters {
                break;
            }
            let Some(direct) = self.owner.next.requests.take_front() else { break };
            taken += 1;
            let at = self.flight.directs.len();
            let placeholder: Vec<MessageId> =
                direct.request.messages.iter().map(|draft| draft.message.id.clone()).collect();
            for (index, draft) in direct.request.messages.iter().enumerate() {
                if draft.message.not_before.is_some_and(|due| due > self.now.wall) {
                    continue;
                }
                self.enter(&draft.message.tenant, Entering::Direct { slot: (at, index) });
            }
            self.bytes += direct.bytes;
            self.flight.directs.push((direct, placeholder));
            self.schedule_direct(at);
        }
    }

    pub(super) fn schedule_direct(&mut self, at: usize) {
        let now = self.now.wall;
        let later: Vec<usize> = match self.flight.directs.get(at) {
            Some((direct, _)) => {
                let drafts = direct.request.messages.iter().enumerate();
                drafts
                    .filter(|(_, draft)| draft.message.not_before.is_some_and(|due| due > now))
                    .map(|(index, _)| index)
                    .collect()
            }
            None => return,
        };
        for index in later {
            let place = self.take_place();
            if let Some(message) = self.name_direct((at, index), place) {
                self.schedule(message);
            }
        }
    }

    /// The message of a direct request, with its id.
    fn name_direct(&mut self, (request, index): (usize, usize), place: Place) -> Option<Arc<Message>> {
        let (direct, ids) = self.flight.directs.get_mut(request)?;
        let message = direct.request.messages.get_mut(index)?.name(|| host_made_id(place));
        if let Some(id) = ids.get_mut(index) {
            *id = message.id.clone();
        }
        Some(message)
    }

    pub(super) fn schedule(&mut self, message: Arc<Message>) {
        let Some(due) = message.not_before else { return };
        let place = self.take_place();
        let message = self.stored(message, place);
        let scheduled = Arc::new(Scheduled { shard: self.owner.config.shard, due, message });
        self.put_id(&scheduled.message, IdState::Scheduled { shard: scheduled.shard, due }, true);
        self.begins(&scheduled.message);
        self.writes.push(Write::PutScheduled(Arc::clone(&scheduled)));
        self.flight.scheduled_new.push(scheduled);
    }

    pub(super) fn put_id(&mut self, message: &Message, state: IdState, create: bool) {
        let content = message.caller_id.then(|| content_digest(message));
        let origin = match &message.statements {
            Some(statements) => IdOrigin::Transaction(**statements),
            // Of a row that is written over the message may be of a version that didn't keep it.
            None if create && message.caller_id => IdOrigin::Alone,
            None => IdOrigin::Unknown,
        };
        let record = IdRecord { tenant: message.tenant.clone(), id: message.id.clone(), state, content, origin };
        self.writes.push(Write::PutId { record: Arc::new(record), create });
    }

    pub(super) fn enter(&mut self, tenant: &Tenant, source: Entering) {
        self.entering.entry(tenant.clone()).or_default().push(source);
    }

    pub(super) fn next_seq(&self) -> Seq {
        Seq((self.record.last.0.saturating_add(1)).max(self.now.wall.0 << 20))
    }

    /// A place of its own, for a message that isn't in a segment.
    pub(super) fn take_place(&mut self) -> Place {
        let seq = self.next_seq();
        self.record.last = seq;
        Place { shard: self.owner.config.shard, segment: seq, index: 0 }
    }

    /// The message with a large payload moved to a blob.
    pub(super) fn stored(&mut self, message: Arc<Message>, place: Place) -> Arc<Message> {
        let Payload::Inline(bytes) = &message.payload else { return message };
        if bytes.len() <= INLINE_PAYLOAD_BYTES_MAX {
            return message;
        }
        let blob = blob_name(place, bytes);
        self.writes.push(Write::PutBlob { blob: blob.clone(), bytes: bytes.clone() });
        let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        Arc::new(Message { payload: Payload::Blob { blob, bytes: size }, ..(*message).clone() })
    }

    pub(super) fn write_segments(&mut self) {
        // A segment has to fit into a commit that rewrites it.
        let bytes_max = SEGMENT_BYTES_MAX.min(self.owner.next.bytes.get() / 8);
        for (tenant, entering) in std::mem::take(&mut self.entering) {
            let mut first = self.next_seq();
            let mut entries: Vec<Entry> = Vec::new();
            let mut bytes = 0;
            for source in entering {
                if !entries.is_empty() && (entries.len() >= SEGMENT_MESSAGES_MAX || bytes >= bytes_max) {
                    self.write_segment(&tenant, first, std::mem::take(&mut entries));
                    first = self.next_seq();
                    bytes = 0;
                }
                let index = u16::try_from(entries.len()).unwrap_or(u16::MAX);
                let place = Place { shard: self.owner.config.shard, segment: first, index };
                // One that was scheduled has begun then.
                let begins = !matches!(source, Entering::Ready { new_id: false, .. });
                let Some(message) = self.place_message(source, place) else { continue };
                if begins {
                    self.begins(&message);
                }
                bytes += message.weight();
                entries.push(Entry { index, message });
            }
            self.write_segment(&tenant, first, entries);
        }
    }

    pub(super) fn place_message(&mut self, source: Entering, place: Place) -> Option<Arc<Message>> {
        Some(match source {
            Entering::Ready { message, new_id } => {
                let message = self.stored(message, place);
                self.put_id(&message, IdState::At(place), new_id);
                message
            }
            Entering::Direct { slot } => {
                let message = self.name_direct(slot, place)?;
                let message = self.stored(message, place);
                if message.caller_id {
                    self.put_id(&message, IdState::At(place), true);
                }
                message
            }
        })
    }

    pub(super) fn write_segment(&mut self, tenant: &Tenant, first: Seq, entries: Vec<Entry>) {
        let Some(last) = entries.last() else { return };
        self.record.last = first.plus(usize::from(last.index));
        let segment = Arc::new(Segment { first, tenant: tenant.clone(), entries });
        self.writes.push(Write::PutSegment(Arc::clone(&segment)));
        // Straight to memory, and claimed at once, when nothing of the tenant lies before it unread and there is room.
        let caught_up = self.owner.window.caught_up(tenant)
            && !self.flight.new_segments.iter().any(|(other, loaded)| other.tenant == *tenant && !loaded);
        let loading = self.loading.entry(tenant.clone()).or_default();
        let load = caught_up && self.owner.window.room(tenant) >= *loading + segment.entries.len();
        if load {
            *loading += segment.entries.len();
        }
        let mine = self.open_by_tenant.entry(tenant.clone()).or_default();
        // Those that wait for a claim go first.
        let open = self.record.open.len() + self.owner.scheduler.claims().segments();
        let wants_claim = self.owner.config.routing.external.is_none()
            || segment
                .entries
                .iter()
                .any(|entry| !self.owner.is_outside(self.owner.transport_of(&entry.message.topic)));
        if load && wants_claim && open < self.owner.config.limits.open_segments && *mine < self.owner.open_share() {
            *mine += 1;
            self.record.open.insert(first, OpenSegment::default());
        }
        self.flight.new_segments.push((segment, load));
    }
}
