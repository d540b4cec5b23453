//! The calls of `EventsService`, and `SubscribeTaskEvents`, which is a subscription to one stream.

use std::collections::BTreeMap;

use axum::extract::{Request, State};
use axum::response::Response;
use futures::{Stream, stream};
use tonic::Status;
use waybill_core::port::missing::Missing;
use waybill_core::port::service::streams::{EventPiece, Start, SubscribeRequest, Subscribed};
use waybill_core::streams::access::StreamRight;
use waybill_core::streams::envelope;
use waybill_core::streams::limits::NAMED_STREAMS_MAX;
use waybill_core::streams::name::StreamKey;
use waybill_core::streams::proto::{put_bytes, put_number, put_text};

use super::call::{Answers, serve};
use super::messages::{
    After, By, ByResource, ListEventsRequest, Resume, Selector, StreamCursor, SubscribeEventsRequest,
    SubscribeTaskEventsRequest,
};
use super::status;
use crate::app::App;
use crate::caller::Caller;
use crate::limits::{CURSOR_BYTES_MAX, CURSOR_STREAMS_MAX};
use crate::problem::Problem;
use crate::progress::Cutter;
use crate::routes::streams::{named, service};
use crate::subscribe::feed::Ongoing;
use crate::subscribe::reader::Reader;
use crate::subscribe::{self, selector};

pub(super) async fn subscribe(State(app): State<App>, caller: Caller, request: Request) -> Response {
    let cutter = request.extensions().get::<Cutter>().cloned();
    let act = |app: App, asked: SubscribeEventsRequest| async move {
        let start = start(asked.resume, asked.from_latest)?;
        let what = selected(asked.selector)?;
        let replay_events = u64::from(asked.max_batch_replay);
        open(&app, caller, Asked { what, start, replay_events, tenant: &asked.tenant }, cutter).await
    };
    ongoing(serve(app, request, act).await)
}

pub(super) async fn subscribe_tasks(State(app): State<App>, caller: Caller, request: Request) -> Response {
    let cutter = request.extensions().get::<Cutter>().cloned();
    let act = |app: App, asked: SubscribeTaskEventsRequest| async move {
        let name = named("node_uuid", &format!("task.node.{}", asked.node_uuid))?;
        let start = match asked.last_event_id {
            0 => Start::Earliest,
            seq => Start::Positions(BTreeMap::from([(name.clone(), seq)])),
        };
        let what = Subscribed::Streams(vec![name]);
        open(&app, caller, Asked { what, start, replay_events: 0, tenant: "" }, cutter).await
    };
    ongoing(serve(app, request, act).await)
}

pub(super) async fn list(State(app): State<App>, caller: Caller, request: Request) -> Response {
    let act = |app: App, asked: ListEventsRequest| async move {
        let name = named("stream", &asked.stream)?;
        let tenant = given(&asked.tenant);
        let stream = StreamKey { tenant: caller.tenant_of(tenant, Missing::Stream, name.as_str())?, name };
        caller.0.admit(StreamRight::Read, &stream.name)?;
        let after = match asked.after {
            None => None,
            Some(After::Seq(seq)) => Some(seq.to_string()),
            Some(After::ResumeToken(text)) => Some(token(text)?),
        };
        let found = service(&app)?.read_stream(&stream, after.as_deref(), u64::from(asked.limit)).await;
        let found = found.map_err(|error| caller.missed(error, tenant, &stream.tenant))?;
        let mut answer = Vec::new();
        for event in &found.events {
            put_bytes(&mut answer, 1, &envelope::wire(&event.stream, event.seq, &event.packed, None));
        }
        put_number(&mut answer, 2, found.first);
        put_number(&mut answer, 3, found.last);
        put_text(&mut answer, 4, &found.next_after);
        put_number(&mut answer, 5, found.is_end.into());
        Ok::<_, Problem>(Answers { bytes: answer.len(), messages: stream::iter([Ok(answer)]) })
    };
    serve(app, request, act).await
}

/// What a subscription is to be.
struct Asked<'a> {
    what: Subscribed,
    start: Start,
    /// Most events of a piece of replay; 0 = the host's bound.
    replay_events: u64,
    /// As the request has it: empty = it names none.
    tenant: &'a str,
}

