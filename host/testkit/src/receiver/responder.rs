//! Who decides what the receiver answers.

use std::time::Duration;

use super::Delivered;

/// What the receiver answers, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// `Retry-After`, in whole seconds.
    pub retry_after: Option<Duration>,
    /// Waits this long before it answers.
    pub hold: Duration,
}

impl Answer {
    /// At once, with this status.
    pub const fn status(status: u16) -> Self {
        Self { status, retry_after: None, hold: Duration::ZERO }
    }
    /// It asks for no further attempt: the message is delivered, or will never be.
    pub const fn settles(&self) -> bool {
        !matches!(self.status, 401 | 403 | 404 | 408 | 410 | 425 | 429 | 500..=599)
    }
    #[must_use]
    pub const fn after(self, hold: Duration) -> Self {
        Self { hold, ..self }
    }
}

/// Decides by what arrived alone, so that the same messages meet the same answers in every run.
pub trait Responder: Send + Sync + 'static {
    /// The answer to this delivery.
    fn respond(&self, delivered: &Delivered) -> Answer;
}

impl<F: Fn(&Delivered) -> Answer + Send + Sync + 'static> Responder for F {
    fn respond(&self, delivered: &Delivered) -> Answer {
        self(delivered)
    }
}

/// A seeded choice of about one in so many, the same for the same bytes and number everywhere.
#[derive(Clone, Copy, Debug)]
pub struct OneIn {
    /// How many; 0 chooses none.
    pub many: u64,
    /// Seed; choices with different seeds are independent.
    pub seed: u64,
}

impl OneIn {
    /// Whether these bytes, at this number (an attempt, say), are chosen.
    pub fn chooses(self, bytes: &[u8], number: u32) -> bool {
        self.many != 0 && self.draw(bytes, number).is_multiple_of(self.many)
    }

    /// The number that the choice is made by: evenly spread.
    pub fn draw(self, bytes: &[u8], number: u32) -> u64 {
        // FNV-1a, then SplitMix64's finish: no dependency, and short texts that differ in one digit spread well.
        let start = 0xCBF2_9CE4_8422_2325_u64 ^ self.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let hash = bytes
            .iter()
            .chain(&number.to_le_bytes())
            .fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3));
        let mixed = (hash ^ (hash >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}
