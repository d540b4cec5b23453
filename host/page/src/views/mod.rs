//! The views, one file a family. Each is a function of what the host's services answered: it asks nobody and decides nothing.

mod approvals;
mod audit;
mod blocked;
mod causes;
mod dead_letters;
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

pub use approvals::{Ask, Asking, Decided, approvals, ask, decided, undecided};
pub use audit::{Trail, audit};
pub use blocked::{Blocked, blocked};
pub use dead_letters::{DeadLetters, dead_letters};
pub use help::{Help, help};
pub use inbox::{Inbox, InboxParts, Received, inbox, received};
pub use keys::{Keys, idempotency_key, keys};
pub use message::{MessageDetail, PayloadTab, is_secret, message};
pub use messages::{Messages, messages};
pub use operation::{Answer, Operations, answer, operation, operations};
pub use overview::{Beside, Overview, overview};
pub use plan::{Concerns, Given, Many, Plan, Sample, plan};
pub use plugin::{Plugin, PluginTab, plugin, plugins};
pub use relay::{Relay, relay};
pub use sagas::{Sagas, saga, sagas};
pub use settings::{Compared, Configuration, configuration};
pub use sign_in::{Door, ProviderLink, refused, sign_in};
pub use stream::{EventRow, EventRows, Stream, stream};
pub use streams::{Streams, streams};

use maud::{Markup, html};

use crate::acts::May;
use crate::address::{self, condition};
use crate::chips::chips;
use crate::parts::{filter, quoted};
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

/// What a list was asked for.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// As it was written.
    pub filter: String,
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
        let of_tenant = if self.tenant.is_empty() { String::new() } else { condition("tenant", &self.tenant) };
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

    /// The filter of a list, and how it was understood.
    fn form(&self, path: &str, hint: &str, as_of: AsOf) -> Markup {
        html! {
            (filter(path, &self.filter, hint, &[("tenant", &self.tenant), ("sort", &self.sort)]))
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
