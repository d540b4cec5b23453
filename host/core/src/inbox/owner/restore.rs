//! A new owner: rows and takes become messages in memory again, before the first pull.

use super::claims::Claims;
use super::consumers::Consumers;
use super::contexts::Contexts;
use super::entries::Entries;
use super::entry::Entry;
use super::hand::Hand;
use super::inspect::InboxCounts;
use super::positions::Positions;
use super::replay::Requests;
use super::sources::Sources;
use super::touched::Touched;
use super::{InboxConfig, InboxOwner, Rule};
use crate::inbox::limits::COMMIT_OUTCOMES_MAX;
use crate::inbox::records::{InboxShardRecord, InboxTakeover, RowHead};
use crate::time::Now;

impl InboxOwner {
    /// The owner after its takeover went in: `record` is what that commit wrote, `found` was read behind it.
    pub fn restore(config: InboxConfig, record: InboxShardRecord, found: InboxTakeover, now: Now) -> Self {
        let suspicion = &record.suspicion;
        let claims = Claims::new(suspicion.cautious, now.mono + config.caution.lasts(suspicion), suspicion.halves());
        let consumers = Consumers::new(config.settings.consumers.len());
        let mut owner = Self {
            last: record.last,
            adopted_at: now.mono,
            accounted_at: now.mono,
            clock: now.mono,
            entries: Entries::default(),
            hand: Hand::default(),
            sources: Sources::default(),
            positions: Positions::default(),
            consumers,
            contexts: Contexts::default(),
            claims,
            requests: Requests::default(),
            decided: Default::default(),
            alone: Default::default(),
            was_alone: false,
            untaken: Default::default(),
            unloaded: Default::default(),
            unseen: Default::default(),
            orphans: Default::default(),
            timers: Default::default(),
            flight: None,
            outcomes_max: COMMIT_OUTCOMES_MAX,
            late_rows: Vec::new(),
            draining: false,
            unsure: config.unclean,
            touched: Touched::default(),
            counts: InboxCounts::default(),
            record,
            config,
        };
        owner.adopt_takes(&found);
        if owner.is_rule_kept(Rule::RowsBeforePull) {
            owner.adopt_rows(&found.rows, now);
        } else {
            owner.late_rows = found.rows;
        }
        owner
    }

    /// Takes that are open: each waits for its message.
    fn adopt_takes(&mut self, found: &InboxTakeover) {
        for record in &found.takes {
            let Some(open) = self.record.open.get(&record.beat).cloned() else { continue };
            for take in record.takes.iter().filter(|take| open.contains(&take.seq)) {
                self.counts.orphans += 1;
                let entry = Entry::orphan(take, record.beat);
                let seq = entry.seq;
                self.entries.insert(entry);
                self.consider(seq);
            }
        }
    }

    fn adopt_rows(&mut self, rows: &[RowHead], now: Now) {
        for head in rows {
            if self.entries.seq_of(head.fingerprint).is_some() {
                continue;
            }
            let mut entry = Entry::row(head, now.mono + head.wait(now.wall));
            entry.source = self.config.settings.source_named(&head.source);
            entry.consumer = self.config.settings.consumer_named(&head.consumer);
            if let Some(consumer) = entry.consumer.and_then(|id| self.consumers.get_mut(id)) {
                consumer.rows += 1;
            }
            self.contexts.insert(&entry.context, entry.received_at, entry.seq);
            let seq = entry.seq;
            self.entries.insert(entry);
            self.consider(seq);
        }
    }

    /// A mutation of the model: rows are adopted behind the first commits.
    pub(super) fn load_late_rows(&mut self) {
        if self.late_rows.is_empty() || !self.record.beat.is_multiple_of(4) {
            return;
        }
        let rows = std::mem::take(&mut self.late_rows);
        let now = Now { mono: self.clock, wall: crate::time::UnixMillis(u64::MAX) };
        self.adopt_rows(&rows, now);
    }
}
