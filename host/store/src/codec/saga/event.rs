//! Events. All kinds share one set of optional fields, so that a kind costs the bytes of what it has.

use std::sync::Arc;

use minicbor::{Decode, Encode};
use waybill_core::saga::event::{Event, EventKind, Failure, StepDirection};
use waybill_core::saga::id::SagaId;
use waybill_core::saga::json::Json;
use waybill_core::time::UnixMillis;

use super::numbers::{WireEnum, WireFailure, WireWait, lacking, unknown};
use super::shared::{Packing, Unpacking};
use super::started::{self, WireStarted};
use crate::codec::CodecError;

/// Numbers of the kinds. A number is never used again for something else.
mod kind {
    pub const STARTED: u8 = 0;
    pub const CHILD_STARTED: u8 = 1;
    pub const STEP_BEGAN: u8 = 2;
    pub const STEP_PENDING: u8 = 3;
    pub const STEP_SUCCEEDED: u8 = 4;
    pub const STEP_FAILED: u8 = 5;
    pub const STEP_RELEASED: u8 = 6;
    pub const STEP_LOST: u8 = 7;
    pub const STEP_UNKNOWN: u8 = 8;
    pub const LATE_RESULT: u8 = 9;
    pub const STEP_SKIPPED: u8 = 10;
    pub const STEP_RESET: u8 = 11;
    pub const SIGNALLED: u8 = 12;
    pub const SIGNAL_TAKEN: u8 = 13;
    pub const DECIDED: u8 = 14;
    pub const COMPENSATION_STARTED: u8 = 15;
    pub const FORWARD_AGAIN: u8 = 16;
    pub const STUCK: u8 = 17;
    pub const PAUSED: u8 = 18;
    pub const RESUMED: u8 = 19;
    pub const ENDED: u8 = 20;
}

/// An event as it is written.
#[derive(Debug, Default, Encode, Decode)]
#[cbor(map)]
pub struct WireEvent<'b> {
    #[n(0)]
    kind: u8,
    #[n(1)]
    at: u64,
    #[n(2)]
    saga: Option<u16>,
    #[b(3)]
    actor: Option<&'b str>,
    #[n(4)]
    step: Option<u16>,
    /// The number of a `StepDirection`; none = execute.
    #[n(5)]
    way: Option<u8>,
    #[n(6)]
    attempt: Option<u32>,
    /// Input, output or data.
    #[n(7)]
    json: Option<u32>,
    #[b(8)]
    wait: Option<WireWait<'b>>,
    /// When it ends by itself, or is tried again.
    #[n(9)]
    until: Option<u64>,
    /// A note, the name of a signal, a scope, the id of a sub-saga.
    #[b(10)]
    text: Option<&'b str>,
    #[b(11)]
    failure: Option<WireFailure<'b>>,
    #[n(12)]
    plugin: Option<u32>,
    #[n(13)]
    took_ms: Option<u64>,
    #[n(14)]
    flag: Option<bool>,
    /// Steps of a sub-saga, a cause, an end.
    #[n(15)]
    number: Option<u16>,
    #[n(16)]
    definition: Option<u32>,
    #[b(17)]
    started: Option<WireStarted<'b>>,
}

impl<'b> WireEvent<'b> {
    fn step(kind: u8, step: u16, way: StepDirection) -> Self {
        let way = (way != StepDirection::Execute).then(|| way.number());
        Self { kind, step: Some(step), way, ..Self::default() }
    }

    fn attempt(kind: u8, step: u16, way: StepDirection, attempt: u32) -> Self {
        Self { attempt: Some(attempt), ..Self::step(kind, step, way) }
    }

    fn note(self, note: &'b Option<Arc<str>>) -> Self {
        Self { text: note.as_deref(), ..self }
    }

    fn until(self, until: Option<UnixMillis>) -> Self {
        Self { until: until.map(|at| at.0), ..self }
    }

    fn failure(self, failure: &'b Failure) -> Self {
        Self { failure: Some(WireFailure::of(failure)), ..self }
    }

    fn json(self, json: Option<&'b Json>, packing: &mut Packing<'b>) -> Self {
        Self { json: json.map(|json| packing.json(json)), ..self }
    }

    fn answered(self, plugin: Option<u32>, took_ms: u64) -> Self {
        Self { plugin, took_ms: (took_ms != 0).then_some(took_ms), ..self }
    }
}

pub fn pack<'b>(event: &'b Event, packing: &mut Packing<'b>) -> WireEvent<'b> {
    let wire = pack_what(&event.what, packing);
    WireEvent { at: event.at.0, saga: (event.saga != 0).then_some(event.saga), actor: event.actor.as_deref(), ..wire }
}

