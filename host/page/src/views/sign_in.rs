//! The link to the provider that people sign in at, the form that takes an API token; and why something can't be shown at all.

use maud::{Markup, html};

use crate::address;
use crate::frame::head;
use crate::icon::Icon;
use crate::parts::{Fault, Tone, note};
use crate::text::foreign;

/// Whether somebody may sign in here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Door {
    /// The host asks nobody for a token.
    NotNeeded,
    /// What is typed could be read on its way.
    NeedsTls,
    Open {
        /// Goes with the form; none = there is none, for no token would be taken.
        form_token: Option<String>,
        /// The address to go on to.
        to: String,
        provider: Option<ProviderLink>,
    },
}

/// The way to the provider that people sign in at. A link: the page's policy lets forms go to this host alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderLink {
    pub name: String,
    pub address: String,
}

/// The form, or why there is none. `refusal`: why the last try came to nothing.
pub fn sign_in(door: &Door, refusal: Option<&Fault>) -> Markup {
    html! {
        (head(&html! { "Sign in" }, &html! {}, None))
        @if let Some(refusal) = refusal {
            (note(Tone::Dead, Icon::Fence, &html! { code { (foreign(&refusal.code)) } " " (foreign(&refusal.detail)) }, None))
        }
        @match door {
            Door::NotNeeded => { (not_needed()) }
            Door::NeedsTls => { (needs_tls()) }
            Door::Open { form_token, to, provider } => {
                @if let Some(provider) = provider { (by_provider(provider)) }
                @if let Some(form_token) = form_token { (by_token(form_token, to, provider.is_some())) }
            }
        }
    }
}

fn by_provider(provider: &ProviderLink) -> Markup {
    html! {
        div.sheet.ask.door {
            p.acts { a.btn.main href=(provider.address) { "Sign in with " (foreign(&provider.name)) } }
            p.hint { "You may do here what your roles there give you. You are signed out after an hour without a request, and after twelve hours." }
        }
    }
}

/// What comes second takes the focus from nothing.
fn by_token(form_token: &str, to: &str, is_second: bool) -> Markup {
    html! {
        form.sheet.ask method="post" action=(address::SIGN_IN) {
            input type="hidden" name="form" value=(form_token);
            input type="hidden" name="to" value=(to);
            label {
                "API token"
                input type="password" name="token" autocomplete="current-password" required autofocus[!is_second] spellcheck="false";
                small { "one that this host knows; you may do here what it may do, and nothing else" }
            }
            p.acts { button.btn.main[!is_second] { "Sign in" @if is_second { " with a token" } } }
            p.hint { "You are signed out after an hour without a request, after twelve hours, and when the token is taken away." }
        }
    }
}

fn not_needed() -> Markup {
    note(
        Tone::Ok,
        Icon::Done,
        &html! {
            b { "There is no sign-in here." }
            " This host listens on this machine only, and asks nobody for a token: every program of this machine may do everything. "
            a href=(address::OVERVIEW) { "To the overview" }
        },
        None,
    )
}

fn needs_tls() -> Markup {
    note(
        Tone::Hold,
        Icon::Warn,
        &html! {
            b { "TLS is needed to sign in." }
            " What is typed here could be read on its way: give the host a certificate ([server.tls]), put a proxy in front that speaks TLS \
              (server.behind_tls_proxy = true), or open this page on the host’s own machine."
        },
        None,
    )
}

/// Why a whole view isn't shown.
pub fn refused(title: &str, fault: &Fault) -> Markup {
    html! {
        (head(&html! { (title) }, &html! {}, None))
        (crate::parts::fault(title, fault))
    }
}
