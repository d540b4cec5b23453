//! Server reflection: what there is to call, for clients such as grpcurl.
//!
//! The proto file is in the binary and compiled while the host starts, which takes a few milliseconds.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body as HttpBody, Frame};
use protox::file::{ChainFileResolver, File, FileResolver, GoogleFileResolver};
use protox::{Compiler, Error};
use tokio::time::{Sleep, sleep};
use tonic::Status;
use tonic_reflection::server::Builder;

use super::{REFLECTION, REFLECTION_ALPHA};
use crate::app::App;
use crate::limits::REFLECTION_TIME_MAX;

const FILE: &str = "waybill/events/v1/events.proto";
const SOURCE: &str = include_str!("../../../api/proto/waybill/events/v1/events.proto");

/// The one file that is ours.
struct Ours;

impl FileResolver for Ours {
    fn open_file(&self, name: &str) -> Result<File, Error> {
        if name == FILE { File::from_source(FILE, SOURCE) } else { Err(Error::file_not_found(name)) }
    }
}

/// The proto file with what it imports.
pub(super) fn compiled() -> Result<Compiler, Error> {
    let mut resolver = ChainFileResolver::new();
    resolver.add(Ours);
    resolver.add(GoogleFileResolver::new());
    let mut compiler = Compiler::with_file_resolver(resolver);
    compiler.include_imports(true).include_source_info(true).open_file(FILE)?;
    Ok(compiler)
}

/// Both versions; none when the file can't be compiled, which a test rules out.
pub(super) fn routes() -> Router<App> {
    match served() {
        Ok(routes) => routes,
        Err(cause) => {
            tracing::error!(%cause, "gRPC's reflection isn't served");
            Router::new()
        }
    }
}

fn served() -> Result<Router<App>, Box<dyn std::error::Error>> {
    let files = compiled()?.file_descriptor_set();
    let builder = || {
        Builder::configure()
            .register_file_descriptor_set(files.clone())
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    Ok(Router::new()
        .route_service(REFLECTION, builder().build_v1()?)
        .route_service(REFLECTION_ALPHA, builder().build_v1alpha()?)
        .layer(from_fn(bounded)))
}

/// A call of reflection goes on for as long as its client asks, and holds the place of a request meanwhile: so it has an end.
async fn bounded(request: Request, next: Next) -> Response {
    next.run(request)
        .await
        .map(|body| Body::new(Bounded { body, end: Box::pin(sleep(REFLECTION_TIME_MAX)), is_over: false }))
}

struct Bounded {
    body: Body,
    end: Pin<Box<Sleep>>,
    is_over: bool,
}

impl HttpBody for Bounded {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        if self.end.as_mut().poll(cx).is_ready() {
            self.is_over = true;
            let mut trailers = HeaderMap::new();
            // Plain words: there is nothing that can't be written.
            let _ =
                Status::deadline_exceeded("a call of reflection takes no longer: call again").add_header(&mut trailers);
            return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
        }
        Pin::new(&mut self.body).poll_frame(cx)
    }
    fn is_end_stream(&self) -> bool {
        self.is_over || self.body.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proto_file_compiles_and_every_call_of_it_has_a_route() {
        let pool = compiled().unwrap().descriptor_pool();
        let ours = pool.services().filter(|service| service.full_name().starts_with("waybill."));
        let calls: Vec<String> = ours
            .flat_map(|service| {
                let call = |method: protox::prost_reflect::MethodDescriptor| {
                    format!("/{}/{}", service.full_name(), method.name())
                };
                service.methods().map(call).collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(calls.len(), 3);
        for call in calls {
            assert!(super::super::CALLS.iter().any(|(path, _)| *path == call), "{call}");
        }
        assert!(served().is_ok());
    }
}
