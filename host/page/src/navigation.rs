//! The ways to the views, with how many there are of what calls for somebody.

use maud::{Markup, html};

use crate::address;
use crate::frame::Place;
use crate::icon::{self, Icon};
use crate::live::{self, Numbers};

/// A group of the navigation: its heading, and each view with its sign and its word.
type Group = (&'static str, &'static [(Place, &'static str, Icon, &'static str)]);

const NAVIGATION: [Group; 4] = [
    ("", &[(Place::Overview, address::OVERVIEW, Icon::Home, "Overview")]),
    (
        "Deliver",
        &[
            (Place::Messages, address::MESSAGES, Icon::Messages, "Messages"),
            (Place::DeadLetters, address::DEAD_LETTERS, Icon::DeadLetters, "Dead letters"),
            (Place::Blocked, address::BLOCKED, Icon::Block, "Blocked"),
            (Place::Inbox, address::INBOX, Icon::Inbox, "Inbox"),
            (Place::Idempotency, address::IDEMPOTENCY, Icon::Key, "Idempotency"),
        ],
    ),
    (
        "Coordinate",
        &[
            (Place::Sagas, address::SAGAS, Icon::Saga, "Sagas"),
            (Place::Approvals, address::APPROVALS, Icon::Approval, "Approvals"),
            (Place::Streams, address::STREAMS, Icon::Stream, "Streams and relays"),
        ],
    ),
    (
        "Host",
        &[
            (Place::Plugins, address::PLUGINS, Icon::Plug, "Plugins"),
            (Place::Operations, address::OPERATIONS, Icon::Operations, "Operations"),
            (Place::Configuration, address::CONFIGURATION, Icon::Gear, "Configuration"),
            (Place::Audit, address::AUDIT, Icon::Audit, "Audit"),
        ],
    ),
];

/// All of them; the present one is marked.
pub fn groups(present: Place, numbers: &Numbers) -> Markup {
    html! { @for (heading, views) in NAVIGATION {
        div {
            @if !heading.is_empty() { h2 { (heading) } }
            ul { @for (place, address, sign, word) in views {
                li { a href=(address) aria-current=[(*place == present).then_some("page")] {
                    (icon::small(*sign)) (word) (how_many(*place, numbers))
                } }
            } }
        }
    } }
}

/// How many there are of what a view is about, where they call for somebody and may be seen.
fn how_many(place: Place, numbers: &Numbers) -> Markup {
    let (name, class) = match place {
        Place::DeadLetters => (live::NAV_DEAD, Some("c-dead")),
        Place::Blocked => (live::NAV_HELD, Some("c-hold")),
        Place::Sagas => (live::NAV_STUCK, Some("c-dead")),
        Place::Approvals => (live::NAV_APPROVALS, None),
        _ => return html! {},
    };
    html! { @if let Some(shown) = numbers.get(name) { " " b class=[class] data-live=(name) { (shown) } } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_says_how_many_call_for_somebody() {
        let numbers = Numbers::from([
            (live::NAV_DEAD.to_owned(), "1,284".to_owned()),
            (live::NAV_STUCK.to_owned(), String::new()),
        ]);
        let drawn = groups(Place::Messages, &numbers).0;
        for part in [
            "Dead letters <b class=\"c-dead\" data-live=\"nav-dead\">1,284</b>",
            "Sagas <b class=\"c-dead\" data-live=\"nav-stuck\"></b>",
        ] {
            assert!(drawn.contains(part), "{part}: {drawn}");
        }
        assert!(!drawn.contains("nav-held"), "what may not be seen has no place: {drawn}");
    }
}
