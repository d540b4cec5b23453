//! The exports of a component, whatever its world: looked up when it is loaded, called through one type.

use wasmtime::AsContextMut;
use wasmtime::component::{Accessor, Instance, InstancePre};
use waybill_bindings::api::types::{CallInfo, HealthReport, OpenArgs, Opened, Outcome, PluginError};
use waybill_bindings::inbound::inbound_types::{Notices, Verdict};
use waybill_bindings::services::exports::waybill::inbound::source_api::SourceArgs;
use waybill_bindings::services::exports::waybill::inbound::table_api::TableArgs;
use waybill_bindings::services::exports::waybill::inbound::{handler_api, source_api, table_api};
use waybill_bindings::services::exports::waybill::plugin::{participant_api, provision_api, transport_api};
use waybill_core::port::source::SourceWants;

use super::work::{Step, Work};
use crate::contract;
use crate::host::InstanceState;
use crate::manifest::World;

/// Where a component's exports are.
pub(crate) struct Exports {
    world: Indices,
    /// Only of plugins that can provision.
    pub(super) provision: Option<provision_api::GuestIndices>,
}

enum Indices {
    Transport(transport_api::GuestIndices),
    Source(source_api::GuestIndices),
    Table(table_api::GuestIndices),
    Handler(handler_api::GuestIndices),
    Participant(participant_api::GuestIndices),
}

impl Exports {
    /// Finds the exports that `world` needs and checks their types. `provisions`: it exports `provision-api` too.
    pub(crate) fn find(pre: &InstancePre<InstanceState>, world: World, provisions: bool) -> wasmtime::Result<Self> {
        let found = match world {
            World::Transport | World::Broker => {
                contract::check_transport_types(pre)?;
                Indices::Transport(transport_api::GuestIndices::new(pre)?)
            }
            World::Source | World::Database => {
                contract::check_source_types(pre)?;
                if world == World::Database {
                    contract::check_table_types(pre)?;
                }
                Indices::Source(source_api::GuestIndices::new(pre)?)
            }
            World::Table => {
                contract::check_table_types(pre)?;
                Indices::Table(table_api::GuestIndices::new(pre)?)
            }
            World::Handler => {
                contract::check_handler_types(pre)?;
                Indices::Handler(handler_api::GuestIndices::new(pre)?)
            }
            World::Participant => {
                contract::check_participant_types(pre)?;
                Indices::Participant(participant_api::GuestIndices::new(pre)?)
            }
            World::Backoff => return Err(wasmtime::format_err!("a retry policy has no services")),
        };
        let provision = if provisions {
            contract::check_provision_types(pre)?;
            Some(provision_api::GuestIndices::new(pre)?)
        } else {
            None
        };
        Ok(Self { world: found, provision })
    }

    /// Whether it can create what is missing at its peer.
    pub(crate) fn provisions(&self) -> bool {
        self.provision.is_some()
    }

    /// The exports of an instance.
    pub(super) fn load(&self, store: impl AsContextMut, instance: &Instance) -> wasmtime::Result<Guest> {
        Ok(match &self.world {
            Indices::Transport(indices) => Guest::Transport(indices.load(store, instance)?),
            Indices::Source(indices) => Guest::Source(indices.load(store, instance)?),
            Indices::Table(indices) => Guest::Table(indices.load(store, instance)?),
            Indices::Handler(indices) => Guest::Handler(indices.load(store, instance)?),
            Indices::Participant(indices) => Guest::Participant(indices.load(store, instance)?),
        })
    }
}

/// The exports of one instance.
#[derive(Clone)]
pub(super) enum Guest {
    Transport(transport_api::Guest),
    Source(source_api::Guest),
    Table(table_api::Guest),
    Handler(handler_api::Guest),
    Participant(participant_api::Guest),
}

/// What the host wants of an instance, where its world is told at `open`.
#[derive(Clone, Debug)]
pub(crate) enum Wants {
    /// Worlds that are told nothing.
    Nothing,
    Source(SourceWants),
    Table {
        /// Most claims open at once.
        claims: u32,
    },
}

/// What a guest answered, unchecked.
pub(super) enum Replied {
    Sent(Result<Vec<Outcome>, PluginError>),
    Handled(Result<Vec<Verdict>, PluginError>),
    Pulled(Result<source_api::Pulled, PluginError>),
    Settled(Result<Vec<source_api::Settled>, PluginError>),
    Quiesced(Result<(), PluginError>),
    Claimed(Result<table_api::Claimed, PluginError>),
    Committed(Result<table_api::Ended, PluginError>),
    Stats(Result<Vec<table_api::ContextStats>, PluginError>),
    Dead(Result<table_api::DeadPage, PluginError>),
    Replayed(Result<Vec<bool>, PluginError>),
    Executed(Result<participant_api::StepDone, participant_api::StepError>),
    Compensated(Result<participant_api::StepOutput, participant_api::StepError>),
    Health(HealthReport),
    Ticked(Result<(), PluginError>),
    /// A tick of a world that has something to tell.
    Noticed(Result<Notices, PluginError>),
    Closed,
}

type In<'a> = &'a Accessor<InstanceState>;

impl Guest {
    pub(super) async fn open(
        &self,
        at: In<'_>,
        call: CallInfo,
        args: OpenArgs,
        wants: Wants,
    ) -> wasmtime::Result<Result<Opened, PluginError>> {
        match self {
            Self::Transport(guest) => guest.call_open(at, call, args).await,
            Self::Source(guest) => guest.call_open(at, call, args, source_args(wants)?).await,
            Self::Table(guest) => guest.call_open(at, call, args, table_args(wants)?).await,
            Self::Handler(guest) => guest.call_open(at, call, args).await,
            Self::Participant(guest) => guest.call_open(at, call, args).await,
        }
    }

