//! Reading a request's body: media type, size, and memory held by large bodies.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, header};
use http_body::Frame;
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::app::App;
use crate::json::decode;
use crate::limits::{BODY_BYTES_MAX, BODY_STALL_TIMEOUT, FORM_BYTES_MAX, RETRY_AFTER_BUSY, SMALL_BODY_BYTES};
use crate::problem::Problem;

/// How a body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Media {
    /// JSON.
    Json,
    /// One JSON object a line.
    Lines,
    /// TOML; definitions of sagas only.
    Toml,
}

/// A body, and its share of the memory for large ones.
pub(crate) struct Received {
    /// The bytes.
    pub bytes: Bytes,
    /// How they are written; none when there is no body and no media type.
    pub media: Option<Media>,
    /// Held until the request is answered.
    pub share: Option<OwnedSemaphorePermit>,
}

/// Reads a body of at most `bytes_max`.
pub(crate) async fn read(app: &App, request: Request, bytes_max: usize) -> Result<Received, Problem> {
    let (head, body) = request.into_parts();
    let media = media(&head.headers)?;
    if media == Some(Media::Toml) {
        return Err(Problem::new(
            "HTTP.MEDIA_TYPE",
            "TOML is taken by POST /v1/saga-definitions only: send application/json",
        ));
    }
    received(app, media, &head.headers, body, bytes_max).await
}

/// Reads a definition, JSON or TOML, of at most `bytes_max`.
pub(crate) async fn definition(app: &App, request: Request, bytes_max: usize) -> Result<Received, Problem> {
    let (head, body) = request.into_parts();
    let media = media(&head.headers)?;
    only_json(media.filter(|media| *media != Media::Toml))?;
    received(app, media, &head.headers, body, bytes_max).await
}

