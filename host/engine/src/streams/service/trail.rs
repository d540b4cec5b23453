//! What operators do, in the audit trail: what was asked before anything is done, and what came of it after.

use serde_json::{Value, json};
use waybill_core::ids::Tenant;
use waybill_core::port::service::ServiceError;
use waybill_core::port::service::streams::StreamAct;
use waybill_core::port::transact::AuditEvent;

use super::Streams;
use crate::service;

/// What an operator does to a stream, to a relay's place in one, or to a dead letter.
#[derive(Clone, Copy, Debug)]
pub(super) enum OperatorAct {
    Purge,
    Delete,
    Import,
    Seek,
    Pause,
    Resume,
    ReplayDead,
    QuarantineDead,
}

impl OperatorAct {
    /// As the trail names it: asked for, done, not done.
    const fn kinds(self) -> [&'static str; 3] {
        match self {
            Self::Purge => ["StreamPurgeRequested", "StreamPurged", "StreamPurgeFailed"],
            Self::Delete => ["StreamDeleteRequested", "StreamDeleted", "StreamDeleteFailed"],
            Self::Import => ["StreamImportRequested", "StreamImported", "StreamImportFailed"],
            Self::Seek => ["RelaySeekRequested", "RelaySought", "RelaySeekFailed"],
            Self::Pause => ["RelayPauseRequested", "RelayPaused", "RelayPauseFailed"],
            Self::Resume => ["RelayResumeRequested", "RelayResumed", "RelayResumeFailed"],
            Self::ReplayDead => ["TxReplayRequested", "DeadEventReplayed", "DeadEventReplayFailed"],
            Self::QuarantineDead => {
                ["DeadEventQuarantineRequested", "DeadLetterQuarantined", "DeadEventQuarantineFailed"]
            }
        }
    }
}

/// Who asked for what.
pub(super) struct Asked {
    pub act: OperatorAct,
    pub actor: String,
    /// Whose stream or dead letter it is; none = a relay's of all tenants.
    pub tenant: Option<Tenant>,
    /// The stream, the relay, or the dead letter.
    pub object: String,
    pub detail: Value,
}

impl Asked {
    /// An act on a stream.
    pub fn of_stream(kind: OperatorAct, act: &StreamAct, detail: Value) -> Self {
        Self {
            act: kind,
            actor: act.actor.clone(),
            tenant: Some(act.stream.tenant.clone()),
            object: act.stream.name.to_string(),
            detail,
        }
    }

    /// A line about it. What it led to stands behind what was asked.
    fn event(&self, streams: &Streams, kind: &str, led_to: Value) -> AuditEvent {
        let mut detail = self.detail.clone();
        if let (Value::Object(detail), Value::Object(led_to)) = (&mut detail, led_to) {
            detail.extend(led_to);
        }
        AuditEvent {
            at: streams.shared.context.clock.now().wall,
            kind: kind.to_owned(),
            actor: self.actor.clone(),
            tenant: self.tenant.as_ref().map(ToString::to_string),
            object: self.object.clone(),
            detail,
        }
    }
}

impl Streams {
    /// Does what was asked, in a task of its own: what is begun ends and is in the trail, whether or not anybody waits for it. Nothing is
    /// begun that can't be written there first.
    pub(super) async fn audited<T: Send + 'static>(
        &self,
        asked: Asked,
        act: impl Future<Output = Result<T, ServiceError>> + Send + 'static,
        led_to: fn(&T) -> Value,
    ) -> Result<T, ServiceError> {
        let this = self.clone();
        let work = tokio::spawn(async move {
            let [requested, done, failed] = asked.act.kinds();
            let context = &this.shared.context;
            context.stores.transact.audit(&asked.event(&this, requested, Value::Null)).await?;
            let result = act.await;
            let event = match &result {
                Ok(result) => asked.event(&this, done, led_to(result)),
                Err(error) => {
                    let led_to = json!({ "code": error.code().as_str(), "error": error.to_string() });
                    asked.event(&this, failed, led_to)
                }
            };
            service::audit(context, &event).await;
            result
        });
        work.await.unwrap_or_else(|ended| Err(ServiceError::Unavailable(ended.to_string())))
    }
}
