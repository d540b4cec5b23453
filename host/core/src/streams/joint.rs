//! Events that commit with something else: with rows and messages, with the state of a step, with the mark of a handler.
//!
//! Events of one stream are one append, in order. Where its first event names the number that the stream has to end at, they number
//! themselves in that commit; others go over the doorstep, and never make it fail.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::event::{EventError, NewEvent};
use super::exact::{ExactAnswer, ExactAppend, ExactRefusal};
use super::name::StreamKey;
use super::records::{Append, DoorContent, StreamWrite};
use crate::error::{InputError, InputResult};
use crate::ids::{EventId, ShardId};
use crate::port::service::streams::{EventInput, StreamError};
use crate::port::transact::DoorGroup;
use crate::time::UnixMillis;

/// An event as somebody asks for it beside something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JointEvent {
    pub stream: StreamKey,
    pub event: EventInput,
    /// Only if the stream ends at this number; 0 = it has never had an event. Of an event that follows another in the same stream, the
    /// number of that one, if it is given at all.
    pub expected_seq: Option<u64>,
    /// Trace context of who leaves it, for spans: that of the first event of a stream counts.
    pub traceparent: Option<Arc<str>>,
}

/// All events of one stream in a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JointAppend {
    /// Numbered by the owner of this shard.
    Plain { shard: ShardId, append: Arc<Append> },
    /// Numbered by the commit itself.
    Exact(ExactAppend),
}

impl JointAppend {
    pub fn append(&self) -> &Append {
        match self {
            Self::Plain { append, .. } => append,
            Self::Exact(exact) => &exact.append,
        }
    }

    /// Which streams' doorstep it leaves something on: events, or a note of them.
    pub fn shard(&self) -> ShardId {
        match self {
            Self::Plain { shard, .. } => *shard,
            Self::Exact(exact) => exact.append.stream.shard(exact.shards),
        }
    }

    /// The row of the doorstep, of one that its owner numbers.
    pub fn door_row(&self) -> Option<StreamWrite> {
        match self {
            Self::Plain { shard, append } => {
                Some(StreamWrite::PutDoor { shard: *shard, content: DoorContent::Append(Arc::clone(append)) })
            }
            Self::Exact(_) => None,
        }
    }
}

/// The events of a commit. Of one transaction each stream is there once; of a group, each stream in which events number themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JointAppends {
    pub list: Vec<JointAppend>,
    /// The steady clock of who commits, for the events that number themselves.
    pub at: UnixMillis,
}

impl JointAppends {
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Puts others behind these.
    pub fn extend(&mut self, others: Self) {
        self.at = self.at.max(others.at);
        self.list.extend(others.list);
    }

    /// Those that number themselves in the commit.
    pub fn exact(&self) -> impl Iterator<Item = &ExactAppend> {
        self.list.iter().filter_map(|append| match append {
            JointAppend::Exact(exact) => Some(exact),
            JointAppend::Plain { .. } => None,
        })
    }

    /// Whether the commit may be refused because of them.
    pub fn has_exact(&self) -> bool {
        self.exact().next().is_some()
    }

    /// Streams in which events number themselves.
    pub fn exact_streams(&self) -> impl Iterator<Item = &StreamKey> {
        self.exact().map(|exact| &exact.append.stream)
    }

    /// Bytes that they are counted with against a commit's bound.
    pub fn weight(&self) -> usize {
        self.list.iter().map(|append| append.append().weight()).sum()
    }

    /// What has to be equal for a repeated transaction to count as the same one, ids that callers chose included; none = there are no
    /// events, and the rest alone says it.
    pub fn digest(&self, rest: Option<[u8; 32]>) -> Option<[u8; 32]> {
        if self.list.is_empty() {
            return rest;
        }
        let mut hash = Sha256::new();
        let mut part = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_be_bytes());
            hash.update(bytes);
        };
        part(rest.as_ref().map_or(&[], |rest| rest.as_slice()));
        for joint in &self.list {
            let append = joint.append();
            part(append.stream.tenant.as_str().as_bytes());
            part(append.stream.name.as_str().as_bytes());
            match joint {
                JointAppend::Plain { .. } => part(&[]),
                JointAppend::Exact(exact) => part(&exact.expected.to_be_bytes()),
            }
            for event in &append.events {
                part(if event.is_indexed { event.id.as_str().as_bytes() } else { &[] });
                part(&event.digest.0);
            }
        }
        Some(hash.finalize().into())
    }
}

