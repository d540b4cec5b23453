//! What is read from outside at the end: what the nodes were told, pages of the streams, what subscribers have, and the stream at the broker.

use std::collections::{BTreeMap, BTreeSet};

use waybill_testkit::nats::Stored;

use super::fleet::Appended;
use super::readers::{Account, Place, Reader};
use super::stage::Victim;

/// A subscriber at the end.
#[derive(Clone, Debug)]
pub struct Subscribed {
    pub name: &'static str,
    /// Those that its selector takes.
    pub streams: BTreeSet<String>,
    /// It stopped reading now and then.
    pub is_slow: bool,
    pub account: Account,
}

impl From<&Reader> for Subscribed {
    fn from(reader: &Reader) -> Self {
        let Reader { name, streams, is_slow, account, .. } = reader;
        Self { name, streams: streams.clone(), is_slow: *is_slow, account: account.lock().clone() }
    }
}

/// All that was seen.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    pub appended: Appended,
    /// Every stream, page by page.
    pub pages: BTreeMap<String, Vec<Place>>,
    pub subscribed: Vec<Subscribed>,
    /// The broker's stream as a foreign client reads it.
    pub stored: Vec<Stored>,
    /// Dead letters of all kinds.
    pub dead: usize,
    /// Events that the relay says went before it had them.
    pub overtaken: u64,
    pub kills: Vec<Victim>,
}

impl Evidence {
    pub fn events(&self) -> usize {
        self.appended.values().map(Vec::len).sum()
    }
}