    pub(super) async fn close(&self, at: In<'_>, call: CallInfo) -> wasmtime::Result<()> {
        match self {
            Self::Transport(guest) => guest.call_close(at, call).await,
            Self::Source(guest) => guest.call_close(at, call).await,
            Self::Table(guest) => guest.call_close(at, call).await,
            Self::Handler(guest) => guest.call_close(at, call).await,
            Self::Participant(guest) => guest.call_close(at, call).await,
        }
    }

    /// Calls `health`; worlds without it are ready when they are open.
    pub(super) async fn health(&self, at: In<'_>, call: CallInfo) -> wasmtime::Result<HealthReport> {
        use waybill_bindings::api::types::Health;
        match self {
            Self::Transport(guest) => guest.call_health(at, call).await,
            Self::Source(guest) => guest.call_health(at, call).await,
            Self::Table(guest) => guest.call_health(at, call).await,
            Self::Handler(_) | Self::Participant(_) => {
                Ok(HealthReport { status: Health::Ready, detail: None, attributes: Vec::new() })
            }
        }
    }

    /// Calls `tick`; worlds without it have nothing to keep alive.
    pub(super) async fn tick(&self, at: In<'_>, call: CallInfo) -> wasmtime::Result<Replied> {
        match self {
            Self::Transport(guest) => guest.call_tick(at, call).await.map(Replied::Ticked),
            Self::Source(guest) => guest.call_tick(at, call).await.map(Replied::Noticed),
            Self::Table(guest) => guest.call_tick(at, call).await.map(Replied::Noticed),
            Self::Handler(_) | Self::Participant(_) => Ok(Replied::Ticked(Ok(()))),
        }
    }

    /// Whether it has a `tick`.
    pub(super) fn ticks(&self) -> bool {
        matches!(self, Self::Transport(_) | Self::Source(_) | Self::Table(_))
    }

    /// Whether its ticks tell something that is waited for.
    pub(super) fn tells(&self) -> bool {
        matches!(self, Self::Source(_) | Self::Table(_))
    }

    /// Does one piece of work.
    pub(super) async fn run(&self, at: In<'_>, call: CallInfo, work: Work) -> wasmtime::Result<Replied> {
        match (self, work) {
            (Self::Transport(guest), Work::Send { batch, .. }) => {
                guest.call_send_batch(at, call, batch).await.map(Replied::Sent)
            }
            (Self::Handler(guest), Work::Handle { batch, .. }) => {
                guest.call_handle(at, call, batch).await.map(Replied::Handled)
            }
            (Self::Source(guest), Work::Pull { max, max_bytes, wait }) => {
                guest.call_pull(at, call, max, max_bytes, wait).await.map(Replied::Pulled)
            }
            (Self::Source(guest), Work::Settle { items, .. }) => {
                guest.call_settle(at, call, items).await.map(Replied::Settled)
            }
            (Self::Source(guest), Work::Quiesce) => guest.call_quiesce(at, call).await.map(Replied::Quiesced),
            (Self::Table(guest), Work::Claim(args)) => guest.call_claim(at, call, args).await.map(Replied::Claimed),
            (Self::Table(guest), Work::Commit { claim, marks, .. }) => {
                guest.call_commit(at, call, claim, marks).await.map(Replied::Committed)
            }
            (Self::Table(guest), Work::Stats) => guest.call_stats(at, call).await.map(Replied::Stats),
            (Self::Table(guest), Work::Dead { page, max }) => {
                guest.call_dead(at, call, page, max).await.map(Replied::Dead)
            }
            (Self::Table(guest), Work::Replay(ids)) => guest.call_replay(at, call, ids).await.map(Replied::Replayed),
            (Self::Participant(guest), Work::Execute(Step { name, context, input, .. })) => {
                guest.call_execute(at, call, name, context, input).await.map(Replied::Executed)
            }
            (Self::Participant(guest), Work::Compensate { step: Step { name, context, input, .. }, output }) => {
                guest.call_compensate(at, call, name, context, input, output).await.map(Replied::Compensated)
            }
            (_, Work::Health) => self.health(at, call).await.map(Replied::Health),
            (_, other) => Err(wasmtime::format_err!("this world has no {}", other.function())),
        }
    }

    /// The steps a participant serves, if it is one.
    pub(super) async fn steps(
        &self,
        store: impl AsContextMut<Data = InstanceState>,
    ) -> wasmtime::Result<Vec<participant_api::StepInfo>> {
        match self {
            Self::Participant(guest) => guest.call_steps(store).await,
            _ => Err(wasmtime::format_err!("this world has no steps")),
        }
    }
}

fn source_args(wants: Wants) -> wasmtime::Result<SourceArgs> {
    match wants {
        Wants::Source(wants) => Ok(crate::convert::source::wants(wants)),
        _ => Err(wasmtime::format_err!("it isn't opened as a source")),
    }
}

fn table_args(wants: Wants) -> wasmtime::Result<TableArgs> {
    match wants {
        Wants::Table { claims } => Ok(TableArgs { claims, attributes: Vec::new() }),
        _ => Err(wasmtime::format_err!("it isn't opened as a table")),
    }
}
