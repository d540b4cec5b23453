//! Bodies of requests about sagas.

use std::fmt;
use std::time::Duration;

use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use waybill_api::headers::HeadersJson;
use waybill_core::json_text::{Unreadable, check};
use waybill_core::port::saga::{ReplyFailure, RetryMode, StartSaga};
use waybill_core::saga::event::{Failure, StepDirection};
use waybill_core::saga::json::Json;
use waybill_core::saga::limits::{NAME_BYTES_MAX, TIMEOUT_MAX, TIMEOUT_MIN};

use crate::limits::{FAULT_CODE_BYTES_MAX, JSON_DEPTH_MAX};
use crate::problem::Problem;

/// JSON of any shape, kept as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnyJson(pub Json);

impl Default for AnyJson {
    fn default() -> Self {
        Self(Json::null())
    }
}

impl<'de> Deserialize<'de> for AnyJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw: &RawValue = Deserialize::deserialize(deserializer)?;
        if let Err(why @ Unreadable::TooDeep { .. }) = check(raw.get(), JSON_DEPTH_MAX) {
            return Err(de::Error::custom(format_args!("{why}: flatten it")));
        }
        Json::parse(raw.get()).map(Self).map_err(de::Error::custom)
    }
}

impl Serialize for AnyJson {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.raw().serialize(serializer)
    }
}

/// A saga to start.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = StartSaga, example = json!({
    "definition": "order", "id": "order-17", "input": {"order": 17, "total": "10.00"}, "deadline_ms": 3_600_000
}))]
pub struct StartSagaJson {
    /// Name of the definition; also `def_name`.
    #[serde(alias = "def_name")]
    pub definition: String,
    /// Its version; the latest if absent.
    #[serde(default)]
    #[schema(minimum = 1)]
    pub version: Option<u32>,
    /// What the steps work on: any JSON.
    #[serde(default)]
    #[schema(value_type = serde_json::Value)]
    pub input: AnyJson,
    /// Id of your choice (up to 128 bytes, without `~`): starting the same saga again then changes nothing.
    #[serde(default)]
    pub id: Option<String>,
    /// Whose; the credential's only tenant, else `default`, if absent.
    #[serde(default)]
    pub tenant: Option<String>,
    /// Time for the whole saga from now, in milliseconds; then it is compensated. Also `ttl_ms`.
    #[serde(default, alias = "ttl_ms")]
    #[schema(minimum = 1, maximum = 31_622_400_000_u64)]
    pub deadline_ms: Option<u64>,
    /// Handed to every step. Names are those of HTTP headers, at most 64, with texts without control characters; together 16 KiB.
    #[serde(default)]
    pub headers: Option<HeadersJson>,
    /// Trace chain of the business operation.
    #[serde(default)]
    pub envelope_id: Option<String>,
    /// Ties replies to the saga; its id if absent.
    #[serde(default)]
    pub correlation_id: Option<String>,
    /// W3C trace context; the request's `traceparent` header if absent.
    #[serde(default)]
    pub traceparent: Option<String>,
}

impl StartSagaJson {
    /// As the service takes it; whose and by whom is the caller's matter.
    pub fn into_start(
        self,
        tenant: waybill_core::ids::Tenant,
        actor: &str,
        headers_trace: Option<String>,
    ) -> Result<StartSaga, Problem> {
        if self.definition.is_empty() {
            return Err(Problem::invalid("definition is empty: name one").at("definition"));
        }
        if self.version == Some(0) {
            return Err(Problem::invalid("versions count from 1; leave it out for the latest").at("version"));
        }
        let deadline = self.deadline_ms.map(Duration::from_millis);
        if deadline.is_some_and(|deadline| !(TIMEOUT_MIN..=TIMEOUT_MAX).contains(&deadline)) {
            let most = TIMEOUT_MAX.as_millis();
            return Err(Problem::invalid(format!("deadline_ms takes 1 to {most}")).at("deadline_ms"));
        }
        Ok(StartSaga {
            tenant,
            definition: self.definition,
            version: self.version,
            id: self.id,
            input: self.input.0,
            deadline,
            headers: self.headers.unwrap_or_default().0,
            envelope_id: self.envelope_id,
            correlation_id: self.correlation_id,
            traceparent: self.traceparent.or(headers_trace),
            actor: actor.to_owned(),
        })
    }
}