async fn open(
    app: &App,
    caller: Caller,
    asked: Asked<'_>,
    cutter: Option<Cutter>,
) -> Result<Answers<impl Stream<Item = Result<Vec<u8>, Status>> + Send + use<>>, Problem> {
    let Asked { what, start, replay_events, tenant } = asked;
    subscribe::admit(&caller, &what)?;
    let tenant = caller.own(given(tenant))?;
    let has_token = !matches!(&what, Subscribed::Streams(names) if names.len() > CURSOR_STREAMS_MAX);
    let place = subscribe::place(app, &caller.0)?;
    let subscription = service(app)?.subscribe(SubscribeRequest { tenant, what, start, replay_events }).await?;
    let reader = Reader::new(subscription, caller.0, app.auth.clone(), app.draining.subscribe(), cutter, place);
    let sending = Sending { reader, ready: Vec::new().into_iter(), has_token, is_over: false };
    Ok(Answers { messages: stream::unfold(sending, Sending::next), bytes: 0 })
}

/// What goes on for days has a place of its own kind, so its request gives back the one it has.
fn ongoing(mut response: Response) -> Response {
    if response.extensions().get::<Problem>().is_none() {
        response.extensions_mut().insert(Ongoing);
    }
    response
}

struct Sending {
    reader: Reader,
    /// Events that weren't handed over yet: one piece at most.
    ready: std::vec::IntoIter<EventPiece>,
    /// A cursor of very many streams isn't a text: who reads them keeps their numbers.
    has_token: bool,
    is_over: bool,
}

impl Sending {
    async fn next(mut self) -> Option<(Result<Vec<u8>, Status>, Self)> {
        if self.is_over {
            return None;
        }
        loop {
            if let Some(event) = self.ready.next() {
                let token = self.has_token.then_some(&*event.cursor);
                return Some((Ok(envelope::wire(&event.stream, event.seq, &event.packed, token)), self));
            }
            match self.reader.next().await {
                Ok(pieces) => self.ready = pieces.into_iter(),
                Err(ended) => {
                    self.is_over = true;
                    return Some((Err(status::ended(&ended)), self));
                }
            }
        }
    }
}

/// A field that proto3 doesn't tell from one that isn't there.
fn given(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

fn selected(selector: Option<Selector>) -> Result<Subscribed, Problem> {
    let unset = || {
        let text = "selector is unset: name streams, a prefix, a node or a resource type";
        Problem::invalid(text).at("selector")
    };
    match selector.and_then(|selector| selector.by).ok_or_else(unset)? {
        By::Streams(streams) if streams.names.is_empty() => Err(unset()),
        By::Streams(streams) => selector::named(streams.names.iter().map(String::as_str), NAMED_STREAMS_MAX),
        By::StreamPrefix(text) => selector::prefix(&text).map(Subscribed::Many),
        By::NodeUuid(node) => selector::node(&node).map(Subscribed::Many),
        By::ResourceType(ByResource { resource_type, resource_id_prefix }) => {
            selector::resource(&resource_type, &resource_id_prefix).map(Subscribed::Many)
        }
    }
}

/// What a client was given before, as it comes back.
fn token(text: String) -> Result<String, Problem> {
    let detail = match text.len() {
        0 => "resume_token is empty: leave it out".to_owned(),
        1..=CURSOR_BYTES_MAX => return Ok(text),
        bytes => format!("resume_token has {bytes} bytes, at most {CURSOR_BYTES_MAX} are taken"),
    };
    Err(Problem::invalid(detail).at("resume_token"))
}

fn start(resume: Option<Resume>, from_latest: bool) -> Result<Start, Problem> {
    match resume {
        None if from_latest => Ok(Start::Latest),
        None => Ok(Start::Earliest),
        Some(Resume::ResumeToken(text)) => token(text).map(Start::Cursor),
        Some(Resume::Cursor(StreamCursor { stream_seq })) if stream_seq.len() > NAMED_STREAMS_MAX => {
            let detail =
                format!("cursor names {} streams, at most {NAMED_STREAMS_MAX} are read at once", stream_seq.len());
            Err(Problem::invalid(detail).at("cursor"))
        }
        Some(Resume::Cursor(StreamCursor { stream_seq })) => {
            let position = |(name, seq): (String, u64)| Ok((named("cursor.stream_seq", &name)?, seq));
            Ok(Start::Positions(stream_seq.into_iter().map(position).collect::<Result<_, Problem>>()?))
        }
    }
}
