//! Who goes before a message of its key, and who waits behind it.

use waybill_api::messages::MessageView;
use waybill_api::neighbours::{NeighbourView, NeighboursView};
use waybill_core::ids::{KeyHash, Seq, ShardId, Tenant};
use waybill_core::outbox::owner::{Neighbour, WhyWaiting};
use waybill_core::port::missing::Missing;
use waybill_core::port::service::{MessageState, ServiceError};
use waybill_core::seq_json::SeqJson;

use super::Outbox;
use super::views::message_of;
use crate::shard::OwnerQuery;

impl Outbox {
    pub(super) async fn neighbours_of(&self, tenant: &Tenant, id: &str) -> Result<NeighboursView, ServiceError> {
        let found =
            self.find(tenant, id).await?.ok_or(ServiceError::NotFound { what: Missing::Message, id: id.to_owned() })?;
        let Some(key) = message_of(&found).key.clone() else { return Ok(NeighboursView::default()) };
        let MessageView { seq, shard, .. } = self.view(&found);
        let shown = NeighboursView { key: Some(key.to_string()), ..NeighboursView::default() };
        // One that waits for its time has no place among the others.
        let Some(SeqJson(seq)) = seq else { return Ok(shown) };
        let (key, of) = (KeyHash::of(tenant, &key), Seq(seq));
        let shard = self.shard(ShardId(shard))?;
        let Some(near) = shard.query(|reply| OwnerQuery::Neighbours { key, of, reply }).await else { return Ok(shown) };
        let views = |side: Vec<Neighbour>| side.into_iter().map(|one| self.neighbour_view(one)).collect();
        Ok(NeighboursView {
            known: true,
            before: views(near.before),
            further_before: near.further_before as u64,
            behind: views(near.behind),
            further_behind: near.further_behind as u64,
            ..shown
        })
    }

    fn neighbour_view(&self, neighbour: Neighbour) -> NeighbourView {
        let Neighbour { id, seq, created_at, attempts, why } = neighbour;
        let state = match &why {
            None => MessageState::Dead,
            Some(WhyWaiting::Sending | WhyWaiting::Leased(_)) => MessageState::Leased,
            Some(_) => MessageState::Pending,
        };
        let waiting = why.and_then(|why| self.waiting(Some(why)));
        let (id, seq, created_at) = (id.to_string(), SeqJson(seq.0), created_at.into());
        NeighbourView { id, state, seq, created_at, attempts, waiting }
    }
}
