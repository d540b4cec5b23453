//! Journal records: `[tables, [entry, ...]]`, what one commit holds of many trees.

use minicbor::encode::Error as EncodeError;
use minicbor::{Decode, Decoder, Encode, Encoder};
use waybill_core::ids::Tenant;
use waybill_core::saga::id::{SagaId, SagaKey};
use waybill_core::saga::records::JournalEntry;

use super::event::{self, WireEvent};
use super::shared::{Packing, Tables, Unpacking};
use crate::codec::CodecError;
use crate::codec::envelope::{self, Kind};

#[derive(Debug, Encode, Decode)]
#[cbor(map)]
struct WireEntry<'b> {
    #[b(0)]
    tenant: &'b str,
    #[b(1)]
    id: &'b str,
    #[n(2)]
    from: u32,
    #[b(3)]
    events: Vec<WireEvent<'b>>,
    #[n(4)]
    ended: Option<bool>,
}

/// Encodes the entries of a commit. The beat is the record's key and isn't repeated.
pub fn encode_journal(entries: &[JournalEntry]) -> Result<Vec<u8>, EncodeError<std::convert::Infallible>> {
    let mut packing = Packing::new(false);
    let mut weight = 0;
    let mut wire = Vec::with_capacity(entries.len());
    for entry in entries {
        weight += entry.events.iter().map(|event| event.what.weight()).sum::<usize>();
        wire.push(WireEntry {
            tenant: entry.key.tenant.as_str(),
            id: entry.key.id.as_str(),
            from: entry.from,
            events: entry.events.iter().map(|event| event::pack(event, &mut packing)).collect(),
            ended: entry.ended.then_some(true),
        });
    }
    let mut encoder = Encoder::new(envelope::begin(weight));
    encoder.array(2)?.encode(packing.tables())?.encode(&wire)?;
    Ok(envelope::seal(Kind::Journal, encoder.into_writer()))
}

/// Decodes the entries of a commit.
pub fn decode_journal(bytes: &[u8]) -> Result<Vec<JournalEntry>, CodecError> {
    let mut decoder = Decoder::new(envelope::open(Kind::Journal, bytes)?);
    decoder.array()?;
    let tables: Tables<'_> = decoder.decode()?;
    let unpacking = Unpacking::of(&tables)?;
    let wire: Vec<WireEntry<'_>> = decoder.decode()?;
    let entry = |wire: WireEntry<'_>| {
        Ok(JournalEntry {
            key: SagaKey { tenant: Tenant::new(wire.tenant)?, id: SagaId::new(wire.id)? },
            from: wire.from,
            events: wire
                .events
                .into_iter()
                .map(|event| event::unpack(event, &unpacking))
                .collect::<Result<_, CodecError>>()?,
            ended: wire.ended.unwrap_or(false),
        })
    };
    wire.into_iter().map(entry).collect()
}
