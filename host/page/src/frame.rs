//! What every view has around it: head, navigation, search, verdict, who looks.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::address;
use crate::assets::{ICON, SCRIPT, STYLE};
use crate::environment::Environment;
use crate::icon::{self, Icon};
use crate::live::Numbers;
use crate::navigation;
use crate::parts::{State, Tone, state};
use crate::text::{Foreign, for_attribute, foreign};
use crate::time::AsOf;

/// Where a view stands in the navigation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Overview,
    Messages,
    DeadLetters,
    Blocked,
    Inbox,
    Idempotency,
    Sagas,
    Approvals,
    Streams,
    Plugins,
    Operations,
    Configuration,
    Audit,
    /// Elsewhere, as the form to sign in.
    None,
}

/// How the host is, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Ready,
    /// It works, and somebody should look.
    Look,
    NotReady,
    /// It wasn't asked, or didn't answer in time.
    Unknown,
}

impl Verdict {
    const ALL: [Self; 4] = [Self::Ready, Self::Look, Self::NotReady, Self::Unknown];

    /// As the script knows it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Look => "look",
            Self::NotReady => "not-ready",
            Self::Unknown => "unknown",
        }
    }

    pub fn state(self) -> State<'static> {
        match self {
            Self::Ready => State::new(Tone::Ok, Icon::Done, "Ready"),
            Self::Look => State::new(Tone::Hold, Icon::Warn, "Ready, look"),
            Self::NotReady => State::new(Tone::Dead, Icon::Dead, "Not ready"),
            Self::Unknown => State::new(Tone::Rest, Icon::NotBegun, "Unknown"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// The host asks nobody for a token.
    Local,
    SignedIn {
        name: String,
        roles: String,
        tenants: String,
        /// Goes with every form of the session.
        form_token: String,
    },
    Nobody,
}

/// One of several tenants that the caller's token names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantChoice {
    pub name: String,
    pub address: String,
    pub is_present: bool,
}

/// What stands around a view.
#[derive(Clone, Debug)]
pub struct Frame {
    pub place: Place,
    pub as_of: AsOf,
    pub version: String,
    pub environment: Environment,
    pub who: Who,
    pub verdict: Verdict,
    /// Empty unless the token names several.
    pub tenants: Vec<TenantChoice>,
    /// Those beside the words of the navigation are shown.
    pub numbers: Numbers,
    /// Where numbers that change come from; none = nothing changes in place.
    pub live: Option<String>,
}

impl Frame {
    /// The whole page. `title` may hold what others wrote.
    pub fn document(&self, title: &str, body: &Markup) -> String {
        let framed = html! {
            a.skip href="#main" { "Skip to content" }
            (icon::drawings())
            div.frame {
                (self.navigation())
                div {
                    (self.bar())
                    main #main tabindex="-1" {
                        @if self.live.is_some() { (changed()) }
                        (body)
                    }
                }
            }
            (keys())
            p.vh #say role="status" {}
        };
        let assets = html! {
            link rel="icon" href=(ICON.address());
            link rel="stylesheet" href=(STYLE.address());
            script src=(SCRIPT.address()) defer {}
        };
        self.page(title, &assets, &framed, self.live.as_deref())
    }

    /// A page for who came by a link alone: it needs no other address, and nothing on it leads elsewhere. Its style stands in it.
    pub fn alone(&self, title: &str, body: &Markup) -> String {
        let framed = html! {
            (icon::drawings())
            main #main tabindex="-1" {
                p.brand { (icon::small(Icon::Relay)) "Waybill" }
                @if !self.environment.name.is_empty() {
                    p.env { span class={ "tag " (self.environment.colour.class()) } { (Foreign(&self.environment.name)) } }
                }
                (body)
            }
        };
        self.page(title, &html! { style { (PreEscaped(STYLE.text)) } }, &framed, None)
    }

    fn page(&self, title: &str, assets: &Markup, framed: &Markup, source: Option<&str>) -> String {
        let in_title = match self.environment.name.as_str() {
            "" => format!("{} · Waybill", for_attribute(title)),
            name => format!("{} · {} · Waybill", for_attribute(title), for_attribute(name)),
        };
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    meta name="robots" content="noindex";
                    title { (in_title) }
                    (assets)
                }
                body data-source=[source] { (framed) }
            }
        };
        self.environment.base_path.before(page.into_string())
    }

    fn navigation(&self) -> Markup {
        html! {
            nav.side #nav popover aria-label="Main" {
                a.brand href=(address::OVERVIEW) { (icon::small(Icon::Relay)) "Waybill" }
                @if !self.environment.name.is_empty() {
                    p.env { span class={ "tag " (self.environment.colour.class()) } { (Foreign(&self.environment.name)) } }
                }
                (navigation::groups(self.place, &self.numbers))
                (self.footer())
            }
        }
    }

    fn footer(&self) -> Markup {
        html! {
            footer {
                "waybill " (self.version) br;
                "as of " time #as-of datetime=(self.as_of.0.to_string()) { (clock(self.as_of)) } br;
                button.bare type="button" popovertarget="keys" { "Keys " kbd { "?" } } br;
                @match &self.who {
                    Who::Local => { "no sign-in: only programs on this machine are served, and nobody is asked for a token" }
                    Who::Nobody => { a href=(address::SIGN_IN) { "Sign in" } }
                    Who::SignedIn { name, roles, tenants, form_token } => {
                        "signed in as " span.strong { (foreign(name)) } br;
                        (foreign(roles)) " · " (foreign(tenants))
                        form method="post" action=(address::SIGN_OUT) {
                            input type="hidden" name="form" value=(form_token);
                            button.bare { "Sign out" }
                        }
                    }
                }
            }
        }
    }

    fn bar(&self) -> Markup {
        html! {
            header.bar {
                button.bare.menu popovertarget="nav" aria-label="Menu" { (icon::small(Icon::Menu)) }
                form role="search" action=(address::FIND) {
                    (icon::small(Icon::Find))
                    input #find type="search" name="q" placeholder="Id, key or filter"
                        aria-label="Find by id, key or filter" autocomplete="off" spellcheck="false";
                    kbd { "/" }
                }
                div.tools {
                    @for choice in &self.tenants {
                        a.chip.on[choice.is_present] href=(choice.address)
                            aria-current=[choice.is_present.then_some("true")] { (foreign(&choice.name)) }
                    }
                    button.bare #zone type="button" {
                        (icon::small(Icon::Clock)) span.vh { "Times: " } span { "UTC" }
                    }
                    button.bare.opt #theme type="button" {
                        (icon::small(Icon::Theme)) span.vh { "Theme: " } span { "system" }
                    }
                    @if self.who != Who::Nobody {
                        a.btn.pill href=(address::OVERVIEW) {
                            @for verdict in Verdict::ALL {
                                span data-verdict=(verdict.word()) hidden[verdict != self.verdict] { (state(verdict.state())) }
                            }
                        }
                    }
                    @if self.live.is_some() {
                        button.pill #live type="button" aria-pressed="false" title="Pause what changes (p)" hidden {
                            span.dot {} span { "Live" }
                        }
                    }
                }
            }
        }
    }
}

