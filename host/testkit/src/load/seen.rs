//! What a seen set was filled with before a measurement: whoever fills it and whoever sends afterwards make each id of its number.

use waybill_core::time::UnixMillis;

/// Ids of one millisecond: 10,000 a second.
pub const IDS_A_MS: u64 = 10;

/// What an id tells of its place in a seen set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeenForm {
    /// A time stands inside: UUIDv7.
    Time,
    /// A text and a counter.
    Counter,
    /// Neither a time nor a counter: UUIDv4.
    Random,
    /// Nothing, but its sender repeats when it happened (`id_time = "occurred_at"`).
    Stamped,
}

impl SeenForm {
    pub const ALL: [Self; 4] = [Self::Time, Self::Counter, Self::Random, Self::Stamped];

    pub fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Counter => "counter",
            Self::Random => "random",
            Self::Stamped => "stamped",
        }
    }

    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|form| form.name() == name)
    }

    /// The id with this number, made at this instant, in milliseconds since 1970.
    pub fn id(self, number: u64, at: u64) -> String {
        let (high, low) = (mixed(number), mixed(!number));
        let (variant, node) = (0x8000 | low >> 50, low & 0xFFFF_FFFF_FFFF);
        match self {
            Self::Time => {
                let (front, back) = (at >> 16 & 0xFFFF_FFFF, at & 0xFFFF);
                format!("{front:08x}-{back:04x}-7{:03x}-{variant:04x}-{node:012x}", high & 0xFFF)
            }
            Self::Counter => format!("outbox-{number}"),
            Self::Random | Self::Stamped => {
                let (front, back) = (high >> 32, high >> 16 & 0xFFFF);
                format!("{front:08x}-{back:04x}-4{:03x}-{variant:04x}-{node:012x}", high & 0xFFF)
            }
        }
    }

    /// Whether the instant decides where it lies.
    pub fn is_stamped(self) -> bool {
        self == Self::Stamped
    }
}

/// Spreads a number over 64 bits (SplitMix64).
fn mixed(number: u64) -> u64 {
    let step = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let step = (step ^ step >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let step = (step ^ step >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    step ^ step >> 31
}

/// What lies in a seen set: the ids from zero to before `count`, one after the other at 10,000 a second.
#[derive(Clone, Copy, Debug)]
pub struct Filled {
    pub form: SeenForm,
    pub count: u64,
    /// When the last one was finished, in milliseconds since 1970.
    pub end: u64,
}

impl Filled {
    /// When one was made and finished, in milliseconds since 1970.
    pub fn at(&self, number: u64) -> u64 {
        self.end.saturating_sub(self.count.saturating_sub(number) / IDS_A_MS)
    }

    pub fn id(&self, number: u64) -> String {
        self.form.id(number, self.at(number))
    }
}

/// The payload of every message, as long as those of other workloads: a known id with another one would be no duplicate.
pub fn seen_payload() -> String {
    format!("{{\"order\":\"{}\"}}", "x".repeat(288))
}

/// An instant as senders write it, RFC 3339.
pub fn stamp(at: u64) -> String {
    UnixMillis(at).to_string()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use waybill_core::inbox::seen::IdForm;

    use super::*;

    #[test]
    fn each_form_is_what_the_seen_set_takes_it_for() {
        let filled = |form| Filled { form, count: 20_000, end: 1_800_000_000_000 };
        for form in SeenForm::ALL {
            let filled = filled(form);
            let ids: HashSet<String> = (0..filled.count).map(|number| filled.id(number)).collect();
            assert_eq!(ids.len() as u64, filled.count, "{form:?}");
            for number in [0, 1, 9_999] {
                let expected = match form {
                    SeenForm::Time => IdForm::Time(UnixMillis(filled.at(number))),
                    SeenForm::Counter => IdForm::Counter { text: "outbox-".into(), number },
                    SeenForm::Random | SeenForm::Stamped => IdForm::Neither,
                };
                assert_eq!(IdForm::of(&filled.id(number)), expected);
            }
            assert_eq!(SeenForm::by_name(form.name()), Some(form));
        }
    }

    #[test]
    fn what_was_filled_ends_where_it_says_and_took_as_long_as_it_would() {
        let filled = Filled { form: SeenForm::Time, count: 600_000, end: 1_800_000_000_000 };
        assert_eq!((filled.at(0), filled.at(600_000)), (1_799_999_940_000, 1_800_000_000_000));
    }
}
