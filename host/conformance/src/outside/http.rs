//! An HTTP/1.1 peer that answers by rules.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::Uses;
use crate::case::{HttpAnswer, PeerFault};

/// A connection is to be closed without an answer.
#[derive(Debug, thiserror::Error)]
#[error("the case drops the connection")]
struct Dropped;

/// Serves until it is aborted.
pub(super) async fn serve(listener: TcpListener, answers: Vec<HttpAnswer>) {
    let rules = Arc::new((Uses::of(answers.len()), answers));
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let rules = Arc::clone(&rules);
        connections.spawn(async move {
            let service = hyper::service::service_fn(move |request| answer(request, Arc::clone(&rules)));
            // A peer that goes away is what the suite is about.
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
        // What has ended is let go.
        while connections.try_join_next().is_some() {}
    }
}

async fn answer(
    request: Request<Incoming>,
    rules: Arc<(Uses, Vec<HttpAnswer>)>,
) -> Result<Response<Full<Bytes>>, Dropped> {
    let (uses, answers) = &*rules;
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Dropped)?.to_bytes();
    let mut seen = format!("{} {}\n", head.method, head.uri);
    for (name, value) in &head.headers {
        seen.push_str(&format!("{name}: {}\n", String::from_utf8_lossy(value.as_bytes())));
    }
    seen.push_str(&String::from_utf8_lossy(&body));
    let found = answers.iter().enumerate().find(|(index, answer)| {
        answer.when.as_ref().is_none_or(|text| seen.contains(text)) && uses.take(*index, answer.times)
    });
    let Some((_, answer)) = found else { return Ok(response(404, &[], "no answer of the case fits")) };
    match answer.fault {
        Some(PeerFault::Drop) => Err(Dropped),
        Some(PeerFault::Silent) => match std::future::pending::<Infallible>().await {},
        None => {
            let headers: Vec<(&str, &str)> =
                answer.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            Ok(response(answer.status, &headers, &answer.body))
        }
    }
}

/// A header or status that can't be sent becomes a 500, which a case notices.
fn response(status: u16, headers: &[(&str, &str)], body: &str) -> Response<Full<Bytes>> {
    let mut builder = Response::builder().status(status);
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    builder.body(Full::new(Bytes::from(body.to_owned()))).unwrap_or_else(|_| {
        let mut broken = Response::new(Full::default());
        *broken.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        broken
    })
}
