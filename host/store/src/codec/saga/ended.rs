//! What one commit ended: `[[ended_at, started_at, tenant, id, apart, put_off], ...]`, so that the background finds what is old
//! without looking at the rest.

use minicbor::encode::Error as EncodeError;
use minicbor::{Decode, Encode};
use waybill_core::ids::Tenant;
use waybill_core::saga::id::{SagaId, SagaKey};
use waybill_core::time::UnixMillis;

use crate::codec::CodecError;
use crate::codec::envelope::{self, Kind};

/// An ended saga, and where its row lies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ended {
    /// When it ended; for one that was put off, as much later as it stays for longer.
    pub at: UnixMillis,
    pub started_at: UnixMillis,
    pub key: SagaKey,
    /// Its tree lies in a record of its own.
    pub apart: bool,
    /// Its time was up once, and it stays until `at` has come.
    pub put_off: bool,
}

#[derive(Debug, Encode, Decode)]
struct WireEnded<'b> {
    #[n(0)]
    at: u64,
    #[n(1)]
    started_at: u64,
    #[b(2)]
    tenant: &'b str,
    #[b(3)]
    id: &'b str,
    #[n(4)]
    apart: Option<bool>,
    #[n(5)]
    put_off: Option<bool>,
}

/// Bytes that one takes, about.
const ENDED_BYTES: usize = 64;

pub fn encode_ended(ended: &[Ended]) -> Result<Vec<u8>, EncodeError<std::convert::Infallible>> {
    let mut list = Vec::with_capacity(ended.len());
    for Ended { at, started_at, key, apart, put_off } in ended {
        list.push(WireEnded {
            at: at.0,
            started_at: started_at.0,
            tenant: key.tenant.as_str(),
            id: key.id.as_str(),
            apart: apart.then_some(true),
            put_off: put_off.then_some(true),
        });
    }
    let mut bytes = envelope::begin(list.len() * ENDED_BYTES);
    minicbor::encode(&list, &mut bytes)?;
    Ok(envelope::seal(Kind::Ended, bytes))
}

pub fn decode_ended(bytes: &[u8]) -> Result<Vec<Ended>, CodecError> {
    let list: Vec<WireEnded<'_>> = minicbor::decode(envelope::open(Kind::Ended, bytes)?)?;
    let ended = |wire: WireEnded<'_>| {
        Ok(Ended {
            at: UnixMillis(wire.at),
            started_at: UnixMillis(wire.started_at),
            key: SagaKey { tenant: Tenant::new(wire.tenant)?, id: SagaId::new(wire.id)? },
            apart: wire.apart.unwrap_or(false),
            put_off: wire.put_off.unwrap_or(false),
        })
    };
    list.into_iter().map(ended).collect()
}
