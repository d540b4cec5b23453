//! Reads that the next commit needs, made while no commit is out, as [`Preparation`] asks for them.

use std::sync::Arc;

use waybill_core::ids::{MessageId, Place, Tenant};
use waybill_core::new_message::Draft;
use waybill_core::outbox::lookups::Checked;
use waybill_core::outbox::owner::{Command, CommandError, DirectRequest};
use waybill_core::outbox::preparation::{Need, Preparation};
use waybill_core::outbox::records::{DeadLetter, DeadState, Scheduled};
use waybill_core::port::query::Found;
use waybill_core::port::service::ServiceError;
use waybill_core::port::store::StoreError;
use waybill_core::time::UnixMillis;

use super::actor::{Actor, READ_PAUSE};
use super::callers::Caller;
use super::mail::{EnqueueCaller, EnqueuedOne, OperatorCommand};

impl Actor {
    /// Whether something waits that a commit should be prepared for.
    pub(super) fn needs_preparation(&self) -> bool {
        !self.unchecked.is_empty()
            || !self.commands.is_empty()
            || self.owner.wants_scheduled(self.now())
            || self.wants_door_pass()
    }

    pub(super) async fn prepare(&mut self) -> Result<(), StoreError> {
        let mut preparation = Preparation::default();
        let (store, shard) = (Arc::clone(&self.context.stores.owner), self.owner.shard());
        loop {
            let now = self.now();
            let Some(need) = preparation.next(&self.owner, &mut self.unchecked, now) else { return Ok(()) };
            match need {
                Need::Ids(named) => {
                    let read = self.look_up_ids(&named).await;
                    self.asked_for(read)?;
                }
                Need::Commands => {
                    let read = self.read_up_commands().await;
                    self.asked_for(read)?;
                }
                Need::Scheduled { by, limit } => {
                    let page = store.scheduled_due(shard, by, limit).await?;
                    self.owner.scheduled_page(page);
                }
                Need::Bell => {
                    let (bell, now) = (self.context.door.count(), self.now());
                    preparation.check_door(&mut self.owner, &self.door, bell, now);
                }
                Need::Clock { newest } => {
                    let clock = store.door_clock().await?;
                    let newest = if newest { store.door_newest(shard).await? } else { None };
                    preparation.clock(&mut self.owner, &mut self.door, clock, newest);
                }
                Need::Rows(request) => {
                    let (from, until) = (request.from_nanos, request.until_nanos);
                    let rows = store.door(shard, from, until, request.after, request.limit).await?;
                    preparation.rows(&mut self.owner, &mut self.door, rows);
                }
                Need::RowIds(named) => {
                    let found = store.ids(&named).await?;
                    preparation.row_ids(&mut self.owner, &mut self.door, found);
                }
            }
        }
    }

    /// A read that only somebody who asks needs: where a newer host wrote what it is about, they are refused and the shard goes on.
    fn asked_for(&mut self, read: Result<(), StoreError>) -> Result<(), StoreError> {
        match read {
            Err(error @ StoreError::NewerData(_)) => {
                self.refuse_unread(&error);
                Ok(())
            }
            read => read,
        }
    }

    /// The preparation failed. Answers whether the commit is built all the same: what a newer host wrote is no more readable later,
    /// so the shard is given back, and a commit that gives back takes in nothing that would have to be read.
    pub(super) fn goes_on_unread(&mut self, error: StoreError) -> bool {
        if self.flight.is_new(&error) {
            tracing::warn!(code = error.code().as_str(), %error, "can't read what the next commit needs");
        }
        self.refuse_unread(&error);
        let is_newer = matches!(error, StoreError::NewerData(_));
        if is_newer {
            self.give_back(error.clone());
        }
        self.flight.note_trouble(Some(error));
        self.flight.rest(READ_PAUSE);
        is_newer
    }

    // ---- ids -----------------------------------------------------------------------------------------------------

    /// Looks up callers' ids, all in one read.
    async fn look_up_ids(&mut self, named: &[(Tenant, MessageId)]) -> Result<(), StoreError> {
        match self.context.stores.owner.ids(named).await {
            Ok(found) => {
                for checked in self.unchecked.found(found) {
                    self.admit(checked);
                }
                Ok(())
            }
            Err(error) => {
                // The caller refuses what is still unchecked.
                self.unchecked.failed();
                Err(error)
            }
        }
    }

    /// Hands what is new of a request to the owner, or answers it.
    fn admit(&mut self, checked: Checked<EnqueueCaller>) {
        let known = |id: MessageId| EnqueuedOne { id, duplicate: true };
        match checked {
            Checked::New { drafts, slots, caller } => {
                let slots = slots.into_iter().map(|slot| slot.map(known)).collect();
                self.enqueue(drafts, caller, slots);
            }
            Checked::Known { ids, caller } => caller.answer(Ok(ids.into_iter().map(known).collect())),
            Checked::Taken { tenant, id, caller } => {
                let (tenant, id) = (tenant.to_string(), id.to_string());
                caller.answer(Err(ServiceError::IdTaken { tenant, id }));
            }
        }
    }

