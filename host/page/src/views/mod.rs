//! The views, one file a family. Each is a function of what the host's services answered: it asks nobody and decides nothing.

mod dead_letters;
mod message;
mod messages;
mod overview;
mod sagas;
mod sign_in;
mod streams;
mod system;

pub use dead_letters::{DeadLetters, dead_letters};
pub use message::{MessageDetail, PayloadTab, is_secret, message};
pub use messages::{Messages, messages};
pub use overview::{Overview, overview};
pub use sagas::{Sagas, saga, sagas};
pub use sign_in::{Door, refused, sign_in};
pub use streams::{Streams, streams};
pub use system::{Compared, Trail, audit, blocked, configuration, plugins};

use crate::address::{self, condition};
use crate::parts::quoted;

/// Rows of a list, and the address of those behind them.
#[derive(Clone, Debug)]
pub struct Rows<T> {
    pub items: Vec<T>,
    pub older: Option<String>,
}

/// What a list was asked for.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// As it was written.
    pub filter: String,
    /// Of a token of several tenants, the one that is looked at; else empty.
    pub tenant: String,
    /// It isn't the first page.
    pub is_further: bool,
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
        address::with(path, &[("tenant", &self.tenant), ("filter", filter.trim_start())])
    }
}