/// An act on a saga.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"reason": "the warehouse is closed until Monday"}))]
pub struct SagaActJson {
    /// Why, for the history and the audit; also `note`.
    #[serde(default, alias = "note")]
    pub reason: String,
}

/// Accepts a stuck compensation as it is.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"reason": "refunded by hand, ticket 4711"}))]
pub struct SagaAcceptJson {
    /// Why it is all right; also `note`.
    #[serde(alias = "note")]
    pub reason: String,
}

/// An act on one step of a saga.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"step": "release", "reason": "four eyes: checked with Ann"}))]
pub struct SagaStepActJson {
    /// Which step; may be left out where only one waits.
    #[serde(default)]
    pub step: Option<String>,
    /// Why, for the history and the audit; also `note`.
    #[serde(default, alias = "note")]
    pub reason: String,
}

/// Leaves a step out.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"step": "notify", "reason": "the customer was called"}))]
pub struct SagaSkipJson {
    /// Name of the step to leave out.
    pub step: String,
    /// Why, for the history and the audit; also `note`.
    #[serde(default, alias = "note")]
    pub reason: String,
}

/// How a held or stuck saga is tried again.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"mode": "compensate", "reason": "the payment provider is back"}))]
pub struct SagaRetryJson {
    /// From which step, of a paused saga: that one and everything behind it are done anew under the same idempotency keys.
    #[serde(default)]
    pub step: Option<String>,
    /// Of a stuck saga: which way it goes on.
    #[serde(default)]
    pub mode: RetryMode,
    /// Why, for the history and the audit; also `note`.
    #[serde(default, alias = "note")]
    pub reason: String,
}

/// A reply to the message of a `bus:` step.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = StepReply, example = json!({"step": "reserve", "output": {"reservation": "r-1"}}))]
pub struct ReplyJson {
    /// Name of the step that sent the message.
    pub step: String,
    /// Whether its action or its compensation was done: `execute` if absent.
    #[serde(default)]
    pub direction: StepDirection,
    /// The attempt it answers; whichever waits if absent.
    #[serde(default)]
    pub attempt: Option<u32>,
    /// Output: any JSON, `null` if absent. Not with `error`.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub output: Option<AnyJson>,
    /// Why it failed. Not with `output`.
    #[serde(default)]
    pub error: Option<ReplyErrorJson>,
}

/// Tells `null` from absent.
pub(super) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<AnyJson>, D::Error> {
    AnyJson::deserialize(deserializer).map(Some)
}

/// Why a `bus:` step failed.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = StepReplyError, example = json!({"code": "stock.none", "reason": "none left of sku 9"}))]
pub struct ReplyErrorJson {
    /// Stable code of yours, one word of at most 64 bytes of visible ASCII; `SAGA.REPLY` if absent.
    #[serde(default)]
    pub code: Option<String>,
    /// The error in a sentence, for people.
    pub reason: String,
    /// It makes sense to try again.
    #[serde(default)]
    pub retryable: bool,
    /// It may have had its effect all the same, so it has to be compensated.
    #[serde(default)]
    pub maybe_done: bool,
}

/// Code of a failure without one.
const REPLY_CODE: &str = "SAGA.REPLY";

impl ReplyJson {
    /// What it tells: output, or failure.
    pub fn result(self) -> Result<Result<Json, ReplyFailure>, Problem> {
        let error = match (self.output, self.error) {
            (output, None) => return Ok(Ok(output.unwrap_or_default().0)),
            (Some(_), Some(_)) => {
                return Err(Problem::invalid("a reply has an output or an error, not both").at("error"));
            }
            (None, Some(error)) => error,
        };
        let code = error.code.as_deref().unwrap_or(REPLY_CODE);
        let is_code = !code.is_empty() && code.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_code || code.len() > FAULT_CODE_BYTES_MAX {
            let what = format!("a code is one word of at most {FAULT_CODE_BYTES_MAX} bytes, e.g. stock.none");
            return Err(Problem::invalid(what).at("error.code"));
        }
        let failure = Failure { maybe_done: error.maybe_done, ..Failure::new(code, &error.reason) };
        Ok(Err(ReplyFailure { failure, retryable: error.retryable }))
    }
}

