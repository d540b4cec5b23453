//! Dead letters of all kinds as one list: messages first, then stuck sagas, then received messages, then events of streams. The cursor
//! says in which part it is.

use std::sync::Arc;

use waybill_api::dead_letters::DeadGroupView;
use waybill_core::ids::ShardId;
use waybill_core::inbox::records::InboxDead;
use waybill_core::limits::DEAD_READS_MAX;
use waybill_core::outbox::dead_groups::{DeadCause, DeadGroups};
use waybill_core::outbox::dead_plan::{DeadPlan, DeadTally, PLAN_READS_MAX};
use waybill_core::outbox::filter::Filter;
use waybill_core::outbox::records::{DeadLetter, DeadState};
use waybill_core::port::dead::DeadKind;
use waybill_core::port::query::{Counted, Page};
use waybill_core::port::service::ServiceError;
use waybill_core::saga::records::SagaDead;
use waybill_core::streams::dead::StoredDead;
use waybill_core::time::UnixMillis;

use super::Outbox;
use crate::inbox::service::Inbox;
use crate::saga::service::Sagas;
use crate::streams::service::Streams;

/// Begins a cursor in the part of the sagas; what follows is where that is read on, nothing = from its beginning.
const SAGAS: &str = "saga:";
/// The same of received messages.
const INBOX: &str = "inbox:";
/// The same of events of streams.
const EVENTS: &str = "event:";
/// Pages of received messages, or of events, read for one page of the list: a filter may take few of many.
const PAGES_MAX: usize = 20;
/// Received messages read for one page of the list, about, as of others.
const INBOX_READS_MAX: usize = 2_000;

/// A dead letter of any kind as stored.
pub(super) enum Dead {
    Message(Arc<DeadLetter>),
    Saga(Arc<SagaDead>),
    Inbox(ShardId, Arc<InboxDead>),
    Event(Arc<StoredDead>),
}

impl Dead {
    /// The group that it is counted in.
    pub fn cause(&self) -> DeadCause {
        let (kind, tenant, code, reason) = match self {
            Self::Message(dead) => (DeadKind::Message, &dead.message.tenant, &*dead.code, &*dead.reason),
            Self::Saga(dead) => (DeadKind::Saga, &dead.key.tenant, &*dead.code, &*dead.reason),
            Self::Inbox(_, dead) => (DeadKind::Inbox, &dead.message.tenant, &*dead.code, &*dead.reason),
            Self::Event(dead) => (DeadKind::Event, &dead.stream().tenant, &*dead.why().code, &*dead.why().reason),
        };
        DeadCause::new(kind, tenant.as_str(), code, reason)
    }

    pub fn died_at(&self) -> UnixMillis {
        match self {
            Self::Message(dead) => dead.died_at,
            Self::Saga(dead) => dead.died_at,
            Self::Inbox(_, dead) => dead.died_at,
            Self::Event(dead) => dead.died_at,
        }
    }

    pub fn state(&self) -> &DeadState {
        match self {
            Self::Message(dead) => &dead.state,
            Self::Saga(dead) => &dead.state,
            Self::Inbox(_, dead) => &dead.state,
            Self::Event(dead) => &dead.state,
        }
    }
}

/// Dead letters of each kind that a plan looks at, and the act that follows it.
pub(super) fn planned_reads(exact: bool) -> usize {
    if exact { DEAD_READS_MAX } else { PLAN_READS_MAX }
}

impl Outbox {
    /// The sagas, if a stuck one could match.
    pub(super) fn sagas_for(&self, filter: &Filter) -> Option<&Arc<Sagas>> {
        self.sagas.as_ref().filter(|_| filter.may_take(DeadKind::Saga))
    }

    /// The inbox, if a received message could match.
    pub(super) fn inbox_for(&self, filter: &Filter) -> Option<&Arc<Inbox>> {
        self.inbox.as_ref().filter(|_| filter.may_take(DeadKind::Inbox))
    }

    /// The streams, if an event of one could match.
    pub(super) fn streams_for(&self, filter: &Filter) -> Option<&Arc<Streams>> {
        self.streams.as_ref().filter(|_| filter.may_take(DeadKind::Event))
    }