/// Whether a transaction was committed before: all of its events numbered themselves then, under the same ids. One that was there in part
/// is another transaction that borrows an id, and so is one with a message whose id its caller chose and that isn't there. `exact` is what
/// was decided of each that numbers itself.
pub fn is_repeat(appends: &JointAppends, exact: &[&ExactAnswer], messages: &[DoorGroup]) -> Result<bool, ExactRefusal> {
    let repeats = exact.iter().filter(|answer| answer.is_repeat).count();
    if repeats == 0 {
        return Ok(false);
    }
    let has_new = messages.iter().flat_map(|group| &group.messages).any(|message| message.caller_id);
    if repeats == appends.list.len() && !has_new {
        return Ok(true);
    }
    let ids = appends.exact().filter_map(|exact| exact.append.events.first());
    let borrowed = ids.zip(exact).find(|(_, answer)| answer.is_repeat);
    Err(borrowed.map_or(ExactRefusal::Empty, |(event, _)| ExactRefusal::IdTaken { id: event.id.clone() }))
}

/// Events, sorted by stream, and where each of them went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SortedEvents {
    pub appends: JointAppends,
    /// Of each event as it was asked for, its append and its place in it.
    pub places: Vec<(usize, usize)>,
}

impl SortedEvents {
    /// Ids of the events as they were asked for, each with its append and its place in it.
    pub fn ids(&self) -> impl Iterator<Item = (&EventId, (usize, usize))> {
        self.places.iter().filter_map(|place| {
            let events = &self.appends.list.get(place.0)?.append().events;
            Some((&events.get(place.1)?.id, *place))
        })
    }
}

/// Sorts events by stream. `admit` checks one, with its number in the request from 0, and packs it.
pub fn sort(
    events: Vec<JointEvent>,
    (shards, at): (u16, UnixMillis),
    mut admit: impl FnMut(usize, &StreamKey, EventInput) -> Result<NewEvent, EventError>,
) -> Result<SortedEvents, StreamError> {
    let mut of_stream: BTreeMap<StreamKey, usize> = BTreeMap::new();
    let mut appends: Vec<(Append, Option<u64>)> = Vec::new();
    let (mut places, mut ids) = (Vec::with_capacity(events.len()), BTreeSet::new());
    for (index, JointEvent { stream, event, expected_seq, traceparent }) in events.into_iter().enumerate() {
        let new = admit(index, &stream, event).map_err(|error| StreamError::Event { index, error })?;
        if new.is_indexed && !ids.insert((stream.tenant.clone(), new.id.clone())) {
            return Err(StreamError::IdTaken { id: new.id });
        }
        let slot = *of_stream.entry(stream.clone()).or_insert_with(|| {
            appends.push((Append { stream, events: Vec::new(), traceparent }, expected_seq));
            appends.len() - 1
        });
        let Some((append, expected)) = appends.get_mut(slot) else { continue };
        let place = append.events.len();
        let follows = expected.and_then(|first| first.checked_add(place as u64));
        if let Some(given) = expected_seq
            && follows != Some(given)
        {
            return Err(StreamError::Event { index, error: out_of_order(given, follows).into() });
        }
        append.events.push(new);
        places.push((slot, place));
    }
    let list = appends.into_iter().map(|(append, expected)| match expected {
        Some(expected) => JointAppend::Exact(ExactAppend::new(append, expected, shards)),
        None => JointAppend::Plain { shard: append.stream.shard(shards), append: Arc::new(append) },
    });
    Ok(SortedEvents { appends: JointAppends { list: list.collect(), at }, places })
}

/// The id of an event that a call leaves behind, of the call's key and the event's place among those that it leaves, from 0.
pub fn derived_id(key: &str, place: usize) -> InputResult<EventId> {
    let mut hash = Sha256::new();
    hash.update(key.as_bytes());
    hash.update(format!("#event-{place}"));
    let digest: String = hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    EventId::new(format!("left-{digest}"))
}

