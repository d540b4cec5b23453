//! States of messages, sagas, steps and transports as they are shown. A word of the API stays that word.

use waybill_api::idempotency::KeyState;
use waybill_api::inbox::InboxState;
use waybill_api::sources::SourceView;
use waybill_api::status::CheckStatus;
use waybill_api::transports::{Breaker, TransportView};
use waybill_core::port::service::MessageState;
use waybill_core::port::transport::Health;
use waybill_core::saga::event::StepDirection;
use waybill_core::saga::state::{SagaState, StepState};

use crate::icon::Icon;
use crate::parts::{State, Tone};

pub fn of_message(state: MessageState) -> State<'static> {
    let (tone, shape) = match state {
        MessageState::Pending => (Tone::Rest, Icon::Wait),
        MessageState::Leased => (Tone::Move, Icon::Move),
        MessageState::Done => (Tone::Ok, Icon::Done),
        MessageState::Dead => (Tone::Dead, Icon::Dead),
        MessageState::Quarantined => (Tone::Rest, Icon::Fence),
        MessageState::Cancelled => (Tone::Rest, Icon::Undo),
        MessageState::Expired | MessageState::Purged => (Tone::Rest, Icon::NotBegun),
    };
    State::new(tone, shape, state.word())
}

/// Of a saga; one that is stuck says so.
pub fn of_saga(state: SagaState, is_stuck: bool) -> State<'static> {
    let (tone, shape) = match state {
        SagaState::Running => (Tone::Move, Icon::Move),
        SagaState::Compensating => (Tone::Undo, Icon::Undo),
        SagaState::Completed => (Tone::Ok, Icon::Done),
        SagaState::Cancelled => (Tone::Undo, Icon::Undo),
        SagaState::Failed => (Tone::Dead, Icon::Dead),
        SagaState::Paused => (Tone::Rest, Icon::Pause),
    };
    State::new(tone, shape, if is_stuck { "stuck" } else { state.word() })
}

pub fn of_step(state: StepState, direction: Option<StepDirection>) -> State<'static> {
    let is_undone = direction == Some(StepDirection::Compensate);
    let (tone, shape, word) = match state {
        StepState::Ready => (Tone::Rest, Icon::NotBegun, "not begun"),
        StepState::InFlight if is_undone => (Tone::Undo, Icon::Undo, "being undone"),
        StepState::InFlight => (Tone::Move, Icon::Move, "in flight"),
        StepState::Succeeded => (Tone::Ok, Icon::Done, "done"),
        StepState::Failed => (Tone::Dead, Icon::Dead, "failed"),
        StepState::Compensated => (Tone::Undo, Icon::Undo, "compensated"),
        StepState::Skipped => (Tone::Rest, Icon::Person, "skipped"),
        StepState::CompensationFailed => (Tone::Dead, Icon::Dead, "undo failed"),
    };
    State::new(tone, shape, word)
}

pub fn of_transport(transport: &TransportView) -> State<'static> {
    let (tone, shape, word) = match (transport.paused, transport.breaker, transport.health) {
        (true, ..) => (Tone::Rest, Icon::Pause, "paused"),
        (_, Breaker::Open, _) => (Tone::Hold, Icon::Block, "breaker open"),
        (_, Breaker::HalfOpen, _) => (Tone::Hold, Icon::Retry, "trying again"),
        (.., Health::Down) => (Tone::Dead, Icon::Dead, "down"),
        (.., Health::Blocked) => (Tone::Hold, Icon::Block, "blocked"),
        (.., Health::Degraded) => (Tone::Hold, Icon::Warn, "degraded"),
        (.., Health::Ready) => (Tone::Ok, Icon::Done, "ready"),
    };
    State::new(tone, shape, word)
}

pub fn of_source(source: &SourceView) -> State<'static> {
    let (tone, shape, word) = match (source.paused, source.health) {
        (true, _) => (Tone::Rest, Icon::Pause, "paused"),
        (_, Health::Down) => (Tone::Dead, Icon::Dead, "down"),
        (_, Health::Blocked) => (Tone::Hold, Icon::Block, "blocked"),
        (_, Health::Degraded) => (Tone::Hold, Icon::Warn, "degraded"),
        (_, Health::Ready) => (Tone::Ok, Icon::Done, "ready"),
    };
    State::new(tone, shape, word)
}

pub fn of_key(state: KeyState) -> State<'static> {
    let (tone, shape, word) = match state {
        KeyState::New | KeyState::InFlight => (Tone::Move, Icon::Move, "in flight"),
        KeyState::Succeeded => (Tone::Ok, Icon::Done, "succeeded"),
        KeyState::Failed => (Tone::Dead, Icon::Dead, "failed"),
        KeyState::Released => (Tone::Rest, Icon::Undo, "released"),
    };
    State::new(tone, shape, word)
}

/// Of a received message at its consumer.
pub fn of_received(state: InboxState) -> State<'static> {
    let (tone, shape, word) = match state {
        InboxState::Unseen => (Tone::Rest, Icon::NotBegun, "never seen"),
        InboxState::InHand => (Tone::Move, Icon::Move, "in hand"),
        InboxState::Stored => (Tone::Hold, Icon::Wait, "stored"),
        InboxState::Seen => (Tone::Ok, Icon::Done, "finished"),
        InboxState::Dead => (Tone::Dead, Icon::Dead, "dead"),
        InboxState::Quarantined => (Tone::Rest, Icon::Fence, "quarantined"),
    };
    State::new(tone, shape, word)
}

pub fn of_check(status: CheckStatus, name: &str) -> State<'_> {
    let (tone, shape) = match status {
        CheckStatus::Ok => (Tone::Ok, Icon::Done),
        CheckStatus::Warn => (Tone::Hold, Icon::Warn),
        CheckStatus::Fail => (Tone::Dead, Icon::Dead),
    };
    State::new(tone, shape, name)
}

/// Of a relay, or of anything that runs, is paused or has stopped.
pub fn of_running(word: &str, is_behind: bool) -> State<'_> {
    let (tone, shape) = match word {
        "running" if is_behind => (Tone::Hold, Icon::Retry),
        "running" => (Tone::Ok, Icon::Done),
        "paused" => (Tone::Rest, Icon::Pause),
        _ => (Tone::Dead, Icon::Dead),
    };
    State::new(tone, shape, word)
}

/// Of a generation of a plugin.
pub fn of_generation(phase: &str, is_on_trial: bool) -> State<'_> {
    let (tone, shape) = match phase {
        "live" if is_on_trial => return State::new(Tone::Move, Icon::Move, "on trial"),
        "live" => (Tone::Ok, Icon::Done),
        "rejected" => (Tone::Dead, Icon::Block),
        "gone" | "draining" => (Tone::Rest, Icon::Pause),
        _ => (Tone::Move, Icon::Move),
    };
    State::new(tone, shape, phase)
}
