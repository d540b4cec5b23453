//! How records that are bytes are written: a header with kind, version and checksum, then CBOR.
//!
//! ```text
//! 'W' 'B' | kind | version | crc32 of kind, version and body, little-endian | body: CBOR maps and arrays
//! ```
//! The header keeps its shape in all versions, so that an older host recognises newer data as such. CBOR maps have numbered
//! fields: an unknown number is skipped and an absent one is its default, so fields can be added without a new version; the
//! version grows only when an older host would misread the data. Any flipped bit is found by the checksum.
//!
//! What it doesn't do: compress, encrypt, keep several versions of writing.

mod attempts;
mod door;
mod envelope;
mod history;
pub mod inbox;
mod message;
mod open;
mod row;
pub mod saga;
mod segment;
pub mod streams;
mod suspicion;
mod tx_event;

use thiserror::Error;

pub use door::{decode_door, encode_door};
pub use history::{decode_history, encode_history};
pub use open::{decode_open, encode_open};
pub use row::{decode_dead, decode_parked, decode_scheduled, encode_dead, encode_parked, encode_scheduled};
pub use segment::{decode_segment, encode_segment};
pub use suspicion::{decode_suspicion, encode_suspicion};
pub use tx_event::{decode_tx_events, encode_tx_events};

/// Why bytes can't be decoded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CodecError {
    /// A newer host wrote them.
    #[error("it has encoding version {0}, this host reads up to {max}", max = envelope::VERSION)]
    Newer(u8),
    #[error("{0}")]
    Damaged(String),
}

impl From<minicbor::decode::Error> for CodecError {
    fn from(error: minicbor::decode::Error) -> Self {
        Self::Damaged(format!("the checksum holds but the content doesn't decode: {error}"))
    }
}

impl From<waybill_core::error::InputError> for CodecError {
    fn from(error: waybill_core::error::InputError) -> Self {
        Self::Damaged(format!("a stored message isn't valid: {error}"))
    }
}
