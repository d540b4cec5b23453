//! Server reflection: what there is to call, for clients such as grpcurl.
//!
//! The proto file is in the binary and compiled while the host starts, which takes a few milliseconds.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body as HttpBody, Frame};
use protox::file::{ChainFileResolver, File, FileResolver, GoogleFileResolver};
use protox::{Compiler, Error};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tonic::Status;
use tonic_reflection::server::Builder;

use super::{REFLECTION, REFLECTION_ALPHA, status};
use crate::app::App;
use crate::limits::{REFLECTION_TIME_MAX, SMALL_PROBE_BYTES};
use crate::subscribe::reader::{drained, going_away};

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
pub(super) fn routes(app: &App) -> Router<App> {
    match served(app.draining.subscribe()) {
        Ok(routes) => routes,
        Err(cause) => {
            tracing::error!(%cause, "gRPC's reflection isn't served");
            Router::new()
        }
    }
}

/// `draining` becomes true when the host goes away.
fn served<S>(draining: watch::Receiver<bool>) -> Result<Router<S>, Box<dyn std::error::Error>>
where
    S: Clone + Send + Sync + 'static,
{
    let files = compiled()?.file_descriptor_set();
    let builder = || {
        Builder::configure()
            .register_file_descriptor_set(files.clone())
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    Ok(Router::new()
        .route_service(REFLECTION, builder().build_v1()?.max_decoding_message_size(SMALL_PROBE_BYTES))
        .route_service(REFLECTION_ALPHA, builder().build_v1alpha()?.max_decoding_message_size(SMALL_PROBE_BYTES))
        .layer(from_fn_with_state(draining, bounded)))
}

/// A call of reflection goes on for as long as its client asks, and holds the place of a request meanwhile: so it has an end, and doesn't hold
/// up that of the host. What reads the request doesn't notice that nobody hears the answers any more, so the request has the same end.
async fn bounded(State(draining): State<watch::Receiver<bool>>, request: Request, next: Next) -> Response {
    let by = Instant::now() + REFLECTION_TIME_MAX;
    let asked = over(by, draining.clone());
    let request = request.map(|body| Body::new(Bounded::new(body, asked, false)));
    next.run(request).await.map(|body| Body::new(Bounded::new(body, over(by, draining), true)))
}

/// Waits until a call has to end, and says why.
async fn over(by: Instant, mut draining: watch::Receiver<bool>) -> Status {
    tokio::select! {
        biased;
        () = drained(&mut draining) => status::ended(&going_away()),
        () = sleep_until(by) => Status::deadline_exceeded("a call of reflection takes no longer: call again"),
    }
}

/// A body that something else may end.
struct Bounded {
    body: Body,
    end: Pin<Box<dyn Future<Output = Status> + Send>>,
    /// It says why: an answer does.
    tells: bool,
    is_over: bool,
}

impl Bounded {
    fn new(body: Body, end: impl Future<Output = Status> + Send + 'static, tells: bool) -> Self {
        Self { body, end: Box::pin(end), tells, is_over: false }
    }
}

impl HttpBody for Bounded {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        if let Poll::Ready(why) = self.end.as_mut().poll(cx) {
            self.is_over = true;
            let mut trailers = HeaderMap::new();
            // Plain words: there is nothing that can't be written.
            let _ = why.add_header(&mut trailers);
            return Poll::Ready(self.tells.then(|| Ok(Frame::trailers(trailers))));
        }
        Pin::new(&mut self.body).poll_frame(cx)
    }
    fn is_end_stream(&self) -> bool {
        self.is_over || self.body.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http_body_util::{BodyExt, Collected};
    use prost::Message;
    use tokio::sync::oneshot;
    use tokio::time::timeout;
    use tonic_reflection::pb::v1::ServerReflectionRequest;
    use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
    use tower::ServiceExt;

    use super::*;

    async fn answered(draining: &watch::Sender<bool>, body: Body) -> Collected<Bytes> {
        let request = Request::post(REFLECTION).header("content-type", "application/grpc").body(body).unwrap();
        let answer = served::<()>(draining.subscribe()).unwrap().oneshot(request).await.unwrap();
        answer.into_body().collect().await.unwrap()
    }

    /// The status of a call whose client asks nothing and goes on, and then whether the request is read no more.
    async fn left_open(draining: &watch::Sender<bool>) -> String {
        let (held, gone) = oneshot::channel::<()>();
        let open = futures::stream::poll_fn(move |_| {
            let _held = &held;
            Poll::<Option<Result<Bytes, Infallible>>>::Pending
        });
        let answer = answered(draining, Body::from_stream(open)).await;
        let gone = timeout(REFLECTION_TIME_MAX / 2, gone).await;
        assert!(gone.is_ok(), "the request is still read");
        let status = answer.trailers().and_then(|trailers| trailers.get("grpc-status")).unwrap();
        status.to_str().unwrap().to_owned()
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_left_open_ends_and_so_does_what_reads_it() {
        let draining = watch::Sender::new(false);
        let began = Instant::now();
        assert_eq!(left_open(&draining).await, "4", "DEADLINE_EXCEEDED");
        assert_eq!(began.elapsed().as_secs(), REFLECTION_TIME_MAX.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_left_open_does_not_hold_up_the_end_of_the_host() {
        let draining = watch::Sender::new(false);
        let (status, ()) = tokio::join!(left_open(&draining), async {
            tokio::time::sleep(REFLECTION_TIME_MAX / 2).await;
            draining.send_replace(true);
        });
        assert_eq!(status, "14", "UNAVAILABLE");
    }

    #[tokio::test]
    async fn a_question_longer_than_names_are_is_not_held() {
        let asked = |host: String| {
            let message_request = Some(MessageRequest::ListServices(String::new()));
            let message = ServerReflectionRequest { host, message_request }.encode_to_vec();
            let length = u32::try_from(message.len()).unwrap().to_be_bytes();
            Body::from([&[0_u8][..], &length, &message].concat())
        };
        let draining = watch::Sender::new(false);
        assert!(!answered(&draining, asked("localhost".to_owned())).await.to_bytes().is_empty());
        assert!(answered(&draining, asked("x".repeat(SMALL_PROBE_BYTES))).await.to_bytes().is_empty());
    }

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
        assert!(served::<()>(watch::Sender::new(false).subscribe()).is_ok());
    }
}
