//! Numbers that change while a view is looked at: what they are called, and how they read. The script puts their texts where their names
//! stand, and changes nothing else.

use std::collections::BTreeMap;

use maud::{Markup, html};
use waybill_api::glance::DeadCounted;
use waybill_api::status::OutboxStats;
use waybill_core::port::saga::SagaStats;

use crate::address;
use crate::depth::Depth;
use crate::text::{NONE, count, length_ms};

/// Texts of numbers by their names.
pub type Numbers = BTreeMap<String, String>;

/// Messages in order that aren't being sent; of a transport with its name behind.
pub const READY: &str = "ready";
pub const LEASED: &str = "leased";
/// Messages that wait for a retry.
pub const PARKED: &str = "parked";
/// Age of the oldest message that could be sent.
pub const OLDEST: &str = "oldest";
/// Things that hold messages back.
pub const HELD: &str = "held";
pub const SAGAS_RUNNING: &str = "sagas-running";
pub const SAGAS_STUCK: &str = "sagas-stuck";
pub const SAGAS_PAUSED: &str = "sagas-paused";

/// Numbers beside the words of the navigation: without a text while nothing calls for anybody.
pub const NAV_DEAD: &str = "nav-dead";
pub const NAV_HELD: &str = "nav-held";
pub const NAV_STUCK: &str = "nav-stuck";
pub const NAV_APPROVALS: &str = "nav-approvals";
/// Beyond this, the navigation only says that there are more.
const NAV_MAX: u64 = 10_000;

/// A number that changes in place.
pub fn number(name: &str, shown: &str) -> Markup {
    html! { span data-live=(name) { (shown) } }
}

/// The name of a number of one transport.
pub fn of(name: &str, transport: &str) -> String {
    format!("{name}:{transport}")
}

/// What is known of a host at an instant, as far as somebody may see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Present<'a> {
    pub depths: Vec<&'a OutboxStats>,
    /// All of them, also those for which nothing waits.
    pub transports: &'a [String],
    pub held: usize,
    pub sagas: Option<SagaStats>,
    /// None = they weren't counted lately.
    pub dead: Option<DeadCounted>,
    /// Dead letters are counted of all tenants, and only who sees all of these is shown how many there are.
    pub shows_dead: bool,
}

impl Present<'_> {
    /// Every number with its name.
    pub fn numbers(&self) -> Numbers {
        let mut numbers = Numbers::new();
        let mut put = |name: String, shown: String| {
            numbers.insert(name, shown);
        };
        let held = u64::try_from(self.held).unwrap_or(u64::MAX);
        put(HELD.to_owned(), count(held));
        put(NAV_HELD.to_owned(), beside(held, false));
        if self.shows_dead {
            let shown = self.dead.map_or_else(String::new, |dead| beside(dead.count, dead.is_at_least));
            put(NAV_DEAD.to_owned(), shown);
        }
        for (name, text) in shown(&Depth::of(self.depths.iter().copied())) {
            put(name.to_owned(), text);
        }
        for transport in self.transports {
            let mine = self.depths.iter().copied().filter(|row| row.transport == *transport);
            for (name, text) in shown(&Depth::of(mine)) {
                put(of(name, transport), text);
            }
        }
        if let Some(sagas) = &self.sagas {
            put(SAGAS_RUNNING.to_owned(), count(sagas.running));
            put(SAGAS_STUCK.to_owned(), count(sagas.stuck));
            put(SAGAS_PAUSED.to_owned(), count(sagas.paused));
            put(NAV_STUCK.to_owned(), beside(sagas.stuck, false));
            put(NAV_APPROVALS.to_owned(), beside(sagas.approvals, false));
        }
        numbers
    }
}

/// A number of the navigation.
fn beside(number: u64, is_at_least: bool) -> String {
    match number {
        0 => String::new(),
        1..=NAV_MAX => format!("{}{}", count(number), if is_at_least { "+" } else { "" }),
        _ => format!("{}+", count(NAV_MAX)),
    }
}

