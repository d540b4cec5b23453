//! Adopting and numbering in one stream.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::StreamOwner;
use super::door::Direct;
use super::draft::{DirectAnswer, Draft};
use super::heads::Known;
use super::rows::{Source, Work};
use crate::outbox::records::DoorKey;
use crate::port::stream_store::PassFound;
use crate::streams::blob;
use crate::streams::chunk::{Chunk, StoredChunk, StoredEvent};
use crate::streams::envelope::EventHead;
use crate::streams::event::NewEvent;
use crate::streams::exact::chunk_key;
use crate::streams::name::StreamKey;
use crate::streams::records::{
    Append, EventIdKey, EventIdRecord, Refusal, StreamDead, StreamHead, StreamView, StreamWrite,
};
use crate::streams::rules::Rule;

/// Code of an event of the doorstep whose id belongs to another one.
const ID_TAKEN: &str = "EVENT.ID_TAKEN";

/// What the index, or this commit, has of an id.
enum Prior {
    Nothing,
    /// The same event, with this number.
    Same(u64),
    Other,
}

impl StreamOwner {
    /// Does what is to be done in a stream, or gives it back: it can't be numbered yet, and its rows stay where they lie.
    pub(super) fn work(
        &mut self,
        stream: &StreamKey,
        work: Work,
        found: &PassFound,
        draft: &mut Draft,
    ) -> Result<(), Work> {
        let Some(view) = self.view(stream, found) else { return Err(work) };
        let mut known = self.heads.get(stream).cloned().unwrap_or_default();
        (known.head, known.rest) = (view.head, view.rest);
        let numbers = !work.sources.is_empty();
        let is_adopted = if numbers && !self.is_rule_kept(Rule::AdoptFirst) {
            true
        } else {
            self.adopt(stream, &mut known, &view.unnamed, draft)
        };
        if !is_adopted {
            // The feed has more to name than one commit takes: numbering waits, and so do the rows.
            draft.known.insert(stream.clone(), known);
            return Err(work);
        }
        for key in work.looks {
            draft.write(StreamWrite::DeleteDoor(key));
        }
        if numbers {
            self.number(stream, &mut known, work.sources, found, draft);
        }
        draft.known.insert(stream.clone(), known);
        Ok(())
    }

    /// What the commit goes by: what was just read, else what is known.
    fn view(&self, stream: &StreamKey, found: &PassFound) -> Option<StreamView> {
        let read = found.streams.get(stream);
        let known = self.heads.get(stream);
        let from_known = || known.map(|known| StreamView { head: known.head, rest: known.rest, unnamed: Vec::new() });
        if !self.is_rule_kept(Rule::HeadsAreChecked)
            && let Some(view) = from_known()
        {
            return Some(view);
        }
        read.cloned().or_else(from_known)
    }

    /// Names what exact appenders put there: rewrites their chunks with their place in the feed. The head isn't written, for that would
    /// abort the next exact append. True: nothing unnamed is left.
    fn adopt(&mut self, stream: &StreamKey, known: &mut Known, unnamed: &[StoredChunk], draft: &mut Draft) -> bool {
        let mut named_to = known.rest.named_to(&known.head);
        let from = named_to;
        // What was trimmed before the stream came here has never been in it.
        let first = known.rest.first;
        for stored in unnamed {
            let last = match &stored.chunk {
                Ok(chunk) if chunk.from < named_to || chunk.last > known.head.last => continue,
                Ok(chunk) => {
                    let adopted = Arc::new(chunk.adopted(draft.pos, draft.at));
                    if self.is_rule_kept(Rule::AdoptedAreFound) {
                        self.index(stream, known, &adopted, draft);
                    }
                    draft.name(stream, first.max(named_to + 1), chunk.last, Some(Arc::clone(&adopted)));
                    self.counts.adopted += adopted.events.len() as u64;
                    let (last, key) = (chunk.last, stored.last);
                    // A large payload lies in it still where it was written in the database itself.
                    for write in blob::put_chunk(stream, key, &adopted) {
                        draft.write(write);
                    }
                    last
                }
                // It stays as it is, and readers get an error at its range.
                Err(_) if stored.last > named_to => {
                    draft.name(stream, named_to + 1, stored.last, None);
                    self.counts.unreadable += 1;
                    stored.last
                }
                Err(_) => continue,
            };
            named_to = last;
        }
        if named_to > from {
            known.rest.fed = named_to;
            draft.touched.insert(stream.clone());
            draft.write(StreamWrite::PutRest { stream: stream.clone(), rest: known.rest });
        }
        named_to >= known.head.last
    }

