//! The views, one file a family. Each is a function of what the host's services answered: it asks nobody and decides nothing.

mod approvals;
mod audit;
mod blocked;
mod causes;
mod dead_letters;
mod given;
mod help;
mod hour;
mod inbox;
mod keys;
mod message;
mod messages;
mod neighbours;
mod operation;
mod outcomes;
mod overview;
mod plan;
mod plugin;
mod relay;
mod saga_steps;
mod saga_ways;
mod sagas;
mod settings;
mod sign_in;
mod stream;
mod streams;
mod write;

pub use approvals::{Ask, Asking, Decided, approvals, ask, decided, undecided};
pub use audit::{Trail, audit};
pub use blocked::{Blocked, blocked};
pub use dead_letters::{DeadLetters, dead_letters};
pub use given::Given;
pub use help::{Help, help};
pub use inbox::{Inbox, InboxParts, Received, inbox, received};
pub use keys::{Keys, idempotency_key, keys};
pub use message::{MessageDetail, PayloadTab, is_secret, message};
pub use messages::{Messages, messages};
pub use operation::{Answer, Operations, answer, operation, operations};
pub use overview::{Beside, Overview, overview};
pub use plan::{Concerns, Many, Plan, Sample, plan};
pub use plugin::{Plugin, PluginTab, plugin, plugins};
pub use relay::{Relay, relay};
pub use sagas::{Sagas, saga, sagas};
pub use settings::{Compared, Configuration, configuration};
pub use sign_in::{Door, ProviderLink, refused, sign_in};
pub use stream::{EventRow, EventRows, Stream, stream};
pub use streams::{Streams, streams};
pub use write::{Original, Write, carried_out, not_kept, write};

use maud::{Markup, html};
use waybill_core::outbox::filter::tenant_in;

use crate::acts::{Act, May, Target, links};
use crate::address::{self, condition};
use crate::chips::chips;
use crate::icon::Icon;
use crate::parts::{Tone, filter, note, quoted};
use crate::text::foreign;
use crate::time::AsOf;

/// Rows of a list, and the address of those behind them.
#[derive(Clone, Debug)]
pub struct Rows<T> {
    pub items: Vec<T>,
    pub older: Option<String>,
}

/// A list that can be saved, by its word in the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saved(pub &'static str);

/// A filter that can't be read as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// As it was written.
    pub written: String,
    /// What is wrong with it, and what may have been meant.
    pub why: String,
}

/// What a list was asked for.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// As it was written; of one that can't be read, the conditions that can be.
    pub filter: String,
    pub unread: Option<Unread>,
    /// Of a token of several tenants, the one that is looked at; else empty.
    pub tenant: String,
    /// How it is sorted; empty = newest first.
    pub sort: String,
    /// It isn't the first page.
    pub is_further: bool,
    /// What the caller may do to it.
    pub may: May,
}

impl Asked {
    /// The list's command line.
    fn command(&self, verb: &str) -> String {
        // Said twice it is refused.
        let is_said = self.tenant.is_empty() || tenant_in(&self.filter).is_some();
        let of_tenant = if is_said { String::new() } else { condition("tenant", &self.tenant) };
        let filter = format!("{of_tenant} {}", self.filter);
        match filter.trim() {
            "" => format!("waybill {verb}"),
            filter => format!("waybill {verb} --filter {}", quoted(filter)),
        }
    }

    /// The same list with one condition more.
    fn narrowed(&self, path: &str, condition: &str) -> String {
        let filter = format!("{} {condition}", self.filter);
        self.with_filter(path, filter.trim_start())
    }

    /// The same list with another filter: from its beginning.
    fn with_filter(&self, path: &str, filter: &str) -> String {
        address::with(path, &[("tenant", &self.tenant), ("filter", filter), ("sort", &self.sort)])
    }

    /// Acts on all that the filter takes. Where it isn't what was written, nothing is offered to be done to what it takes.
    fn on_all(&self, acts: &[Act]) -> Markup {
        match self.unread {
            Some(_) => html! {},
            None => links(acts, &Target::matching(&self.tenant, &self.filter), self.may),
        }
    }

    /// The filter of a list, and how it was understood.
    fn form(&self, path: &str, hint: &str, as_of: AsOf) -> Markup {
        let written = self.unread.as_ref().map_or(&self.filter, |unread| &unread.written);
        html! {
            (filter(path, written, hint, &[("tenant", &self.tenant), ("sort", &self.sort)]))
            @if let Some(unread) = &self.unread {
                (note(Tone::Hold, Icon::Warn, &html! {
                    (foreign(&unread.why)) ". "
                    @if self.filter.is_empty() { b { "This is the list without a filter." } } @else { b { "The rest of the filter holds." } }
                }, None))
            }
            (chips(&self.filter, as_of.0, |rest| self.with_filter(path, rest)))
        }
    }

    /// The foot of a list: how much is shown, all of it as a file, the way on.
    fn foot(&self, list: Saved, shown: usize, older: Option<&str>) -> Markup {
        let file = |format: &str| {
            let query = [
                ("list", list.0),
                ("as", format),
                ("tenant", &*self.tenant),
                ("filter", &*self.filter),
                ("sort", &*self.sort),
            ];
            address::with(address::SAVE, &query)
        };
        html! {
            span { (shown) " shown" @if self.is_further { ", not the newest" } }
            span.acts {
                a href=(file("csv")) download { "As CSV" }
                a href=(file("jsonl")) download { "As JSON lines" }
                @if let Some(older) = older { a href=(older) rel="next" { "Older" } }
            }
        }
    }
}

/// An option of a command line, where there is a value for it.
fn option(name: &str, value: &str) -> String {
    if value.is_empty() { String::new() } else { format!(" --{name} {}", quoted(value)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_says_the_tenant_once() {
        let line = |tenant: &str, filter: &str| {
            let (tenant, filter) = (tenant.to_owned(), filter.to_owned());
            Asked { tenant, filter, ..Asked::default() }.command("saga list")
        };
        assert!(line("acme", "step=charge").contains("tenant=acme step=charge"));
        assert_eq!(line("acme", "tenant=acme").matches("tenant").count(), 1);
        assert_eq!(line("", ""), "waybill saga list");
    }
}
