//! The next commit.

use super::StreamOwner;
use super::door::Ticket;
use super::draft::{DirectAnswer, Draft, Flight};
use super::rows::{Source, Taken};
use crate::port::stream_store::PassFound;
use crate::streams::name::StreamKey;
use crate::streams::records::{StreamCommit, StreamShardRecord, StreamWrite};
use crate::streams::rules::Rule;
use crate::streams::upkeep::Act;
use crate::time::Now;

/// What else goes into a commit.
#[derive(Debug, Default)]
pub struct Extras {
    /// An act of upkeep. It is left out where this commit numbers, adopts or seeks in its stream, or another commit came since it was made.
    pub act: Option<Act>,
    /// Feed records up to this one are old.
    pub trim_feed: Option<u64>,
}

/// What came of a look.
#[derive(Debug, Default)]
pub struct Built {
    /// None = nothing is to be written.
    pub commit: Option<StreamCommit>,
    /// Answers that wait for no commit.
    pub answers: Vec<(Ticket, DirectAnswer)>,
    /// The act of upkeep is in the commit.
    pub has_act: bool,
}

impl StreamOwner {
    /// The next commit, of what [`Self::plan`] asked for. `now.wall` is a steady clock's; `nonce` is fresh and random.
    pub fn build(&mut self, found: PassFound, extras: Extras, now: Now, nonce: u64) -> Built {
        if self.flight.is_some() {
            return Built::default();
        }
        let mut draft = Draft::new(&self.record, now.wall);
        let taken = self.take(&found, &mut draft);
        self.door.left = taken.left;
        if found.is_all {
            self.door.end();
        } else {
            self.door.until = Some(found.until);
        }
        let alone = self.turn.alone().cloned();
        if let Some(stream) = alone.as_ref().filter(|_| draft.known.is_empty() && found.is_all) {
            self.turn.settled(stream);
        }
        let mut record = StreamShardRecord { beat: self.record.beat + 1, nonce, ..self.record.clone() };
        let published = draft.feed(&mut record, self.config.shard);
        let has_act = self.draft_act(extras.act, &mut draft);
        if let Some(pos) = extras.trim_feed {
            draft.write(StreamWrite::TrimFeed(pos));
        }
        let relay = self.relays.draft(&mut draft.writes, &mut record);
        self.audit(record.beat, now.wall, &mut draft.writes);
        let has_work = !draft.writes.is_empty();
        if !has_work && !self.is_beat_due(now) {
            // What was answered was read in a snapshot: it needs no commit.
            self.counts.duplicates += draft.duplicates as u64;
            return Built { commit: None, answers: draft.answers, has_act: false };
        }
        let only_checkpoints = draft.writes.iter().all(|write| matches!(write, StreamWrite::PutCheckpoint { .. }));
        if has_work && only_checkpoints && !self.is_rule_kept(Rule::EveryCommitWritesShard) {
            record = self.record.clone();
        }
        let commit = draft.commit(self.config.shard, &self.record, record.clone());
        self.lease_begun = now.mono;
        self.flight = Some(Flight {
            record,
            answers: draft.answers,
            directs: draft.directs,
            published,
            known: draft.known.into_iter().collect(),
            heads: draft.heads,
            duplicates: draft.duplicates,
            alone,
            relay,
            is_refused: false,
            barriers: Vec::new(),
        });
        Built { commit: Some(commit), answers: Vec::new(), has_act }
    }

    /// Takes what this turn takes, and numbers it.
    fn take(&mut self, found: &PassFound, draft: &mut Draft) -> Taken {
        let mut taken = self.take_rows(found.rows.clone(), draft);
        self.take_directs(&mut taken, found);
        let mut put_back = Vec::new();
        for (stream, work) in std::mem::take(&mut taken.streams) {
            let done =
                if self.is_left(&stream, found, draft) { Err(work) } else { self.work(&stream, work, found, draft) };
            if let Err(work) = done {
                taken.left += work.looks.len();
                for source in work.sources {
                    match source {
                        Source::Door(..) => taken.left += 1,
                        Source::Direct(direct) => put_back.push(direct),
                    }
                }
                taken.blocked.insert(stream);
            }
        }
        put_back.sort_by_key(|direct| direct.ticket);
        self.door.push_back(put_back);
        taken
    }

    /// The commit has enough, or the stream moved under the last one: then it goes alone.
    fn is_left(&mut self, stream: &StreamKey, found: &PassFound, draft: &Draft) -> bool {
        let suspected = self.suspects.remove(stream);
        let moved = suspected.is_some_and(|last| found.streams.get(stream).is_some_and(|view| view.head.last != last));
        if moved && self.turn.alone().is_none() {
            self.turn.moved(stream.clone());
            return true;
        }
        draft.weight > self.config.commit_bytes
    }

    fn draft_act(&mut self, act: Option<Act>, draft: &mut Draft) -> bool {
        let Some(act) = act else { return false };
        if act.beat != self.record.beat || draft.touched.contains(&act.stream) || !self.may_keep_up(&act.stream) {
            return false;
        }
        let mut known = self.heads.get(&act.stream).cloned();
        if let (Some(known), Some(rest)) = (&mut known, act.rest()) {
            known.rest = rest;
        }
        draft.known.extend(known.map(|known| (act.stream.clone(), known)));
        for write in act.writes {
            draft.write(write);
        }
        true
    }

    /// Half of the lease is over: the next commit says that the owner lives, also if there is nothing else to say.
    fn is_beat_due(&self, now: Now) -> bool {
        self.lease_until - now.mono <= self.config.owner_ttl / 2
    }
}
