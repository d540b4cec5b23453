//! Reading a request's body: media type, size, and memory held by large bodies.

mod collect;

use axum::body::Body;
use axum::extract::Request;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, header};
use tokio::time::Instant;
use waybill_core::code::Code;

use self::collect::{Due, Share, collect};
use crate::app::App;
use crate::caller::Caller;
use crate::edge::Begun;
use crate::json::decode;
use crate::limits::{BODY_BYTES_MAX, FORM_BYTES_MAX};
use crate::places::Place;
use crate::problem::Problem;

/// How a body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Media {
    Json,
    /// One JSON object a line.
    Lines,
    /// TOML; definitions of sagas only.
    Toml,
}

/// A body, and its share of the memory for large ones.
pub(crate) struct Received {
    pub bytes: Bytes,
    /// How the bytes are written; none when there is no body and no media type.
    pub media: Option<Media>,
    /// Held until the request is answered.
    pub share: Option<Place>,
}

/// Reads a body of at most `bytes_max`.
pub(crate) async fn read(app: &App, request: Request, bytes_max: usize) -> Result<Received, Problem> {
    let (head, body) = request.into_parts();
    let media = media(&head.headers)?;
    if media == Some(Media::Toml) {
        return Err(Problem::new(
            Code::HTTP_MEDIA_TYPE,
            "TOML is taken by POST /v1/saga-definitions only: send application/json",
        ));
    }
    received(app, media, &head, body, bytes_max).await
}

/// Reads a definition, JSON or TOML, of at most `bytes_max`.
pub(crate) async fn definition(app: &App, request: Request, bytes_max: usize) -> Result<Received, Problem> {
    let (head, body) = request.into_parts();
    let media = media(&head.headers)?;
    only_json(media.filter(|media| *media != Media::Toml))?;
    received(app, media, &head, body, bytes_max).await
}

async fn received(
    app: &App,
    media: Option<Media>,
    head: &Parts,
    body: Body,
    bytes_max: usize,
) -> Result<Received, Problem> {
    let (bytes, share) = collected(app, head, body, bytes_max).await?;
    if media.is_none() && !bytes.is_empty() {
        return Err(Problem::new(
            Code::HTTP_MEDIA_TYPE,
            "the body has no content-type: send `content-type: application/json`",
        ));
    }
    Ok(Received { bytes, media, share })
}

/// Reads a small JSON body into a type.
pub(crate) async fn json<T: serde::de::DeserializeOwned>(app: &App, request: Request) -> Result<T, Problem> {
    let received = read(app, request, BODY_BYTES_MAX).await?;
    only_json(received.media)?;
    decode::value(decode::utf8(&received.bytes)?)
}

/// Reads a JSON body of at most `bytes_max` into a type. With it its share of the memory for large ones, to be held until the request is
/// answered.
pub(crate) async fn large_json<T: serde::de::DeserializeOwned>(
    app: &App,
    request: Request,
    bytes_max: usize,
) -> Result<(T, Option<Place>), Problem> {
    let received = read(app, request, bytes_max).await?;
    only_json(received.media)?;
    Ok((decode::value(decode::utf8(&received.bytes)?)?, received.share))
}

/// Reads a small JSON body that may be left out.
pub(crate) async fn json_or_default<T: serde::de::DeserializeOwned + Default>(
    app: &App,
    request: Request,
) -> Result<T, Problem> {
    let received = read(app, request, BODY_BYTES_MAX).await?;
    only_json(received.media)?;
    if received.bytes.is_empty() { Ok(T::default()) } else { decode::value(decode::utf8(&received.bytes)?) }
}

/// The same request with all of its body, of at most `bytes_max` and of whatever kind. With it its share of the memory for large ones, to
/// be held until the request is answered.
pub(crate) async fn whole(app: &App, request: Request, bytes_max: usize) -> Result<(Request, Option<Place>), Problem> {
    let (head, body) = request.into_parts();
    let (bytes, share) = collected(app, &head, body, bytes_max).await?;
    Ok((Request::from_parts(head, Body::from(bytes)), share))
}

/// The media type of a browser's forms.
const FORM: &[u8] = b"application/x-www-form-urlencoded";

/// Whether the body is a form that a browser sent.
pub(crate) fn is_form(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    let kind = kind.split(|byte| *byte == b';').next().unwrap_or_default();
    kind.trim_ascii().eq_ignore_ascii_case(FORM)
}

/// A form's fields as they come, and its share of the memory for large bodies, to be held until the request is answered.
pub(crate) struct Fields {
    pub fields: Vec<(String, String)>,
    pub share: Option<Place>,
}

/// Reads a form of at most `bytes_max`.
pub(crate) async fn fields(app: &App, request: Request, bytes_max: usize) -> Result<Fields, Problem> {
    if !is_form(request.headers()) {
        return Err(Problem::new(Code::HTTP_MEDIA_TYPE, "this takes a form of a browser"));
    }
    let (head, body) = request.into_parts();
    let (bytes, share) = collected(app, &head, body, bytes_max).await.map_err(|problem| match problem.code {
        Code::HTTP_TOO_LARGE => {
            let detail = format!("the form is larger than the {bytes_max} bytes that are taken: write less into it");
            Problem { detail, ..problem }
        }
        _ => problem,
    })?;
    Ok(Fields { fields: form_urlencoded::parse(&bytes).into_owned().collect(), share })
}

