//! What is read before a commit, in one snapshot, and the commit that comes of it. While a look is under way no commit is, and the other
//! way round: an act that was decided over a look stands when its commit is made.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use waybill_core::ids::RelayName;
use waybill_core::port::store::StoreError;
use waybill_core::port::stream_store::{DueStream, PassFound, StreamSlice};
use waybill_core::streams::name::StreamKey;
use waybill_core::streams::owner::{Built, Extras};
use waybill_core::streams::records::Checkpoint;
use waybill_core::time::Now;

use super::actor::Actor;
use super::due::DUE_PAGE;
use super::feed_trim;
use super::upkeep::UpkeepAsk;
use crate::commit::Driven;

/// Pause after a look that failed.
const TROUBLE_PAUSE: Duration = Duration::from_millis(100);

/// A seek that waits for what is kept of its stream.
pub(super) type SeekLook = (RelayName, StreamKey, Result<StreamSlice, StoreError>);

/// What the store said, of a pass or for upkeep.
pub(super) enum Found {
    Pass {
        /// Commits that were known when it began, if the doorstep was read.
        bell: Option<u64>,
        found: Result<PassFound, StoreError>,
        seeks: Vec<SeekLook>,
        /// The last record of the feed that is old.
        old: Option<u64>,
    },
    Upkeep(Result<(StreamSlice, Vec<Checkpoint>), StoreError>),
    Due(Result<Vec<DueStream>, StoreError>),
}

impl Actor {
    /// Begins a look, if one is wanted and no commit is under way. Passes and upkeep take turns.
    pub(super) fn start_look(&mut self, now: Now) {
        if !self.look.is_idle() || self.flight.is_held_up() || !self.owner_may_write() {
            return;
        }
        let wants_pass = self.wants_pass();
        // Within a pass nothing else is built: what joins it has to wait for all of it.
        if (self.is_upkeep_next || !wants_pass)
            && !self.is_pass_open
            && let Some(ask) = self.next_upkeep(now)
        {
            self.is_upkeep_next = false;
            return self.look_for_upkeep(ask);
        }
        if wants_pass {
            self.is_upkeep_next = true;
            self.look_for_pass(now);
        }
    }

    fn wants_pass(&self) -> bool {
        self.is_pass_open
            || self.door.is_due(self.shared.bell())
            || self.owner.has_waiting()
            || self.relays.iter().any(|relay| relay.is_checkpoint_due())
            || self.owner.relays().iter().any(|relay| !relay.seeks_wanted().is_empty())
            || self.feed_trim.is_due()
    }

    /// A drain ends what was begun and takes nothing more of the doorstep than that needs.
    fn owner_may_write(&self) -> bool {
        !self.is_ending() || self.callers.len() > 0 || self.relays.iter().any(|relay| relay.has_words())
    }

    fn look_for_pass(&mut self, now: Now) {
        let bell = self.shared.bell();
        let is_clean = self.door.is_clean(bell);
        let Some(query) = self.owner.plan(is_clean) else { return };
        self.is_pass_open = true;
        let seeks: Vec<(RelayName, StreamKey)> = self
            .owner
            .relays()
            .iter()
            .flat_map(|relay| relay.seeks_wanted().into_iter().map(|stream| (relay.name().clone(), stream)))
            .collect();
        let before = self.feed_trim.is_due().then(|| {
            self.feed_trim.begins();
            let keep = u64::try_from(self.settings.events.feed_keep.as_millis()).unwrap_or(u64::MAX);
            waybill_core::time::UnixMillis(self.steady.at(now).0.saturating_sub(keep))
        });
        let (store, shard) = (Arc::clone(&self.shared.store), self.owner.shard());
        let bell = query.door.is_some().then_some(bell);
        self.look.begin(async move {
            let found = store.stream_pass(shard, &query).await;
            let looks = seeks.into_iter().map(|(relay, stream)| {
                let store = Arc::clone(&store);
                async move {
                    let slice = store.stream_slice(&stream, 0, 1).await;
                    (relay, stream, slice)
                }
            });
            let seeks = join_all(looks).await;
            let old = match before {
                // It is looked for again in a while when the store doesn't say.
                Some(before) => store.feed_before(shard, before, feed_trim::RECORDS_MAX).await.unwrap_or(None),
                None => None,
            };
            Found::Pass { bell, found, seeks, old }
        });
    }

