//! What a shard record says of crashes: `{unclean, cautious, calling, alone?, suspects, lived?, longest_life?}`, lives in milliseconds.
//! Seqs are written as differences to the one before: those of one segment take a byte each. Rows of earlier versions have no lives.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use minicbor::encode::Error as EncodeError;
use minicbor::{Decode, Encode};
use waybill_core::ids::Seq;
use waybill_core::outbox::suspicion::{Suspect, Suspicion};

use super::CodecError;
use super::envelope::{self, Kind};

/// Bytes besides the seqs.
const FIXED_BYTES: usize = 32;
/// Bytes that a suspect takes, or a named message.
const SEQ_BYTES: usize = 4;

#[derive(Encode, Decode)]
#[cbor(map)]
struct WireSuspicion {
    #[n(0)]
    unclean: u32,
    #[n(1)]
    cautious: bool,
    #[n(2)]
    calling: Vec<u64>,
    #[n(3)]
    alone: Option<u64>,
    #[n(4)]
    suspects: Vec<WireSuspect>,
    #[n(5)]
    lived: Option<u64>,
    #[n(6)]
    longest_life: Option<u64>,
}

#[derive(Encode, Decode)]
struct WireSuspect {
    #[n(0)]
    step: u64,
    #[n(1)]
    crashes: u32,
    #[n(2)]
    alone: u32,
}

/// Differences of ascending numbers.
#[derive(Default)]
struct Steps(u64);

impl Steps {
    fn to(&mut self, seq: Seq) -> u64 {
        let step = seq.0.wrapping_sub(self.0);
        self.0 = seq.0;
        step
    }
    fn by(&mut self, step: u64) -> Seq {
        self.0 = self.0.wrapping_add(step);
        Seq(self.0)
    }
}

/// A life as it is written; none took no time.
fn millis(life: Duration) -> Option<u64> {
    Some(u64::try_from(life.as_millis()).unwrap_or(u64::MAX)).filter(|millis| *millis > 0)
}

fn life(millis: Option<u64>) -> Duration {
    Duration::from_millis(millis.unwrap_or(0))
}

pub fn encode_suspicion(suspicion: &Suspicion) -> Result<Vec<u8>, EncodeError<std::convert::Infallible>> {
    let (mut named, mut suspected) = (Steps::default(), Steps::default());
    let wire = WireSuspicion {
        unclean: suspicion.unclean,
        cautious: suspicion.cautious,
        calling: suspicion.calling.iter().map(|seq| named.to(*seq)).collect(),
        alone: suspicion.alone.map(|seq| seq.0),
        suspects: suspicion
            .suspects
            .iter()
            .map(|(seq, suspect)| WireSuspect {
                step: suspected.to(*seq),
                crashes: suspect.crashes,
                alone: suspect.alone,
            })
            .collect(),
        lived: millis(suspicion.lived),
        longest_life: millis(suspicion.longest_life),
    };
    let seqs = suspicion.calling.len() + suspicion.suspects.len();
    let mut bytes = envelope::begin(FIXED_BYTES + seqs * SEQ_BYTES);
    minicbor::encode(wire, &mut bytes)?;
    Ok(envelope::seal(Kind::Suspicion, bytes))
}

pub fn decode_suspicion(bytes: &[u8]) -> Result<Suspicion, CodecError> {
    let wire: WireSuspicion = minicbor::decode(envelope::open(Kind::Suspicion, bytes)?)?;
    let (mut named, mut suspected) = (Steps::default(), Steps::default());
    let calling: BTreeSet<Seq> = wire.calling.into_iter().map(|step| named.by(step)).collect();
    let suspects: BTreeMap<Seq, Suspect> = wire
        .suspects
        .into_iter()
        .map(|one| (suspected.by(one.step), Suspect { crashes: one.crashes, alone: one.alone }))
        .collect();
    Ok(Suspicion {
        unclean: wire.unclean,
        cautious: wire.cautious,
        calling,
        alone: wire.alone.map(Seq),
        suspects,
        lived: life(wire.lived),
        longest_life: life(wire.longest_life),
    })
}
