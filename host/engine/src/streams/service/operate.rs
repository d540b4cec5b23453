//! Purging and deleting: whole chunks leave from the front, by the stream's owner.

use serde_json::json;
use waybill_core::port::service::ServiceError;
use waybill_core::port::service::streams::{StreamAct, StreamActed, StreamError};
use waybill_core::seq_json::SeqJson;
use waybill_core::streams::limits::UPKEEP_BYTES_MAX;

use super::Streams;
use super::trail::{Asked, OperatorAct};

impl Streams {
    pub(super) async fn take_away(
        &self,
        kind: OperatorAct,
        act: &StreamAct,
        before: Option<u64>,
    ) -> Result<StreamActed, ServiceError> {
        if act.stream.name.is_saga() {
            return Err(StreamError::History(act.stream.name.clone()).into());
        }
        let slice = self.store().stream_slice(&act.stream, 0, 1).await?;
        self.kept(&act.stream, &slice)?;
        if act.is_plan {
            return self.plan(act, before).await;
        }
        let detail = json!({ "before": before.map(SeqJson), "reason": act.reason });
        let (this, stream) = (self.clone(), act.stream.clone());
        let work = async move { this.shard_of(&stream)?.purge(stream.clone(), before).await };
        let asked = Asked::of_stream(kind, act, detail);
        let led_to = |acted: &StreamActed| json!({ "events": acted.events, "first": SeqJson(acted.first), "last": SeqJson(acted.last) });
        self.audited(asked, work, led_to).await
    }

    /// What would go, of what is there now.
    async fn plan(&self, act: &StreamAct, before: Option<u64>) -> Result<StreamActed, ServiceError> {
        let holding: Vec<_> = {
            let settings = self.shared.settings();
            let takes = settings.relays.iter().filter(|plan| plan.streams.matches(&act.stream.name));
            takes.filter(|plan| plan.hold_max.is_some()).map(|plan| plan.name.clone()).collect()
        };
        let (mut acted, mut after) = (StreamActed::default(), 0);
        loop {
            let (slice, held) = self.store().upkeep_slice(&act.stream, &holding, after, UPKEEP_BYTES_MAX).await?;
            let named_to = slice.rest.named_to(&slice.head);
            let held_to = held.iter().map(|checkpoint| checkpoint.upto).min().unwrap_or(u64::MAX);
            let end = before.map_or(u64::MAX, |before| before.saturating_sub(1)).min(named_to).min(held_to);
            acted.last = slice.head.last;
            acted.first = acted.first.max(slice.rest.first);
            let mut is_over = slice.is_all;
            for stored in &slice.chunks {
                match &stored.chunk {
                    Ok(chunk) if chunk.last <= end => {
                        acted.events += chunk.events.len() as u64;
                        (acted.first, after) = (chunk.last + 1, chunk.last);
                    }
                    _ => {
                        is_over = true;
                        break;
                    }
                }
            }
            if is_over {
                return Ok(acted);
            }
        }
    }
}
