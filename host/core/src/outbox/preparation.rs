//! The way to the next commit: which reads it needs, in which order, and what is built from them.
//!
//! Pure, so that the engine's actor and the model checker go by one and the same. While no commit is out, whoever drives an owner
//! begins a [`Preparation`] and does what [`Preparation::next`] asks for until nothing is left; then comes [`build`]. A read that
//! fails ends the preparation where it is: it is dropped, and another one begins later.

use super::door_watch::{DoorWatch, Look};
use super::lone_trials::LoneTrials;
use super::lookups::Lookups;
use super::owner::{Built, DoorPage, DoorPassRequest, Owner};
use super::records::{DoorRow, IdRecord};
use crate::ids::{MessageId, Tenant};
use crate::time::{Now, UnixMillis};

/// What the next commit needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// The rows of ids that callers chose: [`Lookups::found`], or [`Lookups::failed`].
    Ids(Vec<(Tenant, MessageId)>),
    /// What operators ask for is to be read up, so that it becomes commands of the owner.
    Commands,
    /// Scheduled messages that are due: [`Owner::scheduled_page`].
    Scheduled {
        by: UnixMillis,
        /// So many at most.
        limit: usize,
    },
    /// How many doorstep commits have ended, and then the time: [`Preparation::check_door`].
    Bell,
    /// The clock that stamps doorstep rows: [`Preparation::clock`].
    Clock {
        /// And the newest stamp on the doorstep.
        newest: bool,
    },
    /// A page of the doorstep: [`Preparation::rows`].
    Rows(DoorPassRequest),
    /// The rows of the ids on that page: [`Preparation::row_ids`].
    RowIds(Vec<(Tenant, MessageId)>),
}

/// How far a preparation is.
#[derive(Clone, Debug, Default)]
enum Stage {
    #[default]
    Ids,
    Commands,
    Scheduled,
    Bell,
    Clock(Look),
    Rows(DoorPassRequest),
    RowIds(DoorPassRequest, Vec<DoorRow>),
    Over,
}

/// The reads of one commit. It waits where it is until it has the answer.
#[derive(Clone, Debug, Default)]
pub struct Preparation(Stage);

impl Preparation {
    /// What is needed next; none = nothing more, the commit can be built.
    pub fn next<C>(&mut self, owner: &Owner, lookups: &mut Lookups<C>, now: Now) -> Option<Need> {
        loop {
            match &self.0 {
                Stage::Ids => {
                    self.0 = Stage::Commands;
                    let named = lookups.ask(owner);
                    if !named.is_empty() {
                        return Some(Need::Ids(named));
                    }
                }
                Stage::Commands => {
                    self.0 = Stage::Scheduled;
                    return Some(Need::Commands);
                }
                Stage::Scheduled => {
                    self.0 = Stage::Bell;
                    if owner.wants_scheduled(now) {
                        return Some(Need::Scheduled { by: now.wall, limit: owner.config().limits.scheduled_page });
                    }
                }
                Stage::Bell => return Some(Need::Bell),
                Stage::Clock(look) => return Some(Need::Clock { newest: look.full }),
                Stage::Rows(request) => return Some(Need::Rows(request.clone())),
                Stage::RowIds(_, rows) => return Some(Need::RowIds(DoorPage::ids(rows))),
                Stage::Over => return None,
            }
        }
    }

    /// Looks at the doorstep, if it is time to. What had come there by `bell` is covered, so it is read before `now`, and that
    /// before the clock that stamps rows.
    pub fn check_door<W>(&mut self, owner: &mut Owner, door: &DoorWatch<W>, bell: u64, now: Now) {
        self.0 = door.due_look(owner, bell, now).map_or(Stage::Over, Stage::Clock);
    }

    /// Takes the clock that stamps rows and the newest stamp on the doorstep.
    pub fn clock<W>(&mut self, owner: &mut Owner, door: &mut DoorWatch<W>, clock: u64, newest: Option<u64>) {
        if let Stage::Clock(look) = self.0 {
            self.0 = Stage::Rows(door.begin(owner, look, clock, newest));
        }
    }

    /// Takes a page of the doorstep.
    pub fn rows<W>(&mut self, owner: &mut Owner, door: &mut DoorWatch<W>, rows: Vec<DoorRow>) {
        if let Stage::Rows(request) = std::mem::replace(&mut self.0, Stage::Over) {
            self.0 = Stage::RowIds(request, rows);
            if self.names_nothing() {
                self.row_ids(owner, door, Vec::new());
            }
        }
    }

    fn names_nothing(&self) -> bool {
        matches!(&self.0, Stage::RowIds(_, rows) if DoorPage::ids(rows).is_empty())
    }

    /// Takes what was found for the ids on that page, one slot for each.
    pub fn row_ids<W>(&mut self, owner: &mut Owner, door: &mut DoorWatch<W>, found: Vec<Option<IdRecord>>) {
        if let Stage::RowIds(request, rows) = std::mem::replace(&mut self.0, Stage::Over) {
            door.page(owner, DoorPage::of(&request, rows, found));
        }
    }
}

/// Builds the commit when everything that it needs was read. `nonce` is fresh and random.
pub fn build(owner: &mut Owner, trials: &LoneTrials, now: Now, nonce: u64) -> Built {
    let shard = owner.shard();
    owner.set_trial_elsewhere(!trials.begin(shard, owner.standing(), now.mono));
    let built = owner.build(now, nonce);
    if !owner.has_lone_trial() {
        trials.end(shard);
    }
    built
}