    /// A page of what matches. `latest`: the latest messages first, as people look at them; else in the order in which each key's
    /// messages have to be sent again.
    pub(super) async fn dead_page(
        &self,
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
        latest: bool,
    ) -> Result<Page<Dead>, ServiceError> {
        let mut page: Page<Dead> = Page { items: Vec::new(), next_cursor: None };
        let of_sagas = cursor.and_then(|cursor| cursor.strip_prefix(SAGAS));
        let of_inbox = cursor.and_then(|cursor| cursor.strip_prefix(INBOX));
        let of_events = cursor.and_then(|cursor| cursor.strip_prefix(EVENTS));
        let is_later = of_inbox.is_some() || of_events.is_some();
        if of_sagas.is_none() && !is_later && filter.may_take(DeadKind::Message) {
            let query = &self.context.stores.query;
            let found = match latest {
                true => query.latest_dead(filter, cursor, limit).await?,
                false => query.dead_letters(filter, cursor, limit).await?,
            };
            page.items.extend(found.items.into_iter().map(Dead::Message));
            if found.next_cursor.is_some() {
                return Ok(Page { next_cursor: found.next_cursor, ..page });
            }
        }
        if !is_later && self.add_sagas(filter, of_sagas, limit, &mut page).await? {
            return Ok(page);
        }
        if of_events.is_none() && self.add_inbox(filter, of_inbox, limit, &mut page).await? {
            return Ok(page);
        }
        self.add_events(filter, of_events, limit, &mut page).await?;
        Ok(page)
    }

    /// Fills a page up with stuck sagas. True = the list goes on among them.
    async fn add_sagas(
        &self,
        filter: &Filter,
        from: Option<&str>,
        limit: usize,
        page: &mut Page<Dead>,
    ) -> Result<bool, ServiceError> {
        let Some(sagas) = self.sagas_for(filter) else { return Ok(false) };
        let room = limit.saturating_sub(page.items.len());
        let found = sagas.dead_page(filter, from.filter(|from| !from.is_empty()), room.max(1)).await?;
        if room == 0 {
            let is_more = !found.items.is_empty() || found.next_cursor.is_some();
            page.next_cursor = is_more.then(|| SAGAS.to_owned());
            return Ok(is_more);
        }
        page.items.extend(found.items.into_iter().map(Dead::Saga));
        page.next_cursor = found.next_cursor.map(|next| format!("{SAGAS}{next}"));
        Ok(page.next_cursor.is_some())
    }

    /// Fills a page up with received messages. True = the list goes on among them.
    async fn add_inbox(
        &self,
        filter: &Filter,
        from: Option<&str>,
        limit: usize,
        page: &mut Page<Dead>,
    ) -> Result<bool, ServiceError> {
        let Some(inbox) = self.inbox_for(filter) else { return Ok(false) };
        let mut from = from.filter(|from| !from.is_empty()).map(str::to_owned);
        let mut reads = 0;
        for _ in 0..PAGES_MAX {
            let room = limit.saturating_sub(page.items.len());
            let found = inbox.dead_page(filter, from.as_deref(), room.max(1)).await?;
            if room == 0 {
                let is_more = !found.items.is_empty() || found.next_cursor.is_some();
                page.next_cursor = is_more.then(|| format!("{INBOX}{}", from.unwrap_or_default()));
                return Ok(is_more);
            }
            reads += found.reads;
            page.items.extend(found.items.into_iter().map(|(shard, dead)| Dead::Inbox(shard, dead)));
            from = found.next_cursor;
            page.next_cursor = from.as_ref().map(|next| format!("{INBOX}{next}"));
            if from.is_none() {
                return Ok(false);
            }
            if page.items.len() >= limit || reads >= INBOX_READS_MAX {
                break;
            }
        }
        Ok(true)
    }

    /// Fills a page up with events of streams.
    async fn add_events(
        &self,
        filter: &Filter,
        from: Option<&str>,
        limit: usize,
        page: &mut Page<Dead>,
    ) -> Result<(), ServiceError> {
        let Some(streams) = self.streams_for(filter) else { return Ok(()) };
        let mut from = from.filter(|from| !from.is_empty()).map(str::to_owned);
        for _ in 0..PAGES_MAX {
            let room = limit.saturating_sub(page.items.len());
            let found = streams.dead_page(filter, from.as_deref(), room.max(1)).await?;
            if room == 0 {
                let is_more = !found.items.is_empty() || found.next_cursor.is_some();
                page.next_cursor = is_more.then(|| format!("{EVENTS}{}", from.unwrap_or_default()));
                return Ok(());
            }
            page.items.extend(found.items.into_iter().map(Dead::Event));
            from = found.next_cursor;
            page.next_cursor = from.as_ref().map(|next| format!("{EVENTS}{next}"));
            if from.is_none() || page.items.len() >= limit {
                return Ok(());
            }
        }
        Ok(())
    }