async fn received(
    app: &App,
    media: Option<Media>,
    headers: &HeaderMap,
    body: Body,
    bytes_max: usize,
) -> Result<Received, Problem> {
    let announced = length(headers);
    if announced.is_some_and(|bytes| bytes > bytes_max) {
        return Err(too_large(bytes_max));
    }
    let (bytes, share) = collect(&app.bodies, body, announced, bytes_max).await?;
    if media.is_none() && !bytes.is_empty() {
        return Err(Problem::new(
            "HTTP.MEDIA_TYPE",
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

/// Reads a small JSON body that may be left out.
pub(crate) async fn json_or_default<T: serde::de::DeserializeOwned + Default>(
    app: &App,
    request: Request,
) -> Result<T, Problem> {
    let received = read(app, request, BODY_BYTES_MAX).await?;
    only_json(received.media)?;
    if received.bytes.is_empty() { Ok(T::default()) } else { decode::value(decode::utf8(&received.bytes)?) }
}

/// The media type of a browser's forms.
const FORM: &[u8] = b"application/x-www-form-urlencoded";

/// Whether the body is a form that a browser sent.
pub(crate) fn is_form(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    let kind = kind.split(|byte| *byte == b';').next().unwrap_or_default();
    kind.trim_ascii().eq_ignore_ascii_case(FORM)
}

/// Reads a form's only field; one that isn't there is empty.
pub(crate) async fn form(app: &App, request: Request, field: &'static str) -> Result<String, Problem> {
    let (head, body) = request.into_parts();
    let announced = length(&head.headers);
    if announced.is_some_and(|bytes| bytes > FORM_BYTES_MAX) {
        return Err(too_large(FORM_BYTES_MAX));
    }
    let (bytes, _) = collect(&app.bodies, body, announced, FORM_BYTES_MAX).await?;
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
        return Err(Problem::new("HTTP.MEDIA_TYPE", "a component is sent as `content-type: application/wasm`"));
    }
    let announced = length(&head.headers);
    if announced.is_some_and(|bytes| bytes > bytes_max) {
        return Err(too_large(bytes_max));
    }
    let (bytes, share) = collect(&app.bodies, body, announced, bytes_max).await?;
    Ok(Received { bytes, media: None, share })
}

/// Refuses JSON lines where one object is expected.
pub(crate) fn only_json(media: Option<Media>) -> Result<(), Problem> {
    match media {
        Some(Media::Lines) => Err(Problem::new(
            "HTTP.MEDIA_TYPE",
            "JSON lines are taken by POST /v1/messages only: send application/json",
        )),
        _ => Ok(()),
    }
}

fn too_large(bytes_max: usize) -> Problem {
    Problem::new("HTTP.TOO_LARGE", format!("the body is larger than {bytes_max} bytes: split the request"))
}

fn length(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn media(headers: &HeaderMap) -> Result<Option<Media>, Problem> {
    if let Some(encoding) = headers.get(header::CONTENT_ENCODING)
        && !encoding.as_bytes().eq_ignore_ascii_case(b"identity")
    {
        return Err(Problem::new(
            "HTTP.MEDIA_TYPE",
            "compressed bodies aren't taken: send it without content-encoding",
        ));
    }
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return Ok(None) };
    let refuse = |text: &str| {
        Problem::new(
            "HTTP.MEDIA_TYPE",
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

/// Collects the body. Past [`SMALL_BODY_BYTES`] each further piece needs its share of the memory for large bodies.
async fn collect(
    bodies: &Arc<Semaphore>,
    mut body: Body,
    announced: Option<usize>,
    bytes_max: usize,
) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Problem> {
    let mut share = Share { bodies, held: None, covered: SMALL_BODY_BYTES };
    if let Some(bytes) = announced {
        share.cover(bytes)?;
    }
    let mut first = Bytes::new();
    let mut whole = BytesMut::new();
    while let Some(frame) = next(&mut body).await? {
        let frame = frame
            .map_err(|cause| Problem::new("SCHEMA.JSON", format!("the body ended before it was complete: {cause}")))?;
        let Ok(data) = frame.into_data() else { continue };
        let held = first.len() + whole.len();
        if held + data.len() > bytes_max {
            return Err(too_large(bytes_max));
        }
        share.cover(held + data.len())?;
        if held == 0 {
            first = data;
            continue;
        }
        if whole.is_empty() {
            whole.reserve(announced.unwrap_or(0).max(first.len() + data.len()));
            whole.extend_from_slice(&std::mem::take(&mut first));
        }
        whole.extend_from_slice(&data);
    }
    let bytes = if whole.is_empty() { first } else { whole.freeze() };
    Ok((bytes, share.held))
}

/// The next piece, which may not be long in coming.
async fn next(body: &mut Body) -> Result<Option<Result<Frame<Bytes>, axum::Error>>, Problem> {
    tokio::time::timeout(BODY_STALL_TIMEOUT, body.frame()).await.map_err(|_| {
        let text =
            format!("nothing more of the body came for {} s: send it without pauses", BODY_STALL_TIMEOUT.as_secs());
        Problem::new("HTTP.SLOW_BODY", text)
    })
}

struct Share<'a> {
    bodies: &'a Arc<Semaphore>,
    held: Option<OwnedSemaphorePermit>,
    covered: usize,
}

impl Share<'_> {
    fn cover(&mut self, bytes: usize) -> Result<(), Problem> {
        if bytes <= self.covered {
            return Ok(());
        }
        let kib = u32::try_from((bytes - self.covered).div_ceil(1024)).unwrap_or(u32::MAX);
        let Ok(more) = self.bodies.clone().try_acquire_many_owned(kib) else {
            return Err(Problem::new(
                "OUTBOX.BUSY",
                "the memory for large bodies is in use: try again after a moment, or send smaller requests",
            )
            .after(RETRY_AFTER_BUSY));
        };
        self.covered += kib as usize * 1024;
        match &mut self.held {
            Some(held) => held.merge(more),
            None => self.held = Some(more),
        }
        Ok(())
    }
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
        let of = |value| media(&headers("content-type", value)).map_err(|problem| problem.code.status);
        for json in ["application/json", "Application/JSON; charset=UTF-8", "application/json;charset=\"utf-8\""] {
            assert_eq!(of(json), Ok(Some(Media::Json)), "{json}");
        }
        for lines in ["application/x-ndjson", "application/jsonl"] {
            assert_eq!(of(lines), Ok(Some(Media::Lines)));
        }
        for bad in ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1", "json", ""] {
            assert_eq!(of(bad), Err(415), "{bad}");
        }
        assert_eq!(media(&headers("content-encoding", "gzip")).unwrap_err().code.status, 415);
        assert_eq!(media(&HeaderMap::new()), Ok(None));
    }

    #[tokio::test]
    async fn large_bodies_share_a_bounded_memory() {
        let bodies = Arc::new(Semaphore::new(100));
        let body = |bytes: usize| Body::from(vec![b' '; bytes]);
        let (_, small) = collect(&bodies, body(SMALL_BODY_BYTES), None, usize::MAX).await.unwrap();
        assert!(small.is_none());
        let (bytes, held) = collect(&bodies, body(SMALL_BODY_BYTES + 60 * 1024), None, usize::MAX).await.unwrap();
        assert_eq!((bytes.len(), bodies.available_permits()), (SMALL_BODY_BYTES + 60 * 1024, 40));
        let refused = collect(&bodies, body(SMALL_BODY_BYTES + 60 * 1024), None, usize::MAX).await.unwrap_err();
        assert_eq!((refused.code.status, bodies.available_permits()), (429, 40));
        drop(held);
        assert_eq!(bodies.available_permits(), 100);
    }

    #[tokio::test]
    async fn a_body_in_pieces_is_put_together_and_cut_at_the_bound() {
        let pieces = |count: usize| {
            let list: Vec<Result<Bytes, std::io::Error>> =
                (0..count).map(|_| Ok(Bytes::from_static(b"0123456789"))).collect();
            Body::from_stream(futures::stream::iter(list))
        };
        let bodies = Arc::new(Semaphore::new(100));
        let (bytes, _) = collect(&bodies, pieces(3), None, 30).await.unwrap();
        assert_eq!(bytes, "012345678901234567890123456789");
        assert_eq!(collect(&bodies, pieces(4), None, 30).await.unwrap_err().code.code, "HTTP.TOO_LARGE");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stops_is_given_up() {
        let bodies = Arc::new(Semaphore::new(100));
        let first = futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(b"{"))]);
        let body = Body::from_stream(futures::StreamExt::chain(first, futures::stream::pending()));
        assert_eq!(collect(&bodies, body, None, 30).await.unwrap_err().code.code, "HTTP.SLOW_BODY");
    }
}
