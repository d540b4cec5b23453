//! Dead letters of streams, and what relays never had. They are read from the store, so that those of other hosts are there too.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use waybill_core::ids::{RelayName, Tenant};
use waybill_core::outbox::decide::{Fate, Next, classify};
use waybill_core::outbox::filter::Filter;
use waybill_core::outbox::owner::Verdict;
use waybill_core::outbox::records::DeadState;
use waybill_core::port::query::Page;
use waybill_core::port::service::ServiceError;
use waybill_core::port::store::StoreError;
use waybill_core::port::transport::Fault;
use waybill_core::streams::dead::{OvertakenRange, StoredDead, StreamDeadPlace};
use waybill_core::streams::name::{StreamKey, StreamName};
use waybill_core::streams::records::StreamDead;
use waybill_core::time::UnixMillis;

use super::super::meter;
use super::super::relay::{lane_of, mapping_of};
use super::Streams;
use super::trail::{Asked, OperatorAct};
use crate::transport_call;

/// Dead letters read at once: each holds its event.
const DEAD_PAGE: usize = 100;
/// Ranges read at once.
const RANGES_PAGE: usize = 1_000;
/// No stream's name comes before it.
const FIRST_NAME: &str = "-";

impl Streams {
    /// A page of those that match. It may hold fewer than `limit` although more follow.
    pub async fn dead_page(
        &self,
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Arc<StoredDead>>, ServiceError> {
        let place = |text: &str| text.parse::<StreamDeadPlace>().map_err(|_| not_ours(text));
        let behind = cursor.map(place).transpose()?;
        let limit = limit.clamp(1, DEAD_PAGE);
        let mut items = self.store().stream_dead(behind, limit).await?;
        let is_more = items.len() == limit;
        let next_cursor = items.last().filter(|_| is_more).map(|letter| letter.place.to_string());
        items.retain(|letter| filter.takes_dead_event(letter));
        Ok(Page { items, next_cursor })
    }

    /// Calls `each` with every one that matches, of the first `most`. True = there are no others.
    pub async fn each_dead(
        &self,
        filter: &Filter,
        most: usize,
        mut each: impl FnMut(&StoredDead) + Send,
    ) -> Result<bool, ServiceError> {
        let (mut behind, mut left) = (None, most);
        loop {
            // One more than may be counted tells whether there are others.
            let limit = DEAD_PAGE.min(left.saturating_add(1));
            let page = self.store().stream_dead(behind, limit).await?;
            let counted = page.iter().take(left);
            counted.filter(|letter| filter.takes_dead_event(letter)).for_each(|letter| each(letter));
            if page.len() > left {
                return Ok(false);
            }
            if page.len() < limit {
                return Ok(true);
            }
            left -= page.len();
            behind = page.last().map(|letter| letter.place);
        }
    }

    /// The one that this names, if it is a place.
    pub async fn dead_letter(&self, id: &str) -> Result<Option<Arc<StoredDead>>, StoreError> {
        match id.parse::<StreamDeadPlace>() {
            Ok(place) => self.store().stream_dead_letter(place).await,
            Err(_) => Ok(None),
        }
    }

    /// Sends one through its relay, once and now, beside what the relay sends: its key went on without it. Acknowledged it is gone.
    pub async fn replay_dead(&self, letter: &StoredDead) -> Result<(), ServiceError> {
        let id = letter.place.to_string();
        let StreamDead::Relay { relay, stream, seq, packed, .. } = &letter.dead else {
            let fix = "it was never numbered, because its id belongs to another event: append it under another id, and purge it";
            return Err(ServiceError::DeadKind { id, fix });
        };
        let plan = self.plan_of(relay)?;
        let state = self.shared.relays.of(relay);
        if !state.is_running() {
            let state = state.state().word().to_owned();
            return Err(ServiceError::State { what: "relay", id: relay.to_string(), state, fix: "resume it first" });
        }
        let mapping = mapping_of(&plan, &self.shared);
        let mapping = mapping.ok_or_else(|| ServiceError::Unavailable(format!("relay {relay} has no usable topic")))?;
        let live = self.shared.context.live();
        let entry = live.find(&plan.transport).filter(|(number, _)| !live.is_paused(*number)).map(|(_, entry)| entry);
        let entry = entry.ok_or_else(|| {
            ServiceError::Unavailable(format!(
                "transport {} of relay {relay} is paused, or isn't there",
                plan.transport
            ))
        })?;
        let limits = entry.transport.limits();
        let fate = match mapping.delivery(stream, *seq, packed, 1, 0) {
            Err(error) => return Err(refused(id, &error.fault())),
            Ok(delivery) => {
                let number = lane_of(&delivery, limits.lanes);
                // Nobody closes it.
                let _turn = state.lane(number, limits.calls_per_lane).acquire_owned().await;
                let called = transport_call::call(entry, number, vec![delivery], entry.send_timeout, None).await;
                called.fates.into_iter().next()
            }
        };
        self.take_fate(relay, id, fate)?;
        self.store().remove_stream_dead(letter.place).await.map_err(ServiceError::OutcomeUnknown)?;
        metrics::counter!("tx_replay_total", "kind" => "event").increment(1);
        Ok(())
    }

    /// What the broker said of one that was sent again.
    fn take_fate(&self, relay: &RelayName, id: String, fate: Option<Fate>) -> Result<(), ServiceError> {
        let live = self.shared.context.live();
        let now = self.shared.context.clock.now().wall;
        let away = |fault: &Fault| {
            ServiceError::Unavailable(format!("the transport of relay {relay}: {}: {}", fault.code, fault.reason))
        };
        match fate.map(|fate| classify(fate, live.config.retries.retry_after_max, now)) {
            Some(Next::Verdict(Verdict::Ack(_))) => {
                meter::relayed(relay, "delivered");
                Ok(())
            }
            Some(Next::Failed { fault, .. }) => Err(refused(id, &fault)),
            Some(Next::TransportDown(fault) | Next::Verdict(Verdict::Blocked { fault, .. })) => Err(away(&fault)),
            _ => Err(ServiceError::Unavailable(format!("the transport of relay {relay} gave it back"))),
        }
    }

    /// The same with what was asked, and what came of it, in the audit trail.
    pub async fn replay_audited(
        &self,
        letter: &Arc<StoredDead>,
        reason: &str,
        actor: &str,
    ) -> Result<(), ServiceError> {
        let detail = json!({ "kind": "event", "reason": reason, "code": letter.why().code });
        let (this, letter) = (self.clone(), Arc::clone(letter));
        let asked = asked(OperatorAct::ReplayDead, &letter, actor, detail);
        self.audited(asked, async move { this.replay_dead(&letter).await }, |()| serde_json::Value::Null).await
    }

    /// Fences one off. False when there is none any more.
    pub async fn quarantine_dead(&self, place: StreamDeadPlace, note: &str) -> Result<bool, StoreError> {
        let state = DeadState::Quarantined { note: note.to_owned(), at: self.shared.context.clock.now().wall };
        self.store().mark_stream_dead(place, &state).await
    }

    /// The same with the audit trail.
    pub async fn quarantine_audited(&self, letter: &StoredDead, note: &str, actor: &str) -> Result<bool, ServiceError> {
        let detail = json!({ "kind": "event", "note": note });
        let (this, place, text) = (self.clone(), letter.place, note.to_owned());
        let work = async move { Ok(this.quarantine_dead(place, &text).await?) };
        let asked = asked(OperatorAct::QuarantineDead, letter, actor, detail);
        self.audited(asked, work, |is_there| json!({ "is_there": is_there })).await
    }

    /// Removes one for good. False when there is none any more.
    pub async fn purge_dead(&self, place: StreamDeadPlace) -> Result<bool, StoreError> {
        self.store().remove_stream_dead(place).await
    }

    /// Removes those that are older than `keep`, as every host may.
    pub async fn retire_dead(&self, keep: Duration) -> Result<(), ServiceError> {
        let keep = u64::try_from(keep.as_millis()).unwrap_or(u64::MAX);
        let before = UnixMillis(self.shared.context.clock.now().wall.0.saturating_sub(keep));
        let mut behind = None;
        loop {
            let page = self.store().stream_dead(behind, DEAD_PAGE).await?;
            for letter in page.iter().filter(|letter| letter.died_at < before) {
                self.store().remove_stream_dead(letter.place).await?;
            }
            behind = page.last().filter(|_| page.len() == DEAD_PAGE).map(|letter| letter.place);
            if behind.is_none() {
                return Ok(());
            }
        }
    }

    /// What retention took before a relay had it. A cursor is the tenant, the stream and the first number of the last one shown.
    pub(super) async fn overtaken_page(
        &self,
        name: &RelayName,
        tenant: Option<&Tenant>,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<OvertakenRange>, ServiceError> {
        self.plan_of(name)?;
        let is_shown = |stream: &StreamKey| tenant.is_none_or(|tenant| stream.tenant == *tenant);
        let place = |text: &str| place_of(text).filter(|(stream, _)| is_shown(stream)).ok_or_else(|| not_ours(text));
        let behind = match (cursor, tenant) {
            (Some(text), _) => Some(place(text)?),
            // Numbers begin with 1.
            (None, Some(tenant)) => Some((StreamKey { tenant: tenant.clone(), name: StreamName::new(FIRST_NAME)? }, 0)),
            (None, None) => None,
        };
        let behind = behind.as_ref().map(|(stream, from)| (stream, *from));
        let limit = limit.clamp(1, RANGES_PAGE);
        let mut items = self.store().overtaken(name, behind, limit).await?;
        // They come by tenant.
        items.retain(|range| is_shown(&range.stream));
        let last = items.last().filter(|_| items.len() == limit);
        let next_cursor = last.map(|range| format!("{}/{}/{}", range.from, range.stream.tenant, range.stream.name));
        Ok(Page { items, next_cursor })
    }
}

fn asked(act: OperatorAct, letter: &StoredDead, actor: &str, detail: serde_json::Value) -> Asked {
    let tenant = Some(letter.stream().tenant.clone());
    Asked { act, actor: actor.to_owned(), tenant, object: letter.place.to_string(), detail }
}

fn refused(id: String, fault: &Fault) -> ServiceError {
    let state = format!("dead: sent again it was refused with {}: {}", fault.code, fault.reason);
    ServiceError::State { what: "dead letter", id, state, fix: "mend its receiver first, or purge it" }
}

/// The stream and the number in a cursor of ranges.
fn place_of(text: &str) -> Option<(StreamKey, u64)> {
    let mut parts = text.splitn(3, '/');
    let from = parts.next()?.parse().ok()?;
    let tenant = Tenant::new(parts.next()?).ok()?;
    Some((StreamKey { tenant, name: StreamName::new(parts.next()?).ok()? }, from))
}

fn not_ours(text: &str) -> ServiceError {
    waybill_core::error::InputError::name("cursor", text, "isn't one of this list: begin again without it").into()
}
