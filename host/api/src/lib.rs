//! What the host says to the outside, once: requests and views with their JSON and their schemas, and the services that the
//! server asks. The engine and the sandbox implement the services and build the views; the server answers them as they are.
//!
//! | file | holds |
//! |---|---|
//! | `messages` | messages sent and shown |
//! | `dead_letters`, `dead_inbox`, `dead_events` | messages and events that can't be delivered or handled, and stuck sagas |
//! | `operations` | bulk acts |
//! | `transports` | transports, and what is missing at their peers |
//! | `inbox` | received messages: stored, handled, waiting |
//! | `events`, `joint_events` | events appended to streams, by themselves and in transactions |
//! | `sources` | what brings messages in |
//! | `streams`, `relays` | streams of events as they are shown and read, and what brings them to brokers |
//! | `stream_stats` | how event streams do |
//! | `workers` | claims and settlements of workers outside |
//! | `status` | depths, holds, audit, readiness |
//! | `history` | the last hour, and what changed |
//! | `glance` | what is known of all that without reading a row |
//! | `quarantine` | rows that could not be read |
//! | `idempotency` | idempotency keys |
//! | `sagas`, `saga_node`, `saga_history` | sagas, their steps, what happened to them |
//! | `saga_definitions` | definitions of sagas |
//! | `plugins` | plugins and their generations |
//! | `configuration` | the configuration, read again |
//! | `tokens` | who may call |
//! | `backup` | backups of everything that is stored |
//! | `list`, `instant`, `headers`, `annotations` | what all of them use |
//!
//! Words that are part of the rules too (states, outcomes, kinds) are enums of `waybill-core` with a schema.

pub mod act_reason;
pub mod annotations;
pub mod backup;
pub mod configuration;
pub mod dead_events;
pub mod dead_inbox;
pub mod dead_letters;
pub mod events;
pub mod facets;
pub mod glance;
pub mod headers;
pub mod history;
pub mod idempotency;
pub mod inbox;
pub mod instant;
pub mod joint_events;
pub mod list;
pub mod messages;
pub mod neighbours;
pub mod operations;
pub mod plugin_outcomes;
pub mod plugins;
pub mod quarantine;
pub mod relays;
pub mod saga_definitions;
pub mod saga_history;
pub mod saga_node;
pub mod saga_ways;
pub mod sagas;
pub mod sources;
pub mod status;
pub mod stream_stats;
pub mod streams;
pub mod tokens;
pub mod transports;
pub mod workers;

use dead_letters::DeadLetterService;
use inbox::InboxService;
use messages::{EnqueueService, MessageService};
use operations::OperationService;
use quarantine::QuarantineService;
use sources::SourceService;
use status::StatusService;
use transports::TransportService;
use workers::WorkerService;

/// The whole outbox as a service.
pub trait OutboxService:
    EnqueueService
    + MessageService
    + DeadLetterService
    + OperationService
    + TransportService
    + WorkerService
    + StatusService
    + QuarantineService
{
}

impl<T> OutboxService for T where
    T: EnqueueService
        + MessageService
        + DeadLetterService
        + OperationService
        + TransportService
        + WorkerService
        + StatusService
        + QuarantineService
{
}

/// The inbox and its sources as a service. Their dead letters and bulk acts are those of [`OutboxService`].
pub trait InboundService: InboxService + SourceService {}

impl<T> InboundService for T where T: InboxService + SourceService {}