    pub(super) fn enqueue(&mut self, messages: Vec<Draft>, caller: EnqueueCaller, slots: Vec<Option<EnqueuedOne>>) {
        let ticket = self.ticket();
        self.callers.insert(ticket, Caller::Enqueue { caller, slots });
        let arrived = self.now().mono;
        self.owner.enqueue(DirectRequest { ticket, messages, arrived });
    }

    // ---- commands ------------------------------------------------------------------------------------------------

    async fn read_up_commands(&mut self) -> Result<(), StoreError> {
        while let Some(ask) = self.commands.pop_front() {
            match self.read_up(&ask.command).await {
                Ok(Ok(command)) => {
                    let ticket = self.ticket();
                    match self.owner.command(ticket, command) {
                        Ok(()) => {
                            self.callers.insert(ticket, Caller::Command(ask.reply));
                        }
                        Err(error) => drop(ask.reply.send(Err(refusal(error)))),
                    }
                }
                Ok(Err(refused)) => drop(ask.reply.send(Err(refused))),
                Err(error) => {
                    self.commands.push_front(ask);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    async fn read_up(&mut self, command: &OperatorCommand) -> Result<Result<Command, ServiceError>, StoreError> {
        Ok(match command {
            OperatorCommand::Cancel { place } => match self.context.stores.query.at(*place).await? {
                Some(Found::Flowing { .. }) => {
                    let segment = self.context.stores.owner.segments(self.owner.shard(), &[place.segment]).await?;
                    let segment = segment.into_iter().next().and_then(|stored| stored.segment.ok());
                    Ok(Command::Cancel { place: *place, segment })
                }
                Some(Found::Parked(_)) => Ok(Command::Cancel { place: *place, segment: None }),
                _ => Err(moved_on(*place)),
            },
            OperatorCommand::CancelScheduled { due, id } => {
                self.scheduled(*due, id).await?.map(Command::CancelScheduled)
            }
            OperatorCommand::RescheduleParked { place, due } => {
                Ok(Command::RescheduleParked { place: *place, due: *due })
            }
            OperatorCommand::Reschedule { old, id, due } => {
                self.scheduled(*old, id).await?.map(|scheduled| Command::Reschedule { scheduled, due: *due })
            }
            OperatorCommand::Replay { place, died_at, quarantined_too, by } => match self.dead(*place, *died_at).await?
            {
                Ok(dead) if matches!(dead.state, DeadState::Quarantined { .. }) && !quarantined_too => {
                    Err(ServiceError::State {
                        what: "dead letter",
                        id: dead.message.id.to_string(),
                        state: "quarantined".to_owned(),
                        fix: "replay it by its id",
                    })
                }
                other => other.map(|dead| Command::Replay { dead, by: by.clone() }),
            },
            OperatorCommand::Quarantine { place, died_at, note } => {
                self.dead(*place, *died_at).await?.map(|dead| Command::Quarantine { dead, note: note.clone() })
            }
            OperatorCommand::Purge { place, died_at } => self.dead(*place, *died_at).await?.map(Command::Purge),
        })
    }

    /// The dead letter at a place; with `died_at` only the one that died then.
    async fn dead(
        &mut self,
        place: Place,
        died_at: Option<UnixMillis>,
    ) -> Result<Result<Arc<DeadLetter>, ServiceError>, StoreError> {
        let dead = self.context.stores.owner.dead_letter(self.owner.shard(), place.seq()).await?;
        Ok(match dead {
            None => Err(moved_on(place)),
            Some(dead) if died_at.is_some_and(|at| at != dead.died_at) => Err(ServiceError::State {
                what: "dead letter",
                id: dead.message.id.to_string(),
                state: "dead again since it was read".to_owned(),
                fix: "look at it again: it was put back meanwhile, and died another time",
            }),
            Some(dead) => Ok(dead),
        })
    }

    async fn scheduled(
        &mut self,
        due: UnixMillis,
        id: &MessageId,
    ) -> Result<Result<Arc<Scheduled>, ServiceError>, StoreError> {
        let found = self.context.stores.query.scheduled(self.owner.shard(), due, id).await?;
        Ok(found.ok_or_else(|| ServiceError::State {
            what: "message",
            id: id.to_string(),
            state: "no longer scheduled".to_owned(),
            fix: "look at it again: its time has come meanwhile",
        }))
    }
}

fn moved_on(place: Place) -> ServiceError {
    ServiceError::State {
        what: "message",
        id: waybill_core::ids::host_made_id(place).to_string(),
        state: "in another state by now".to_owned(),
        fix: "look at it again",
    }
}

/// A refused command as the caller hears it.
pub(super) fn refusal(error: CommandError) -> ServiceError {
    let (state, fix) = match error {
        CommandError::BeingSent => ("being sent right now", "wait for the outcome and try again"),
        CommandError::Gone | CommandError::NeedsSegment => ("in another state by now", "look at it again"),
        CommandError::ParkedFull => {
            return ServiceError::Busy {
                what: "the list of its tenant's messages waiting for retries",
                count: 1,
                count_max: 1,
            };
        }
    };
    ServiceError::State { what: "message", id: String::new(), state: state.to_owned(), fix }
}
