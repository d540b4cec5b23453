//! The core's enums as stored numbers. A number is never used again for something else.

use std::sync::Arc;

use minicbor::{Decode, Encode};
use waybill_core::saga::event::{End, Failure, PauseCause, StepDirection, Wait};
use waybill_core::saga::state::{Effect, Phase, StepState, StepWait};

use crate::codec::CodecError;

/// A closed enum that is stored as one number.
pub trait WireEnum: Sized {
    fn number(self) -> u8;
    /// The variant of a stored number; `Damaged` if no variant has it.
    fn of(number: u8) -> Result<Self, CodecError>;
}

macro_rules! wire_enum {
    ($type:ident { $($variant:ident = $number:literal),* $(,)? }) => {
        impl WireEnum for $type {
            fn number(self) -> u8 {
                match self {
                    $(Self::$variant => $number,)*
                }
            }
            fn of(number: u8) -> Result<Self, CodecError> {
                match number {
                    $($number => Ok(Self::$variant),)*
                    other => Err(unknown(stringify!($type), other)),
                }
            }
        }
    };
}

wire_enum!(StepDirection { Execute = 0, Compensate = 1 });
wire_enum!(End { Completed = 0, Cancelled = 1, Killed = 2, Accepted = 3, Skipped = 4 });
wire_enum!(PauseCause { Asked = 0, UnknownResult = 1, Suspect = 2, Policy = 3 });
wire_enum!(Effect { None = 0, Unknown = 1, Done = 2 });
wire_enum!(StepState {
    Ready = 0,
    InFlight = 1,
    Succeeded = 2,
    Failed = 3,
    Compensated = 4,
    Skipped = 5,
    CompensationFailed = 6,
});

/// Numbers of phases begin with these three; the ends follow.
const PHASE_ENDED: u8 = 3;

impl WireEnum for Phase {
    fn number(self) -> u8 {
        match self {
            Self::Forward => 0,
            Self::Back => 1,
            Self::Stuck => 2,
            Self::Ended(end) => PHASE_ENDED + end.number(),
        }
    }

    fn of(number: u8) -> Result<Self, CodecError> {
        match number {
            0 => Ok(Self::Forward),
            1 => Ok(Self::Back),
            2 => Ok(Self::Stuck),
            ended => Ok(Self::Ended(End::of(ended - PHASE_ENDED)?)),
        }
    }
}

/// The error for a number that no variant has.
pub fn unknown(what: &str, number: u8) -> CodecError {
    CodecError::Damaged(format!("there is no {what} number {number}"))
}

/// Something that isn't there although its kind has it.
pub fn lacking(what: &str) -> CodecError {
    CodecError::Damaged(format!("{what} is missing"))
}

/// What a step waits for.
#[derive(Debug, Encode, Decode)]
pub struct WireWait<'b> {
    #[n(0)]
    kind: u8,
    #[b(1)]
    text: Option<&'b str>,
}

impl<'b> WireWait<'b> {
    /// Of what a beginning names.
    pub fn of(wait: &'b Wait) -> Self {
        let (kind, text) = match wait {
            Wait::Call => (0, None),
            Wait::Reply => (1, None),
            Wait::Signal(name) => (2, Some(&**name)),
            Wait::Approval => (3, None),
            Wait::Child => (4, None),
        };
        Self { kind, text }
    }

    /// What a beginning names.
    pub fn wait(&self) -> Result<Wait, CodecError> {
        Ok(match self.kind {
            0 => Wait::Call,
            1 => Wait::Reply,
            2 => Wait::Signal(Arc::from(self.text.ok_or_else(|| lacking("the name of a signal"))?)),
            3 => Wait::Approval,
            4 => Wait::Child,
            other => return Err(unknown("Wait", other)),
        })
    }

    /// Of what an active step waits for.
    pub fn of_step(wait: &'b StepWait) -> Self {
        let (kind, text) = match wait {
            StepWait::For(wait) => return Self::of(wait),
            StepWait::Pending(signal) => (5, Some(&**signal)),
            StepWait::Retry => (6, None),
            StepWait::Released(scope) => (7, scope.as_deref()),
            StepWait::Lost => (8, None),
            StepWait::Operator => (9, None),
        };
        Self { kind, text }
    }

    /// What an active step waits for.
    pub fn step_wait(&self) -> Result<StepWait, CodecError> {
        Ok(match self.kind {
            5 => StepWait::Pending(Arc::from(self.text.ok_or_else(|| lacking("the name of a signal"))?)),
            6 => StepWait::Retry,
            7 => StepWait::Released(self.text.map(Arc::from)),
            8 => StepWait::Lost,
            9 => StepWait::Operator,
            _ => StepWait::For(self.wait()?),
        })
    }
}

#[derive(Debug, Encode, Decode)]
pub struct WireFailure<'b> {
    #[b(0)]
    code: &'b str,
    #[b(1)]
    reason: &'b str,
    #[n(2)]
    maybe_done: Option<bool>,
}

impl<'b> WireFailure<'b> {
    pub fn of(failure: &'b Failure) -> Self {
        Self { code: &failure.code, reason: &failure.reason, maybe_done: failure.maybe_done.then_some(true) }
    }

    pub fn failure(&self) -> Failure {
        Failure {
            code: Arc::from(self.code),
            reason: Arc::from(self.reason),
            maybe_done: self.maybe_done.unwrap_or(false),
        }
    }
}
