//! Dead letters of both kinds as one list: messages first, then stuck sagas. The cursor says in
//! which part it is.

use std::sync::Arc;

use waybill_api::dead_letters::DeadGroupView;
use waybill_core::limits::DEAD_READS_MAX;
use waybill_core::outbox::dead_groups::DeadGroups;
use waybill_core::outbox::filter::Filter;
use waybill_core::outbox::records::{DeadLetter, DeadState};
use waybill_core::port::dead::DeadKind;
use waybill_core::port::query::{Counted, Page};
use waybill_core::port::service::ServiceError;
use waybill_core::saga::records::SagaDead;
use waybill_core::time::UnixMillis;

use super::Outbox;
use crate::saga::service::Sagas;

/// Begins a cursor in the part of the sagas; what follows is where that is read on, nothing = from its beginning.
const SAGAS: &str = "saga:";

/// A dead letter of either kind as stored.
pub(super) enum Dead {
    Message(Arc<DeadLetter>),
    Saga(Arc<SagaDead>),
}

impl Dead {
    pub fn died_at(&self) -> UnixMillis {
        match self {
            Self::Message(dead) => dead.died_at,
            Self::Saga(dead) => dead.died_at,
        }
    }

    pub fn state(&self) -> &DeadState {
        match self {
            Self::Message(dead) => &dead.state,
            Self::Saga(dead) => &dead.state,
        }
    }
}

impl Outbox {
    /// The sagas, if a stuck one could match.
    fn sagas_for(&self, filter: &Filter) -> Option<&Arc<Sagas>> {
        self.sagas.as_ref().filter(|_| filter.may_take(DeadKind::Saga))
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
        let mut items = Vec::new();
        let from = cursor.and_then(|cursor| cursor.strip_prefix(SAGAS));
        if from.is_none() && filter.may_take(DeadKind::Message) {
            let query = &self.context.stores.query;
            let page = match latest {
                true => query.latest_dead(filter, cursor, limit).await?,
                false => query.dead_letters(filter, cursor, limit).await?,
            };
            items.extend(page.items.into_iter().map(Dead::Message));
            if page.next_cursor.is_some() {
                return Ok(Page { items, next_cursor: page.next_cursor });
            }
        }
        let Some(sagas) = self.sagas_for(filter) else { return Ok(Page { items, next_cursor: None }) };
        let room = limit.saturating_sub(items.len());
        let page = sagas.dead_page(filter, from.filter(|from| !from.is_empty()), room.max(1)).await?;
        if room == 0 {
            let is_more = !page.items.is_empty() || page.next_cursor.is_some();
            return Ok(Page { items, next_cursor: is_more.then(|| SAGAS.to_owned()) });
        }
        items.extend(page.items.into_iter().map(Dead::Saga));
        Ok(Page { items, next_cursor: page.next_cursor.map(|next| format!("{SAGAS}{next}")) })
    }

    /// How many match: of messages, [`DEAD_READS_MAX`] are looked at; stuck sagas are as few as memory holds.
    pub(super) async fn number_of_dead(&self, filter: &Filter) -> Result<Counted<u64>, ServiceError> {
        let mut counted = Counted::default();
        if filter.may_take(DeadKind::Message) {
            counted = self.context.stores.query.count_dead(filter, DEAD_READS_MAX).await?;
        }
        if let Some(sagas) = self.sagas_for(filter) {
            sagas.each_dead(filter, |_| counted.value += 1).await?;
        }
        Ok(counted)
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
        Ok(Counted { value: groups.finish().into_iter().map(DeadGroupView::from).collect(), since })
    }
}