/// One match, so that the compiler says when an event is new.
fn pack_what<'b>(what: &'b EventKind, packing: &mut Packing<'b>) -> WireEvent<'b> {
    let (at, of) = (WireEvent::attempt, WireEvent::step);
    let saga = |kind| WireEvent { kind, ..WireEvent::default() };
    match what {
        EventKind::StepBegan { step, way, attempt, input, wait, until } => {
            let wire = at(kind::STEP_BEGAN, *step, *way, *attempt).json(input.as_ref(), packing).until(*until);
            WireEvent { wait: Some(WireWait::of(wait)), ..wire }
        }
        EventKind::StepPending { step, signal, until, data, plugin, took_ms } => {
            let wire = of(kind::STEP_PENDING, *step, StepDirection::Execute).json(Some(data), packing).until(*until);
            let plugin = packing.plugin(plugin.as_ref());
            WireEvent { text: Some(signal), ..wire.answered(plugin, *took_ms) }
        }
        EventKind::StepSucceeded { step, way, attempt, output, plugin, took_ms, late } => {
            let wire = at(kind::STEP_SUCCEEDED, *step, *way, *attempt).json(output.as_ref(), packing);
            let plugin = packing.plugin(plugin.as_ref());
            WireEvent { flag: late.then_some(true), ..wire.answered(plugin, *took_ms) }
        }
        EventKind::StepFailed { step, way, attempt, failure, retry_at, plugin, took_ms } => {
            let wire = at(kind::STEP_FAILED, *step, *way, *attempt).failure(failure).until(*retry_at);
            wire.answered(packing.plugin(plugin.as_ref()), *took_ms)
        }
        EventKind::StepReleased { step, way, scope, failure, retry_at } => {
            of(kind::STEP_RELEASED, *step, *way).note(scope).failure(failure).until(Some(*retry_at))
        }
        EventKind::StepLost { step, way, attempt, clean, until } => {
            WireEvent { flag: clean.then_some(true), ..at(kind::STEP_LOST, *step, *way, *attempt).until(*until) }
        }
        EventKind::StepUnknown { step, way, attempt, failure } => {
            at(kind::STEP_UNKNOWN, *step, *way, *attempt).failure(failure)
        }
        EventKind::LateResult { step, way, attempt, output } => {
            at(kind::LATE_RESULT, *step, *way, *attempt).json(output.as_ref(), packing)
        }
        EventKind::StepSkipped { step, way, note } => of(kind::STEP_SKIPPED, *step, *way).note(note),
        EventKind::StepReset { step, way } => of(kind::STEP_RESET, *step, *way),
        EventKind::Decided { step, approved, note } => {
            WireEvent { flag: Some(*approved), ..of(kind::DECIDED, *step, StepDirection::Execute).note(note) }
        }
        EventKind::Stuck { step } => of(kind::STUCK, *step, StepDirection::Execute),
        EventKind::Started(begun) => WireEvent { started: Some(started::pack(begun, packing)), ..saga(kind::STARTED) },
        EventKind::ChildStarted { step, id, definition, steps, input, deadline } => WireEvent {
            step: Some(*step),
            text: Some(id.as_str()),
            definition: Some(packing.definition(definition)),
            number: Some(*steps),
            ..saga(kind::CHILD_STARTED).json(Some(input), packing).until(*deadline)
        },
        EventKind::Signalled { name, data, step } => {
            WireEvent { text: Some(name), step: *step, ..saga(kind::SIGNALLED).json(Some(data), packing) }
        }
        EventKind::SignalTaken { name } => WireEvent { text: Some(name), ..saga(kind::SIGNAL_TAKEN) },
        EventKind::CompensationStarted { failure } => saga(kind::COMPENSATION_STARTED).failure(failure),
        EventKind::Paused { cause, note } => {
            WireEvent { number: Some(u16::from(cause.number())), ..saga(kind::PAUSED).note(note) }
        }
        EventKind::Resumed => saga(kind::RESUMED),
        EventKind::Ended { end, note } => {
            WireEvent { number: Some(u16::from(end.number())), ..saga(kind::ENDED).note(note) }
        }
        EventKind::ForwardAgain => saga(kind::FORWARD_AGAIN),
    }
}

pub fn unpack(mut wire: WireEvent<'_>, unpacking: &Unpacking) -> Result<Event, CodecError> {
    let (at, saga) = (UnixMillis(wire.at), wire.saga.unwrap_or(0));
    let actor = wire.actor.map(Arc::from);
    let what = match wire.kind {
        kind::STARTED => {
            let begun = wire.started.take().ok_or_else(|| lacking("what a saga was started with"))?;
            EventKind::Started(Box::new(started::unpack(begun, unpacking)?))
        }
        kind::CHILD_STARTED
        | kind::SIGNALLED
        | kind::SIGNAL_TAKEN
        | kind::COMPENSATION_STARTED
        | kind::FORWARD_AGAIN
        | kind::PAUSED
        | kind::RESUMED
        | kind::ENDED => Fields { wire, unpacking }.saga()?,
        _ => Fields { wire, unpacking }.step()?,
    };
    Ok(Event { at, saga, actor, what })
}

/// The fields of an event, as its kind asks for them.
struct Fields<'b, 'u> {
    wire: WireEvent<'b>,
    unpacking: &'u Unpacking,
}

impl Fields<'_, '_> {
    fn number_of_step(&self) -> Result<u16, CodecError> {
        self.wire.step.ok_or_else(|| lacking("the step of an event"))
    }

    fn way(&self) -> Result<StepDirection, CodecError> {
        self.wire.way.map_or(Ok(StepDirection::Execute), StepDirection::of)
    }

