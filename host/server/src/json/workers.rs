//! What workers outside ask and are told.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use waybill_core::ids::Tenant;
use waybill_core::one_line::into_one_line;
use waybill_core::port::dedup::FirstDelivery;
use waybill_core::port::transport::Fault;
use waybill_core::port::workers::{ClaimedMessage, SettleAnswer, SettleItem, SettleWish};

use super::instant::Instant;
use super::message_out::{MessageOut, ReceiptOut, StateOut};
use crate::limits::{FAULT_CODE_BYTES_MAX, LEASE_MAX, LEASE_MIN, NOTE_BYTES_MAX, RECEIPT_BYTES_MAX};
use crate::problem::Problem;

/// Code of a failure that a worker gave no code.
const FAILED: &str = "EXTERNAL.FAILED";

/// A worker wants messages.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Claim)]
pub struct ClaimIn {
    /// Name of the worker, up to 128 bytes: shown with leases and attempts.
    pub worker_id: String,
    /// Most messages, 1 to 1,000; 10 if absent. Fewer come when they are large.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 1000)]
    pub limit: Option<usize>,
    /// How long the worker keeps them, 100 to 86,400,000; 60,000 if absent.
    #[serde(default)]
    #[schema(minimum = 100, maximum = 86_400_000)]
    pub lease_ms: Option<u64>,
    /// Only topics that this pattern takes, as in a route.
    #[serde(default)]
    pub topic: Option<String>,
    /// Only this tenant's; all that the credential allows if absent.
    #[serde(default)]
    pub tenant: Option<String>,
    /// How long to wait for the first message, up to 20,000; 0 if absent.
    #[serde(default)]
    #[schema(maximum = 20_000)]
    pub wait_ms: Option<u64>,
}

/// Messages handed to a worker.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Claimed)]
pub struct ClaimOut {
    /// Of each key the first unsettled one.
    pub items: Vec<ClaimedOut>,
}

/// A message handed to a worker.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = ClaimedMessage)]
pub struct ClaimedOut {
    /// Names the lease: give it back when settling.
    pub token: String,
    /// End of the lease.
    pub lease_until: Instant,
    /// 1 on the first attempt.
    pub attempt: u32,
    /// Definite failures so far.
    pub retry_count: u32,
    /// How often it was claimed since it was last settled; above 1, a worker let its lease end.
    pub claims: u32,
    /// Where to: the topic without its scheme.
    pub target: String,
    /// The message with its payload.
    #[serde(flatten)]
    pub message: MessageOut,
}

impl From<ClaimedMessage> for ClaimedOut {
    fn from(claimed: ClaimedMessage) -> Self {
        Self {
            token: claimed.token,
            lease_until: claimed.lease_until.into(),
            attempt: claimed.attempt,
            retry_count: claimed.attempt.saturating_sub(1),
            claims: claimed.claims,
            target: claimed.target,
            message: claimed.message.into(),
        }
    }
}

/// What a worker wants to become of messages that it claimed.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Settle)]
pub struct SettleIn {
    /// Name of the worker, for the audit of conflicts.
    #[serde(default)]
    pub worker_id: Option<String>,
    /// Whose messages; the credential's only tenant, else `default`, if absent.
    #[serde(default)]
    pub tenant: Option<String>,
    /// 1 to 1,000 messages, each on its own.
    pub items: Vec<SettleItemIn>,
}

/// One message in a settlement.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SettleItem)]
pub struct SettleItemIn {
    /// Message id.
    pub id: String,
    /// Whose, if not the request's.
    #[serde(default)]
    pub tenant: Option<String>,
    /// The token of the claim.
    pub token: String,
    /// What is to become of it.
    pub result: SettleWord,
    /// Why it failed (`nack`, `dead`): a text, or an object with a code.
    #[serde(default)]
    pub error: Option<ErrorIn>,
    /// When it is tried again (`nack`, else the host's backoff decides) or given out again (`release`, else at once).
    #[serde(default)]
    pub next_attempt_at: Option<Instant>,
    /// What the receiver gave back (`ack`), up to 1,024 bytes.
    #[serde(default)]
    pub receipt: Option<String>,
    /// How much longer the worker keeps it (`renew`); as long as it asked for at first if absent.
    #[serde(default)]
    #[schema(minimum = 100, maximum = 86_400_000)]
    pub lease_ms: Option<u64>,
}

/// What is to become of a claimed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = SettleResult)]
pub enum SettleWord {
    /// It is delivered.
    Ack,
    /// It failed and is tried again; the attempt counts.
    Nack,
    /// It failed for good.
    Dead,
    /// It wasn't tried.
    Release,
    /// It takes longer.
    Renew,
}