    /// Gives numbers, in order.
    fn number(
        &mut self,
        stream: &StreamKey,
        known: &mut Known,
        sources: Vec<Source>,
        found: &PassFound,
        draft: &mut Draft,
    ) {
        let from = known.head.last;
        let mut chunk = Chunk { from, last: from, total: known.head.bytes, at: draft.at, events: Vec::new() };
        for source in sources {
            match source {
                Source::Door(key, append) => self.number_row(&key, &append, &mut chunk, found, draft),
                Source::Direct(direct) => self.number_direct(direct, &mut chunk, found, draft),
            }
        }
        if chunk.events.is_empty() {
            return;
        }
        draft.touched.insert(stream.clone());
        self.counts.numbered += chunk.events.len() as u64;
        let fed = if self.is_rule_kept(Rule::AdoptFirst) { chunk.last } else { known.head.fed };
        if self.is_rule_kept(Rule::HeadsAreChecked) {
            draft.heads.push((stream.clone(), from));
        }
        known.head = StreamHead { last: chunk.last, fed, bytes: chunk.total };
        draft.write(StreamWrite::PutHead { stream: stream.clone(), head: known.head });
        let (key, chunk) = (chunk_key(&chunk, self.config.rules), Arc::new(chunk));
        self.index(stream, known, &chunk, draft);
        for write in blob::put_chunk(stream, key, &chunk) {
            draft.write(write);
        }
        draft.name(stream, from + 1, chunk.last, Some(chunk));
    }

    fn number_row(&mut self, key: &DoorKey, append: &Append, chunk: &mut Chunk, found: &PassFound, draft: &mut Draft) {
        for event in &append.events {
            match self.prior(&append.stream, event, found, draft) {
                Prior::Nothing => {
                    self.push(&append.stream, event, chunk, draft);
                }
                Prior::Same(_) => draft.duplicates += 1,
                Prior::Other => {
                    let reason = format!("its id {} was used before with other content", event.id);
                    let why = Refusal { code: ID_TAKEN.to_owned(), reason };
                    let (key, stream, event) = (key.clone(), append.stream.clone(), event.clone());
                    draft.write(StreamWrite::PutDead(Box::new(StreamDead::Door { key, stream, event, why })));
                    self.counts.dead += 1;
                }
            }
        }
        draft.write(StreamWrite::DeleteDoor(key.clone()));
    }

    /// All of it, or nothing where one of its ids is another one's.
    fn number_direct(&mut self, direct: Direct, chunk: &mut Chunk, found: &PassFound, draft: &mut Draft) {
        let Append { stream, events, .. } = direct.append.as_ref();
        let mut own = BTreeMap::new();
        let taken = events.iter().position(|event| {
            let is_other = matches!(self.prior(stream, event, found, draft), Prior::Other);
            let twice = event.is_indexed && own.insert(&event.id, event.digest).is_some_and(|was| was != event.digest);
            is_other || twice
        });
        let answer = match taken {
            Some(place) => DirectAnswer::IdTaken(place),
            None => {
                let (mut seqs, mut duplicates) = (Vec::with_capacity(events.len()), Vec::new());
                for (place, event) in events.iter().enumerate() {
                    if let Prior::Same(seq) = self.prior(stream, event, found, draft) {
                        duplicates.push(place);
                        seqs.push(seq);
                    } else {
                        seqs.push(self.push(stream, event, chunk, draft));
                    }
                }
                draft.duplicates += duplicates.len();
                DirectAnswer::Numbered { seqs, duplicates }
            }
        };
        draft.answers.push((direct.ticket, answer));
        draft.directs.push(direct);
    }

    fn prior(&self, stream: &StreamKey, event: &NewEvent, found: &PassFound, draft: &Draft) -> Prior {
        if !event.is_indexed || !self.is_rule_kept(Rule::CompareIds) {
            return Prior::Nothing;
        }
        let key = id_key(stream, event);
        match draft.ids.get(&key).or_else(|| found.ids.get(&key)) {
            None => Prior::Nothing,
            Some(record) if record.stream == *stream && record.digest == event.digest => Prior::Same(record.seq),
            Some(_) => Prior::Other,
        }
    }

    fn push(&self, stream: &StreamKey, event: &NewEvent, chunk: &mut Chunk, draft: &mut Draft) -> u64 {
        chunk.last += 1;
        chunk.total += event.packed.len() as u64;
        chunk.events.push(StoredEvent { seq: chunk.last, pos: draft.pos, packed: event.packed.clone(), apart: 0 });
        if event.is_indexed && self.is_rule_kept(Rule::CompareIds) {
            let record = EventIdRecord { stream: stream.clone(), seq: chunk.last, digest: event.digest, at: draft.at };
            draft.ids.insert(id_key(stream, event), record.clone());
            draft.write(StreamWrite::CreateId { id: id_key(stream, event), record });
        }
        chunk.last
    }

    /// Lets selectors by node and type find the stream.
    fn index(&self, stream: &StreamKey, known: &mut Known, chunk: &Chunk, draft: &mut Draft) {
        for event in &chunk.events {
            let Ok(head) = EventHead::of(&event.packed) else { continue };
            if known.is_new_node(head.node_uuid) {
                draft.write(StreamWrite::PutNode { stream: stream.clone(), node: head.node_uuid.to_owned() });
            }
            if known.is_new_type(head.resource_type) {
                let resource_type = head.resource_type.to_owned();
                draft.write(StreamWrite::PutType { stream: stream.clone(), resource_type });
            }
        }
    }
}

fn id_key(stream: &StreamKey, event: &NewEvent) -> EventIdKey {
    (stream.tenant.clone(), event.id.clone())
}
