//! Instants as they are shown: UTC with seconds, the exact instant beside it for the script and for who points at it.

use std::time::Duration;

use maud::{Markup, html};
use waybill_api::instant::Instant;
use waybill_core::time::UnixMillis;

use crate::text::{NONE, length};

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// When a page was made: what is of another day is shown with its day.
#[derive(Clone, Copy, Debug)]
pub struct AsOf(pub UnixMillis);

impl AsOf {
    /// An instant to the second.
    pub fn at(self, instant: Instant) -> Markup {
        self.shown(instant.0, "HH:MM:SS".len())
    }

    /// An instant to the millisecond, where it matters what followed what.
    pub fn exactly(self, instant: Instant) -> Markup {
        self.shown(instant.0, "HH:MM:SS.mmm".len())
    }

    /// One that may not be there.
    pub fn maybe(self, instant: Option<Instant>) -> Markup {
        match instant {
            Some(instant) => self.at(instant),
            None => html! { (NONE) },
        }
    }

    /// How long ago it was.
    pub fn ago(self, instant: Instant) -> String {
        length(self.since(instant))
    }

    pub fn since(self, instant: Instant) -> Duration {
        self.0.since(instant.0)
    }

    fn shown(self, instant: UnixMillis, letters: usize) -> Markup {
        let (exact, today) = (instant.to_string(), self.0.to_string());
        let text = words(&exact, &today, letters);
        html! { time datetime=(exact) { (text) } }
    }
}

/// The words of an instant, `2026-11-22T03:12:27.000Z`, for a page of that day.
fn words(exact: &str, today: &str, letters: usize) -> String {
    let part = |from: usize, to: usize| exact.get(from..to).unwrap_or_default();
    let is_today = exact.get(..10) == today.get(..10);
    if is_today {
        return part(11, 11 + letters).to_owned();
    }
    let month = part(5, 7).parse::<usize>().ok().and_then(|month| MONTHS.get(month.checked_sub(1)?).copied());
    let Some(month) = month else { return exact.to_owned() };
    let day = part(8, 10).trim_start_matches('0');
    if exact.get(..4) == today.get(..4) {
        format!("{day} {month} {}", part(11, 16))
    } else {
        format!("{day} {month} {}", part(0, 4))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_day_is_named_and_another_year_too() {
        let today = "2026-11-22T03:12:27.000Z";
        let shown = |exact: &str, letters| words(exact, today, letters);
        assert_eq!(shown("2026-11-22T02:44:10.402Z", 8), "02:44:10");
        assert_eq!(shown("2026-11-22T02:44:10.402Z", 12), "02:44:10.402");
        assert_eq!(shown("2026-11-01T22:10:19.000Z", 8), "1 Nov 22:10");
        assert_eq!(shown("2025-12-31T22:10:19.000Z", 8), "31 Dec 2025");
        assert_eq!(shown("99999999999999999ms", 8), "99999999999999999ms");
    }

    #[test]
    fn the_exact_instant_stands_beside_it() {
        let as_of = AsOf(UnixMillis(1_700_000_000_123));
        let shown = as_of.at(Instant(UnixMillis(1_700_000_000_000))).0;
        assert_eq!(shown, "<time datetime=\"2023-11-14T22:13:20.000Z\">22:13:20</time>");
        assert_eq!(as_of.ago(Instant(UnixMillis(1_699_999_940_123))), "1 m 0 s");
    }
}
