//! What one commit finished: `[[consumer, ...], [tenant, ...], [subject, ...], [done, ...]]`. What many share is named once a record.

use std::collections::HashMap;

use minicbor::{Decode, Decoder, Encode, Encoder};
use waybill_core::code::Code;
use waybill_core::ids::{ConsumerName, InboundId, Tenant};
use waybill_core::inbox::records::{InboxDone, InboxEnd};
use waybill_core::time::UnixMillis;

use super::Infallible;
use crate::codec::CodecError;
use crate::codec::envelope::{self, Kind};

/// Bytes that a finished message is written in, about.
const DONE_BYTES: usize = 64;

#[derive(Encode, Decode)]
struct WireDone<'b> {
    #[b(0)]
    id: &'b str,
    #[n(1)]
    consumer: u32,
    #[n(2)]
    tenant: u32,
    #[n(3)]
    subject: u32,
    #[n(4)]
    received_at: u64,
    /// Milliseconds from its receipt to its end.
    #[n(5)]
    took_ms: i64,
    #[n(6)]
    attempts: u32,
    #[n(7)]
    end: u8,
}

/// Texts that many share, each once. There may be as many as messages.
#[derive(Default)]
struct Names<'b> {
    texts: Vec<&'b str>,
    places: HashMap<&'b str, u32>,
}

impl<'b> Names<'b> {
    fn place(&mut self, text: &'b str) -> u32 {
        let Self { texts, places } = self;
        *places.entry(text).or_insert_with(|| {
            texts.push(text);
            u32::try_from(texts.len() - 1).unwrap_or(u32::MAX)
        })
    }
}

fn number(end: InboxEnd) -> u8 {
    match end {
        InboxEnd::Processed => 0,
        InboxEnd::Duplicate => 1,
        InboxEnd::Dead => 2,
    }
}

fn end(number: u8) -> Result<InboxEnd, CodecError> {
    match number {
        0 => Ok(InboxEnd::Processed),
        1 => Ok(InboxEnd::Duplicate),
        2 => Ok(InboxEnd::Dead),
        other => Err(CodecError::Damaged(format!("there is no end number {other}"))),
    }
}

/// From one instant to another in milliseconds; negative where the second comes first.
fn between(from: UnixMillis, to: UnixMillis) -> i64 {
    i64::try_from(i128::from(to.0) - i128::from(from.0)).unwrap_or(i64::MAX)
}

pub fn encode_done(done: &[InboxDone]) -> Result<Vec<u8>, Infallible> {
    let (mut consumers, mut tenants, mut subjects) = (Names::default(), Names::default(), Names::default());
    let mut wire = Vec::with_capacity(done.len());
    for one in done {
        wire.push(WireDone {
            id: one.id.as_str(),
            consumer: consumers.place(one.consumer.as_str()),
            tenant: tenants.place(one.tenant.as_str()),
            subject: subjects.place(&one.subject),
            received_at: one.received_at.0,
            took_ms: between(one.received_at, one.processed_at),
            attempts: one.attempts,
            end: number(one.end),
        });
    }
    let mut encoder = Encoder::new(envelope::begin(done.len() * DONE_BYTES));
    encoder.array(4)?.encode(&consumers.texts)?.encode(&tenants.texts)?.encode(&subjects.texts)?.encode(&wire)?;
    Ok(envelope::seal(Kind::InboxDone, encoder.into_writer()))
}

pub fn decode_done(bytes: &[u8]) -> Result<Vec<InboxDone>, CodecError> {
    let mut decoder = Decoder::new(envelope::open(Kind::InboxDone, bytes)?);
    decoder.array()?;
    let consumers: Vec<&str> = decoder.decode()?;
    let tenants: Vec<&str> = decoder.decode()?;
    let subjects: Vec<&str> = decoder.decode()?;
    let wire: Vec<WireDone<'_>> = decoder.decode()?;
    let named = |table: &[&str], at: u32| -> Result<String, CodecError> {
        let text = table.get(at as usize).map(|text| (*text).to_owned());
        text.ok_or_else(|| CodecError::Damaged("a finished message names what isn't in its tables".into()))
    };
    let one = |wire: WireDone<'_>| {
        // No host writes one; a row of another's may say it.
        if wire.took_ms < 0 {
            let code = Code::INVALID_TIMESTAMP.as_str();
            return Err(CodecError::Damaged(format!(
                "{code}: message {:?} was processed before it was received",
                wire.id
            )));
        }
        Ok(InboxDone {
            consumer: ConsumerName::new(named(&consumers, wire.consumer)?)?,
            id: InboundId::new(wire.id)?,
            tenant: Tenant::new(named(&tenants, wire.tenant)?)?,
            subject: named(&subjects, wire.subject)?,
            received_at: UnixMillis(wire.received_at),
            processed_at: UnixMillis(wire.received_at.saturating_add(wire.took_ms.unsigned_abs())),
            attempts: wire.attempts,
            end: end(wire.end)?,
        })
    };
    wire.into_iter().map(one).collect()
}
