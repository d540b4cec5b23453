//! Upkeep: one act at most in a commit, over one snapshot.

use std::time::Duration;

use waybill_core::streams::upkeep::{
    Act, Compaction, Latest, MergeSettings, Retention, UpkeepView, compact, merge, trim,
};

use super::setup::{COMPACTED, SHARDS, STREAMS};
use super::stats::Stats;
use super::world::World;

#[derive(Clone, Copy, Debug)]
pub(super) enum ActKind {
    Merge,
    Trim(u64),
    Compact { events: u64, purges: bool },
}

impl ActKind {
    pub fn count(self, stats: &mut Stats) {
        match self {
            Self::Merge => stats.merges += 1,
            Self::Trim(events) => stats.trimmed += events,
            Self::Compact { events, purges } => {
                stats.compacted += events;
                stats.purges += u64::from(purges);
            }
        }
    }
}

impl World {
    /// An act on one of the shard's streams, if there is something to do.
    pub(super) fn draw_act(&mut self, host: usize, shard: usize) -> Option<(ActKind, Act)> {
        let stream = shard + usize::from(SHARDS) * self.rng.index(STREAMS / usize::from(SHARDS));
        let key = self.setup.stream(stream).clone();
        let life = self.hosts[host].lives[shard].as_ref()?;
        let (beat, holding) = (life.owner.record().beat, life.owner.relays().holding(&key));
        let (slice, checkpoints) = self.store.read(|tables| {
            let checkpoints: Vec<_> = holding.iter().map(|relay| tables.streams.checkpoint(relay, &key)).collect();
            (tables.streams.slice(&key, 0, usize::MAX), checkpoints)
        });
        let rules = self.setup.rules;
        let mut view = UpkeepView::new(key, beat, &slice, &checkpoints, rules);
        if view.chunks.is_empty() {
            return None;
        }
        match self.rng.below(3) {
            0 => {
                view.chunks.drain(..self.rng.index(view.chunks.len()));
                let settings = MergeSettings { fan: 2 + self.rng.index(2), sealed_events: 50, sealed_bytes: 1 << 20 };
                Some((ActKind::Merge, merge(&view, settings, rules)?.act))
            }
            1 => {
                let keep = self.setup.keep[stream]?;
                let keep = if self.rng.percent(6) { 0 } else { keep };
                let retention = Retention { keep_count: Some(keep), ..Retention::default() };
                let act = trim(&view, &retention, self.clock().wall, rules)?;
                Some((ActKind::Trim(act.events), act))
            }
            _ if stream == COMPACTED => {
                let count = 1 + self.rng.index(view.chunks.len());
                // A pass may be about a part of the resources only, wherever that begins.
                let behind = self.rng.percent(30).then(|| ("TASK".to_owned(), format!("r{}", self.rng.below(3))));
                let mut latest = Latest::behind(behind, 1 + self.rng.index(4));
                view.chunks.iter().take(count).for_each(|chunk| latest.see(chunk));
                let purges = self.rng.percent(40);
                let compaction = Compaction { tombstone_keep: purges.then_some(Duration::ZERO) };
                let act = compact(&view, &latest, &compaction, self.clock().wall, rules)?;
                Some((ActKind::Compact { events: act.events, purges: act.raises_purged(&view.rest) }, act))
            }
            _ => None,
        }
    }
}
