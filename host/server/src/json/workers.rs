//! A worker's settlement, checked.

use std::time::Duration;

use waybill_api::workers::{SettleItem, SettleItemBody, SettleWord, WorkerError};
use waybill_core::ids::Tenant;
use waybill_core::one_line::into_one_line;
use waybill_core::port::transport::Fault;
use waybill_core::port::workers::SettleWish;

use crate::limits::{FAULT_CODE_BYTES_MAX, LEASE_MAX, LEASE_MIN, NOTE_BYTES_MAX, RECEIPT_BYTES_MAX};
use crate::problem::Problem;

/// Code of a failure that a worker gave no code.
const FAILED: &str = "EXTERNAL.FAILED";

/// What a worker wants to become of a message, if the fields fit the result.
pub fn settle_item(asked: SettleItemBody, tenant: Tenant) -> Result<SettleItem, Problem> {
    let only = |is_there: bool, field: &'static str, results: &[SettleWord]| {
        if is_there && !results.contains(&asked.result) {
            let word = format!("{:?}", asked.result).to_lowercase();
            return Err(Problem::invalid(format!("{field} doesn't go with {word}: leave it out")).at(field));
        }
        Ok(())
    };
    only(asked.error.is_some(), "error", &[SettleWord::Nack, SettleWord::Dead])?;
    only(asked.next_attempt_at.is_some(), "next_attempt_at", &[SettleWord::Nack, SettleWord::Release])?;
    only(asked.receipt.is_some(), "receipt", &[SettleWord::Ack])?;
    only(asked.lease_ms.is_some(), "lease_ms", &[SettleWord::Renew])?;
    only(asked.lease_seconds.is_some(), "lease_seconds", &[SettleWord::Renew])?;
    let at = asked.next_attempt_at.map(|at| at.0);
    let wish = match asked.result {
        SettleWord::Ack => SettleWish::Ack { receipt: receipt(asked.receipt)? },
        SettleWord::Nack => SettleWish::Nack { fault: fault(asked.error)?, next_attempt_at: at },
        SettleWord::Dead => SettleWish::Dead { fault: fault(asked.error)? },
        SettleWord::Release => SettleWish::Release { not_before: at },
        SettleWord::Renew => SettleWish::Renew { lease: lease(asked.lease_ms, asked.lease_seconds)? },
    };
    Ok(SettleItem { id: asked.id, tenant, token: asked.token, wish })
}

/// The length of a lease, if one is asked for, in milliseconds or in the seconds of the lease protocol.
pub fn lease(ms: Option<u64>, seconds: Option<u64>) -> Result<Option<Duration>, Problem> {
    let (field, number, unit) = match (ms, seconds) {
        (None, None) => return Ok(None),
        (Some(ms), None) => ("lease_ms", ms, 1),
        (None, Some(seconds)) => ("lease_seconds", seconds, 1_000),
        (Some(_), Some(_)) => {
            let text = "lease_ms and lease_seconds say the same: give one of them";
            return Err(Problem::invalid(text.to_owned()).at("lease_seconds"));
        }
    };
    let time = Duration::from_millis(number.saturating_mul(unit));
    if (LEASE_MIN..=LEASE_MAX).contains(&time) {
        return Ok(Some(time));
    }
    let unit = u128::from(unit);
    let (least, most) = (LEASE_MIN.as_millis().div_ceil(unit), LEASE_MAX.as_millis() / unit);
    Err(Problem::invalid(format!("{field} is {number}: take {least} to {most}, and renew")).at(field))
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
fn fault(error: Option<WorkerError>) -> Result<Fault, Problem> {
    let (code, mut reason) = match error {
        None => (FAILED.to_owned(), String::new()),
        Some(WorkerError::Text(reason)) => (FAILED.to_owned(), reason),
        Some(WorkerError::Coded { code, reason }) => (code, reason),
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
        settle_item(serde_json::from_str(text).unwrap(), Tenant::unnamed()).map(|item| item.wish)
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
    fn the_words_of_the_lease_protocol_are_taken() {
        let wish = item(r#"{"outbox_id":"a","token":"t","result":"ack","memory_id":"m-7"}"#).unwrap();
        assert_eq!(wish, SettleWish::Ack { receipt: Some("m-7".to_owned()) });
        let wish = item(r#"{"outbox_id":"a","token":"t","result":"renew","lease_seconds":90}"#).unwrap();
        assert_eq!(wish, SettleWish::Renew { lease: Some(Duration::from_secs(90)) });
        assert_eq!(lease(None, Some(60)), Ok(Some(Duration::from_secs(60))));
        let id = r#"{"id":"a","outbox_id":"a","token":"t","result":"ack"}"#;
        assert!(serde_json::from_str::<SettleItemBody>(id).is_err(), "one id is enough");
    }

    #[test]
    fn fields_that_dont_go_with_the_result_are_refused() {
        for (text, field) in [
            (r#"{"id":"a","token":"t","result":"ack","error":"x"}"#, "error"),
            (r#"{"id":"a","token":"t","result":"ack","next_attempt_at":"2026-11-21T09:30:00Z"}"#, "next_attempt_at"),
            (r#"{"id":"a","token":"t","result":"nack","receipt":"x"}"#, "receipt"),
            (r#"{"id":"a","token":"t","result":"ack","lease_ms":1000}"#, "lease_ms"),
            (r#"{"id":"a","token":"t","result":"renew","lease_ms":1}"#, "lease_ms"),
            (r#"{"id":"a","token":"t","result":"renew","lease_seconds":0}"#, "lease_seconds"),
            (r#"{"id":"a","token":"t","result":"renew","lease_seconds":1,"lease_ms":1000}"#, "lease_seconds"),
            (r#"{"id":"a","token":"t","result":"ack","lease_seconds":1}"#, "lease_seconds"),
            (r#"{"id":"a","token":"t","result":"nack","error":{"code":"not a code"}}"#, "error"),
        ] {
            assert_eq!(item(text).unwrap_err().at.path.as_deref(), Some(field), "{text}");
        }
        let long = format!(r#"{{"id":"a","token":"t","result":"ack","receipt":"{}"}}"#, "x".repeat(2_000));
        assert_eq!(item(&long).unwrap_err().at.path.as_deref(), Some("receipt"));
    }
}
