//! Encodings of event streams. That of a chunk is the core's own (`waybill_core::streams::chunk`), for replay copies of it.
//!
//! | file | holds |
//! |---|---|
//! | `door` | the events of an append on a doorstep |
//! | `feed` | what one commit added |
//! | `relay` | how far relays are |
//! | `dead` | dead letters |

mod dead;
mod door;
mod feed;
mod relay;

use minicbor::encode::Error as EncodeError;
use waybill_core::ids::Tenant;
use waybill_core::streams::event::EventDigest;
use waybill_core::streams::name::{StreamKey, StreamName};

use super::CodecError;

pub use dead::{decode_dead, encode_dead};
pub use door::{decode_append, encode_append};
pub use feed::{decode_feed, encode_feed};
pub use relay::{decode_marks, decode_settled, encode_marks, encode_settled};

/// Writing to memory can't fail; the type of the writer says so.
type Infallible = EncodeError<std::convert::Infallible>;

/// A digest from its bytes, wherever they are kept.
pub fn digest(bytes: &[u8]) -> Result<EventDigest, CodecError> {
    <[u8; 16]>::try_from(bytes)
        .map(EventDigest)
        .map_err(|_| CodecError::Damaged(format!("a digest has {} bytes", bytes.len())))
}

fn stream(tenant: &str, name: &str) -> Result<StreamKey, CodecError> {
    Ok(StreamKey { tenant: Tenant::new(tenant)?, name: StreamName::new(name)? })
}
