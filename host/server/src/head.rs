//! How large a request's head may be. hyper refuses one that doesn't fit its buffer with a status alone, so it takes larger ones than we
//! do, and what lies between is refused with a problem like everything else.

use http::Request;
use waybill_core::code::Code;

use crate::limits::Limits;
use crate::problem::Problem;

/// So many times larger a head than may be is read, for an answer that says why it is refused.
pub(crate) const READ_FACTOR: usize = 2;
/// Bytes around a header's name and value.
const AROUND_HEADER: usize = 4;

/// Refuses an address or headers that are too large.
pub(crate) fn check<B>(limits: &Limits, request: &Request<B>) -> Result<(), Problem> {
    let most = limits.header_bytes_max;
    let address = request.uri().path_and_query().map_or(0, |address| address.as_str().len());
    if address > most {
        let detail = format!("the address has {address} bytes, a whole head at most {most}");
        return Err(Problem::new(Code::HTTP_URI_TOO_LONG, detail));
    }
    let headers = request.headers();
    if headers.len() > limits.headers_max {
        let detail = format!("the request has {} headers, the most is {}", headers.len(), limits.headers_max);
        return Err(Problem::new(Code::HTTP_HEAD_TOO_LARGE, detail));
    }
    let of_headers = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + AROUND_HEADER);
    let bytes = address + of_headers.sum::<usize>();
    if bytes > most {
        let detail = format!("the request's head has {bytes} bytes, the most is {most}");
        return Err(Problem::new(Code::HTTP_HEAD_TOO_LARGE, detail));
    }
    Ok(())
}
