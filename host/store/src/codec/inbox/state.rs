//! What an inbox's shard record holds besides its numbers: takes that are open, suspicion, rows by context, positions of sources.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use minicbor::bytes::ByteSlice;
use minicbor::{Decode, Encode};
use waybill_core::ids::{Seq, SourceName};
use waybill_core::inbox::fingerprint::Fingerprint;
use waybill_core::inbox::records::{ContextCount, InboxShardRecord, SourcePosition};
use waybill_core::inbox::seen::OwnedAge;
use waybill_core::outbox::suspicion::{Suspect, Suspicion};
use waybill_core::time::UnixMillis;

use super::{FINGERPRINT_BYTES, Infallible, fingerprint};
use crate::codec::CodecError;
use crate::codec::envelope::{self, Kind};

/// Bytes besides the lists.
const FIXED_BYTES: usize = 64;
/// Bytes that an open take, a suspect or a context is written in, about.
const ITEM_BYTES: usize = 16;

#[derive(Encode, Decode)]
#[cbor(map)]
struct WireState<'b> {
    /// Beats that wrote takes, each with the differences of those that are open.
    #[n(0)]
    open: Vec<(u64, Vec<u64>)>,
    #[b(1)]
    contexts: Vec<WireContext<'b>>,
    #[b(2)]
    suspicion: Option<WireSuspicion<'b>>,
    /// None where no source has its place here.
    #[b(3)]
    positions: Option<Vec<WirePosition<'b>>>,
}

#[derive(Encode, Decode)]
struct WirePosition<'b> {
    #[b(0)]
    source: &'b str,
    #[b(1)]
    position: &'b str,
    /// Left out while a source has this name.
    #[n(2)]
    unnamed_since: Option<u64>,
}

#[derive(Encode, Decode)]
struct WireContext<'b> {
    #[b(0)]
    name: &'b str,
    #[n(1)]
    count: u64,
    #[n(2)]
    oldest_at: u64,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct WireSuspicion<'b> {
    #[n(0)]
    unclean: u32,
    #[n(1)]
    cautious: bool,
    /// Fingerprints side by side.
    #[b(2)]
    calling: &'b ByteSlice,
    #[b(3)]
    alone: Option<&'b ByteSlice>,
    #[b(4)]
    suspects: Vec<WireSuspect<'b>>,
    #[n(5)]
    lived_ms: u64,
    #[n(6)]
    longest_life_ms: u64,
}

#[derive(Encode, Decode)]
struct WireSuspect<'b> {
    #[b(0)]
    fingerprint: &'b ByteSlice,
    #[n(1)]
    crashes: u32,
    #[n(2)]
    alone: u32,
}

/// What is packed of a shard record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InboxState {
    pub open: BTreeMap<u64, BTreeSet<Seq>>,
    pub suspicion: Suspicion<Fingerprint>,
    pub contexts: BTreeMap<Arc<str>, ContextCount>,
    pub positions: BTreeMap<SourceName, SourcePosition>,
}

fn millis(life: Duration) -> u64 {
    u64::try_from(life.as_millis()).unwrap_or(u64::MAX)
}

/// Differences of ascending seqs.
fn steps(seqs: &BTreeSet<Seq>) -> Vec<u64> {
    let mut before = 0_u64;
    let step = |seq: &Seq| seq.0.wrapping_sub(std::mem::replace(&mut before, seq.0));
    seqs.iter().map(step).collect()
}

fn seqs(steps: Vec<u64>) -> BTreeSet<Seq> {
    let mut seq = 0_u64;
    let step = |step: u64| {
        seq = seq.wrapping_add(step);
        Seq(seq)
    };
    steps.into_iter().map(step).collect()
}

