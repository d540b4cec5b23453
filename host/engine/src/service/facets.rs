//! What a list of messages, or of dead letters, can be narrowed by.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use waybill_api::facets::{FacetView, FacetsView};
use waybill_api::messages::MessageView;
use waybill_core::inbox::records::InboxDead;
use waybill_core::outbox::facets::{FACET_READS_MAX, Facet, Facets};
use waybill_core::outbox::filter::Filter;
use waybill_core::outbox::records::DeadState;
use waybill_core::port::dead::DeadKind;
use waybill_core::port::query::ListOrder;
use waybill_core::port::service::{MessageState, ServiceError};
use waybill_core::saga::records::SagaDead;
use waybill_core::streams::dead::StoredDead;

use super::Outbox;
use super::messages::parts;

/// Rows of one look into the store: as many as it reads at once at most.
const READS_AT_ONCE: usize = 2_000;
const LOOKS_MAX: usize = FACET_READS_MAX / READS_AT_ONCE;
/// Past this it answers with what it has.
const TIME_MAX: Duration = Duration::from_secs(2);

impl Outbox {
    /// Counts what matches by its values, the newest first, as far as the bounds of one answer go.
    pub(super) async fn facets_of(&self, filter: &Filter) -> Result<FacetsView, ServiceError> {
        let until = Instant::now() + TIME_MAX;
        let (mut facets, mut last) = (Facets::default(), None);
        let mut parts = parts(filter, ListOrder::Newest).into_iter();
        let (mut part, mut cursor) = (parts.next(), None::<String>);
        for _ in 0..LOOKS_MAX {
            let Some(looked) = &part else { break };
            let page = self.part_page(filter, ListOrder::Newest, &looked.kinds, cursor.as_deref(), READS_AT_ONCE);
            let Ok(page) = timeout_at(until, page).await else { break };
            let page = page?;
            page.items.iter().for_each(|message| count(&mut facets, message));
            last = page.items.last().map(|message| message.created_at).or(last);
            cursor = page.next_cursor;
            if cursor.is_none() {
                part = parts.next();
            }
        }
        let partial = part.is_some();
        Ok(FacetsView {
            counted: facets.items(),
            partial,
            counted_since: last.filter(|_| partial),
            facets: facets.finish().into_iter().map(FacetView::from).collect(),
        })
    }

    /// The same of dead letters of all kinds. Stuck sagas are as few as memory holds, and don't count against the bound.
    pub(super) async fn facets_of_dead(&self, filter: &Filter) -> Result<FacetsView, ServiceError> {
        let until = Instant::now() + TIME_MAX;
        let (mut facets, mut last) = (Facets::default(), None);
        let walk = timeout_at(until, self.count_dead_values(filter, &mut facets, &mut last)).await;
        let is_whole = walk.unwrap_or(Ok(false))?;
        Ok(FacetsView {
            counted: facets.items(),
            partial: !is_whole,
            counted_since: last.filter(|_| !is_whole),
            facets: facets.finish().into_iter().map(FacetView::from).collect(),
        })
    }

    /// Counts dead letters. `last` is set while it is among messages. True = all were looked at.
    async fn count_dead_values(
        &self,
        filter: &Filter,
        facets: &mut Facets,
        last: &mut Option<waybill_api::instant::Instant>,
    ) -> Result<bool, ServiceError> {
        let mut looks = 0..LOOKS_MAX;
        let mut next = filter.may_take(DeadKind::Message).then_some(None::<String>);
        while let Some(cursor) = next {
            if looks.next().is_none() {
                return Ok(false);
            }
            let page = self.context.stores.query.latest_dead(filter, cursor.as_deref(), READS_AT_ONCE).await?;
            for dead in &page.items {
                let message = &dead.message;
                let transport =
                    self.context.live().routing.routes.find(&message.topic).map(|route| route.transport.clone());
                let values = dead_values(
                    DeadKind::Message,
                    message.tenant.as_str(),
                    &dead.state,
                    &dead.code,
                    message.topic.as_str(),
                );
                facets.add(values.into_iter().chain(transport.as_deref().map(|name| (Facet::Transport, name))));
                *last = Some(message.created_at.into());
            }
            next = page.next_cursor.map(Some);
        }
        *last = None;
        if let Some(sagas) = self.sagas_for(filter) {
            let add = |dead: &SagaDead| {
                facets.add(dead_values(
                    DeadKind::Saga,
                    dead.key.tenant.as_str(),
                    &dead.state,
                    &dead.code,
                    &dead.topic(),
                ));
            };
            sagas.each_dead(filter, add).await?;
        }
        // Each half of what is left.
        let reads = looks.len() * READS_AT_ONCE / 2;
        let mut is_whole = true;
        if let Some(inbox) = self.inbox_for(filter) {
            let add = |_, dead: &InboxDead| {
                let message = &dead.message;
                facets.add(dead_values(
                    DeadKind::Inbox,
                    message.tenant.as_str(),
                    &dead.state,
                    &dead.code,
                    &message.subject,
                ));
            };
            is_whole &= inbox.each_dead(filter, reads, add).await?;
        }
        if let Some(streams) = self.streams_for(filter) {
            let add = |dead: &StoredDead| {
                let stream = dead.stream();
                facets.add(dead_values(
                    DeadKind::Event,
                    stream.tenant.as_str(),
                    &dead.state,
                    &dead.why().code,
                    stream.name.as_str(),
                ));
            };
            is_whole &= streams.each_dead(filter, reads, add).await?;
        }
        Ok(is_whole)
    }
}

fn dead_values<'a>(
    kind: DeadKind,
    tenant: &'a str,
    state: &DeadState,
    code: &'a str,
    topic: &'a str,
) -> [(Facet, &'a str); 5] {
    let state = match state {
        DeadState::Dead => MessageState::Dead,
        DeadState::Quarantined { .. } => MessageState::Quarantined,
    };
    [
        (Facet::Kind, kind.word()),
        (Facet::Tenant, tenant),
        (Facet::State, state.word()),
        (Facet::Code, code),
        (Facet::Topic, topic),
    ]
}

fn count(facets: &mut Facets, message: &MessageView) {
    let code = message.last_error.as_deref().map(|error| error.split_once(": ").map_or(error, |(code, _)| code));
    let values = [
        (Facet::Tenant, Some(message.tenant.as_str())),
        (Facet::State, Some(message.state.word())),
        (Facet::Waits, message.waiting.as_ref().map(|waiting| waiting.on.as_str())),
        (Facet::Code, code),
        (Facet::Topic, Some(message.topic.as_str())),
        (Facet::Transport, message.transport.as_deref()),
    ];
    facets.add(values.into_iter().filter_map(|(facet, value)| Some((facet, value?))));
}
