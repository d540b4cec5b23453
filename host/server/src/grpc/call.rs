//! One call: tonic reads the request and frames the answers. A problem goes to the edge, which words it as that of any other route.

use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use bytes::{BufMut, Bytes};
use futures::Stream;
use http_body::{Body as HttpBody, Frame, SizeHint};
use prost::Message;
use tonic::Status;
use tonic::codec::{Codec, EncodeBuf, Encoder};
use tonic_prost::ProstDecoder;

use crate::app::App;
use crate::body;
use crate::limits::BODY_BYTES_MAX;
use crate::problem::Problem;

/// The answers of a call.
pub(super) struct Answers<S> {
    /// Each the bytes of a message.
    pub messages: S,
    /// So many bytes are held until they are taken; 0 where they are made while they are.
    pub bytes: usize,
}

/// Serves a call: `act` has the request, and answers or says why not. The request is read as any other: within its time, and within its
/// share of the memory for large ones.
pub(super) async fn serve<M, A, F, S>(app: App, request: Request, act: A) -> Response
where
    M: Message + Default + 'static,
    A: FnOnce(App, M) -> F + Send,
    F: Future<Output = Result<Answers<S>, Problem>> + Send,
    S: Stream<Item = Result<Vec<u8>, Status>> + Send + 'static,
{
    let (request, _share) = match body::whole(&app, request, BODY_BYTES_MAX).await {
        Ok(whole) => whole,
        Err(problem) => return problem.into_response(),
    };
    let outcome: Arc<OnceLock<Result<usize, Problem>>> = Arc::default();
    let mut act = Some(act);
    let service = tower::service_fn(|asked: tonic::Request<M>| {
        let acting = act.take().map(|act| act(Arc::clone(&app), asked.into_inner()));
        let outcome = Arc::clone(&outcome);
        async move {
            // It is called once.
            let acting = acting.ok_or_else(|| Status::internal("a call was served twice"))?;
            match acting.await {
                Ok(answers) => {
                    let _ = outcome.set(Ok(answers.bytes));
                    Ok(tonic::Response::new(answers.messages))
                }
                Err(problem) => {
                    let _ = outcome.set(Err(problem));
                    Err(Status::unknown("the edge words it"))
                }
            }
        }
    });
    let mut grpc = tonic::server::Grpc::new(Wire::<M>(PhantomData)).max_decoding_message_size(BODY_BYTES_MAX);
    let response = grpc.server_streaming(service, request).await;
    match outcome.get() {
        Some(Err(problem)) => problem.clone().into_response(),
        Some(Ok(bytes)) => {
            let bytes = *bytes;
            response.map(|body| Body::new(Counted { body: Body::new(body), bytes }))
        }
        None => response.map(Body::new),
    }
}

/// Requests are messages; answers are bytes of messages already.
struct Wire<M>(PhantomData<M>);

impl<M: Message + Default + 'static> Codec for Wire<M> {
    type Encode = Vec<u8>;
    type Decode = M;
    type Encoder = Copied;
    type Decoder = ProstDecoder<M>;

    fn encoder(&mut self) -> Copied {
        Copied
    }
    fn decoder(&mut self) -> ProstDecoder<M> {
        ProstDecoder::default()
    }
}

struct Copied;

impl Encoder for Copied {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, message: Vec<u8>, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.reserve(message.len());
        out.put_slice(&message);
        Ok(())
    }
}

/// A body of which it is known how much of it is held, so that the edge counts it among large answers.
struct Counted {
    body: Body,
    bytes: usize,
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &frame
            && let Some(data) = frame.data_ref()
        {
            self.bytes = self.bytes.saturating_sub(data.len());
        }
        frame
    }
    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
    fn size_hint(&self) -> SizeHint {
        let mut hint = SizeHint::new();
        hint.set_lower(self.bytes as u64);
        hint
    }
}
