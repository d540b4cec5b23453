//! Encodings of the inbox.
//!
//! | file | holds |
//! |---|---|
//! | `message` | a message that a source brought |
//! | `stopped` | rows, in two parts, and dead letters |
//! | `takes` | the takes of one commit |
//! | `state` | what a shard record says of takes, crashes, contexts and positions of sources |
//! | `done` | what one commit finished |
//! | `door` | what was left for a saga |
//! | `seen` | additions to the seen set, blocks and heads of its buckets |

mod done;
mod door;
mod message;
pub mod seen;
mod state;
mod stopped;
mod takes;

use minicbor::encode::Error as EncodeError;
use waybill_core::inbox::fingerprint::Fingerprint;

use super::CodecError;

pub use done::{decode_done, encode_done};
pub use door::{decode_saga_door, encode_saga_door};
pub use message::{decode_inbound, encode_inbound};
pub use state::{InboxState, decode_state, encode_state};
pub use stopped::{Head, decode_dead, decode_head, encode_dead, encode_head};
pub use takes::{decode_takes, encode_takes};

/// Writing to memory can't fail; the type of the writer says so.
type Infallible = EncodeError<std::convert::Infallible>;

/// Bytes of a fingerprint.
const FINGERPRINT_BYTES: usize = 10;

fn fingerprint(bytes: &[u8]) -> Result<Fingerprint, CodecError> {
    <[u8; FINGERPRINT_BYTES]>::try_from(bytes)
        .map(Fingerprint)
        .map_err(|_| CodecError::Damaged(format!("a fingerprint has {} bytes", bytes.len())))
}
