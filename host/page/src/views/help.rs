//! What an error code means.

use maud::{Markup, html};

use crate::frame::head;
use crate::parts::in_a_terminal;
use crate::prose::prose;
use crate::text::foreign;

#[derive(Clone, Debug)]
pub struct Help {
    pub code: String,
    /// Status that it is answered with; none = no request is.
    pub status: Option<u16>,
    pub retryable: Option<bool>,
    /// Markdown, of this host's own documentation.
    pub page: String,
}

pub fn help(view: &Help) -> Markup {
    let Help { code, status, retryable, page } = view;
    let under = html! {
        p.meta {
            @if let Some(status) = status { span { "answered with " (status) } }
            @match retryable {
                Some(true) => { span { "the same request may succeed later" } }
                Some(false) => { span { "the same request fails again" } }
                None => {}
            }
        }
    };
    html! {
        (head(&html! { span.mono { (foreign(code)) } }, &under, None))
        div.sheet.pad { div.help { (prose(page)) } }
        (in_a_terminal(&format!("curl http://127.0.0.1:7070/errors/{code}")))
    }
}