pub fn encode_state(record: &InboxShardRecord) -> Result<Vec<u8>, Infallible> {
    let suspicion = &record.suspicion;
    let calling: Vec<u8> = suspicion.calling.iter().flat_map(|named| named.0).collect();
    let suspects = suspicion.suspects.iter().map(|(named, suspect)| WireSuspect {
        fingerprint: <&ByteSlice>::from(named.0.as_slice()),
        crashes: suspect.crashes,
        alone: suspect.alone,
    });
    let wire = WireState {
        open: record.open.iter().map(|(beat, seqs)| (*beat, steps(seqs))).collect(),
        contexts: record
            .contexts
            .iter()
            .map(|(name, of)| WireContext { name, count: of.count, oldest_at: of.oldest_at.0 })
            .collect(),
        suspicion: (!suspicion.is_empty()).then(|| WireSuspicion {
            unclean: suspicion.unclean,
            cautious: suspicion.cautious,
            calling: <&ByteSlice>::from(calling.as_slice()),
            alone: suspicion.alone.as_ref().map(|alone| <&ByteSlice>::from(alone.0.as_slice())),
            suspects: suspects.collect(),
            lived_ms: millis(suspicion.lived),
            longest_life_ms: millis(suspicion.longest_life),
        }),
        positions: (!record.positions.is_empty()).then(|| record.positions.iter().map(position_to_write).collect()),
    };
    let items = record.open.values().map(BTreeSet::len).sum::<usize>()
        + record.contexts.len()
        + suspicion.calling.len()
        + suspicion.suspects.len();
    let mut bytes = envelope::begin(FIXED_BYTES + items * ITEM_BYTES);
    minicbor::encode(wire, &mut bytes)?;
    Ok(envelope::seal(Kind::InboxState, bytes))
}

fn position_to_write<'r>((name, of): (&'r SourceName, &'r SourcePosition)) -> WirePosition<'r> {
    let unnamed_since = of.unnamed_since.map(|since| since.0);
    WirePosition { source: name.as_str(), position: &of.position, unnamed_since }
}

fn position(wire: WirePosition<'_>) -> Result<(SourceName, SourcePosition), CodecError> {
    let unnamed_since = wire.unnamed_since.map(OwnedAge);
    let position = SourcePosition { position: wire.position.to_owned(), unnamed_since };
    Ok((SourceName::new(wire.source)?, position))
}

fn suspicion(wire: WireSuspicion<'_>) -> Result<Suspicion<Fingerprint>, CodecError> {
    let suspect = |one: WireSuspect<'_>| {
        let suspect = Suspect { crashes: one.crashes, alone: one.alone };
        Ok::<_, CodecError>((fingerprint(one.fingerprint)?, suspect))
    };
    Ok(Suspicion {
        unclean: wire.unclean,
        cautious: wire.cautious,
        calling: wire.calling.chunks(FINGERPRINT_BYTES).map(fingerprint).collect::<Result<_, _>>()?,
        alone: wire.alone.map(|alone| fingerprint(alone)).transpose()?,
        suspects: wire.suspects.into_iter().map(suspect).collect::<Result<_, _>>()?,
        lived: Duration::from_millis(wire.lived_ms),
        longest_life: Duration::from_millis(wire.longest_life_ms),
    })
}

pub fn decode_state(bytes: &[u8]) -> Result<InboxState, CodecError> {
    let wire: WireState<'_> = minicbor::decode(envelope::open(Kind::InboxState, bytes)?)?;
    let context = |of: WireContext<'_>| {
        (Arc::<str>::from(of.name), ContextCount { count: of.count, oldest_at: UnixMillis(of.oldest_at) })
    };
    Ok(InboxState {
        open: wire.open.into_iter().map(|(beat, steps)| (beat, seqs(steps))).collect(),
        contexts: wire.contexts.into_iter().map(context).collect(),
        suspicion: wire.suspicion.map(suspicion).transpose()?.unwrap_or_default(),
        positions: wire.positions.into_iter().flatten().map(position).collect::<Result<_, _>>()?,
    })
}
