//! Large payloads lie beside their chunk, each under the number of its event. A chunk is written again when it is adopted, merged or
//! compacted, and read by who looks for something in it: neither has to move what nobody asks for.
//!
//! A payload is written in the commit that writes its event, and goes in the commit that takes it. Who reads events puts the payloads
//! back in the same snapshot, as many as go into a page; behind them the page ends.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::chunk::{Chunk, StoredChunk, StoredEvent};
use super::envelope;
use super::event::{Body, Event};
use super::name::StreamKey;
use super::records::StreamWrite;
use crate::limits::INLINE_PAYLOAD_BYTES_MAX;

/// Payloads that were looked up, by the numbers of their events; none = it isn't there.
pub type Payloads = BTreeMap<u64, Option<Bytes>>;

/// Writes a chunk for the first time, its large payloads apart.
pub fn put_chunk(stream: &StreamKey, key: u64, chunk: &Arc<Chunk>) -> Vec<StreamWrite> {
    let (stored, mut writes) = match set_apart(chunk) {
        None => (Arc::clone(chunk), Vec::with_capacity(1)),
        Some((stored, payloads)) => {
            let put = |(seq, payload)| StreamWrite::PutBlob { stream: stream.clone(), seq, payload };
            (Arc::new(stored), payloads.into_iter().map(put).collect())
        }
    };
    writes.push(StreamWrite::PutChunk { stream: stream.clone(), key, chunk: stored });
    writes
}

/// Removes the payloads of events that go and lie apart.
pub fn delete_of<'a>(
    stream: &'a StreamKey,
    gone: impl IntoIterator<Item = &'a StoredEvent>,
) -> impl Iterator<Item = StreamWrite> {
    let apart = gone.into_iter().filter(|event| event.apart > 0);
    apart.map(move |event| StreamWrite::DeleteBlob { stream: stream.clone(), seq: event.seq })
}

/// A chunk without its large payloads, and these; none = it has none.
fn set_apart(chunk: &Chunk) -> Option<(Chunk, Vec<(u64, Bytes)>)> {
    if chunk.events.iter().all(|event| event.packed.len() <= INLINE_PAYLOAD_BYTES_MAX) {
        return None;
    }
    let (mut events, mut payloads) = (Vec::with_capacity(chunk.events.len()), Vec::new());
    for event in &chunk.events {
        match without_payload(event) {
            Some((event, payload)) => {
                payloads.push((event.seq, payload));
                events.push(event);
            }
            None => events.push(event.clone()),
        }
    }
    let Chunk { from, last, total, at, .. } = *chunk;
    (!payloads.is_empty()).then_some((Chunk { from, last, total, at, events }, payloads))
}

/// An event without its payload, and this; none = it is small, or lies apart already.
fn without_payload(event: &StoredEvent) -> Option<(StoredEvent, Bytes)> {
    if event.packed.len() <= INLINE_PAYLOAD_BYTES_MAX || event.apart > 0 {
        return None;
    }
    // What can't be read stays as it is.
    let unpacked = envelope::unpack(&event.packed).ok()?;
    let (payload, type_url) = match unpacked.body {
        Body::Any { type_url, value } => (value, Some(type_url)),
        Body::Bytes(bytes) => (bytes, None),
        Body::None | Body::Blob { .. } => return None,
    };
    let apart = u32::try_from(payload.len()).ok().filter(|_| payload.len() > INLINE_PAYLOAD_BYTES_MAX)?;
    let body = Body::Blob { bytes: apart, crc: crc32fast::hash(&payload), type_url };
    let packed = Bytes::from(envelope::pack(&Event { body, ..unpacked }));
    Some((StoredEvent { packed, apart, ..event.clone() }, payload))
}

/// The events from one number to another whose payloads are to be looked up: as many as go into so many bytes with the events between
/// them, and the first event in any case.
pub fn wanted(chunks: &[StoredChunk], (from, to): (u64, u64), bytes_max: usize) -> Vec<u64> {
    let chunks = chunks.iter().map_while(|stored| stored.chunk.as_ref().ok());
    let events = chunks.flat_map(|chunk| &chunk.events).filter(|event| (from..=to).contains(&event.seq));
    let (mut wanted, mut bytes) = (Vec::new(), 0_usize);
    for (place, event) in events.enumerate() {
        bytes = bytes.saturating_add(event.bytes());
        if bytes > bytes_max && place > 0 {
            break;
        }
        wanted.extend((event.apart > 0).then_some(event.seq));
    }
    wanted
}

/// Puts payloads back. Where one isn't there, or isn't what was written, its chunk can't be read: nothing is left out silently.
pub fn put_back(chunks: &mut [StoredChunk], payloads: &Payloads) {
    for stored in chunks {
        let Ok(chunk) = &stored.chunk else { continue };
        if chunk.events.iter().any(|event| event.apart > 0 && payloads.contains_key(&event.seq)) {
            stored.chunk = with_payloads(chunk, payloads).map(Arc::new);
        }
    }
}

fn with_payloads(chunk: &Chunk, payloads: &Payloads) -> Result<Chunk, String> {
    let events = chunk.events.iter().map(|event| match payloads.get(&event.seq) {
        Some(payload) if event.apart > 0 => with_payload(event, payload.as_ref()),
        _ => Ok(event.clone()),
    });
    let events = events.collect::<Result<Vec<_>, _>>()?;
    let Chunk { from, last, total, at, .. } = *chunk;
    Ok(Chunk { from, last, total, at, events })
}