    fn next_upkeep(&mut self, now: Now) -> Option<UpkeepAsk> {
        let (wall, settings) = (self.steady.at(now), Arc::clone(&self.settings));
        if self.is_ending() { None } else { self.upkeep.next(wall, &settings) }
    }

    fn look_for_upkeep(&mut self, ask: UpkeepAsk) {
        let (store, shard) = (Arc::clone(&self.shared.store), self.owner.shard());
        match ask {
            UpkeepAsk::Stream { stream, after, bytes_max } => {
                let relays = self.holding(&stream);
                self.look
                    .begin(async move { Found::Upkeep(store.upkeep_slice(&stream, &relays, after, bytes_max).await) });
            }
            UpkeepAsk::Due => self.look.begin(async move { Found::Due(store.streams_due(shard, DUE_PAGE).await) }),
        }
    }

    /// Makes a commit of what was read.
    pub(super) fn take_look(&mut self, found: Found, now: Now) {
        let result = match found {
            Found::Pass { bell, found: Ok(found), seeks, old } => {
                let beat = self.owner.record().beat;
                for (name, stream, slice) in seeks {
                    if let (Some(relay), Ok(slice)) = (self.owner.relays_mut().get_mut(&name), slice) {
                        relay.seek_look(&stream, &slice, beat);
                    }
                }
                if let Some(bell) = bell {
                    self.shared.meter.door(self.owner.shard(), &found.rows);
                    self.door.looked(bell, found.is_all && found.rows.is_empty());
                }
                self.is_pass_open = !found.is_all;
                self.feed_trim.found(old);
                if let Some(old) = old {
                    self.shared.meter.feed_trimmed(self.owner.shard(), old);
                }
                Ok((found, Extras { act: None, trim_feed: old }))
            }
            Found::Upkeep(Ok((slice, checkpoints))) => {
                let (settings, wall) = (Arc::clone(&self.settings), self.steady.at(now));
                let act = self.upkeep.decide(&slice, &checkpoints, self.owner.record().beat, wall, &settings);
                // Nothing was read of the doorstep, so nothing that waits for a pass joins.
                Ok((PassFound::default(), Extras { act, trim_feed: None }))
            }
            Found::Due(Ok(rows)) => {
                let act = self.upkeep.found_due(rows, self.owner.record().beat, self.steady.at(now));
                Ok((PassFound::default(), Extras { act, trim_feed: None }))
            }
            Found::Pass { found: Err(error), .. } | Found::Due(Err(error)) => Err(error),
            Found::Upkeep(Err(error)) => {
                self.upkeep.not_applied();
                Err(error)
            }
        };
        match result {
            Ok((found, extras)) => {
                if self.flight.trouble().is_some() {
                    self.flight.note_trouble(None);
                }
                self.build(found, extras, now);
            }
            Err(error) => {
                if self.flight.is_new(&error) {
                    tracing::warn!(shard = self.owner.shard().0, of = "streams", code = error.code().as_str(), %error, "can't look at the shard's streams");
                }
                self.flight.note_trouble(Some(error));
                self.flight.rest(TROUBLE_PAUSE);
            }
        }
    }

    fn build(&mut self, found: PassFound, extras: Extras, now: Now) {
        let had_act = extras.act.is_some();
        let steady = Now { wall: self.steady.at(now), mono: now.mono };
        let Built { commit, answers, has_act } = self.owner.build(found, extras, steady, rand::random());
        self.callers.answer(answers);
        if had_act && !has_act {
            self.upkeep.not_applied();
        }
        for relay in &mut self.relays {
            relay.drafted(commit.is_some());
        }
        if let Some(commit) = commit {
            self.send(commit);
        }
    }
}
