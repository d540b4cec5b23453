//! What every answer has, and the words of those that go wrong: problem details, a page for a person, or a status of gRPC.

use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use waybill_core::code::Code;

use crate::app::App;
use crate::approval::page::{self, AsPage};
use crate::codes;
use crate::grpc;
use crate::limits::REQUEST_ID_BYTES_MAX;
use crate::problem::Problem;
use crate::ui;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The caller's request id if it is a sane one, else a new one.
pub(super) fn request_id(headers: &HeaderMap) -> HeaderValue {
    let given = headers.get(REQUEST_ID).filter(|value| {
        let text = value.as_bytes();
        (1..=REQUEST_ID_BYTES_MAX).contains(&text.len())
            && text.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':'))
    });
    let made = || HeaderValue::from_str(&ulid::Ulid::new().to_string()).unwrap_or(HeaderValue::from_static("-"));
    given.cloned().unwrap_or_else(made)
}

/// The answer to a request on a connection for which there is no place.
pub(crate) fn turned_away<B>(why: Problem, request: &http::Request<B>) -> Response {
    let id = request_id(request.headers());
    if grpc::is_asked(request.headers()) {
        return with_common(grpc::status::of(&why).into_http(), &id);
    }
    let headers = HeaderMap::from_iter([(header::CONNECTION, HeaderValue::from_static("close"))]);
    let mut response = why.render(request.uri().path(), id.to_str().unwrap_or("-"), headers);
    if request.version() > http::Version::HTTP_11 {
        // HTTP/2 knows no such header: the connection says it itself.
        response.headers_mut().remove(header::CONNECTION);
    }
    with_common(response, &id)
}

/// Writes problems out, gives every answer its headers, logs what went wrong on our side.
pub(super) fn finish(
    app: &App,
    response: Response,
    id: &HeaderValue,
    path: &str,
    template: &str,
    is_grpc: bool,
) -> Response {
    let status = response.status();
    let id_text = id.to_str().unwrap_or("-");
    let response = if status.is_client_error() || status.is_server_error() {
        let problem = match response.extensions().get::<Problem>() {
            Some(problem) => Some(problem.clone()),
            None if is_json(response.headers()) => None,
            None => Some(unworded(status.as_u16(), path)),
        };
        match problem {
            Some(problem) => {
                if problem.cause.is_some() || status.is_server_error() {
                    tracing::warn!(
                        request_id = id_text,
                        route = template,
                        code = problem.code.as_str(),
                        cause = problem.cause.as_deref().unwrap_or(&problem.detail),
                        "a request failed"
                    );
                }
                let said = response.extensions();
                let (is_approval, is_written) = (said.get::<AsPage>().is_some(), said.get::<ui::Written>().is_some());
                if is_grpc {
                    grpc::status::of(&problem).into_http()
                } else if is_approval {
                    page::refused(&problem, id_text, ui::environment(app))
                } else if is_written {
                    response
                } else if ui::is_of_page(template) {
                    ui::bare(&problem, id_text, ui::environment(app))
                } else {
                    problem.render(path, id_text, response.headers().clone())
                }
            }
            None => response,
        }
    } else {
        response
    };
    with_common(response, id)
}

/// With the headers that every answer has.
fn with_common(mut response: Response, id: &HeaderValue) -> Response {
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, id.clone());
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // What has its hash in its address says so itself.
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

fn is_json(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"application/json"))
}

/// The problem for an answer the router made by itself.
fn unworded(status: u16, path: &str) -> Problem {
    let code = codes::of_status(status);
    let detail = match code {
        Code::HTTP_NOT_FOUND => format!("there is nothing at {path:?}; /openapi.json lists what there is"),
        Code::HTTP_METHOD => format!("{path:?} doesn't take this method; see the allow header"),
        Code::SCHEMA_VALIDATION_FAILED => "the address isn't usable: encode it as UTF-8, percent-escaped".to_owned(),
        _ => code.title().to_owned(),
    };
    Problem::new(code, detail)
}

/// A panic in a handler, for the layer that catches it.
pub(crate) fn panicked(cause: Box<dyn std::any::Any + Send + 'static>) -> Response {
    let text = cause.downcast_ref::<String>().map(String::as_str).or_else(|| cause.downcast_ref::<&str>().copied());
    Problem::internal(format_args!("a handler panicked: {}", text.unwrap_or("(no text)"))).into_response()
}