fn with_payload(event: &StoredEvent, payload: Option<&Bytes>) -> Result<StoredEvent, String> {
    let seq = event.seq;
    let payload = payload.ok_or_else(|| format!("the payload of event {seq} isn't there"))?;
    let unpacked = envelope::unpack(&event.packed).map_err(|error| format!("event {seq}: {error}"))?;
    let Body::Blob { bytes, crc, type_url } = unpacked.body else {
        return Err(format!("event {seq} doesn't say what its payload is"));
    };
    if payload.len() != bytes as usize || crc32fast::hash(payload) != crc {
        return Err(format!("the payload of event {seq} isn't what was written"));
    }
    let body = match type_url {
        Some(type_url) => Body::Any { type_url, value: payload.clone() },
        None => Body::Bytes(payload.clone()),
    };
    let packed = Bytes::from(envelope::pack(&Event { body, ..unpacked }));
    Ok(StoredEvent { packed, apart: 0, ..event.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::event::tests::event;
    use crate::streams::fixtures::stream;
    use crate::time::UnixMillis;

    const LARGE: usize = INLINE_PAYLOAD_BYTES_MAX + 1;

    fn bodies() -> [Body; 5] {
        let large = |byte: u8| Bytes::from(vec![byte; LARGE]);
        [
            Body::Bytes(large(1)),
            Body::Bytes(Bytes::from(vec![2; INLINE_PAYLOAD_BYTES_MAX])),
            Body::Any { type_url: "types/Task".into(), value: large(3) },
            Body::None,
            Body::Any { type_url: String::new(), value: large(4) },
        ]
    }

    /// Events 3 to 7, of which the first, the third and the fifth are large.
    fn chunk() -> Arc<Chunk> {
        let events = bodies().into_iter().zip(3..).map(|(body, seq)| {
            let packed = envelope::pack(&Event { body, ..event(&format!("e-{seq}")) }).into();
            StoredEvent { seq, pos: 9, packed, apart: 0 }
        });
        Arc::new(Chunk { from: 2, last: 7, total: 1 << 20, at: UnixMillis(5), events: events.collect() })
    }

    fn parts(writes: Vec<StreamWrite>) -> (Chunk, Payloads) {
        let (mut stored, mut payloads) = (None, Payloads::new());
        for write in writes {
            match write {
                StreamWrite::PutBlob { seq, payload, .. } => drop(payloads.insert(seq, Some(payload))),
                StreamWrite::PutChunk { key: 7, chunk, .. } => stored = Some(chunk.as_ref().clone()),
                other => panic!("{other:?}"),
            }
        }
        (stored.unwrap(), payloads)
    }

    fn stored(chunk: Chunk) -> [StoredChunk; 1] {
        [StoredChunk { last: chunk.last, chunk: Ok(Arc::new(chunk)) }]
    }

    #[test]
    fn large_payloads_lie_apart_and_come_back_byte_for_byte() {
        let whole = chunk();
        let (without, payloads) = parts(put_chunk(&stream("a"), 7, &whole));
        assert_eq!(payloads.keys().copied().collect::<Vec<_>>(), [3, 5, 7]);
        assert!(without.packed_bytes() < INLINE_PAYLOAD_BYTES_MAX + 1_000, "{}", without.packed_bytes());
        assert!(without.bytes() > 3 * LARGE, "what lies apart counts");
        let mut back = stored(Chunk::unpack(&without.pack()).unwrap());
        assert_eq!(wanted(&back, (0, u64::MAX), usize::MAX), [3, 5, 7]);
        put_back(&mut back, &payloads);
        assert_eq!(back[0].chunk, Ok(whole));
    }

    #[test]
    fn a_chunk_without_large_payloads_is_written_as_it_is_and_none_lies_apart_twice() {
        let small = Arc::new(Chunk { events: chunk().events[1..2].to_vec(), ..chunk().as_ref().clone() });
        assert_eq!(parts(put_chunk(&stream("a"), 7, &small)), (small.as_ref().clone(), Payloads::new()));
        let (without, _) = parts(put_chunk(&stream("a"), 7, &chunk()));
        let again = parts(put_chunk(&stream("a"), 7, &Arc::new(without.clone())));
        assert_eq!(again, (without.clone(), Payloads::new()));
        let gone: Vec<_> = delete_of(&stream("a"), &without.events).collect();
        assert_eq!(gone.len(), 3, "{gone:?}");
    }

    #[test]
    fn as_many_payloads_are_wanted_as_go_into_a_page_and_one_at_least() {
        let (without, _) = parts(put_chunk(&stream("a"), 7, &chunk()));
        let back = stored(without);
        for (from, bytes_max, expected) in
            [(0, 0, vec![3_u64]), (4, 0, vec![]), (4, 3 * LARGE, vec![5]), (5, LARGE, vec![5]), (8, usize::MAX, vec![])]
        {
            assert_eq!(wanted(&back, (from, u64::MAX), bytes_max), expected, "{from} {bytes_max}");
        }
        assert_eq!(wanted(&back, (4, 5), usize::MAX), [5]);
    }

    #[test]
    fn a_payload_that_is_gone_or_another_one_makes_its_chunk_unreadable() {
        let (without, payloads) = parts(put_chunk(&stream("a"), 7, &chunk()));
        let flipped = || {
            let mut bytes = payloads[&5].as_ref().unwrap().to_vec();
            bytes[100] ^= 1;
            Some(Bytes::from(bytes))
        };
        for (wrong, told) in [(None, "isn't there"), (flipped(), "isn't what"), (Some(Bytes::new()), "isn't what")] {
            let mut back = stored(without.clone());
            put_back(&mut back, &Payloads::from([(5, wrong)]));
            let reason = back[0].chunk.as_ref().unwrap_err();
            assert!(reason.contains(told) && reason.contains("event 5"), "{reason}");
        }
    }
}