/// Why something failed.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(untagged, expecting = "error is a text, or an object with code and reason")]
#[schema(as = WorkerError)]
pub enum ErrorIn {
    /// A sentence.
    Text(String),
    /// With a code by which dead letters are grouped.
    Coded {
        /// Upper case letters, digits, dots and underscores.
        code: String,
        /// A sentence.
        #[serde(default)]
        reason: String,
    },
}

/// What became of a settlement.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Settled)]
pub struct SettledOut {
    /// An answer for each message, in order.
    pub items: Vec<SettledItemOut>,
}

/// What became of one message.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = SettledItem)]
pub struct SettledItemOut {
    /// Message id.
    pub id: String,
    /// It is done, and durable.
    pub applied: bool,
    /// Result code: `outbox_flush_success`, `_retry`, `_dead`, `_released`, `_renewed`; `_conflict`, `_db_timeout` or
    /// `_db_error` when it wasn't applied.
    pub result: String,
    /// Error code when it wasn't applied: `TX.LEASE_LOST` when the token isn't the message's current one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Why it wasn't applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// State of the message after a conflict; absent when there is no such message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<StateOut>,
    /// When it is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<Instant>,
    /// End of the renewed lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<Instant>,
}

impl From<SettleAnswer> for SettledItemOut {
    fn from(answer: SettleAnswer) -> Self {
        Self {
            id: answer.id,
            applied: answer.applied,
            result: answer.result.word().to_owned(),
            code: answer.code,
            reason: answer.reason,
            state: answer.state.map(Into::into),
            next_attempt_at: answer.next_attempt_at.map(Instant),
            lease_until: answer.lease_until.map(Instant),
        }
    }
}

/// A worker asks whether a payload was delivered before.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CheckDedup)]
pub struct CheckDedupIn {
    /// `target` of the claimed message.
    #[serde(alias = "target_space")]
    pub target: String,
    /// `payload_sha256` of the claimed message.
    #[serde(alias = "payload_sha256")]
    pub payload_sha: String,
    /// Whose; the credential's only tenant, else `default`, if absent.
    #[serde(default)]
    pub tenant: Option<String>,
}

/// Whether a payload was delivered before.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = DedupChecked)]
pub struct CheckDedupOut {
    /// The first delivery; null = none within the window.
    pub first: Option<FirstDeliveryOut>,
}

/// The first delivery of a payload.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = FirstDelivery)]
pub struct FirstDeliveryOut {
    /// The message that was delivered.
    pub id: String,
    /// What the receiver gave back.
    pub receipt: ReceiptOut,
    /// When.
    pub delivered_at: Instant,
}

impl From<FirstDelivery> for FirstDeliveryOut {
    fn from(first: FirstDelivery) -> Self {
        Self { id: first.id, receipt: first.receipt.into(), delivered_at: first.at.into() }
    }
}

impl SettleItemIn {
    /// The wish, if its fields fit its result.
    pub fn read(self, tenant: Tenant) -> Result<SettleItem, Problem> {
        let only = |is_there: bool, field: &'static str, results: &[SettleWord]| {
            if is_there && !results.contains(&self.result) {
                let word = format!("{:?}", self.result).to_lowercase();
                return Err(Problem::invalid(format!("{field} doesn't go with {word}: leave it out")).at(field));
            }
            Ok(())
        };
        only(self.error.is_some(), "error", &[SettleWord::Nack, SettleWord::Dead])?;
        only(self.next_attempt_at.is_some(), "next_attempt_at", &[SettleWord::Nack, SettleWord::Release])?;
        only(self.receipt.is_some(), "receipt", &[SettleWord::Ack])?;
        only(self.lease_ms.is_some(), "lease_ms", &[SettleWord::Renew])?;
        let at = self.next_attempt_at.map(|at| at.0);
        let wish = match self.result {
            SettleWord::Ack => SettleWish::Ack { receipt: receipt(self.receipt)? },
            SettleWord::Nack => SettleWish::Nack { fault: fault(self.error)?, next_attempt_at: at },
            SettleWord::Dead => SettleWish::Dead { fault: fault(self.error)? },
            SettleWord::Release => SettleWish::Release { not_before: at },
            SettleWord::Renew => SettleWish::Renew { lease: self.lease_ms.map(lease).transpose()? },
        };
        Ok(SettleItem { id: self.id, tenant, token: self.token, wish })
    }
}

