//! Attempts as CBOR. Hosts, transports and plugins are named once a record, in a table that the attempts point into.

use std::sync::Arc;

use minicbor::{Decode, Encode};
use waybill_core::outbox::records::{AttemptOutcome, AttemptRecord};
use waybill_core::port::transport::{PluginIdentity, Receipt};
use waybill_core::time::UnixMillis;

use super::CodecError;

/// What many attempts share.
#[derive(Debug, Default, Encode, Decode)]
#[cbor(map)]
pub struct Names<'b> {
    #[b(0)]
    texts: Vec<&'b str>,
    #[b(1)]
    plugins: Vec<WirePlugin<'b>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Encode, Decode)]
pub struct WirePlugin<'b> {
    #[b(0)]
    plugin: &'b str,
    #[b(1)]
    version: &'b str,
    #[b(2)]
    digest: &'b str,
    #[n(3)]
    generation: u32,
}

/// One attempt; its numbers point into [`Names`].
#[derive(Debug, Encode, Decode)]
pub struct WireAttempt<'b> {
    #[n(0)]
    at: u64,
    #[n(1)]
    took_ms: u64,
    #[n(2)]
    outcome: u8,
    #[n(3)]
    worker: u32,
    #[n(4)]
    transport: u32,
    #[n(5)]
    plugin: Option<u32>,
    #[b(6)]
    code: Option<&'b str>,
    #[b(7)]
    reason: Option<&'b str>,
    #[n(8)]
    maybe_delivered: Option<bool>,
}

impl<'b> WirePlugin<'b> {
    pub fn of(identity: &'b PluginIdentity) -> Self {
        Self {
            plugin: &identity.plugin,
            version: &identity.version,
            digest: &identity.digest,
            generation: identity.generation,
        }
    }

    pub fn identity(&self) -> PluginIdentity {
        PluginIdentity {
            plugin: self.plugin.to_owned(),
            version: self.version.to_owned(),
            digest: self.digest.to_owned(),
            generation: self.generation,
        }
    }
}

/// Where an item lies in a table; it is added if it isn't there.
pub fn place_of<T: PartialEq>(table: &mut Vec<T>, item: T) -> u32 {
    let found = table.iter().position(|known| *known == item);
    let at = found.unwrap_or_else(|| {
        table.push(item);
        table.len() - 1
    });
    u32::try_from(at).unwrap_or(u32::MAX)
}

impl<'b> Names<'b> {
    /// Packs attempts, adding the names they need.
    pub fn pack(&mut self, attempts: &'b [AttemptRecord]) -> Vec<WireAttempt<'b>> {
        let encode = |attempt: &'b AttemptRecord| WireAttempt {
            at: attempt.at.0,
            took_ms: attempt.took_ms,
            outcome: outcome_number(attempt.outcome),
            worker: place_of(&mut self.texts, &*attempt.worker),
            transport: place_of(&mut self.texts, &*attempt.transport),
            plugin: attempt.plugin.as_ref().map(|identity| place_of(&mut self.plugins, WirePlugin::of(identity))),
            code: attempt.code.as_deref(),
            reason: attempt.reason.as_deref(),
            maybe_delivered: attempt.maybe_delivered.then_some(true),
        };
        attempts.iter().map(encode).collect()
    }

    pub fn unpack(&self, attempts: Vec<WireAttempt<'b>>) -> Result<Vec<AttemptRecord>, CodecError> {
        attempts.into_iter().map(|attempt| self.unpack_one(attempt)).collect()
    }

    fn unpack_one(&self, attempt: WireAttempt<'b>) -> Result<AttemptRecord, CodecError> {
        let missing =
            || CodecError::Damaged("an attempt names a host, transport or plugin that isn't in its table".into());
        let text = |at: u32| self.texts.get(at as usize).map(|text| Arc::from(*text)).ok_or_else(missing);
        let plugin = |at: u32| {
            let plugin = self.plugins.get(at as usize).ok_or_else(missing)?;
            Ok::<_, CodecError>(Arc::new(plugin.identity()))
        };
        Ok(AttemptRecord {
            at: UnixMillis(attempt.at),
            took_ms: attempt.took_ms,
            outcome: outcome(attempt.outcome),
            worker: text(attempt.worker)?,
            transport: text(attempt.transport)?,
            plugin: attempt.plugin.map(plugin).transpose()?,
            code: attempt.code.map(str::to_owned),
            reason: attempt.reason.map(str::to_owned),
            maybe_delivered: attempt.maybe_delivered.unwrap_or(false),
        })
    }
}

fn outcome_number(outcome: AttemptOutcome) -> u8 {
    match outcome {
        AttemptOutcome::Delivered => 0,
        AttemptOutcome::Retry => 1,
        AttemptOutcome::Dead => 2,
        AttemptOutcome::Blocked => 3,
        AttemptOutcome::Released => 4,
        AttemptOutcome::Unknown => 5,
    }
}

/// A number of a newer host reads as unknown: it is shown, nothing is decided by it.
fn outcome(number: u8) -> AttemptOutcome {
    match number {
        0 => AttemptOutcome::Delivered,
        1 => AttemptOutcome::Retry,
        2 => AttemptOutcome::Dead,
        3 => AttemptOutcome::Blocked,
        4 => AttemptOutcome::Released,
        _ => AttemptOutcome::Unknown,
    }
}

#[derive(Debug, Encode, Decode)]
pub struct WireReceipt<'b> {
    #[b(0)]
    broker_ref: Option<&'b str>,
    #[n(1)]
    duplicate: Option<bool>,
    #[b(2)]
    attributes: Option<Vec<(&'b str, &'b str)>>,
}

impl<'b> WireReceipt<'b> {
    pub fn of(receipt: &'b Receipt) -> Self {
        let attributes = receipt.attributes.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        Self {
            broker_ref: receipt.broker_ref.as_deref(),
            duplicate: receipt.duplicate.then_some(true),
            attributes: (!receipt.attributes.is_empty()).then(|| attributes.collect()),
        }
    }

    pub fn into_receipt(self) -> Receipt {
        let attributes = self.attributes.unwrap_or_default();
        Receipt {
            broker_ref: self.broker_ref.map(str::to_owned),
            duplicate: self.duplicate.unwrap_or(false),
            attributes: attributes.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        }
    }
}