/// Checks the name of a step or signal as far as any could have it, so that messages stay short.
pub fn name(field: &'static str, text: &str) -> Result<(), Problem> {
    if text.is_empty() || text.len() > NAME_BYTES_MAX {
        return Err(Problem::invalid(format!("{field} is a name of 1 to {NAME_BYTES_MAX} bytes")).at(field));
    }
    Ok(())
}

/// A parameter that is set by being there: `?dry_run`, `?dry_run=true`.
pub fn switch<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    struct SwitchVisitor;
    impl de::Visitor<'_> for SwitchVisitor {
        type Value = bool;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("nothing, true or false")
        }
        fn visit_str<E: de::Error>(self, text: &str) -> Result<bool, E> {
            match text {
                "" | "true" | "1" => Ok(true),
                "false" | "0" => Ok(false),
                _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
            }
        }
    }
    deserializer.deserialize_str(SwitchVisitor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use waybill_core::ids::Tenant;

    fn start(text: &str) -> Result<StartSaga, Problem> {
        crate::json::decode::value::<StartSagaJson>(text)?.into_start(Tenant::unnamed(), "t", None)
    }

    #[test]
    fn input_is_kept_as_written_and_other_names_are_taken() {
        let saga = start(r#"{"def_name":"order","input":{"n":12345678901234567890.10},"ttl_ms":60000}"#).unwrap();
        assert_eq!(saga.input.as_str(), "{\"n\":12345678901234567890.10}");
        assert_eq!((saga.definition.as_str(), saga.deadline), ("order", Some(Duration::from_secs(60))));
        assert_eq!(start(r#"{"definition":"order"}"#).unwrap().input, Json::null());
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_its_field() {
        let deep = format!("{{\"definition\":\"o\",\"input\":{}{}}}", "[".repeat(200), "]".repeat(200));
        for (text, path) in [
            (r#"{"definition":""}"#, "definition"),
            (r#"{"definition":"o","version":0}"#, "version"),
            (r#"{"definition":"o","deadline_ms":0}"#, "deadline_ms"),
            (r#"{"definition":"o","ttl_ms":99999999999999}"#, "deadline_ms"),
            (r#"{"definition":"o","inptu":1}"#, "inptu"),
        ] {
            assert_eq!(start(text).unwrap_err().at.path.as_deref(), Some(path), "{text}");
        }
        assert_eq!(start(&deep).unwrap_err().code.status(), 400);
        assert_eq!(start("{}").unwrap_err().code.status(), 400);
    }

    #[test]
    fn a_reply_has_an_output_or_an_error() {
        let result = |text: &str| crate::json::decode::value::<ReplyJson>(text).and_then(ReplyJson::result);
        assert_eq!(result(r#"{"step":"a"}"#), Ok(Ok(Json::null())));
        assert_eq!(result(r#"{"step":"a","output":null}"#), Ok(Ok(Json::null())));
        assert_eq!(result(r#"{"step":"a","output":{"x":1.0}}"#).unwrap().unwrap().as_str(), "{\"x\":1.0}");
        let failed = result(r#"{"step":"a","error":{"reason":"no","retryable":true}}"#).unwrap().unwrap_err();
        assert_eq!((&*failed.failure.code, failed.retryable), ("SAGA.REPLY", true));
        for bad in [
            r#"{"step":"a","output":null,"error":{"reason":"no"}}"#,
            r#"{"step":"a","error":{"code":"two words","reason":"no"}}"#,
            r#"{"step":"a","error":{"code":"","reason":"no"}}"#,
            r#"{"step":"a","direction":"backwards"}"#,
            r#"{"output":1}"#,
        ] {
            assert_eq!(result(bad).unwrap_err().code.status(), 400, "{bad}");
        }
    }
}