fn out_of_order(given: u64, follows: Option<u64>) -> InputError {
    let rule = match follows {
        Some(_) => "isn't what it ends at after the events before this one: leave it out, or count on",
        None => "comes too late: the stream's first event in the request has none, so give it there",
    };
    InputError::name("expected_seq", &given.to_string(), rule)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::event::EventLimits;
    use crate::streams::event::tests::event;
    use crate::streams::fixtures::stream;

    fn asked(name: &str, id: &str, expected_seq: Option<u64>) -> JointEvent {
        let event = event(id);
        let event = EventInput {
            id: Some(event.id),
            ts: None,
            resource_type: event.resource_type,
            resource_id: event.resource_id,
            op: event.op,
            schema_version: event.schema_version,
            node_uuid: None,
            correlation_id: None,
            cause: None,
            headers: event.headers,
            content_type: None,
            body: event.body,
        };
        JointEvent { stream: stream(name), event, expected_seq, traceparent: None }
    }

    fn sorted(events: Vec<JointEvent>) -> Result<SortedEvents, StreamError> {
        sort(events, (4, UnixMillis(9)), |_, stream, input| {
            let id = input.id.clone().unwrap();
            input.into_event(|| id, UnixMillis(1)).admit(&stream.name, &EventLimits::default(), true)
        })
    }

    #[test]
    fn events_of_one_stream_are_one_append_and_are_found_again() {
        let sorted = sorted(vec![
            asked("a", "1", Some(7)),
            asked("b", "2", None),
            asked("a", "3", None),
            asked("a", "4", Some(9)),
        ])
        .unwrap();
        let [JointAppend::Exact(exact), JointAppend::Plain { shard, append }] = sorted.appends.list.as_slice() else {
            panic!("{sorted:?}")
        };
        assert_eq!((exact.expected, exact.shards, exact.append.events.len()), (7, 4, 3));
        assert_eq!((*shard, append.events.len()), (stream("b").shard(4), 1));
        let ids: Vec<&str> = sorted.ids().map(|(id, _)| id.as_str()).collect();
        assert_eq!((ids, sorted.places.clone()), (vec!["1", "2", "3", "4"], vec![(0, 0), (1, 0), (0, 1), (0, 2)]));
    }

    #[test]
    fn a_number_that_does_not_follow_is_refused_with_its_event() {
        for (first, second) in [(Some(7), Some(7)), (Some(7), Some(9)), (None, Some(0))] {
            let error =
                sorted(vec![asked("b", "0", None), asked("a", "1", first), asked("a", "2", second)]).unwrap_err();
            assert!(matches!(error, StreamError::Event { index: 2, .. }), "{error}");
        }
    }

    #[test]
    fn an_id_is_there_once_in_a_commit() {
        let error = sorted(vec![asked("a", "1", None), asked("b", "1", Some(0))]).unwrap_err();
        assert!(matches!(error, StreamError::IdTaken { .. }), "{error}");
    }

    #[test]
    fn the_digest_tells_streams_numbers_ids_and_contents_apart() {
        let digest = |events| sorted(events).unwrap().appends.digest(None).unwrap();
        let first = digest(vec![asked("a", "1", None)]);
        assert_eq!(first, digest(vec![asked("a", "1", None)]));
        let mut other = asked("a", "1", None);
        other.event.cause = Some("manual".into());
        for events in [
            vec![asked("b", "1", None)],
            vec![asked("a", "2", None)],
            vec![asked("a", "1", Some(0))],
            vec![other],
            vec![asked("a", "1", None), asked("a", "2", None)],
        ] {
            assert_ne!(first, digest(events));
        }
        let rest = Some([1; 32]);
        assert_eq!(JointAppends::default().digest(rest), rest, "without events nothing changes");
        assert_ne!(sorted(vec![asked("a", "1", None)]).unwrap().appends.digest(rest), Some(first));
    }

    #[test]
    fn a_transaction_is_a_repeat_as_a_whole_or_not_at_all() {
        let appends = |second| sorted(vec![asked("a", "1", Some(0)), asked("b", "2", second)]).unwrap().appends;
        let answer = |is_repeat| ExactAnswer { seqs: vec![1], is_repeat };
        let (new, old) = (answer(false), answer(true));
        assert_eq!(is_repeat(&appends(Some(0)), &[&new, &new], &[]), Ok(false));
        assert_eq!(is_repeat(&appends(Some(0)), &[&old, &old], &[]), Ok(true));
        let id = EventId::new("2").unwrap();
        assert_eq!(is_repeat(&appends(Some(0)), &[&new, &old], &[]), Err(ExactRefusal::IdTaken { id }));
        let id = EventId::new("1").unwrap();
        assert_eq!(
            is_repeat(&appends(None), &[&old], &[]),
            Err(ExactRefusal::IdTaken { id }),
            "the other one isn't known"
        );
    }
}
