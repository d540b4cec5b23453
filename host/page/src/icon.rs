//! Signs of the page: shapes of states and of places, drawn once and used by name.

use maud::{Markup, PreEscaped, html};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Icon {
    Approval,
    Audit,
    Clock,
    DeadLetters,
    Find,
    Gear,
    Home,
    Inbox,
    Key,
    Menu,
    Messages,
    Operations,
    Plug,
    Relay,
    Block,
    Dead,
    Fence,
    Move,
    NotBegun,
    Done,
    Pause,
    Person,
    Retry,
    Undo,
    Wait,
    Warn,
    Saga,
    Stream,
    Theme,
}

/// All of them with their names in the page and how they are drawn.
const DRAWN: [(Icon, &str, &str); 29] = [
    (Icon::Approval, "i-approve", r#"<path d="m1.5 8.5 3 3 5.500-7 M7.500 11l.5.5 6-7"/>"#),
    (Icon::Audit, "i-audit", r#"<path d="M4 2.5h8v11H4z M6 5.5h4 M6 8h4 M6 10.5h2"/>"#),
    (Icon::Clock, "i-clock", r#"<circle cx="8" cy="8" r="5.5"/><path d="M8 4.75V8l2.25 1.5"/>"#),
    (
        Icon::DeadLetters,
        "i-dead",
        r#"<path d="M5.3 2.5h5.4l2.8 2.8v5.4l-2.8 2.8H5.3l-2.8-2.8V5.3z M6 6l4 4 M10 6l-4 4"/>"#,
    ),
    (Icon::Find, "i-find", r#"<circle cx="7" cy="7" r="4"/><path d="m10 10 3.5 3.5"/>"#),
    (
        Icon::Gear,
        "i-gear",
        r#"<path d="M2.5 4.5h6 M11.5 4.5h2 M2.5 11.5h2 M7.5 11.5h6"/><circle cx="10" cy="4.5" r="1.5"/><circle cx="6" cy="11.5" r="1.5"/>"#,
    ),
    (Icon::Home, "i-home", r#"<path d="M2.5 7.5 8 3l5.5 4.5V13h-4V9.5h-3V13h-4z"/>"#),
    (Icon::Inbox, "i-inbox", r#"<path d="M2.5 9h3l1 2h3l1-2h3 M2.5 9 4 3.5h8L13.5 9v3.5h-11z"/>"#),
    (Icon::Key, "i-key", r#"<circle cx="5.5" cy="10.5" r="3"/><path d="m7.7 8.3 5.3-5.3 M11 5l2 2"/>"#),
    (Icon::Menu, "i-menu", r#"<path d="M2.5 4.5h11 M2.5 8h11 M2.5 11.5h11"/>"#),
    (Icon::Messages, "i-msg", r#"<path d="M2.5 4h11v8h-11z M2.5 4.5 8 9l5.5-4.5"/>"#),
    (Icon::Operations, "i-ops", r#"<path d="M3 4h10 M3 8h7 M3 12h4 M11.5 10.5v4 M9.5 12.5h4"/>"#),
    (Icon::Plug, "i-plug", r#"<path d="M5.5 2.5V6 M10.5 2.5V6 M3.5 6h9v2a4.5 4.5 0 0 1-9 0z M8 12.5V15"/>"#),
    (Icon::Relay, "i-relay", r#"<path d="M2.5 8h8 M8 4.5 11.5 8 8 11.5 M13.5 3v10"/>"#),
    (Icon::Block, "i-s-block", r#"<circle cx="8" cy="8" r="6"/><path d="m3.9 3.9 8.2 8.2"/>"#),
    (Icon::Dead, "i-s-dead", r#"<path d="M5.4 2h5.2L14 5.4v5.2L10.6 14H5.4L2 10.6V5.4z M6 6l4 4 M10 6l-4 4"/>"#),
    (Icon::Fence, "i-s-fence", r#"<path d="M5 2.5H2.5v11H5 M11 2.5h2.5v11H11 M5.6 8h4.8"/>"#),
    (Icon::Move, "i-s-move", r#"<circle cx="8" cy="8" r="6"/><path d="M6.6 5.4 10.6 8l-4 2.6z" fill="currentColor"/>"#),
    (Icon::NotBegun, "i-s-none", r#"<circle cx="8" cy="8" r="6" stroke-dasharray="2 2.2"/>"#),
    (Icon::Done, "i-s-ok", r#"<circle cx="8" cy="8" r="6"/><path d="m5.2 8.2 2 2 3.6-4.2"/>"#),
    (Icon::Pause, "i-s-pause", r#"<path d="M5.2 3v10 M10.8 3v10"/>"#),
    (
        Icon::Person,
        "i-s-person",
        r#"<circle cx="8" cy="5" r="2.6"/><path d="M2.8 13.8c.6-3 2.6-4.4 5.2-4.4s4.600 1.400 5.2 4.400"/>"#,
    ),
    (Icon::Retry, "i-s-retry", r#"<path d="M13.5 8a5.5 5.5 0 1 1-1.7-4 M13.6 1.9v2.8h-2.8"/>"#),
    (Icon::Undo, "i-s-undo", r#"<path d="M5.6 2.6 2.4 5.8 5.6 9 M2.4 5.8h7.2a3.9 3.9 0 0 1 0 7.8H6.4"/>"#),
    (Icon::Wait, "i-s-wait", r#"<circle cx="8" cy="8" r="6"/><path d="M8 4.6V8l2.3 1.6"/>"#),
    (Icon::Warn, "i-s-warn", r#"<path d="M8 2.2 14.4 13.4H1.6z M8 6.4v3.2 M8 11.5v.1"/>"#),
    (
        Icon::Saga,
        "i-saga",
        r#"<circle cx="4" cy="3.75" r="1.5"/><circle cx="12" cy="8" r="1.5"/><circle cx="12" cy="12.75" r="1.5"/><path d="M4 5.5v7.25h6.5 M4 8h6.5"/>"#,
    ),
    (Icon::Stream, "i-stream", r#"<path d="M2 5c2-2 4-2 6 0s4 2 6 0 M2 11c2-2 4-2 6 0s4 2 6 0"/>"#),
    (
        Icon::Theme,
        "i-theme",
        r#"<circle cx="8" cy="8" r="5.5"/><path d="M8 2.5v11A5.5 5.5 0 0 0 8 2.5z" fill="currentColor"/>"#,
    ),
];

impl Icon {
    fn id(self) -> &'static str {
        DRAWN.iter().find(|(icon, ..)| *icon == self).map_or("", |(_, id, _)| id)
    }
}

/// The drawings, for the head of the page: signs refer to them.
pub fn drawings() -> Markup {
    html! {
        svg.vh aria-hidden="true" focusable="false" {
            @for (_, id, drawn) in DRAWN {
                symbol id=(id) viewBox="0 0 16 16" { (PreEscaped(drawn)) }
            }
        }
    }
}

/// A sign in a line of text, as high as its letters.
pub fn small(icon: Icon) -> Markup {
    html! { svg.i aria-hidden="true" { use href={ "#" (icon.id()) } {} } }
}

/// A sign whose size its place gives.
pub fn shape(icon: Icon) -> Markup {
    html! { svg viewBox="0 0 16 16" aria-hidden="true" { use href={ "#" (icon.id()) } {} } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sign_is_drawn_once() {
        let mut ids: Vec<&str> = DRAWN.iter().map(|(_, id, _)| *id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), DRAWN.len());
        assert!(DRAWN.iter().all(|(icon, id, drawn)| icon.id() == *id && drawn.starts_with('<')));
        assert!(drawings().0.contains("symbol id=\"i-home\""));
    }
}
