//! Messages: found, listed, cancelled, moved to another instant.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use tokio::time::Instant;
use waybill_api::facets::FacetsView;
use waybill_api::messages::{MessageService, MessageView, WaitingView};
use waybill_api::neighbours::NeighboursView;
use waybill_core::glob::Glob;
use waybill_core::ids::{MessageId, Place, Tenant, place_of};
use waybill_core::outbox::filter::Filter;
use waybill_core::outbox::owner::WaitKind;
use waybill_core::outbox::records::{Done, IdState};
use waybill_core::port::missing::Missing;
use waybill_core::port::query::{Found, ListKind, ListOrder, Page};
use waybill_core::port::service::{MessageState, ServiceError};
use waybill_core::time::UnixMillis;

use super::views::message_of;
use super::{Outbox, because};
use crate::shard::{OperatorCommand, OwnerQuery, ShardHandle};

/// A search for a message waits this long at most for the doorsteps to be taken in.
const TAKE_IN_TIMEOUT: Duration = Duration::from_secs(2);
/// Messages of one page when they are only counted.
const COUNT_PAGE: usize = 1_000;
/// Pages of one count: past them it is a lower bound, for nothing starts before it is counted.
const COUNT_PAGES_MAX: usize = 100;

#[async_trait]
impl MessageService for Outbox {
    async fn message(&self, tenant: &Tenant, id: &str) -> Result<MessageView, ServiceError> {
        let found =
            self.find(tenant, id).await?.ok_or(ServiceError::NotFound { what: Missing::Message, id: id.to_owned() })?;
        self.full_view(&found).await
    }

    async fn messages(
        &self,
        tenant: Option<&Tenant>,
        filter: &str,
        order: ListOrder,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<MessageView>, ServiceError> {
        match self.filter(tenant, filter)? {
            Some(filter) => self.message_page(&filter, order, cursor, limit).await,
            None => Ok(Page { items: Vec::new(), next_cursor: None }),
        }
    }

    async fn neighbours(&self, tenant: &Tenant, id: &str) -> Result<NeighboursView, ServiceError> {
        self.neighbours_of(tenant, id).await
    }

    async fn facets(&self, tenant: Option<&Tenant>, filter: &str) -> Result<FacetsView, ServiceError> {
        match self.filter(tenant, filter)? {
            Some(filter) => self.facets_of(&filter).await,
            None => Ok(FacetsView::default()),
        }
    }

    async fn waiting_messages(
        &self,
        tenant: Option<&Tenant>,
        filter: &str,
        moved_to: Option<UnixMillis>,
        sample: usize,
    ) -> Result<WaitingView, ServiceError> {
        let Some(filter) = self.filter(tenant, filter)? else { return Ok(WaitingView::default()) };
        let waiting = Waiting::new(filter, moved_to);
        let (mut found, mut cursor, mut last) = (WaitingView::default(), None, self.context.clock.now().wall);
        for _ in 0..COUNT_PAGES_MAX {
            let page = waiting.page(self, cursor.as_deref(), COUNT_PAGE).await?;
            found.matched += page.items.len() as u64;
            last = page.items.last().map_or(last, |message| message.created_at.0);
            let room = sample.saturating_sub(found.sample.len());
            found.sample.extend(page.items.into_iter().take(room));
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(found);
            }
        }
        Ok(WaitingView { counted_since: Some(last), ..found })
    }

    async fn cancel(&self, tenant: &Tenant, id: &str, reason: &str, actor: &str) -> Result<MessageView, ServiceError> {
        let found =
            self.find(tenant, id).await?.ok_or(ServiceError::NotFound { what: Missing::Message, id: id.to_owned() })?;
        let (shard, command) = match &found {
            Found::Flowing { place, .. } => (place.shard, OperatorCommand::Cancel { place: *place }),
            Found::Parked(parked) => (parked.place.shard, OperatorCommand::Cancel { place: parked.place }),
            Found::Scheduled(scheduled) => (
                scheduled.shard,
                OperatorCommand::CancelScheduled { due: scheduled.due, id: scheduled.message.id.clone() },
            ),
            Found::Dead(_) => {
                return Err(self.wrong_state(&found, "quarantine or purge the dead letter instead").await);
            }
            Found::Done(..) => return Err(self.wrong_state(&found, "it is finished: nothing is left to cancel").await),
        };
        let event = self.event("MessageCancelled", actor, Some(tenant.as_str()), id, because(reason, json!({})));
        self.audited_act(shard, command, event).await.map_err(|error| named(error, id))?;
        self.message(tenant, id).await
    }

