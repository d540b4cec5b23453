//! The message of a notice, and where it goes.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;
use waybill_api::messages::EnqueueService;
use waybill_core::alert::{AlertSettings, FALLBACK_KEY, KEY, Notice, Rule, TENANT, Target};
use waybill_core::annotation::Annotation;
use waybill_core::new_message::NewMessage;
use waybill_core::port::service::ServiceError;

use super::observe::Round;
use crate::service::Outbox;

/// A notice that isn't taken within this is tried again in the next round.
const ENQUEUE_TIMEOUT: Duration = Duration::from_secs(10);
/// Event type of alerts.
const EVENT_TYPE: &str = "waybill.alert";

/// Enqueues the message of a notice, once: its id is the same whenever it is made.
pub(super) async fn enqueue(
    outbox: &Outbox,
    settings: &AlertSettings,
    round: &Round,
    notice: &Notice,
) -> Result<(), ServiceError> {
    let (target, key) = target(settings, round, notice);
    let taken = timeout(ENQUEUE_TIMEOUT, outbox.enqueue(vec![message(notice, target, key)])).await;
    match taken {
        Ok(Ok(_)) => {
            let (rule, subject) = (notice.rule.as_str(), &notice.subject);
            tracing::info!(rule, %subject, phase = ?notice.phase, transport = %target.transport, "an alert is enqueued");
            Ok(())
        }
        // It was taken before this host ended, for a receiver that may have been another one.
        Ok(Err(ServiceError::IdTaken { .. })) => Ok(()),
        Ok(Err(error)) => Err(error),
        Err(_late) => Err(ServiceError::Unavailable(format!("it isn't committed within {ENQUEUE_TIMEOUT:?}"))),
    }
}

/// The fallback where the first can't be reached and the fallback can. That the first can't is told to the fallback alone.
fn target<'s>(settings: &'s AlertSettings, round: &Round, notice: &Notice) -> (&'s Target, &'static str) {
    match &settings.fallback {
        Some(fallback) if notice.rule == Rule::AlertsHeld || (round.held.is_some() && !round.is_fallback_held) => {
            (fallback, FALLBACK_KEY)
        }
        _ => (&settings.to, KEY),
    }
}

fn message(notice: &Notice, target: &Target, key: &str) -> NewMessage {
    NewMessage {
        topic: target.topic.clone(),
        payload: Bytes::from(target.format.payload(notice).to_string()),
        id: Some(notice.id()),
        tenant: Some(TENANT.to_owned()),
        key: Some(key.to_owned()),
        event_type: Some(EVENT_TYPE.to_owned()),
        annotations: [(Annotation::ContentType, "application/json")].into(),
        ..NewMessage::default()
    }
}
