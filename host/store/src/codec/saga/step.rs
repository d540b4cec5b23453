//! Steps and sagas of a tree.

use std::sync::Arc;

use minicbor::{Decode, Encode};
use waybill_core::saga::id::SagaId;
use waybill_core::saga::state::{Effect, Phase, SagaNode, StepRecord, StepState};
use waybill_core::time::UnixMillis;

use super::numbers::{WireEnum, WireFailure, WireWait};
use super::shared::{Packing, Unpacking};
use crate::codec::CodecError;

/// A step as it is written. What it doesn't have takes no room.
#[derive(Debug, Encode, Decode)]
#[cbor(map)]
pub struct WireStep<'b> {
    #[n(0)]
    state: u8,
    #[n(1)]
    way: Option<u8>,
    #[b(2)]
    wait: Option<WireWait<'b>>,
    #[n(3)]
    until: Option<u64>,
    #[n(4)]
    since: Option<u64>,
    #[n(5)]
    attempt: Option<u32>,
    #[n(6)]
    failures: Option<u32>,
    #[n(7)]
    lost: Option<u32>,
    #[n(8)]
    released: Option<u32>,
    #[n(9)]
    delay_ms: Option<u64>,
    #[n(10)]
    effect: Option<u8>,
    #[n(11)]
    compensation_skipped: Option<bool>,
    #[n(12)]
    input: Option<u32>,
    #[n(13)]
    output: Option<u32>,
    #[n(14)]
    began_at: Option<u64>,
    #[n(15)]
    ended_at: Option<u64>,
    #[b(16)]
    failure: Option<WireFailure<'b>>,
    #[n(17)]
    plugin: Option<u32>,
    #[b(18)]
    actor: Option<&'b str>,
    #[b(19)]
    note: Option<&'b str>,
}

fn millis(at: Option<UnixMillis>) -> Option<u64> {
    at.map(|at| at.0)
}

fn count(count: u32) -> Option<u32> {
    (count != 0).then_some(count)
}

fn pack_step<'b>(step: &'b StepRecord, packing: &mut Packing<'b>) -> WireStep<'b> {
    WireStep {
        state: step.state.number(),
        way: step.way.map(WireEnum::number),
        wait: step.wait.as_ref().map(WireWait::of_step),
        until: millis(step.until),
        since: millis(step.since),
        attempt: count(step.attempt),
        failures: count(step.failures),
        lost: count(step.lost),
        released: count(step.released),
        delay_ms: (step.delay_ms != 0).then_some(step.delay_ms),
        effect: (step.effect != Effect::None).then(|| step.effect.number()),
        compensation_skipped: step.compensation_skipped.then_some(true),
        input: step.input.as_ref().map(|json| packing.json(json)),
        output: step.output.as_ref().map(|json| packing.json(json)),
        began_at: millis(step.began_at),
        ended_at: millis(step.ended_at),
        failure: step.failure.as_ref().map(WireFailure::of),
        plugin: packing.plugin(step.plugin.as_ref()),
        actor: step.actor.as_deref(),
        note: step.note.as_deref(),
    }
}

fn unpack_step(wire: WireStep<'_>, unpacking: &Unpacking) -> Result<StepRecord, CodecError> {
    Ok(StepRecord {
        state: StepState::of(wire.state)?,
        way: wire.way.map(WireEnum::of).transpose()?,
        wait: wire.wait.as_ref().map(WireWait::step_wait).transpose()?,
        until: wire.until.map(UnixMillis),
        since: wire.since.map(UnixMillis),
        attempt: wire.attempt.unwrap_or(0),
        failures: wire.failures.unwrap_or(0),
        lost: wire.lost.unwrap_or(0),
        released: wire.released.unwrap_or(0),
        delay_ms: wire.delay_ms.unwrap_or(0),
        effect: wire.effect.map_or(Ok(Effect::None), Effect::of)?,
        compensation_skipped: wire.compensation_skipped.unwrap_or(false),
        input: unpacking.json_or_none(wire.input)?,
        output: unpacking.json_or_none(wire.output)?,
        began_at: wire.began_at.map(UnixMillis),
        ended_at: wire.ended_at.map(UnixMillis),
        failure: wire.failure.as_ref().map(WireFailure::failure),
        plugin: unpacking.plugin_or_none(wire.plugin)?,
        actor: wire.actor.map(Arc::from),
        note: wire.note.map(Arc::from),
    })
}

/// A saga as it is written.
#[derive(Debug, Encode, Decode)]
#[cbor(map)]
pub struct WireNode<'b> {
    #[b(0)]
    id: &'b str,
    #[n(1)]
    parent: Option<(u16, u16)>,
    #[n(2)]
    definition: u32,
    #[n(3)]
    input: u32,
    #[n(4)]
    deadline: Option<u64>,
    #[n(5)]
    phase: u8,
    #[b(6)]
    failure: Option<WireFailure<'b>>,
    #[b(7)]
    steps: Vec<WireStep<'b>>,
    #[b(8)]
    signals: Option<Vec<(&'b str, u32)>>,
    #[n(9)]
    started_at: u64,
    #[n(10)]
    ended_at: Option<u64>,
}

pub fn pack<'b>(node: &'b SagaNode, packing: &mut Packing<'b>) -> WireNode<'b> {
    let steps = node.steps.iter().map(|step| pack_step(step, packing)).collect();
    let signals: Vec<_> = node.signals.iter().map(|(name, data)| (&**name, packing.json(data))).collect();
    WireNode {
        id: node.id.as_str(),
        parent: node.parent,
        definition: packing.definition(&node.definition),
        input: packing.json(&node.input),
        deadline: millis(node.deadline),
        phase: node.phase.number(),
        failure: node.failure.as_ref().map(WireFailure::of),
        steps,
        signals: (!signals.is_empty()).then_some(signals),
        started_at: node.started_at.0,
        ended_at: millis(node.ended_at),
    }
}

pub fn unpack(wire: WireNode<'_>, unpacking: &Unpacking) -> Result<SagaNode, CodecError> {
    let signals = wire.signals.unwrap_or_default().into_iter();
    let signals = signals.map(|(name, at)| Ok((Arc::from(name), unpacking.json(at)?)));
    Ok(SagaNode {
        id: SagaId::new(wire.id)?,
        parent: wire.parent,
        definition: unpacking.definition(wire.definition)?,
        input: unpacking.json(wire.input)?,
        deadline: wire.deadline.map(UnixMillis),
        phase: Phase::of(wire.phase)?,
        failure: wire.failure.as_ref().map(WireFailure::failure),
        steps: wire.steps.into_iter().map(|step| unpack_step(step, unpacking)).collect::<Result<_, _>>()?,
        signals: signals.collect::<Result<_, CodecError>>()?,
        started_at: UnixMillis(wire.started_at),
        ended_at: wire.ended_at.map(UnixMillis),
    })
}
