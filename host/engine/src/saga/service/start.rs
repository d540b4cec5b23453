//! New sagas, and repeats of a start.

use std::sync::Arc;

use waybill_core::annotation::Annotation;
use waybill_core::ids::check_chosen;
use waybill_core::new_message::check_headers;
use waybill_core::port::saga::{StartSaga, StartedSaga};
use waybill_core::port::transport::PluginIdentity;
use waybill_core::saga::definition::{Action, DefinitionSet};
use waybill_core::saga::error::SagaError;
use waybill_core::saga::id::{SagaId, SagaKey};
use waybill_core::saga::limits::{TIMEOUT_MAX, TIMEOUT_MIN};
use waybill_core::saga::shard::{NewSaga, SagaCommand, SagaReply, is_same_start};
use waybill_core::time::UnixMillis;

use super::Sagas;

/// Looks at the store for a caller's id: more are only needed while thousands of sagas end at once.
const LOOKS: u32 = 8;
/// Ids made until one falls on a shard that this host writes.
const ID_TRIES: usize = 256;

impl Sagas {
    pub(super) async fn start_saga(&self, start: StartSaga) -> Result<StartedSaga, SagaError> {
        check(&start)?;
        let (bytes, bytes_max) = (start.input.len(), self.shared.context.live().config.sagas.limits.input_bytes_max);
        if bytes > bytes_max {
            return Err(SagaError::InputTooLarge { bytes, bytes_max });
        }
        let definitions = self.shared.definitions.set(self.store(), &start.definition, start.version).await?;
        start.id.as_deref().map_or(Ok(()), check_chosen)?;
        let named = start.id.as_deref().map(SagaId::root).transpose()?;
        let now = self.now();
        let key = match &named {
            Some(id) => SagaKey { tenant: start.tenant.clone(), id: id.clone() },
            None => self.made_key(&start, now)?,
        };
        let text = |text: &Option<String>| text.as_deref().map(Arc::from);
        let new = NewSaga {
            key,
            caller_id: named.is_some(),
            at: named.is_none().then_some(now),
            looked_up: None,
            plugins: self.plugins(&definitions),
            definitions,
            version: start.version,
            input: start.input.clone(),
            deadline: start.deadline.map(|deadline| now.plus(deadline)),
            headers: start.headers.clone(),
            envelope_id: text(&start.envelope_id),
            correlation_id: text(&start.correlation_id),
            traceparent: text(&start.traceparent),
            default_retry: self.shared.context.live().config.sagas.default_retry,
            actor: Some(Arc::from(start.actor.as_str())),
        };
        if named.is_some() { self.start_named(&start, new).await } else { self.submit(new).await }
    }

    async fn submit(&self, new: NewSaga) -> Result<StartedSaga, SagaError> {
        let shard = self.shard(&new.key)?;
        match shard.command(SagaCommand::Start(Box::new(new))).await? {
            SagaReply::Started { id, duplicate } => Ok(StartedSaga { id, duplicate }),
            SagaReply::Acted(acted) => Ok(StartedSaga { id: acted.id, duplicate: true }),
        }
    }

    /// With a caller's id: the store is asked whether it is taken by one that ended, and the shard whether one ended since.
    async fn start_named(&self, start: &StartSaga, mut new: NewSaga) -> Result<StartedSaga, SagaError> {
        let mut looks = 0;
        loop {
            let beat = self.shard(&new.key)?.beat();
            if looks > 0 {
                let shard = self.shard(&new.key)?.shard;
                if let Some(row) = self.store().saga(shard, &new.key).await? {
                    let id = new.key.id;
                    if !is_same_start(&row.tree, &start.definition, start.version, &start.input) {
                        return Err(SagaError::IdTaken { id: id.to_string() });
                    }
                    return Ok(StartedSaga { id, duplicate: true });
                }
                new.looked_up = Some(beat);
            }
            looks += 1;
            match self.submit(new.clone()).await {
                // What is in memory is known without a look at the store.
                Err(SagaError::LookAgain) if looks <= LOOKS => {}
                other => return other,
            }
        }
    }

    /// The key of a saga without a caller's id: on a shard that this host writes, if it writes any. The id holds the instant at
    /// which the saga begins, so that the store finds its row by the id alone.
    fn made_key(&self, start: &StartSaga, at: UnixMillis) -> Result<SagaKey, SagaError> {
        let make = || -> Result<SagaKey, SagaError> {
            let id = SagaId::root(&ulid::Ulid::from_parts(at.0, rand::random()).to_string())?;
            Ok(SagaKey { tenant: start.tenant.clone(), id })
        };
        let mut key = make()?;
        if self.shards.iter().any(super::SagaHandle::is_written) {
            for _ in 0..ID_TRIES {
                if self.shard(&key)?.is_written() {
                    break;
                }
                key = make()?;
            }
        }
        Ok(key)
    }

    /// Who serves the participants that a definition names, as they are now.
    fn plugins(&self, definitions: &DefinitionSet) -> Vec<(Arc<str>, PluginIdentity)> {
        let mut plugins: Vec<(Arc<str>, PluginIdentity)> = Vec::new();
        let below = definitions.pinned().iter().map(|(_, definition)| definition);
        let steps = std::iter::once(definitions.root()).chain(below).flat_map(|definition| &definition.steps);
        for action in steps.flat_map(|step| std::iter::once(&step.action).chain(&step.compensation)) {
            let Action::Fn(address) = action else { continue };
            // One that isn't there yet is shown with the step that waits for it.
            let Ok((participant, _)) = self.shared.context.config.sagas.participants.at(address) else { continue };
            if !plugins.iter().any(|(name, _)| **name == *participant.name()) {
                plugins.push((Arc::from(participant.name()), participant.identity()));
            }
        }
        plugins
    }
}

/// What a message's rules say about the same fields.
fn check(start: &StartSaga) -> Result<(), SagaError> {
    if let Some(deadline) = start.deadline
        && !(TIMEOUT_MIN..=TIMEOUT_MAX).contains(&deadline)
    {
        let cause = format!("deadline_ms is {}, it may be 1 to {}", deadline.as_millis(), TIMEOUT_MAX.as_millis());
        return Err(waybill_core::error::InputError::Payload { cause }.into());
    }
    for (annotation, text) in [
        (Annotation::EnvelopeId, &start.envelope_id),
        (Annotation::CorrelationId, &start.correlation_id),
        (Annotation::Traceparent, &start.traceparent),
    ] {
        if let Some(text) = text {
            annotation.check(text)?;
        }
    }
    check_headers(&start.headers)?;
    Ok(())
}