    fn attempt(&self) -> Result<u32, CodecError> {
        self.wire.attempt.ok_or_else(|| lacking("the attempt of an event"))
    }

    fn until(&self) -> Option<UnixMillis> {
        self.wire.until.map(UnixMillis)
    }

    fn failure(&self) -> Result<Failure, CodecError> {
        self.wire.failure.as_ref().map(WireFailure::failure).ok_or_else(|| lacking("the failure of an event"))
    }

    fn json(&self) -> Result<Option<Json>, CodecError> {
        self.unpacking.json_or_none(self.wire.json)
    }

    fn data(&self) -> Result<Json, CodecError> {
        self.json()?.ok_or_else(|| lacking("the data of an event"))
    }

    fn note(&self) -> Option<Arc<str>> {
        self.wire.text.map(Arc::from)
    }

    fn name(&self) -> Result<Arc<str>, CodecError> {
        self.note().ok_or_else(|| lacking("the name in an event"))
    }

    fn number(&self) -> Result<u16, CodecError> {
        self.wire.number.ok_or_else(|| lacking("the number in an event"))
    }

    fn variant<T: WireEnum>(&self) -> Result<T, CodecError> {
        let number = self.number()?;
        T::of(u8::try_from(number).map_err(|_| CodecError::Damaged(format!("there is no number {number}")))?)
    }

    fn saga(self) -> Result<EventKind, CodecError> {
        Ok(match self.wire.kind {
            kind::CHILD_STARTED => EventKind::ChildStarted {
                step: self.number_of_step()?,
                id: SagaId::new(&self.name()?)?,
                definition: {
                    let at = self.wire.definition.ok_or_else(|| lacking("the definition of a sub-saga"))?;
                    self.unpacking.definition(at)?
                },
                steps: self.number()?,
                input: self.data()?,
                deadline: self.until(),
            },
            kind::SIGNALLED => EventKind::Signalled { name: self.name()?, data: self.data()?, step: self.wire.step },
            kind::SIGNAL_TAKEN => EventKind::SignalTaken { name: self.name()? },
            kind::COMPENSATION_STARTED => EventKind::CompensationStarted { failure: self.failure()? },
            kind::FORWARD_AGAIN => EventKind::ForwardAgain,
            kind::PAUSED => EventKind::Paused { cause: self.variant()?, note: self.note() },
            kind::RESUMED => EventKind::Resumed,
            kind::ENDED => EventKind::Ended { end: self.variant()?, note: self.note() },
            other => return Err(unknown("event", other)),
        })
    }

    fn step(self) -> Result<EventKind, CodecError> {
        let (step, way) = (self.number_of_step()?, self.way()?);
        let (until, took_ms) = (self.until(), self.wire.took_ms.unwrap_or(0));
        Ok(match self.wire.kind {
            kind::STEP_BEGAN => {
                let wait = self.wire.wait.as_ref().ok_or_else(|| lacking("what a step waits for"))?.wait()?;
                EventKind::StepBegan { step, way, attempt: self.attempt()?, input: self.json()?, wait, until }
            }
            kind::STEP_PENDING => {
                let plugin = self.unpacking.plugin_or_none(self.wire.plugin)?;
                EventKind::StepPending { step, signal: self.name()?, until, data: self.data()?, plugin, took_ms }
            }
            kind::STEP_SUCCEEDED => {
                let (attempt, output, late) = (self.attempt()?, self.json()?, self.wire.flag.unwrap_or(false));
                let plugin = self.unpacking.plugin_or_none(self.wire.plugin)?;
                EventKind::StepSucceeded { step, way, attempt, output, plugin, took_ms, late }
            }
            kind::STEP_FAILED => {
                let (attempt, failure, retry_at) = (self.attempt()?, self.failure()?, until);
                let plugin = self.unpacking.plugin_or_none(self.wire.plugin)?;
                EventKind::StepFailed { step, way, attempt, failure, retry_at, plugin, took_ms }
            }
            kind::STEP_RELEASED => {
                let retry_at = until.ok_or_else(|| lacking("the instant of an event"))?;
                EventKind::StepReleased { step, way, scope: self.note(), failure: self.failure()?, retry_at }
            }
            kind::STEP_LOST => {
                let (attempt, clean) = (self.attempt()?, self.wire.flag.unwrap_or(false));
                EventKind::StepLost { step, way, attempt, clean, until }
            }
            kind::STEP_UNKNOWN => {
                EventKind::StepUnknown { step, way, attempt: self.attempt()?, failure: self.failure()? }
            }
            kind::LATE_RESULT => EventKind::LateResult { step, way, attempt: self.attempt()?, output: self.json()? },
            kind::STEP_SKIPPED => EventKind::StepSkipped { step, way, note: self.note() },
            kind::STEP_RESET => EventKind::StepReset { step, way },
            kind::DECIDED => EventKind::Decided { step, approved: self.wire.flag.unwrap_or(false), note: self.note() },
            kind::STUCK => EventKind::Stuck { step },
            other => return Err(unknown("event", other)),
        })
    }
}