    /// How many match: of messages `reads` are looked at; stuck sagas are as few as memory holds; of received messages, and of events, as
    /// many are looked at again.
    pub(super) async fn number_of_dead(&self, filter: &Filter, reads: usize) -> Result<Counted<u64>, ServiceError> {
        let mut counted = Counted::default();
        if filter.may_take(DeadKind::Message) {
            counted = self.context.stores.query.count_dead(filter, reads).await?;
        }
        if let Some(sagas) = self.sagas_for(filter) {
            sagas.each_dead(filter, |_| counted.value += 1).await?;
        }
        let mut is_whole = true;
        if let Some(inbox) = self.inbox_for(filter) {
            is_whole &= inbox.each_dead(filter, reads, |_, _| counted.value += 1).await?;
        }
        if let Some(streams) = self.streams_for(filter) {
            is_whole &= streams.each_dead(filter, reads, |_| counted.value += 1).await?;
        }
        Ok(self.by_time(counted, is_whole))
    }

    /// What a bulk act on those that match would concern; bounded like the number.
    pub(super) async fn plan_of_dead(
        &self,
        filter: &Filter,
        reads: usize,
        spares_quarantined: bool,
    ) -> Result<Counted<DeadPlan>, ServiceError> {
        let mut counted = Counted { value: DeadTally::new(spares_quarantined), since: None };
        if filter.may_take(DeadKind::Message) {
            counted = self.context.stores.query.tally_dead(filter, reads, spares_quarantined).await?;
        }
        let tally = &mut counted.value;
        if let Some(sagas) = self.sagas_for(filter) {
            sagas.each_dead(filter, |dead| tally.add_saga(dead)).await?;
        }
        let mut is_whole = true;
        if let Some(inbox) = self.inbox_for(filter) {
            is_whole &= inbox.each_dead(filter, reads, |_, dead| tally.add_inbox(dead)).await?;
        }
        if let Some(streams) = self.streams_for(filter) {
            is_whole &= streams.each_dead(filter, reads, |dead| tally.add_event(dead)).await?;
        }
        Ok(self.by_time(Counted { value: counted.value.plan(), since: counted.since }, is_whole))
    }

    /// A count that ended before the end among received messages or events, which aren't read by time, holds of no instant before now.
    fn by_time<T>(&self, counted: Counted<T>, is_whole: bool) -> Counted<T> {
        Counted { since: if is_whole { counted.since } else { Some(self.now()) }, ..counted }
    }

    /// What matches, by tenant, code, error signature and kind; bounded like the number.
    pub(super) async fn groups_of_dead(&self, filter: &Filter) -> Result<Counted<Vec<DeadGroupView>>, ServiceError> {
        let (mut groups, mut since) = (DeadGroups::default(), None);
        if filter.may_take(DeadKind::Message) {
            let counted = self.context.stores.query.dead_groups(filter, DEAD_READS_MAX).await?;
            groups.join(counted.value);
            since = counted.since;
        }
        if let Some(sagas) = self.sagas_for(filter) {
            sagas.each_dead(filter, |dead| groups.add_saga(dead)).await?;
        }
        let mut is_whole = true;
        if let Some(inbox) = self.inbox_for(filter) {
            is_whole &= inbox.each_dead(filter, DEAD_READS_MAX, |shard, dead| groups.add_inbox(shard, dead)).await?;
        }
        if let Some(streams) = self.streams_for(filter) {
            is_whole &= streams.each_dead(filter, DEAD_READS_MAX, |dead| groups.add_event(dead)).await?;
        }
        let counted = self.by_time(Counted { value: groups.finish(), since }, is_whole);
        let (now, since) = (self.now(), counted.since);
        let value = counted.value.into_iter().map(|group| DeadGroupView::of(group, now, since)).collect();
        Ok(Counted { value, since })
    }
}
