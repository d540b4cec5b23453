//! Trees: `[tables, tree]`.

use std::collections::VecDeque;
use std::sync::Arc;

use minicbor::encode::Error as EncodeError;
use minicbor::{Decode, Decoder, Encode, Encoder};
use waybill_core::ids::Tenant;
use waybill_core::saga::event::EventKind;
use waybill_core::saga::id::{SagaId, SagaKey};
use waybill_core::saga::state::{Pause, Tree};
use waybill_core::time::UnixMillis;

use super::event::{self, WireEvent};
use super::numbers::{WireEnum, lacking};
use super::shared::{Packing, Tables, Unpacking};
use super::started::{self, WireStarted};
use super::step::{self, WireNode};
use crate::codec::CodecError;
use crate::codec::envelope::{self, Kind};

#[derive(Debug, Encode, Decode)]
struct WirePause<'b> {
    #[n(0)]
    at: u64,
    #[n(1)]
    cause: u8,
    #[b(2)]
    actor: Option<&'b str>,
    #[b(3)]
    note: Option<&'b str>,
}

#[derive(Debug, Encode, Decode)]
#[cbor(map)]
struct WireTree<'b> {
    #[b(0)]
    tenant: &'b str,
    #[b(1)]
    id: &'b str,
    #[n(2)]
    events: u32,
    /// None where the first event says all of it.
    #[b(3)]
    started: Option<WireStarted<'b>>,
    #[b(4)]
    sagas: Vec<WireNode<'b>>,
    #[b(5)]
    paused: Option<WirePause<'b>>,
    #[n(6)]
    updated_at: u64,
    #[n(7)]
    weight: u64,
    #[b(8)]
    history: Vec<WireEvent<'b>>,
    #[n(9)]
    dropped: Option<u32>,
    #[b(10)]
    latest: Option<Vec<WireEvent<'b>>>,
}

fn pack<'b>(tree: &'b Tree, packing: &mut Packing<'b>) -> WireTree<'b> {
    let told = match tree.history.first().map(|first| &first.what) {
        Some(EventKind::Started(first)) => started::is_bare(&tree.started, first),
        _ => false,
    };
    WireTree {
        tenant: tree.key.tenant.as_str(),
        id: tree.key.id.as_str(),
        events: tree.events,
        started: (!told).then(|| started::pack(&tree.started, packing)),
        sagas: tree.sagas.iter().map(|node| step::pack(node, packing)).collect(),
        paused: tree.paused.as_ref().map(|pause| WirePause {
            at: pause.at.0,
            cause: pause.cause.number(),
            actor: pause.actor.as_deref(),
            note: pause.note.as_deref(),
        }),
        updated_at: tree.updated_at.0,
        weight: tree.weight as u64,
        history: tree.history.iter().map(|event| event::pack(event, packing)).collect(),
        dropped: (tree.dropped != 0).then_some(tree.dropped),
        latest: (!tree.latest.is_empty())
            .then(|| tree.latest.iter().map(|event| event::pack(event, packing)).collect()),
    }
}

pub fn encode_tree(tree: &Tree) -> Result<Vec<u8>, EncodeError<std::convert::Infallible>> {
    let mut packing = Packing::new(true);
    let wire = pack(tree, &mut packing);
    let mut encoder = Encoder::new(envelope::begin(tree.weight));
    encoder.array(2)?.encode(packing.tables())?.encode(&wire)?;
    Ok(envelope::seal(Kind::Tree, encoder.into_writer()))
}

pub fn decode_tree(bytes: &[u8]) -> Result<Tree, CodecError> {
    let mut decoder = Decoder::new(envelope::open(Kind::Tree, bytes)?);
    decoder.array()?;
    let tables: Tables<'_> = decoder.decode()?;
    let unpacking = Unpacking::of(&tables)?;
    let wire: WireTree<'_> = decoder.decode()?;
    let events = |events: Vec<WireEvent<'_>>| -> Result<Vec<_>, CodecError> {
        events.into_iter().map(|event| event::unpack(event, &unpacking)).collect()
    };
    let history = events(wire.history)?;
    let started = match (wire.started, history.first().map(|first| &first.what)) {
        (Some(started), _) => started::unpack(started, &unpacking)?,
        (None, Some(EventKind::Started(first))) => started::bare(first),
        (None, _) => return Err(lacking("what a saga was started with")),
    };
    let pause = |pause: WirePause<'_>| {
        Ok::<_, CodecError>(Pause {
            at: UnixMillis(pause.at),
            cause: WireEnum::of(pause.cause)?,
            actor: pause.actor.map(Arc::from),
            note: pause.note.map(Arc::from),
        })
    };
    Ok(Tree {
        key: SagaKey { tenant: Tenant::new(wire.tenant)?, id: SagaId::new(wire.id)? },
        events: wire.events,
        started,
        sagas: wire.sagas.into_iter().map(|node| step::unpack(node, &unpacking)).collect::<Result<_, _>>()?,
        paused: wire.paused.map(pause).transpose()?,
        updated_at: UnixMillis(wire.updated_at),
        weight: usize::try_from(wire.weight).unwrap_or(usize::MAX),
        history,
        dropped: wire.dropped.unwrap_or(0),
        latest: VecDeque::from(events(wire.latest.unwrap_or_default())?),
    })
}
