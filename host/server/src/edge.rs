//! The one layer every request passes: request id, names, credentials, permission, load, time, problems, metrics.
//!
//! It does not read bodies and knows no route but by its template.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use tokio::sync::OwnedSemaphorePermit;

use crate::app::{App, Rule};
use crate::approval::page::{self, AsPage};
use crate::auth::{Permission, Principal};
use crate::caller::Caller;
use crate::codes;
use crate::limits::{REQUEST_ID_BYTES_MAX, RETRY_AFTER_BUSY, TOKEN_BYTES_MAX};
use crate::listen::check_names;
use crate::metrics;
use crate::problem::Problem;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The layer.
pub(crate) async fn edge(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = request_id(request.headers());
    let uri = request.uri().clone();
    let method = request.method().clone();
    let rule = request.extensions().get::<MatchedPath>().and_then(|path| app.rules.get(path.as_str()));
    let template: Arc<str> = rule.map_or_else(|| Arc::from("unmatched"), |rule| rule.template.clone());
    let answer = match admit(&app, rule, &request) {
        Err(problem) => problem.into_response(),
        Ok(admitted) => {
            request.extensions_mut().insert(Caller(admitted.principal));
            match tokio::time::timeout(app.limits.request_timeout, next.run(request)).await {
                Ok(response) => response,
                Err(_) => Problem::new(
                    "TX.TIMEOUT",
                    format!(
                        "the request wasn't finished within {} s; what it asked for may still happen",
                        app.limits.request_timeout.as_secs_f64()
                    ),
                )
                .after(RETRY_AFTER_BUSY)
                .into_response(),
            }
        }
    };
    let response = finish(answer, &id, uri.path(), &template);
    let took = started.elapsed();
    tracing::debug!(request_id = id.to_str().unwrap_or("-"), %method, route = &*template, status = response.status().as_u16(), ?took, "answered");
    metrics::request(template, &method, response.status(), took);
    response
}

struct Admitted {
    principal: Arc<Principal>,
    /// Its place among the requests at work.
    _place: Option<OwnedSemaphorePermit>,
}

fn admit(app: &App, rule: Option<&Rule>, request: &Request) -> Result<Admitted, Problem> {
    let principal = match &app.auth {
        None => {
            check_names(request.uri(), request.headers())?;
            Some(app.local.clone())
        }
        Some(auth) => match token(request.headers()) {
            None => None,
            Some(token) => auth.authenticate(token?),
        },
    };
    // An address or method that doesn't exist is told to anybody: the router answers 404 or 405.
    let Some(rule) = rule else { return Ok(Admitted { principal: app.anonymous.clone(), _place: None }) };
    let Some(permission) = rule.needs(request.method()) else {
        return Ok(Admitted { principal: app.anonymous.clone(), _place: None });
    };
    if permission == Permission::Public {
        return Ok(Admitted { principal: principal.unwrap_or_else(|| app.anonymous.clone()), _place: None });
    }
    let principal = principal.ok_or_else(|| {
        Problem::new("AUTH.REQUIRED", "a valid token is needed: send `authorization: Bearer <token>`")
    })?;
    if !principal.may(permission) {
        let all = if permission.needs_all_tenants() { " for all tenants" } else { "" };
        return Err(Problem::new(
            "AUTH.ROLE",
            format!(
                "token {:?} may not do this: it needs one of the roles {}{all}",
                principal.name,
                permission.granted_by()
            ),
        ));
    }
    if permission == Permission::Metrics {
        return Ok(Admitted { principal, _place: None });
    }
    Ok(Admitted { principal, _place: Some(place(app)?) })
}

/// A place among the requests at work. Public routes that ask the service take one themselves.
pub(crate) fn place(app: &App) -> Result<OwnedSemaphorePermit, Problem> {
    app.requests.clone().try_acquire_owned().map_err(|_| {
        Problem::new(
            "HTTP.OVERLOADED",
            format!(
                "{} requests are at work, as many as limits allow: try again after a moment",
                app.limits.requests_max
            ),
        )
        .after(RETRY_AFTER_BUSY)
    })
}

/// The bearer token; an error when there is something else or more than one.
fn token(headers: &HeaderMap) -> Option<Result<&str, Problem>> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next()?;
    let bearer = || {
        let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
        let token = token.trim();
        let usable = scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() && token.len() <= TOKEN_BYTES_MAX;
        usable.then_some(token)
    };
    let refuse = || Problem::new("AUTH.REQUIRED", "the authorization header isn't one `Bearer <token>`");
    Some(if values.next().is_some() { Err(refuse()) } else { bearer().ok_or_else(refuse) })
}

/// The caller's request id if it is a sane one, else a new one.
fn request_id(headers: &HeaderMap) -> HeaderValue {
    let given = headers.get(REQUEST_ID).filter(|value| {
        let text = value.as_bytes();
        (1..=REQUEST_ID_BYTES_MAX).contains(&text.len())
            && text.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':'))
    });
    let made = || HeaderValue::from_str(&ulid::Ulid::new().to_string()).unwrap_or(HeaderValue::from_static("-"));
    given.cloned().unwrap_or_else(made)
}

/// Writes problems out, gives every answer its headers, logs what went wrong on our side.
fn finish(response: Response, id: &HeaderValue, path: &str, template: &str) -> Response {
    let status = response.status();
    let id_text = id.to_str().unwrap_or("-");
    let mut response = if status.is_client_error() || status.is_server_error() {
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
                        code = problem.code.code,
                        cause = problem.cause.as_deref().unwrap_or(&problem.detail),
                        "a request failed"
                    );
                }
                match response.extensions().get::<AsPage>() {
                    Some(AsPage) => page::refused(&problem, id_text),
                    None => problem.render(path, id_text, response.headers().clone()),
                }
            }
            None => response,
        }
    } else {
        response
    };
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, id.clone());
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn is_json(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"application/json"))
}

/// The problem for an answer the router made by itself.
fn unworded(status: u16, path: &str) -> Problem {
    let code = codes::of_status(status);
    let detail = match code.code {
        "HTTP.NOT_FOUND" => format!("there is nothing at {path:?}; /openapi.json lists what there is"),
        "HTTP.METHOD" => format!("{path:?} doesn't take this method; see the allow header"),
        "SCHEMA.VALIDATION_FAILED" => "the address isn't usable: encode it as UTF-8, percent-escaped".to_owned(),
        _ => code.title.to_owned(),
    };
    Problem { code, ..Problem::new(code.code, detail) }
}

/// A panic in a handler, for the layer that catches it.
pub(crate) fn panicked(cause: Box<dyn std::any::Any + Send + 'static>) -> Response {
    let text = cause.downcast_ref::<String>().map(String::as_str).or_else(|| cause.downcast_ref::<&str>().copied());
    Problem::internal(format_args!("a handler panicked: {}", text.unwrap_or("(no text)"))).into_response()
}

/// A method's name for metrics: callers may send any token as a method, labels have to stay few.
pub(crate) fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::HEAD => "HEAD",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::PATCH => "PATCH",
        Method::OPTIONS => "OPTIONS",
        _ => "OTHER",
    }
}
