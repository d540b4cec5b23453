//! From the contract's request to one that can be sent: everything a guest says is checked here.

use std::sync::Arc;

use http::{HeaderName, HeaderValue, Method, Request, header};
use http_body_util::Full;
use waybill_bindings::api::http_types;
use waybill_bindings::api::net_types::{NetError, TlsOptions};

use super::body::{OutBody, Sent, counted};
use super::held::Held;
use super::known::KnownUrls;
use crate::grants::Target;
use crate::limits::REQUEST_HEADER_BYTES_MAX;

/// Headers that belong to the connection or are made by the host; a guest's are left out.
const HOSTS_OWN: [HeaderName; 10] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
];

/// Who sends, where the guest doesn't say.
pub(super) const USER_AGENT: &str = concat!("waybill/", env!("CARGO_PKG_VERSION"));

/// Bytes that a guest's request takes.
pub(super) fn weight(request: &http_types::Request) -> usize {
    let headers = request.headers.iter().map(|(name, value)| name.len().saturating_add(value.len()));
    headers.fold(request.url.len().saturating_add(request.body.len()), usize::saturating_add)
}

/// Checks a guest's request and makes it sendable. `held` is what it takes of the endpoint's bound.
pub(super) fn prepare(
    known: &KnownUrls,
    request: http_types::Request,
    sent: &Sent,
    held: Arc<Held>,
) -> Result<(Target, Request<OutBody>), NetError> {
    if request.tls.as_ref().is_some_and(asks_for_something) {
        return Err(NetError::Unsupported("TLS options of a request aren't supported by this host".to_owned()));
    }
    let (target, uri) = known.destination(&request.url)?;
    let method = Method::from_bytes(request.method.as_bytes())
        .ok()
        .filter(|method| *method != Method::CONNECT)
        .ok_or_else(|| NetError::Unsupported(format!("method {:?}", shorten(&request.method))))?;

    let mut made = Request::new(OutBody::Whole(Full::new(counted(request.body, held)), sent.clone()));
    *made.method_mut() = method;
    *made.uri_mut() = uri;
    let headers = made.headers_mut();
    headers.reserve(request.headers.len() + 1);
    let mut bytes = 0_usize;
    for (name, value) in request.headers {
        bytes = bytes.saturating_add(name.len()).saturating_add(value.len());
        if bytes > REQUEST_HEADER_BYTES_MAX {
            return Err(NetError::Limit(format!("the headers have more than {REQUEST_HEADER_BYTES_MAX} bytes")));
        }
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| NetError::Unsupported(format!("header name {:?}", shorten(&name))))?;
        if HOSTS_OWN.contains(&name) || name.as_str().starts_with("proxy-") || name.as_str() == "http2-settings" {
            continue;
        }
        let value = HeaderValue::try_from(value)
            .map_err(|_| NetError::Unsupported(format!("value of header {name} holds control characters")))?;
        headers.append(name, value);
    }
    if !headers.contains_key(header::USER_AGENT) {
        headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
    }
    Ok((target, made))
}

fn asks_for_something(tls: &TlsOptions) -> bool {
    tls.server_name.is_some()
        || tls.ca_secret.is_some()
        || tls.client_cert_secret.is_some()
        || tls.client_key_secret.is_some()
        || !tls.alpn.is_empty()
}

fn shorten(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use http_body_util::BodyExt;

    use super::super::held::Budget;
    use super::*;

    fn prepare(request: http_types::Request) -> Result<(Target, Request<OutBody>), NetError> {
        let held = Arc::new(Budget::new(0).begin());
        super::prepare(&KnownUrls::default(), request, &Sent::default(), held)
    }

    #[tokio::test]
    async fn a_body_counts_until_nothing_holds_its_bytes() {
        let budget = Budget::new(1_000);
        let request = request("http://a", &[("x-a", "1")]);
        let (mut held, bytes) = (budget.begin(), weight(&request));
        assert!(bytes == "http://a".len() + "x-a".len() + "1".len() + "x".len() && held.take(bytes));
        let (_, mut made) = super::prepare(&KnownUrls::default(), request, &Sent::default(), Arc::new(held)).unwrap();
        let on_its_way = made.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
        let part = on_its_way.slice(..1);
        drop((made, on_its_way));
        assert!(part.as_ref() == b"x" && budget.bytes_left() == 1_000 - bytes);
        drop(part);
        assert_eq!(budget.bytes_left(), 1_000);
    }

    fn request(url: &str, headers: &[(&str, &str)]) -> http_types::Request {
        http_types::Request {
            method: "POST".to_owned(),
            url: url.to_owned(),
            headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            body: b"x".to_vec(),
            timeout: 1_000,
            tls: None,
            attributes: Vec::new(),
        }
    }

    #[test]
    fn what_belongs_to_the_connection_is_left_out() {
        let guest = [
            ("Host", "evil"),
            ("content-length", "999"),
            ("Connection", "x"),
            ("Transfer-Encoding", "chunked"),
            ("proxy-x", "1"),
            ("x-a", "1"),
        ];
        let (_, made) = prepare(request("http://a/b", &guest)).unwrap();
        let names: Vec<&str> = made.headers().keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["x-a", "user-agent"]);
    }

    #[test]
    fn bad_requests_are_refused_before_anything_is_sent() {
        for url in ["ftp://a", "http://u:p@a/", "a/b", "http://", "file:///etc/passwd", "http://a:0/"] {
            assert!(prepare(request(url, &[])).is_err(), "{url}");
        }
        assert!(prepare(request("http://a", &[("x y", "1")])).is_err());
        assert!(prepare(request("http://a", &[("x", "1\r\ny: 2")])).is_err());
        assert!(matches!(
            prepare(request("http://a", &[("x", &"y".repeat(REQUEST_HEADER_BYTES_MAX))])),
            Err(NetError::Limit(_))
        ));
        let connect = http_types::Request { method: "CONNECT".to_owned(), ..request("http://a", &[]) };
        assert!(prepare(connect).is_err());
    }

    #[test]
    fn an_address_is_judged_in_its_normal_form() {
        let (target, made) = prepare(request("http://0x7f.1:8080/#f", &[])).unwrap();
        assert_eq!(target.to_string(), "http://127.0.0.1:8080");
        assert_eq!(made.uri().to_string(), "http://127.0.0.1:8080/");
    }
}
