//! The form that takes an API token; and why something can't be shown at all.

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
    /// With the token that the form carries, and the address to go on to.
    Open { form_token: String, to: String },
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
            Door::Open { form_token, to } => {
                form.sheet.ask method="post" action=(address::SIGN_IN) {
                    input type="hidden" name="form" value=(form_token);
                    input type="hidden" name="to" value=(to);
                    label {
                        "API token"
                        input type="password" name="token" autocomplete="current-password" required autofocus spellcheck="false";
                        small { "one that this host knows; you may do here what it may do, and nothing else" }
                    }
                    p.acts { button.btn.main { "Sign in" } }
                    p.hint { "You are signed out after an hour without a request, after twelve hours, and when the token is taken away." }
                }
            }
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
