//! Events as answers hold them.

use serde_json::value::RawValue;
use waybill_core::code::Code;
use waybill_core::port::service::streams::EventPiece;
use waybill_core::streams::envelope;
use waybill_core::streams::wire::EnvelopeJson;

use crate::problem::Problem;

/// An event's envelope as JSON of one line. Where a reader goes on behind it is said beside it.
pub(crate) fn envelope(piece: &EventPiece) -> Result<Box<RawValue>, Problem> {
    let unreadable = |cause: String| {
        let text = format!("event {} of {} can't be read", piece.seq, piece.stream);
        Problem::new(Code::STORAGE_CORRUPT, text).caused_by(cause)
    };
    let event = envelope::unpack(&piece.packed).map_err(|error| unreadable(error.to_string()))?;
    let envelope = EnvelopeJson::of(&piece.stream, piece.seq, &event, None)
        .ok_or_else(|| unreadable("its payload wasn't put back".to_owned()))?;
    serde_json::value::to_raw_value(&envelope).map_err(Problem::internal)
}

/// The envelopes of a page.
pub(crate) fn envelopes<'a>(pieces: impl IntoIterator<Item = &'a EventPiece>) -> Result<Vec<Box<RawValue>>, Problem> {
    pieces.into_iter().map(envelope).collect()
}