    async fn reschedule(
        &self,
        tenant: &Tenant,
        id: &str,
        due: UnixMillis,
        reason: &str,
        actor: &str,
    ) -> Result<MessageView, ServiceError> {
        let found =
            self.find(tenant, id).await?.ok_or(ServiceError::NotFound { what: Missing::Message, id: id.to_owned() })?;
        let (shard, command) = match &found {
            Found::Parked(parked) => {
                (parked.place.shard, OperatorCommand::RescheduleParked { place: parked.place, due })
            }
            Found::Scheduled(scheduled) => (
                scheduled.shard,
                OperatorCommand::Reschedule { old: scheduled.due, id: scheduled.message.id.clone(), due },
            ),
            _ => {
                let fix = "only messages that wait for a retry or for their time can be moved";
                return Err(self.wrong_state(&found, fix).await);
            }
        };
        let detail = because(reason, json!({ "not_before": due.0 }));
        let event = self.event("MessageRescheduled", actor, Some(tenant.as_str()), id, detail);
        self.audited_act(shard, command, event).await.map_err(|error| named(error, id))?;
        self.message(tenant, id).await
    }
}

impl Outbox {
    /// A page of what matches. By state: what waits for a retry, what is in the order, what is scheduled, what is finished, each part
    /// oldest first. Newest first: what is scheduled, then all the rest. The cursor says in which part it is.
    pub(super) async fn message_page(
        &self,
        filter: &Filter,
        order: ListOrder,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<MessageView>, ServiceError> {
        let parts = parts(filter, order);
        let (mut at, mut inner) = match cursor.and_then(|cursor| cursor.split_once('.')) {
            Some((name, rest)) => (
                parts.iter().position(|part| part.name == name).unwrap_or(0),
                Some(rest.to_owned()).filter(|rest| !rest.is_empty()),
            ),
            None => (0, None),
        };
        let mut items = Vec::new();
        while let Some(Part { name, kinds }) = parts.get(at) {
            let room = limit.saturating_sub(items.len());
            let page = self.part_page(filter, order, kinds, inner.as_deref(), room).await?;
            items.extend(page.items);
            if let Some(next) = page.next_cursor {
                return Ok(Page { items, next_cursor: Some(format!("{name}.{next}")) });
            }
            at += 1;
            inner = None;
            if items.len() >= limit {
                break;
            }
        }
        let next_cursor = parts.get(at).map(|part| format!("{}.", part.name));
        Ok(Page { items, next_cursor })
    }

    /// A page of one part of the list: one bounded look into the store, and what the owners know of what was found.
    pub(super) async fn part_page(
        &self,
        filter: &Filter,
        order: ListOrder,
        kinds: &[ListKind],
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<MessageView>, ServiceError> {
        let waits = kinds.iter().any(|kind| matches!(kind, ListKind::Flowing | ListKind::Parked));
        // Of what waits only the owner knows whether it is being sent; the store knows what is claimed.
        let stored = if waits { Filter { state: None, ..filter.clone() } } else { filter.clone() };
        let query = &self.context.stores.query;
        let page = match (order, kinds) {
            (ListOrder::State, [kind]) => query.list(*kind, &stored, cursor, limit).await?,
            (_, kinds) => query.newest(kinds, &stored, cursor, limit).await?,
        };
        let wanted = |view: &MessageView| {
            filter.state.as_ref().is_none_or(|state| state_matches(state, view.state))
                && filter
                    .waits
                    .as_ref()
                    .is_none_or(|waits| view.waiting.as_ref().is_some_and(|waiting| waits.matches(waiting.on.as_str())))
        };
        let mut views: Vec<MessageView> = page.items.iter().map(|found| self.view(found)).collect();
        if waits {
            self.ask_owners(&mut views).await;
        }
        views.retain(wanted);
        Ok(Page { items: views, next_cursor: page.next_cursor })
    }

    /// Where a message stands now.
    pub(super) async fn find(&self, tenant: &Tenant, id: &str) -> Result<Option<Found>, ServiceError> {
        let Ok(id) = MessageId::new(id) else { return Ok(None) };
        if let Some(found) = self.find_once(tenant, &id).await? {
            return Ok(Some(found));
        }
        // It may lie on a doorstep: an id is indexed when its shard's owner has taken it in. Or it was on its way from one
        // place to another.
        let taken_in = futures::future::join_all(self.shards.iter().map(ShardHandle::take_in_door));
        let all_here = tokio::time::timeout(TAKE_IN_TIMEOUT, taken_in)
            .await
            .is_ok_and(|taken_in| taken_in.iter().all(|here| *here));
        if let Some(found) = self.find_once(tenant, &id).await? {
            return Ok(Some(found));
        }
        if all_here {
            return Ok(None);
        }
        // Another host's owner looks at its doorstep when it polls; a shard that was given back has an owner again after the next
        // look of a rival.
        let config = &self.context.config;
        let until = Instant::now() + config.poll_interval + config.rival_interval();
        loop {
            tokio::time::sleep(config.poll_interval).await;
            let found = self.find_once(tenant, &id).await?;
            if found.is_some() || Instant::now() >= until {
                return Ok(found);
            }
        }
    }

    async fn find_once(&self, tenant: &Tenant, id: &MessageId) -> Result<Option<Found>, ServiceError> {
        let query = &self.context.stores.query;
        let indexed = query.id(tenant, id).await?;
        let place = match indexed.map(|record| record.state) {
            Some(IdState::Scheduled { shard, due }) => {
                return Ok(query.scheduled(shard, due, id).await?.map(Found::Scheduled));
            }
            Some(IdState::At(place)) => place,
            None => match place_of(id.as_str()) {
                Some(place) => place,
                None => return Ok(None),
            },
        };
        let found = match query.at(place).await? {
            Some(found) => Some(found),
            // Delivered, and its receipt is still in its owner's memory; or it has just been written down.
            None => match self.in_memory(place).await {
                Some(done) => Some(Found::Done(place, done)),
                None => query.at(place).await?,
            },
        };
        Ok(found.filter(|found| message_of(found).tenant == *tenant && message_of(found).id == *id))
    }

    async fn in_memory(&self, place: Place) -> Option<Done> {
        let shard = self.shards.get(usize::from(place.shard.0))?;
        shard.query(|reply| OwnerQuery::Delivered { place, reply }).await.flatten()
    }
}

/// Puts the asked id into an error that doesn't know it.
pub(super) fn named(error: ServiceError, id: &str) -> ServiceError {
    match error {
        ServiceError::State { what, state, fix, .. } => ServiceError::State { what, id: id.to_owned(), state, fix },
        other => other,
    }
}

/// Messages that wait, as bulk acts take them.
pub(super) struct Waiting {
    filter: Filter,
    /// Where they are moved; none = they are taken back.
    pub moved_to: Option<UnixMillis>,
}

impl Waiting {
    pub fn new(filter: Filter, moved_to: Option<UnixMillis>) -> Self {
        // What is being sent, or finished, is beyond any of these acts.
        let state = Some(Glob::literal(MessageState::Pending.word()));
        Self { filter: Filter { state, ..filter }, moved_to }
    }

    /// Those of a page of the list. Only what waits for a retry or for its time has an instant to move, and what is moved already is
    /// left out.
    pub async fn page(
        &self,
        outbox: &Outbox,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<MessageView>, ServiceError> {
        let mut page = outbox.message_page(&self.filter, ListOrder::State, cursor, limit).await?;
        if let Some(wanted) = self.moved_to {
            page.items.retain(|message| message.not_before.is_some_and(|at| at.0 != wanted));
        }
        Ok(page)
    }
}

/// A part of the list.
pub(super) struct Part {
    /// Its name in cursors.
    name: &'static str,
    pub kinds: Vec<ListKind>,
}

/// The parts of the list in this order, of what could match.
pub(super) fn parts(filter: &Filter, order: ListOrder) -> Vec<Part> {
    let kinds = kinds(filter);
    match order {
        ListOrder::State => kinds.into_iter().map(|(name, kind)| Part { name, kinds: vec![kind] }).collect(),
        ListOrder::Newest => {
            let (scheduled, placed): (Vec<_>, Vec<_>) =
                kinds.into_iter().map(|(_, kind)| kind).partition(|kind| *kind == ListKind::Scheduled);
            let parts = [Part { name: "ns", kinds: scheduled }, Part { name: "n", kinds: placed }];
            parts.into_iter().filter(|part| !part.kinds.is_empty()).collect()
        }
    }
}

/// The kinds of messages that could match, with the names of their parts in cursors.
fn kinds(filter: &Filter) -> Vec<(&'static str, ListKind)> {
    let takes = |word: &str| filter.state.as_ref().is_none_or(|state| state.matches(word));
    let waits = |kind: WaitKind| filter.waits.as_ref().is_none_or(|waits| waits.matches(kind.as_str()));
    let is_open = takes("pending") || takes("leased");
    // Only an attempt has a generation.
    let may_be_new = filter.generation.is_none();
    let in_order = is_open && WaitKind::ALL.into_iter().filter(|kind| *kind != WaitKind::Schedule).any(waits);
    let ends = ["done", "sent", "published", "cancelled", "expired", "purged"];
    let all = [
        ("p", ListKind::Parked, in_order),
        ("f", ListKind::Flowing, in_order && may_be_new),
        ("s", ListKind::Scheduled, takes("pending") && waits(WaitKind::Schedule) && may_be_new),
        ("d", ListKind::Done, filter.waits.is_none() && ends.into_iter().any(takes)),
    ];
    all.into_iter().filter(|(_, _, wanted)| *wanted).map(|(name, kind, _)| (name, kind)).collect()
}

/// Our word for a state, or a source document's (`docs/aliases.md`).
fn state_matches(wanted: &Glob, state: MessageState) -> bool {
    let aliases: &[&str] = match state {
        MessageState::Done => &["sent", "published"],
        MessageState::Leased => &["processing"],
        MessageState::Dead => &["failed"],
        _ => &[],
    };
    wanted.matches(state.word()) || aliases.iter().any(|alias| wanted.matches(alias))
}
