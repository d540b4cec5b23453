//! Stored messages listed; one message or one id looked up.

use std::sync::Arc;

use waybill_api::inbox::{InboxEndView, InboxMessageView, InboxState, InboxStatusView, StoredOrder};
use waybill_api::messages::Waiting;
use waybill_core::ids::{ConsumerName, InboundId, ShardId, Tenant};
use waybill_core::inbox::filter::StoredFilter;
use waybill_core::inbox::owner::{InMemory, WaitsFor};
use waybill_core::inbox::place::InboxPlace;
use waybill_core::inbox::records::{InboxDead, InboxRow};
use waybill_core::inbox::seen::{SeenPlace, SeenQuery};
use waybill_core::outbox::owner::WaitKind;
use waybill_core::outbox::records::DeadState;
use waybill_core::port::inbox_store::{InboxFilter, SeenHit};
use waybill_core::port::missing::Missing;
use waybill_core::port::query::Page;
use waybill_core::port::service::ServiceError;

use super::Inbox;
use crate::inbox::config::{ConsumerConfig, InboundConfig};

/// Rows read of the store for one page at most: a filter that takes few of many answers a page that isn't full.
const READS_MAX: usize = 5_000;
/// Rows that asking the store for a page counts as at least.
const PAGE_COST: usize = 50;

