//! A problem as a status of gRPC: its code's number there, its words, and `google.rpc.ErrorInfo` with the code itself.

use tonic::{Code as Number, Status};
use waybill_core::code::Code;
use waybill_core::streams::proto::{put_bytes, put_number, put_text};

use crate::problem::{Problem, StreamHas};
use crate::subscribe::reader::Ended;

/// Whose codes `ErrorInfo.reason` holds.
const DOMAIN: &str = "waybill";

/// What an answer of this problem says.
pub(crate) fn of(problem: &Problem) -> Status {
    with_reason(problem.code, &problem.detail, problem.stream.as_deref())
}

/// What a subscription's end says.
pub(crate) fn ended(ended: &Ended) -> Status {
    with_reason(ended.code, &ended.detail, ended.stream.as_deref())
}

fn with_reason(code: Code, detail: &str, stream: Option<&StreamHas>) -> Status {
    let number = number_of(code);
    let mut info = Vec::new();
    put_text(&mut info, 1, code.as_str());
    put_text(&mut info, 2, DOMAIN);
    let mut told = |name: &str, value: Option<u64>| {
        let Some(value) = value else { return };
        let mut pair = Vec::new();
        put_text(&mut pair, 1, name);
        put_text(&mut pair, 2, &value.to_string());
        put_bytes(&mut info, 3, &pair);
    };
    told("first_seq", stream.and_then(|has| has.first));
    told("last_seq", stream.map(|has| has.last));
    let mut any = Vec::new();
    put_text(&mut any, 1, "type.googleapis.com/google.rpc.ErrorInfo");
    put_bytes(&mut any, 2, &info);
    let mut whole = Vec::new();
    put_number(&mut whole, 1, u64::from(i32::from(number).unsigned_abs()));
    put_text(&mut whole, 2, detail);
    put_bytes(&mut whole, 3, &any);
    Status::with_details(number, detail, whole.into())
}

/// By what a client does about it; what isn't of streams, by its status over HTTP.
fn number_of(code: Code) -> Number {
    match code {
        Code::EVENT_LAGGED | Code::EVENT_STALLED => return Number::Aborted,
        Code::EVENT_CURSOR_EXPIRED | Code::EVENT_CURSOR_AHEAD => return Number::OutOfRange,
        Code::STORAGE_CORRUPT => return Number::DataLoss,
        // A path that isn't there, or isn't a call's: who asks for a stream that isn't there is told by its own code.
        Code::HTTP_NOT_FOUND | Code::HTTP_METHOD => return Number::Unimplemented,
        _ => {}
    }
    match code.status() {
        400 | 413 | 415 | 422 => Number::InvalidArgument,
        401 => Number::Unauthenticated,
        403 => Number::PermissionDenied,
        404 => Number::NotFound,
        408 | 504 => Number::DeadlineExceeded,
        409 => Number::FailedPrecondition,
        429 => Number::ResourceExhausted,
        502 | 503 | 507 => Number::Unavailable,
        _ => Number::Internal,
    }
}

#[cfg(test)]
mod tests {
    use waybill_core::port::service::streams::LAGGED;

    use super::*;

    #[test]
    fn a_code_has_its_number_and_is_in_the_details() {
        for (code, number) in [
            (Code::EVENT_LAGGED, Number::Aborted),
            (Code::EVENT_CURSOR_EXPIRED, Number::OutOfRange),
            (Code::EVENT_CURSOR_AHEAD, Number::OutOfRange),
            (Code::EVENT_CURSOR, Number::InvalidArgument),
            (Code::AUTH_REQUIRED, Number::Unauthenticated),
            (Code::AUTH_STREAM, Number::PermissionDenied),
            (Code::PROVIDER_UNAVAILABLE, Number::Unavailable),
            (Code::HTTP_OVERLOADED, Number::Unavailable),
            (Code::HTTP_SHARE, Number::ResourceExhausted),
            (Code::HTTP_NOT_FOUND, Number::Unimplemented),
            (Code::UNKNOWN_INTERNAL, Number::Internal),
        ] {
            let status = with_reason(code, LAGGED, Some(&StreamHas { first: Some(3), last: 5 }));
            assert_eq!((status.code(), status.message()), (number, LAGGED), "{}", code.as_str());
            let details = String::from_utf8_lossy(status.details());
            for part in [code.as_str(), "google.rpc.ErrorInfo", "waybill", "first_seq", "last_seq", LAGGED] {
                assert!(details.contains(part), "{part}: {details}");
            }
        }
    }
}
