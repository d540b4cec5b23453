//! What is known of each act, a file a family.

mod host;
mod outbox;
mod sagas;

use super::{About, Act};

/// What is known of an act.
pub(super) fn of(act: Act) -> &'static About {
    match act {
        Act::DeadReplay => &outbox::DEAD_REPLAY,
        Act::DeadEdit => &outbox::DEAD_EDIT,
        Act::DeadQuarantine => &outbox::DEAD_QUARANTINE,
        Act::DeadPurge => &outbox::DEAD_PURGE,
        Act::MessageSend => &outbox::MESSAGE_SEND,
        Act::MessageCancel => &outbox::MESSAGE_CANCEL,
        Act::MessageReschedule => &outbox::MESSAGE_RESCHEDULE,
        Act::TransportPause => &outbox::TRANSPORT_PAUSE,
        Act::TransportResume => &outbox::TRANSPORT_RESUME,
        Act::TransportProbe => &outbox::TRANSPORT_PROBE,
        Act::SagaStart => &sagas::SAGA_START,
        Act::SagaPause => &sagas::SAGA_PAUSE,
        Act::SagaResume => &sagas::SAGA_RESUME,
        Act::SagaCancel => &sagas::SAGA_CANCEL,
        Act::SagaRetry => &sagas::SAGA_RETRY,
        Act::SagaSkip => &sagas::SAGA_SKIP,
        Act::SagaAccept => &sagas::SAGA_ACCEPT,
        Act::SagaKill => &sagas::SAGA_KILL,
        Act::SagaSignal => &sagas::SAGA_SIGNAL,
        Act::SagaApprove => &sagas::SAGA_APPROVE,
        Act::SagaReject => &sagas::SAGA_REJECT,
        Act::PluginReload => &host::PLUGIN_RELOAD,
        Act::PluginRollback => &host::PLUGIN_ROLLBACK,
        Act::SourcePause => &host::SOURCE_PAUSE,
        Act::SourceResume => &host::SOURCE_RESUME,
        Act::RowsReplay => &host::ROWS_REPLAY,
        Act::RelayPause => &host::RELAY_PAUSE,
        Act::RelayResume => &host::RELAY_RESUME,
        Act::RelaySeek => &host::RELAY_SEEK,
        Act::StreamAppend => &host::STREAM_APPEND,
        Act::StreamPurge => &host::STREAM_PURGE,
        Act::KeyRelease => &host::KEY_RELEASE,
        Act::OperationCancel => &host::OPERATION_CANCEL,
        Act::ConfigurationReload => &host::CONFIGURATION_RELOAD,
    }
}
