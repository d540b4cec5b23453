//! What a running host can't take over of another configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use waybill_core::code::Code;
use waybill_core::ids::{ConsumerName, SourceName};
use waybill_core::port::transport::Fault;

use super::config::InboundConfig;
use crate::direct::DirectConfig;

/// Where all lives that a configuration receives: enough of it to say whether a running host can take it over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InboundHomes {
    /// Sources that go through the inbox, with their homes.
    pub sources: BTreeMap<SourceName, String>,
    /// Consumers of those, with the homes of what feeds them.
    pub consumers: BTreeMap<ConsumerName, String>,
    /// Sources whose tables are published directly; they have no home.
    pub tables: BTreeSet<SourceName>,
}

impl InboundHomes {
    pub fn of(inbound: &InboundConfig, direct: &DirectConfig) -> Self {
        let sources = inbound.sources.iter().map(|source| (source.name.clone(), source.home.clone()));
        let consumers = inbound.consumers.iter().filter_map(|consumer| {
            let first = inbound.sources.iter().find(|source| consumer.sources.contains(&source.name))?;
            Some((consumer.name.clone(), first.home.clone()))
        });
        let tables = direct.tables.iter().map(|table| table.source.clone());
        Self { sources: sources.collect(), consumers: consumers.collect(), tables: tables.collect() }
    }
}

/// Why another configuration can't be put in force while a host runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub fault: Fault,
    /// It can in a moment, for something that was taken out comes to its end.
    pub passes: bool,
}

impl Refusal {
    /// A source would be published another way.
    pub(crate) fn published_otherwise(source: &SourceName) -> Self {
        let reason = format!(
            "source {:?} would be published another way (`publish`), and nobody would wait for what is under way: restart the host \
             for that",
            source.as_str()
        );
        Self { fault: Fault::new(Code::CONFIG_RELOAD_REFUSED, reason), passes: false }
    }

    /// The same of one that was taken out a moment ago.
    pub(crate) fn still_under_way(source: &SourceName) -> Self {
        let reason = format!(
            "source {:?} would be published another way (`publish`), and of what it was before something is still under way: try again \
             in a moment",
            source.as_str()
        );
        Self { fault: Fault::new(Code::CONFIG_RELOAD_REFUSED, reason), passes: true }
    }
}

/// Why `next` can't follow `before`, if so: what was seen of a source, or by a consumer, lies at a home, and would be looked for at
/// another one.
pub(super) fn other_home(before: &InboundHomes, next: &InboundHomes) -> Option<Refusal> {
    let source = moved(&before.sources, &next.sources).map(|(name, old, new)| (format!("source {name:?}"), old, new));
    let consumer =
        || moved(&before.consumers, &next.consumers).map(|(name, old, new)| (format!("consumer {name:?}"), old, new));
    let (of, stays, home) = source.or_else(consumer)?;
    let reason = format!(
        "{of} has home {stays:?}, where what was seen is remembered, and would have home {home:?}: keep its home, or give it another \
         name if it really starts anew"
    );
    Some(Refusal { fault: Fault::new(Code::INBOX_OTHER_HOME, reason), passes: false })
}

/// The first one whose home is another one, with both.
fn moved<'h, Name: Ord + fmt::Display>(
    before: &'h BTreeMap<Name, String>,
    next: &'h BTreeMap<Name, String>,
) -> Option<(String, &'h str, &'h str)> {
    next.iter().find_map(|(name, home)| {
        let stays = before.get(name).filter(|stays| *stays != home)?;
        Some((name.to_string(), stays.as_str(), home.as_str()))
    })
}
