//! Streams that come from elsewhere, with their numbers.

use serde_json::{Value, json};
use waybill_core::port::service::ServiceError;
use waybill_core::port::service::streams::{ImportEvent, StreamAct, StreamActed, StreamError};
use waybill_core::port::stream_store::StreamSlice;
use waybill_core::seq_json::SeqJson;
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
        let StreamSlice { head, rest, .. } = self.store().stream_slice(stream, 0, 1).await?;
        if first <= head.last && first > 0 {
            return Err(StreamError::NotEmpty(stream.clone()).into());
        }
        let skips = left_out(head.last, &events)?;
        let last = events.last().map_or(first, |event| event.seq);
        let count = events.len() as u64;
        let events = events.into_iter().map(|event| event.event).collect();
        // Their ids aren't looked up: the numbers tell whether they were imported before.
        let events = self.admit(stream, events, false)?;
        let append = Append::new(stream.clone(), events);
        // What is missing before the first event of all was trimmed: there a cursor is refused, and nothing has to be guessed.
        let trimmed = if head.last == 0 { skips.first().copied().unwrap_or(0) } else { 0 };
        let left_out = skips.iter().sum::<u64>().saturating_sub(trimmed);
        let first_kept = if head.last == 0 { first } else { rest.first };
        let acted = StreamActed { events: count, first: first_kept, last, left_out };
        if act.is_plan {
            return Ok(acted);
        }
        let room = self.take_room(&append)?;
        let exact = ExactAppend { skips, ..ExactAppend::new(append, head.last, self.shared.shards()) };
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
        let detail =
            json!({ "from": SeqJson(first), "to": SeqJson(acted.last), "left_out": left_out, "reason": act.reason });
        self.audited(Asked::of_stream(OperatorAct::Import, act, detail), work, |_| Value::Null).await
    }
}

/// How many numbers are left out before each event: retention took them where they come from, or compaction did.
fn left_out(last: u64, events: &[ImportEvent]) -> Result<Vec<u64>, StreamError> {
    let (mut last, mut skips) = (last, Vec::with_capacity(events.len()));
    for (index, event) in events.iter().enumerate() {
        let expected = last.saturating_add(1);
        let skip = event.seq.checked_sub(expected);
        skips.push(skip.ok_or(StreamError::ImportOrder { index, seq: event.seq, expected })?);
        last = event.seq;
    }
    Ok(skips)
}