fn clock(as_of: AsOf) -> String {
    as_of.0.to_string().get(11..19).unwrap_or_default().to_owned()
}

/// What the script shows when rows came, or when no word comes.
fn changed() -> Markup {
    html! {
        div.note.hold.old #old hidden { (icon::shape(Icon::Warn)) span {} }
        a.newer #newer href="" hidden {}
    }
}

/// The keys that the script takes.
fn keys() -> Markup {
    html! {
        div.sheet.pad #keys popover role="dialog" aria-label="Keys" {
            h2 { "Keys" }
            dl.kv {
                dt { kbd { "/" } " " kbd { "f" } } dd { "find, filter" }
                dt { kbd { "j" } " " kbd { "k" } " " kbd { "Enter" } } dd { "next row, row before, open" }
                dt { kbd { "g" } " then " kbd { "o m d s p t" } }
                dd { "overview, messages, dead letters, sagas, plugins, streams" }
                dt { kbd { "x" } " " kbd { "p" } } dd { "pick a row, pause what changes" }
                dt { kbd { "t" } " " kbd { "?" } } dd { "time display, these keys" }
            }
            p {
                button.bare #single-keys type="button" { span.vh { "Single keys: " } span { "on" } }
            }
        }
    }
}

/// The heading of a view.
pub fn head(title: &Markup, text: &Markup, acts: Option<&Markup>) -> Markup {
    html! {
        div.head {
            div { h1 { (title) } (text) }
            @if let Some(acts) = acts { div.acts { (acts) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::BasePath;
    use waybill_core::time::UnixMillis;

    fn frame(name: &str) -> Frame {
        Frame {
            place: Place::Messages,
            as_of: AsOf(UnixMillis(1_700_000_000_123)),
            version: "1.2.3".into(),
            environment: Environment { name: name.into(), ..Environment::default() },
            who: Who::Local,
            verdict: Verdict::Ready,
            tenants: Vec::new(),
            numbers: Numbers::new(),
            live: Some("/ui/live?view=messages".into()),
        }
    }

    #[test]
    fn the_frame_names_view_environment_and_instant_and_has_no_inline_style() {
        let page = frame("production").document("Messages", &html! { h1 { "Messages" } });
        for part in [
            "<title>Messages · production · Waybill</title>",
            "aria-current=\"page\"",
            "class=\"skip\"",
            "datetime=\"2023-11-14T22:13:20.123Z\"",
            "no sign-in",
            "data-source=\"/ui/live?view=messages\"",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert_eq!(page.matches("<h1").count(), 1);
        assert!(!page.contains("style=") && !page.contains("http"), "{page}");
    }

    #[test]
    fn behind_a_proxy_with_a_path_every_address_has_it() {
        let base_path = BasePath::new("/ops").unwrap();
        let environment = Environment { base_path, ..Environment::default() };
        let page = Frame { environment, ..frame("") }.document("Messages", &html! { p { "href=\"/ui" } });
        for attribute in ["href", "src", "action", "data-source"] {
            assert!(!page.contains(&format!(" {attribute}=\"/ui")), "{attribute}: {page}");
            assert!(page.contains(&format!(" {attribute}=\"/ops/ui")), "{attribute}: {page}");
        }
        assert!(page.contains("href=&quot;/ui"), "what others wrote stays: {page}");
    }

    #[test]
    fn one_verdict_is_shown_and_a_page_without_numbers_has_no_source() {
        let page = Frame { live: None, ..frame("") }.document("Messages", &html! {});
        let shown = page
            .split("<span data-verdict=")
            .skip(1)
            .filter(|rest| !rest.split('>').next().unwrap().contains("hidden"));
        assert_eq!(shown.map(|rest| &rest[1..6]).collect::<Vec<_>>(), ["ready"], "{page}");
        for absent in ["data-source", "id=\"live\"", "id=\"newer\""] {
            assert!(!page.contains(absent), "{absent}: {page}");
        }
    }
}