impl Inbox {
    pub(super) async fn list_stored(
        &self,
        filter: &StoredFilter,
        order: StoredOrder,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<InboxMessageView>, ServiceError> {
        let (exact, mut cursor) = (filter.exact(), cursor.map(str::to_owned));
        let (mut items, mut read) = (Vec::new(), 0);
        loop {
            let room = limit - items.len();
            let page = match order {
                StoredOrder::Place => self.store().inbox_list(&exact, cursor.as_deref(), room).await?,
                StoredOrder::Newest => self.store().inbox_newest(&exact, cursor.as_deref(), room).await?,
            };
            // A page costs, however few rows it has.
            read += page.reads.max(PAGE_COST);
            cursor = page.next_cursor;
            for (shard, row) in page.items {
                if !filter.takes(shard, &row) {
                    continue;
                }
                let view = self.view_of_row(shard, &row).await;
                if filter.takes_waiting(view.waiting.as_ref().map(|waiting| waiting.on)) {
                    items.push(view);
                }
            }
            if cursor.is_none() || items.len() >= limit || read >= READS_MAX {
                return Ok(Page { items, next_cursor: cursor });
            }
        }
    }

    /// A stored message, with what it waits for if this host knows.
    pub(super) async fn view_of_row(&self, shard: ShardId, row: &InboxRow) -> InboxMessageView {
        let view = InboxMessageView::of(shard, row);
        let Ok(handle) = self.shard(shard) else { return view };
        let seq = row.seq;
        match handle.query(move |owner, _, _| owner.at(seq)).await.flatten() {
            Some(known) => InboxMessageView {
                attempts: known.attempts,
                maybe_handled: known.maybe_handled,
                waiting: waiting(&known),
                ..view
            },
            None => view,
        }
    }

    pub(super) async fn show_status(
        &self,
        tenant: Option<&Tenant>,
        consumer: &ConsumerName,
        id: &InboundId,
    ) -> Result<InboxStatusView, ServiceError> {
        let mut status = InboxStatusView {
            consumer: consumer.to_string(),
            id: id.to_string(),
            state: InboxState::Unseen,
            seen: false,
            message: None,
            ended: Vec::new(),
            dead_letter: None,
        };
        if let Ok(place) = id.as_str().parse::<InboxPlace>() {
            return self.status_of_place(tenant, consumer, place, status).await;
        }
        let config = self.config();
        let configured = config.consumers.iter().find(|known| known.name == *consumer);
        let home = configured.and_then(|known| self.home_of_consumer(&config, known));
        let shard = home.map(|home| self.home_of(home)).transpose()?;
        let filter = InboxFilter { consumer: Some(consumer.clone()), id: Some(id.clone()), ..InboxFilter::default() };
        let rows = self.store().inbox_list(&filter, None, 1).await?.items;
        let dead = self.store().inbox_dead(&filter, None, 1).await?.items;
        if configured.is_none() && rows.is_empty() && dead.is_empty() && !self.has_any(consumer).await? {
            return Err(ServiceError::NotFound { what: Missing::Consumer, id: consumer.to_string() });
        }
        let shard_id = shard.map(|handle| handle.shard).or_else(|| rows.first().map(|(shard, _)| *shard));
        if let Some(shard) = shard_id {
            let done = self.store().inbox_done(shard, consumer, id).await?;
            let is_mine = |of: &Tenant| tenant.is_none_or(|tenant| of == tenant);
            status.ended = done.into_iter().filter(|done| is_mine(&done.tenant)).map(InboxEndView::from).collect();
            let tells = tenant.is_none_or(|tenant| configured.is_some_and(|known| self.is_of(&config, known, tenant)));
            if tells || !status.ended.is_empty() {
                // Of one that isn't configured nobody knows.
                let by_stamp = configured.is_none_or(|known| is_filed_by_stamps(&config, known));
                status.seen = self.has_seen(shard, consumer, id, by_stamp).await?;
            }
        }
        if status.seen {
            status.state = InboxState::Seen;
        }
        let mine = |of: &Tenant| tenant.is_none_or(|tenant| of == tenant);
        if let Some((shard, dead)) = dead.first().filter(|(_, dead)| mine(&dead.message.tenant)) {
            status.state = state_of(dead);
            status.dead_letter = Some(InboxPlace { shard: *shard, seq: dead.seq }.to_string());
        }
        if let Some((shard, row)) = rows.first().filter(|(_, row)| mine(&row.message.tenant)) {
            status.state = InboxState::Stored;
            status.message = Some(self.view_of_row(*shard, row).await.with_payload(&row.message.payload));
        } else if let Some(handle) = shard
            && let Some(known) = handle.find(consumer.clone(), id.clone()).await
            && let Some(view) = in_hand(handle.shard, consumer, &known)
                .filter(|_| known.message.as_ref().is_some_and(|message| mine(&message.tenant)))
        {
            status.state = InboxState::InHand;
            status.message = Some(view);
        }
        Ok(status)
    }

    async fn status_of_place(
        &self,
        tenant: Option<&Tenant>,
        consumer: &ConsumerName,
        place: InboxPlace,
        status: InboxStatusView,
    ) -> Result<InboxStatusView, ServiceError> {
        let missing = || ServiceError::NotFound { what: Missing::InboxMessage, id: place.to_string() };
        let is_mine = |name: &ConsumerName, of: &Tenant| name == consumer && tenant.is_none_or(|tenant| of == tenant);
        let rows = self.store().inbox_rows(place.shard, &[place.seq]).await?;
        if let Some(row) = rows.into_iter().flatten().find(|row| is_mine(&row.consumer, &row.message.tenant)) {
            let view = self.view_of_row(place.shard, &row).await.with_payload(&row.message.payload);
            let id = row.message.id.to_string();
            return Ok(InboxStatusView { id, state: InboxState::Stored, message: Some(view), ..status });
        }
        let dead = self.store().inbox_dead_letter(place.shard, place.seq).await?;
        let dead = dead.filter(|dead| is_mine(&dead.consumer, &dead.message.tenant)).ok_or_else(missing)?;
        let ended = self.store().inbox_done(place.shard, consumer, &dead.message.id).await?;
        Ok(InboxStatusView {
            id: dead.message.id.to_string(),
            state: state_of(&dead),
            seen: true,
            ended: ended.into_iter().map(InboxEndView::from).collect(),
            dead_letter: Some(place.to_string()),
            ..status
        })
    }

    /// Whether anything is stored of a consumer.
    async fn has_any(&self, consumer: &ConsumerName) -> Result<bool, ServiceError> {
        let filter = InboxFilter { consumer: Some(consumer.clone()), ..InboxFilter::default() };
        let rows = self.store().inbox_list(&filter, None, 1).await?;
        Ok(!rows.items.is_empty() || !self.store().inbox_dead(&filter, None, 1).await?.items.is_empty())
    }

    /// Whether an id was finished within the window. `by_stamp`: it may have been filed by its sender's stamp, which isn't known here.
    async fn has_seen(
        &self,
        shard: ShardId,
        consumer: &ConsumerName,
        id: &InboundId,
        by_stamp: bool,
    ) -> Result<bool, ServiceError> {
        let record = self.store().inbox_shard(shard).await?;
        let fingerprint = record.secret.of_id(consumer, id);
        let mut places = SeenPlace::all_of(id.as_str(), fingerprint, None);
        // Stamps that are far from the clock's time are filed there.
        let runs = SeenPlace::in_runs(fingerprint);
        places.extend(Some(runs).filter(|runs| by_stamp && !places.contains(runs)));
        let start = record.age.window_start(self.config().dedup_window);
        let is_within = |hit: SeenHit| start.is_none_or(|start| hit.age > start);
        let query = SeenQuery { consumer: consumer.clone(), places };
        if self.store().inbox_seen_for_people(shard, &query).await?.is_some_and(is_within) {
            return Ok(true);
        }
        if !by_stamp {
            return Ok(false);
        }
        Ok(self.store().inbox_seen_in_any_minute(shard, consumer, fingerprint).await?.is_some_and(is_within))
    }
}

/// Whether a source of a consumer's has ids filed by their senders' stamps.
fn is_filed_by_stamps(config: &InboundConfig, consumer: &ConsumerConfig) -> bool {
    config.sources.iter().any(|source| source.id_time_occurred && consumer.sources.contains(&source.name))
}

fn state_of(dead: &Arc<InboxDead>) -> InboxState {
    match dead.state {
        DeadState::Dead => InboxState::Dead,
        DeadState::Quarantined { .. } => InboxState::Quarantined,
    }
}

/// A message that is only in memory.
fn in_hand(shard: ShardId, consumer: &ConsumerName, known: &InMemory) -> Option<InboxMessageView> {
    let message = known.message.clone()?;
    let payload = message.payload.clone();
    let row = InboxRow {
        seq: known.seq,
        consumer: consumer.clone(),
        fingerprint: Default::default(),
        order: None,
        digest: Default::default(),
        message,
        attempts: known.attempts,
        last_error: known.last_error.clone(),
        due: known.due,
        delay: Default::default(),
        maybe_handled: known.maybe_handled,
    };
    let view = InboxMessageView::of(shard, &row);
    let place = view.place.clone().filter(|_| known.is_row);
    Some(InboxMessageView { place, not_before: None, waiting: waiting(known), ..view }.with_payload(&payload))
}

/// What a message waits for, in words.
pub(super) fn waiting(known: &InMemory) -> Option<Waiting> {
    let error = known.last_error.as_ref().map(|error| format!("{}: {}", error.code, error.reason));
    let plain = |on, reason: &str| Some(Waiting { on, reason: reason.to_owned(), since: None, until: None });
    match known.waits_for {
        WaitsFor::Nothing | WaitsFor::Store => None,
        WaitsFor::Key => plain(WaitKind::Key, "an earlier message of its key isn't finished"),
        WaitsFor::Time(until) => Some(Waiting {
            on: WaitKind::Retry,
            reason: error.unwrap_or_else(|| "its next try".to_owned()),
            since: None,
            until: Some(until.into()),
        }),
        WaitsFor::Consumer => plain(WaitKind::Destination, "its consumer is held"),
        WaitsFor::Turn => plain(WaitKind::Turn, "its consumer has as many calls as it may have"),
        WaitsFor::Trial => plain(WaitKind::Trial, "a host died while it was handled, and it waits for its trial"),
        WaitsFor::NoConsumer => plain(WaitKind::NoRoute, "its consumer isn't configured"),
    }
}