/// Reads a form's only field; one that isn't there is empty.
pub(crate) async fn form(app: &App, request: Request, field: &'static str) -> Result<String, Problem> {
    let (head, body) = request.into_parts();
    let (bytes, _) = collected(app, &head, body, FORM_BYTES_MAX).await?;
    let mut value = None;
    for (name, text) in form_urlencoded::parse(&bytes) {
        if name != field || value.is_some() {
            return Err(Problem::invalid(format!("the form has one field, {field}")).at(field));
        }
        value = Some(text.into_owned());
    }
    Ok(value.unwrap_or_default())
}

/// Reads a component of at most `bytes_max`: `application/wasm`, or bytes of no known kind.
pub(crate) async fn component(app: &App, request: Request, bytes_max: usize) -> Result<Received, Problem> {
    let (head, body) = request.into_parts();
    let kind = head.headers.get(header::CONTENT_TYPE).map(|kind| kind.as_bytes().to_ascii_lowercase());
    if !matches!(kind.as_deref(), None | Some(b"application/wasm" | b"application/octet-stream")) {
        return Err(Problem::new(Code::HTTP_MEDIA_TYPE, "a component is sent as `content-type: application/wasm`"));
    }
    let (bytes, share) = collected(app, &head, body, bytes_max).await?;
    Ok(Received { bytes, media: None, share })
}

/// Refuses JSON lines where one object is expected.
pub(crate) fn only_json(media: Option<Media>) -> Result<(), Problem> {
    match media {
        Some(Media::Lines) => Err(Problem::new(
            Code::HTTP_MEDIA_TYPE,
            "JSON lines are taken by POST /v1/messages only: send application/json",
        )),
        _ => Ok(()),
    }
}

fn too_large(bytes_max: usize) -> Problem {
    Problem::new(Code::HTTP_TOO_LARGE, format!("the body is larger than {bytes_max} bytes: split the request"))
}

fn length(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn media(headers: &HeaderMap) -> Result<Option<Media>, Problem> {
    if let Some(encoding) = headers.get(header::CONTENT_ENCODING)
        && !encoding.as_bytes().eq_ignore_ascii_case(b"identity")
    {
        return Err(Problem::new(
            Code::HTTP_MEDIA_TYPE,
            "compressed bodies aren't taken: send it without content-encoding",
        ));
    }
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return Ok(None) };
    let refuse = |text: &str| {
        Problem::new(
            Code::HTTP_MEDIA_TYPE,
            format!(
                "content-type {text:?} isn't taken: send application/json (or application/x-ndjson to POST /v1/messages)"
            ),
        )
    };
    let text = value.to_str().map_err(|_| refuse("(not ASCII)"))?;
    let mut parts = text.split(';').map(str::trim);
    let kind = parts.next().unwrap_or("").to_ascii_lowercase();
    let utf8 = parts.all(|parameter| match parameter.split_once('=') {
        Some((name, value)) if name.eq_ignore_ascii_case("charset") => {
            let value = value.trim_matches('"');
            value.eq_ignore_ascii_case("utf-8")
                || value.eq_ignore_ascii_case("utf8")
                || value.eq_ignore_ascii_case("us-ascii")
        }
        _ => true,
    });
    match kind.as_str() {
        _ if !utf8 => Err(refuse(text)),
        "application/json" => Ok(Some(Media::Json)),
        "application/toml" | "text/toml" | "text/x-toml" => Ok(Some(Media::Toml)),
        "application/x-ndjson" | "application/ndjson" | "application/jsonl" | "application/x-jsonlines" => {
            Ok(Some(Media::Lines))
        }
        _ => Err(refuse(text)),
    }
}

/// Collects the body of a request within its time.
async fn collected(app: &App, head: &Parts, body: Body, bytes_max: usize) -> Result<(Bytes, Option<Place>), Problem> {
    let announced = length(&head.headers);
    if announced.is_some_and(|bytes| bytes > bytes_max) {
        return Err(too_large(bytes_max));
    }
    let caller = head.extensions.get::<Caller>().map_or(&*app.anonymous, |caller| &*caller.0);
    let share = Share::new(&app.bodies, app.auth.is_some().then_some(caller));
    let begun = head.extensions.get::<Begun>().map_or_else(Instant::now, |begun| begun.0);
    collect(share, body, announced, bytes_max, Due::of(begun, app.limits.request_timeout)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, value: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().unwrap());
        headers
    }

    #[test]
    fn media_types_are_told_apart() {
        let of = |value| media(&headers("content-type", value)).map_err(|problem| problem.code.status());
        for json in ["application/json", "Application/JSON; charset=UTF-8", "application/json;charset=\"utf-8\""] {
            assert_eq!(of(json), Ok(Some(Media::Json)), "{json}");
        }
        for lines in ["application/x-ndjson", "application/jsonl"] {
            assert_eq!(of(lines), Ok(Some(Media::Lines)));
        }
        for bad in ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1", "json", ""] {
            assert_eq!(of(bad), Err(415), "{bad}");
        }
        assert_eq!(media(&headers("content-encoding", "gzip")).unwrap_err().code.status(), 415);
        assert_eq!(media(&HeaderMap::new()), Ok(None));
    }
}