/// Numbers of depths, with their names.
fn shown(depth: &Depth) -> [(&'static str, String); 4] {
    [
        (READY, count(depth.ready)),
        (LEASED, count(depth.leased)),
        (PARKED, count(depth.parked)),
        (OLDEST, depth.oldest_ms.map_or(NONE.to_owned(), length_ms)),
    ]
}

/// What differs from what was told before.
pub fn changed(told: &Numbers, now: &Numbers) -> Numbers {
    let differs = |(name, shown): &(&String, &String)| told.get(*name) != Some(*shown);
    now.iter().filter(differs).map(|(name, shown)| (name.clone(), shown.clone())).collect()
}

/// Which view a page is, for its source of numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watched<'a> {
    /// Its address below the page's.
    pub view: &'a str,
    pub tenant: &'a str,
    /// What was counted when a list was read, whose new rows are told; empty = they aren't.
    pub since: &'a str,
    /// The list has a filter, by which not all that is new may match.
    pub is_filtered: bool,
}

impl Watched<'_> {
    /// Where its numbers come from.
    pub fn address(&self) -> String {
        let filtered = if self.is_filtered { "true" } else { "" };
        let query = [("view", self.view), ("tenant", self.tenant), ("since", self.since), ("filtered", filtered)];
        address::with(address::LIVE, &query)
    }
}

/// What is said of rows that came since a list was read; empty = there are none.
pub fn newer(count_since: u64, is_filtered: bool) -> String {
    match (count_since, is_filtered) {
        (0, _) => String::new(),
        (_, false) => format!("{} newer: show them", count(count_since)),
        (_, true) => format!("{} came since: look which of them match", count(count_since)),
    }
}

/// What is said where the host that made the page has ended: its counts began anew.
pub const ANEW: &str = "This host was started again: look anew";

#[cfg(test)]
mod tests {
    use super::*;

    fn row(tenant: &str, transport: &str, ready: u64) -> OutboxStats {
        let (tenant, transport) = (tenant.to_owned(), transport.to_owned());
        OutboxStats { tenant, transport, ready, oldest_ready_ms: Some(ready), ..OutboxStats::default() }
    }

    #[test]
    fn numbers_are_texts_and_a_transport_without_messages_has_its_zero() {
        let rows = [row("a", "http", 1_000), row("b", "http", 234), row("a", "-", 1)];
        let transports = ["http".to_owned(), "nats".to_owned()];
        let present = Present { depths: rows.iter().collect(), transports: &transports, held: 2, ..Present::default() };
        let numbers = present.numbers();
        for (name, shown) in
            [("ready", "1,235"), ("ready:http", "1,234"), ("ready:nats", "0"), ("oldest:nats", NONE), ("held", "2")]
        {
            assert_eq!(numbers.get(name).map(String::as_str), Some(shown), "{name}");
        }
        assert!(!numbers.contains_key(SAGAS_STUCK), "there are none to see");
    }

    #[test]
    fn the_navigation_has_no_number_where_nothing_calls_for_anybody() {
        let dead = |count, is_at_least| Present {
            dead: Some(DeadCounted { count, is_at_least }),
            shows_dead: true,
            sagas: Some(SagaStats { stuck: 3, ..SagaStats::default() }),
            ..Present::default()
        };
        for (present, shown) in [
            (dead(0, false), ""),
            (dead(1_284, false), "1,284"),
            (dead(9, true), "9+"),
            (dead(10_001, false), "10,000+"),
        ] {
            assert_eq!(present.numbers().get(NAV_DEAD).map(String::as_str), Some(shown));
        }
        let numbers = dead(1, false).numbers();
        let of = |name: &str| numbers.get(name).map(String::as_str);
        assert_eq!((of(NAV_STUCK), of(NAV_APPROVALS), of(NAV_HELD)), (Some("3"), Some(""), Some("")));
        assert!(!Present::default().numbers().contains_key(NAV_DEAD), "they are counted of all tenants");
    }

    #[test]
    fn only_what_differs_is_told_again() {
        let numbers = |ready: &str| Numbers::from([("ready".into(), ready.into()), ("held".into(), "0".into())]);
        assert_eq!(changed(&Numbers::new(), &numbers("1")), numbers("1"));
        assert_eq!(changed(&numbers("1"), &numbers("2")), Numbers::from([("ready".into(), "2".into())]));
        assert!(changed(&numbers("2"), &numbers("2")).is_empty());
    }

    #[test]
    fn a_filter_makes_newer_a_question() {
        assert_eq!(newer(0, true), "");
        assert_eq!(newer(1_200, false), "1,200 newer: show them");
        assert!(newer(1, true).contains("which of them match"));
    }
}
