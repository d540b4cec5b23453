//! Streams that come from elsewhere, with their numbers.

use serde_json::{Value, json};
use waybill_core::port::service::ServiceError;
use waybill_core::port::service::streams::{ImportEvent, StreamAct, StreamActed, StreamError};
use waybill_core::streams::exact::{ExactAppend, ExactRefusal};
use waybill_core::streams::records::Append;

use super::Streams;
use super::append::outcome;
use super::trail::{Asked, OperatorAct};

impl Streams {
    /// Each part goes in where the one before it ends, so an import that was cut off goes on where it was, and nobody else appends
    /// between.
    pub(super) async fn import_events(
        &self,
        act: &StreamAct,
        events: Vec<ImportEvent>,
    ) -> Result<StreamActed, ServiceError> {
        let stream = &act.stream;
        let first = events.first().ok_or(StreamError::Exact(ExactRefusal::Empty))?.seq;
        for (index, event) in events.iter().enumerate() {
            let expected = first.saturating_add(index as u64);
            if event.seq != expected {
                return Err(StreamError::ImportOrder { index, seq: event.seq, expected }.into());
            }
        }
        let head = self.store().stream_slice(stream, 0, 1).await?.head;
        if first <= head.last {
            return Err(StreamError::NotEmpty(stream.clone()).into());
        }
        if first > head.last + 1 {
            return Err(StreamError::ImportOrder { index: 0, seq: first, expected: head.last + 1 }.into());
        }
        let count = events.len() as u64;
        let events = events.into_iter().map(|event| event.event).collect();
        // Their ids aren't looked up: the numbers tell whether they were imported before.
        let events = self.admit(stream, events, false)?;
        let append = Append { stream: stream.clone(), events };
        let acted = StreamActed { events: count, first: 1, last: head.last + count };
        if act.is_plan {
            return Ok(acted);
        }
        let room = self.take_room(&append)?;
        let exact = ExactAppend { append, expected: head.last, shards: self.shared.shards() };
        let this = self.clone();
        let work = async move {
            let _room = room;
            let answer = this.store().append_exact(&exact, this.steady_now()).await;
            this.left_something(&exact.append.stream);
            answer.map_err(outcome)?.map_err(|refusal| match refusal {
                ExactRefusal::ExpectedSeq { stream, .. } => StreamError::NotEmpty(stream),
                other => StreamError::Exact(other),
            })?;
            Ok(acted)
        };
        let detail = json!({ "from": first, "to": acted.last, "reason": act.reason });
        self.audited(Asked::of_stream(OperatorAct::Import, act, detail), work, |_| Value::Null).await
    }
}
