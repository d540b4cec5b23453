//! Audit events of what a commit holds.

use std::sync::Arc;

use super::batch::Entry;
use super::{Running, SagaShard};
use crate::saga::event::{Event, EventKind, SagaNumber, StepNumber};
use crate::saga::records::SagaWrite;
use crate::time::UnixMillis;
use crate::tx_event::{TxEvent, TxEventKind, TxLog, TxRecordKey, TxSubject};

impl SagaShard {
    /// The writes for what happened to these trees.
    pub(super) fn audit(&self, entries: &[Entry], beat: u64) -> Vec<SagaWrite> {
        let Some(host) = &self.config.tx_events else { return Vec::new() };
        let mut log = TxLog::new(true);
        let mut at = UnixMillis(0);
        for entry in entries {
            let Some(running) = self.running.get(&entry.slot) else { continue };
            for event in &entry.events {
                if let Some(told) = event_of(running, event) {
                    at = at.max(event.at);
                    log.note(|| told);
                }
            }
        }
        let key = TxRecordKey { at, shard: self.config.shard, of: TxSubject::Saga, beat, part: 0 };
        log.records(key, host).into_iter().map(SagaWrite::PutTxEvents).collect()
    }
}

/// What the audit trail says of an event; none = nothing.
fn event_of(running: &Running, event: &Event) -> Option<TxEvent> {
    let plain = |kind| {
        let id = &running.tree.saga(event.saga)?.id;
        let event = TxEvent::plain(kind, &running.tree.key.tenant, id);
        Some(event)
    };
    let of_step = |kind, step| Some(TxEvent { step: step_name(running, event.saga, step), ..plain(kind)? });
    let told = match &event.what {
        EventKind::Started(_) => plain(TxEventKind::Begin)?,
        EventKind::ChildStarted { id, .. } => TxEvent { id: id.into(), ..plain(TxEventKind::Begin)? },
        EventKind::StepFailed { step, attempt, failure, retry_at: Some(_), .. } => {
            TxEvent { attempts: *attempt, code: Some(Arc::clone(&failure.code)), ..of_step(TxEventKind::Retry, *step)? }
        }
        EventKind::Stuck { step } => {
            let state = running.tree.saga(event.saga)?.steps.get(usize::from(*step));
            let code = state.and_then(|state| state.failure.as_ref()).map(|failure| Arc::clone(&failure.code));
            TxEvent { attempts: state.map_or(0, |state| state.attempt), code, ..of_step(TxEventKind::Dead, *step)? }
        }
        EventKind::StepReset { step, .. } => of_step(TxEventKind::Replay, *step)?,
        _ => return None,
    };
    Some(TxEvent { actor: event.actor.clone(), ..told })
}

fn step_name(running: &Running, saga: SagaNumber, step: StepNumber) -> Option<Arc<str>> {
    let definition = running.definitions.by_hash(&running.tree.saga(saga)?.definition.hash)?;
    definition.steps.get(usize::from(step)).map(|step| Arc::clone(&step.name))
}
