//! What operators ask: a dead letter goes back, or goes for good.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::InboxOwner;
use super::Rule;
use super::draft::Draft;
use super::entry::{DecisionKind, Entry, Stage};
use crate::ids::Seq;
use crate::inbox::message::InboundMessage;
use crate::inbox::records::{InboxDead, InboxRow, InboxWrite};
use crate::inbox::settings::ConsumerId;
use crate::time::UnixMillis;
use crate::tx_event::TxEventKind;

/// Replayed dead letters that are remembered: of so many, none is still on its way to a second replay.
const REPLAYED_MAX: usize = 10_000;

/// A dead letter that is to be handled again. It becomes a row at a new place, with no attempt; its id stays in the seen set.
#[derive(Clone, Debug)]
pub struct Replay {
    pub dead: Arc<InboxDead>,
    /// Its message, or an edited one with an id of its own.
    pub message: Arc<InboundMessage>,
    /// Who handles it: its consumer, or one that was configured since for what nobody took.
    pub consumer: ConsumerId,
}

/// Part: what waits for a commit.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// Dead letters that were replayed, so that who read one before doesn't replay it again.
    pub replayed: BTreeSet<Seq>,
    pub replays: VecDeque<Replay>,
    pub purges: VecDeque<Seq>,
}

impl Requests {
    fn note_replayed(&mut self, seq: Seq) {
        if self.replayed.len() >= REPLAYED_MAX {
            self.replayed.pop_first();
        }
        self.replayed.insert(seq);
    }
}

impl InboxOwner {
    /// Asks for a replay of a dead letter that was read since this owner took over: nobody else removes any. It is done when
    /// [`super::InboxApplied::requests`] names it. False: its consumer isn't configured here, or it was replayed already.
    pub fn replay(&mut self, replay: Replay) -> bool {
        let seq = replay.dead.seq;
        let is_twin = |other: &Replay| other.dead.seq == seq;
        let is_new = !self.requests.replayed.contains(&seq) && !self.requests.replays.iter().any(is_twin);
        let is_known = is_new && self.config.settings.consumer(replay.consumer).is_some();
        if is_known {
            self.requests.replays.push_back(replay);
        }
        is_known
    }

    /// Asks that a dead letter is removed: done when [`super::InboxApplied::requests`] names it.
    pub fn purge(&mut self, dead: Seq) {
        self.requests.purges.push_back(dead);
    }

    /// Replays get their place and their name when their commit is made: what arrives meanwhile joins them or waits behind them.
    pub(super) fn draft_requests(&mut self, draft: &mut Draft) -> (Vec<(Seq, Replay)>, Vec<Seq>) {
        let purges: Vec<Seq> = self.requests.purges.drain(..).collect();
        draft.writes.extend(purges.iter().map(|seq| InboxWrite::DeleteDead(*seq)));
        let mut replays: Vec<(Seq, Replay)> = Vec::new();
        let mut later = VecDeque::new();
        for replay in std::mem::take(&mut self.requests.replays) {
            // What is in memory under its id is about to be found finished.
            let entry = self.replay_entry(&replay, Seq(0));
            let is_here = entry.is_none_or(|entry| self.entries.seq_of(entry.fingerprint).is_some());
            if is_here || replays.len() >= self.outcomes_max {
                later.push_back(replay);
                continue;
            }
            let seq = self.next_seq();
            let Some(entry) = self.replay_entry(&replay, seq) else { continue };
            let dead = &replay.dead;
            draft.note(TxEventKind::Replay, &dead.consumer, &dead.message, 0, &dead.code);
            draft.writes.push(InboxWrite::DeleteDead(dead.seq));
            draft.writes.push(InboxWrite::PutRow(Arc::new(row(&entry, &replay))));
            draft.row_change(&entry, true);
            if self.is_rule_kept(Rule::RegisterReplay) {
                self.entries.insert(entry);
            }
            self.requests.note_replayed(replay.dead.seq);
            replays.push((seq, replay));
        }
        self.requests.replays = later;
        (replays, purges)
    }

    /// The message that a replay becomes.
    pub(super) fn replay_entry(&self, replay: &Replay, seq: Seq) -> Option<Entry> {
        let (message, dead) = (&replay.message, &replay.dead);
        let name = self.config.settings.consumer(replay.consumer)?.name.clone();
        let secret = self.record.secret;
        let is_same = name == dead.consumer && message.id == dead.message.id;
        let by_id = secret.of_id(&name, &message.id);
        let fingerprint = if is_same { dead.fingerprint } else { by_id };
        let mut entry = Entry::new(seq, fingerprint, secret.of_content(&message.payload), Arc::clone(message));
        entry.order = message.key.as_ref().map(|key| secret.of_key(&name, &message.tenant, key));
        entry.source = self.config.settings.source_named(&message.source);
        (entry.consumer, entry.consumer_name) = (Some(replay.consumer), Some(name));
        entry.stage = Stage::Committing(DecisionKind::Replay);
        (entry.releasable, entry.reused, entry.maybe_handled) = (true, fingerprint != by_id, true);
        Some(entry)
    }
}

fn row(entry: &Entry, replay: &Replay) -> InboxRow {
    InboxRow {
        seq: entry.seq,
        consumer: entry.consumer_name.clone().unwrap_or_else(|| replay.dead.consumer.clone()),
        fingerprint: entry.fingerprint,
        order: entry.order,
        digest: entry.digest,
        message: Arc::clone(&replay.message),
        attempts: 0,
        last_error: None,
        due: UnixMillis::default(),
        delay: std::time::Duration::ZERO,
        maybe_handled: true,
    }
}