/// The length of a lease.
pub fn lease(ms: u64) -> Result<Duration, Problem> {
    let time = Duration::from_millis(ms);
    if (LEASE_MIN..=LEASE_MAX).contains(&time) {
        return Ok(time);
    }
    let (least, most) = (LEASE_MIN.as_millis(), LEASE_MAX.as_millis());
    Err(Problem::invalid(format!("lease_ms is {ms}: take {least} to {most}, and renew")).at("lease_ms"))
}

fn receipt(text: Option<String>) -> Result<Option<String>, Problem> {
    match text {
        Some(text) if text.len() > RECEIPT_BYTES_MAX => Err(Problem::invalid(format!(
            "receipt has {} bytes, at most {RECEIPT_BYTES_MAX} are kept: give a reference",
            text.len()
        ))
        .at("receipt")),
        text => Ok(text.map(into_one_line)),
    }
}

/// What failed. A long reason is cut: refusing it would leave the message without a settlement.
fn fault(error: Option<ErrorIn>) -> Result<Fault, Problem> {
    let (code, mut reason) = match error {
        None => (FAILED.to_owned(), String::new()),
        Some(ErrorIn::Text(reason)) => (FAILED.to_owned(), reason),
        Some(ErrorIn::Coded { code, reason }) => (code, reason),
    };
    let is_code = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'_');
    if code.is_empty() || code.len() > FAULT_CODE_BYTES_MAX || !code.bytes().all(is_code) {
        return Err(Problem::invalid(format!(
            "error.code isn't usable: write up to {FAULT_CODE_BYTES_MAX} upper case letters, digits, dots and underscores"
        ))
        .at("error"));
    }
    if reason.is_empty() {
        "the worker gave no reason".clone_into(&mut reason);
    }
    reason = into_one_line(reason);
    reason.truncate(reason.floor_char_boundary(NOTE_BYTES_MAX));
    Ok(Fault::new(code, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(text: &str) -> Result<SettleWish, Problem> {
        let item: SettleItemIn = serde_json::from_str(text).unwrap();
        item.read(Tenant::unnamed()).map(|item| item.wish)
    }

    #[test]
    fn an_error_is_a_text_or_has_a_code_and_a_long_one_is_cut() {
        let wish = item(r#"{"id":"a","token":"t","result":"dead","error":"it broke"}"#).unwrap();
        assert_eq!(wish, SettleWish::Dead { fault: Fault::new("EXTERNAL.FAILED", "it broke") });
        let wish = item(r#"{"id":"a","token":"t","result":"dead","error":{"code":"X.1","reason":"no"}}"#).unwrap();
        assert_eq!(wish, SettleWish::Dead { fault: Fault::new("X.1", "no") });
        let wish = item(r#"{"id":"a","token":"t","result":"dead","error":"a\r\nb"}"#).unwrap();
        assert_eq!(wish, SettleWish::Dead { fault: Fault::new("EXTERNAL.FAILED", "a\\r\\nb") });
        let wish = item(r#"{"id":"a","token":"t","result":"ack","receipt":"a\u001b[1m"}"#).unwrap();
        assert_eq!(wish, SettleWish::Ack { receipt: Some("a\\u{1b}[1m".to_owned()) });
        let long = format!(r#"{{"id":"a","token":"t","result":"dead","error":"{}"}}"#, "ä".repeat(5_000));
        let Ok(SettleWish::Dead { fault }) = item(&long) else { panic!("refused") };
        assert_eq!(fault.reason.len(), NOTE_BYTES_MAX);
    }

    #[test]
    fn fields_that_dont_go_with_the_result_are_refused() {
        for (text, field) in [
            (r#"{"id":"a","token":"t","result":"ack","error":"x"}"#, "error"),
            (r#"{"id":"a","token":"t","result":"ack","next_attempt_at":"2026-11-21T09:30:00Z"}"#, "next_attempt_at"),
            (r#"{"id":"a","token":"t","result":"nack","receipt":"x"}"#, "receipt"),
            (r#"{"id":"a","token":"t","result":"ack","lease_ms":1000}"#, "lease_ms"),
            (r#"{"id":"a","token":"t","result":"renew","lease_ms":1}"#, "lease_ms"),
            (r#"{"id":"a","token":"t","result":"nack","error":{"code":"not a code"}}"#, "error"),
        ] {
            assert_eq!(item(text).unwrap_err().at.path.as_deref(), Some(field), "{text}");
        }
        let long = format!(r#"{{"id":"a","token":"t","result":"ack","receipt":"{}"}}"#, "x".repeat(2_000));
        assert_eq!(item(&long).unwrap_err().at.path.as_deref(), Some("receipt"));
    }
}
