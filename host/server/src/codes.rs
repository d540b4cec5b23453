//! Error codes as the API serves them at `/errors/{code}`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use waybill_core::code::Code;

/// An error code as served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorPage {
    /// Stable code, as problems have it.
    pub code: String,
    /// HTTP status it is answered with.
    pub status: u16,
    /// The same for every occurrence.
    pub title: String,
    /// The same request may succeed later.
    pub retryable: bool,
    /// What a caller or an operator can do about it.
    pub fix: String,
}

impl From<Code> for ErrorPage {
    fn from(code: Code) -> Self {
        Self {
            code: code.into(),
            status: code.status(),
            title: code.title().to_owned(),
            retryable: code.retryable(),
            fix: code.fix().to_owned(),
        }
    }
}

/// Address of a code's page: relative, so that it works on every host.
pub fn uri(code: Code) -> String {
    format!("/errors/{code}")
}

/// The code with this text, if requests are answered with it.
pub fn of_answer(text: &str) -> Option<Code> {
    Code::of(text).filter(|code| code.is_answer())
}

/// The code for an answer that only has a status (made by the router, not by us).
pub fn of_status(status: u16) -> Code {
    match status {
        401 => Code::AUTH_REQUIRED,
        403 => Code::AUTH_ROLE,
        404 => Code::HTTP_NOT_FOUND,
        405 => Code::HTTP_METHOD,
        413 => Code::HTTP_TOO_LARGE,
        415 => Code::HTTP_MEDIA_TYPE,
        503 => Code::HTTP_OVERLOADED,
        400..500 => Code::SCHEMA_VALIDATION_FAILED,
        _ => Code::UNKNOWN_INTERNAL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_without_a_code_gets_one_of_its_kind() {
        assert!(of_status(418).status() == 400 && of_status(502).status() == 500);
    }
}
