//! gRPC over the whole router and over a real connection. The client knows the proto file and nothing of the host's messages.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use futures::StreamExt;
use http::Uri;
use http::uri::PathAndQuery;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use protox::prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, Value};
use tonic::client::{Grpc, GrpcService};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Code, Status, Streaming};
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use waybill_core::port::service::ServiceError;
use waybill_core::port::service::streams::{StreamError, SubscriptionEnd};
use waybill_core::streams::access::StreamRole;
use waybill_core::streams::reading::PageError;
use waybill_server::auth::{Role, TokenRecord};
use waybill_server::limits::{Limits, READINESS_KEPT};
use waybill_server::server::{Parts, Server};
use waybill_testkit::fake_streams::piece;

use crate::live::Live;
use crate::support::{Api, host, parts, token};

const SUBSCRIBE: &str = "waybill.events.v1.EventsService/SubscribeEvents";
const LIST: &str = "waybill.events.v1.EventsService/ListEvents";
const SUBSCRIBE_TASKS: &str = "waybill.events.v1.TaskService/SubscribeTaskEvents";
const HEALTH: &str = "grpc.health.v1.Health/Check";
const SERVING: Option<i32> = Some(1);
const NOT_SERVING: Option<i32> = Some(2);
/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

fn origin() -> Uri {
    Uri::from_static("http://localhost:7070")
}

/// Messages of the proto files, without code made of them.
struct Dynamic(MessageDescriptor);

struct Written;

impl Encoder for Written {
    type Item = DynamicMessage;
    type Error = Status;
    fn encode(&mut self, message: DynamicMessage, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        message.encode(out).map_err(|error| Status::internal(error.to_string()))
    }
}

impl Decoder for Dynamic {
    type Item = DynamicMessage;
    type Error = Status;
    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<DynamicMessage>, Status> {
        let message = DynamicMessage::decode(self.0.clone(), from);
        message.map(Some).map_err(|error| Status::internal(format!("not a {}: {error}", self.0.full_name())))
    }
}

impl Codec for Dynamic {
    type Encode = DynamicMessage;
    type Decode = DynamicMessage;
    type Encoder = Written;
    type Decoder = Dynamic;
    fn encoder(&mut self) -> Written {
        Written
    }
    fn decoder(&mut self) -> Dynamic {
        Dynamic(self.0.clone())
    }
}

fn pool() -> DescriptorPool {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../api/proto");
    let mut compiler = protox::Compiler::new([folder]).unwrap();
    let compiler = compiler.include_imports(true).open_file("waybill/events/v1/events.proto").unwrap();
    let mut pool = compiler.descriptor_pool();
    pool.decode_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET).unwrap();
    pool
}

/// Calls a method with a request as text.
async fn call<T>(service: T, bearer: &str, path: &str, text: &str) -> Result<Streaming<DynamicMessage>, Status>
where
    T: GrpcService<tonic::body::Body>,
    T::ResponseBody: Send + 'static,
    <T::ResponseBody as http_body::Body>::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (name, method) = path.split_once('/').unwrap();
    let service_of = pool().get_service_by_name(name).unwrap();
    let method = service_of.methods().find(|known| known.name() == method).unwrap();
    let message = DynamicMessage::parse_text_format(method.input(), text).unwrap();
    let mut request = tonic::Request::new(message);
    if !bearer.is_empty() {
        request.metadata_mut().insert("authorization", format!("Bearer {bearer}").parse().unwrap());
    }
    let mut client = Grpc::with_origin(service, origin());
    client.ready().await.map_err(|_| Status::unavailable("not ready"))?;
    let path: PathAndQuery = format!("/{path}").parse().unwrap();
    Ok(client.server_streaming(request, path, Dynamic(method.output())).await?.into_inner())
}

async fn ask(api: &Api, path: &str, text: &str) -> Result<Streaming<DynamicMessage>, Status> {
    call(api.router.clone(), "", path, text).await
}

/// How a call ends that answers nothing before.
async fn end(answers: Result<Streaming<DynamicMessage>, Status>) -> Status {
    match answers {
        Ok(mut answers) => answers.message().await.unwrap_err(),
        Err(status) => status,
    }
}

fn field(message: &DynamicMessage, name: &str) -> Value {
    message.get_field_by_name(name).unwrap().into_owned()
}

/// Stream, number and token of an event.
fn place(event: &DynamicMessage) -> (String, u64, String) {
    let text = |name| field(event, name).as_str().unwrap().to_owned();
    (text("stream"), field(event, "seq").as_u64().unwrap(), text("resume_token"))
}

/// Whether the details of a status name this code.
fn names(status: &Status, code: &str) -> bool {
    String::from_utf8_lossy(status.details()).contains(code)
}

fn at(stream: &str, seq: u64) -> (String, u64, String) {
    (stream.to_owned(), seq, seq.to_string())
}

#[tokio::test]
async fn events_come_as_they_are_stored_with_their_token_and_a_lagging_reader_is_told() {
    let api = Api::open().await;
    let mut answers = ask(&api, SUBSCRIBE, r#"selector{by_streams{names:"task" names:"hidden"}}"#).await.unwrap();
    let event = answers.message().await.unwrap().unwrap();
    assert_eq!(place(&event), at("task", 4));
    assert_eq!(field(&event, "resource_id").as_str(), Some("t-4"));
    assert_eq!(field(&event, "tenant").as_str(), Some("default"));
    assert_eq!(field(&event, "payload_bytes").as_bytes().unwrap().to_vec(), b"{\n}");
    assert_eq!(event.unknown_fields().count(), 0, "the file has every field");
    assert_eq!(place(&answers.message().await.unwrap().unwrap()), at("hidden", 5));
    let status = answers.message().await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::Aborted, "watch lagged; resync required"));
    assert!(names(&status, "EVENT.LAGGED"));
    assert!(answers.message().await.is_ok_and(|after| after.is_none()), "nothing comes after it");
}

#[tokio::test]
async fn selectors_cursors_and_tokens_are_passed_on() {
    let api = Api::open().await;
    for asked in [
        r#"selector{by_streams{names:"task"}} cursor{stream_seq{key:"task" value:3}}"#,
        r#"selector{by_stream_prefix:"t"} from_latest:true"#,
        r#"selector{by_node_uuid:"7f"} resume_token:"abc""#,
        r#"selector{by_resource_type{resource_type:"TASK" resource_id_prefix:"t-"}} tenant:"acme""#,
    ] {
        assert!(ask(&api, SUBSCRIBE, asked).await.is_ok(), "{asked}");
    }
    assert!(ask(&api, SUBSCRIBE_TASKS, r#"node_uuid:"7f" last_event_id:9"#).await.is_ok());
    assert!(ask(&api, SUBSCRIBE_TASKS, r#"node_uuid:"7f""#).await.is_ok());
    let calls = api.streams().calls();
    assert!(
        calls[0].contains("Streams([") && calls[0].contains("Positions({") && calls[0].contains("3})"),
        "{calls:?}"
    );
    assert_eq!(calls[1], r#"subscribe default Many(Prefix("t")) Latest"#);
    assert_eq!(calls[2], r#"subscribe default Many(Node("7f")) Cursor("abc")"#);
    assert!(calls[3].starts_with("subscribe acme") && calls[3].contains(r#"id_prefix: "t-""#), "{calls:?}");
    assert!(calls[4].contains("task.node.7f") && calls[4].ends_with("9})"), "{calls:?}");
    assert!(calls[5].contains("task.node.7f") && calls[5].ends_with("Earliest"), "{calls:?}");
}

#[tokio::test]
async fn unusable_requests_are_refused_and_reach_nothing() {
    let api = Api::open().await;
    let long = format!(r#"selector{{by_stream_prefix:"a"}} resume_token:"{}""#, "x".repeat(5_000));
    for asked in [
        "",
        "selector{}",
        "selector{by_streams{}}",
        r#"selector{by_streams{names:"a b"}}"#,
        r#"selector{by_streams{names:"a" names:"a"}}"#,
        r#"selector{by_node_uuid:""}"#,
        r#"selector{by_stream_prefix:"a"} cursor{stream_seq{key:"../a" value:1}}"#,
        &long,
    ] {
        assert_eq!(end(ask(&api, SUBSCRIBE, asked).await).await.code(), Code::InvalidArgument, "{asked}");
    }
    assert_eq!(end(ask(&api, SUBSCRIBE_TASKS, r#"node_uuid:"a b""#).await).await.code(), Code::InvalidArgument);
    assert!(api.streams().calls().is_empty());
    let foreign = end(ask(&api, SUBSCRIBE, r#"selector{by_stream_prefix:"a"} resume_token:"elsewhere""#).await).await;
    assert!(foreign.code() == Code::InvalidArgument && names(&foreign, "EVENT.CURSOR"), "{foreign:?}");
}

#[tokio::test]
async fn a_large_request_needs_room_as_any_other_does_and_names_no_more_streams_than_are_read() {
    let api = Api::with(None, Limits { bodies_bytes_max: 64 * 1024, ..Limits::default() }).await;
    let name_of = |bytes: usize| format!(r#"selector{{by_streams{{names:"{}"}}}}"#, "x".repeat(bytes));
    let positions = |count: usize| {
        let all: String = (0..count).map(|at| format!(r#"stream_seq{{key:"s{at}" value:1}} "#)).collect();
        format!(r#"selector{{by_streams{{names:"s1"}}}} cursor{{{all}}}"#)
    };
    for (asked, code, word) in [
        (name_of(300), Code::InvalidArgument, "SCHEMA.VALIDATION_FAILED"),
        (name_of(200_000), Code::ResourceExhausted, "OUTBOX.BUSY"),
        (name_of(1024 * 1024), Code::InvalidArgument, "HTTP.TOO_LARGE"),
        (positions(1_001), Code::InvalidArgument, "cursor names 1001 streams"),
    ] {
        let status = end(ask(&api, SUBSCRIBE, &asked).await).await;
        assert!(status.code() == code && names(&status, word), "{word}: {status:?}");
    }
    assert!(api.streams().calls().is_empty());
    assert!(ask(&api, SUBSCRIBE, &positions(1_000)).await.is_ok());
}

#[tokio::test]
async fn every_end_has_its_status() {
    let expired = StreamError::from(PageError::Expired { after: 1, first: 3, last: 5 });
    for (end_of_it, code, word) in [
        (SubscriptionEnd::Failed(expired.into()), Code::OutOfRange, "EVENT.CURSOR_EXPIRED"),
        (SubscriptionEnd::Stalled(Duration::from_secs(30)), Code::Aborted, "EVENT.STALLED"),
        (
            SubscriptionEnd::Failed(ServiceError::Unavailable("it drains".into())),
            Code::Unavailable,
            "PROVIDER.UNAVAILABLE",
        ),
    ] {
        let api = Api::open().await;
        api.streams().plays([Err(end_of_it)]);
        let status = end(ask(&api, SUBSCRIBE, r#"selector{by_stream_prefix:""}"#).await).await;
        assert!(status.code() == code && names(&status, word), "{status:?}");
        assert!(code != Code::OutOfRange || names(&status, "first_seq"), "{status:?}");
    }
}

#[tokio::test]
async fn a_stream_is_listed_page_by_page_and_outside_of_it_is_out_of_range() {
    let api = Api::open().await;
    let mut answers = ask(&api, LIST, r#"stream:"task" after_seq:3 limit:1"#).await.unwrap();
    let page = answers.message().await.unwrap().unwrap();
    assert!(answers.message().await.unwrap().is_none());
    let Value::List(events) = field(&page, "events") else { panic!("{page:?}") };
    let seqs: Vec<_> = events.iter().map(|event| place(event.as_message().unwrap())).collect();
    assert_eq!(seqs, [("task".to_owned(), 4, String::new())]);
    assert_eq!((field(&page, "first_seq").as_u64(), field(&page, "last_seq").as_u64()), (Some(3), Some(5)));
    let next = |page: &DynamicMessage| {
        (field(page, "resume_token").as_str().unwrap().to_owned(), field(page, "end").as_bool().unwrap())
    };
    // A delete was dropped behind it, so its number alone wouldn't do.
    assert_eq!(next(&page), ("4~5".to_owned(), false));
    let mut answers = ask(&api, LIST, r#"stream:"task" resume_token:"4~5" limit:9"#).await.unwrap();
    assert_eq!(next(&answers.message().await.unwrap().unwrap()), ("5".to_owned(), true));
    assert!(ask(&api, LIST, r#"stream:"task" tenant:"acme""#).await.is_ok());
    assert_eq!(
        api.streams().calls(),
        [
            r#"read_stream default/task Some("3") 1"#,
            r#"read_stream default/task Some("4~5") 9"#,
            "read_stream acme/task None 0"
        ]
    );
    let long = format!(r#"stream:"task" resume_token:"{}""#, "1".repeat(5_000));
    for (asked, code, word) in [
        (r#"stream:"task" resume_token:"""#, Code::InvalidArgument, "SCHEMA.VALIDATION_FAILED"),
        (long.as_str(), Code::InvalidArgument, "SCHEMA.VALIDATION_FAILED"),
        (r#"stream:"task" resume_token:"x""#, Code::InvalidArgument, "EVENT.CURSOR"),
        (r#"stream:"task" after_seq:0"#, Code::OutOfRange, "EVENT.CURSOR_EXPIRED"),
        (r#"stream:"task" after_seq:9"#, Code::OutOfRange, "EVENT.CURSOR_AHEAD"),
        (r#"stream:"gone""#, Code::NotFound, "gone"),
        (r#"stream:"a b""#, Code::InvalidArgument, "SCHEMA.VALIDATION_FAILED"),
    ] {
        let status = end(ask(&api, LIST, asked).await).await;
        assert!(status.code() == code && names(&status, word), "{asked}: {status:?}");
    }
}

/// A credential that may read the stream `task`.
fn reader() -> TokenRecord {
    TokenRecord { streams: vec![StreamRole::parse("read:task").unwrap().unwrap()], ..token("reader", &["acme"], &[]) }
}

#[tokio::test]
async fn a_call_needs_a_token_with_the_right_to_what_it_names() {
    let api = Api::with(Some(vec![reader()]), Limits::default()).await;
    let named = r#"selector{by_streams{names:"hidden"}}"#;
    for (bearer, path, asked, code, word) in [
        ("", SUBSCRIBE, named, Code::Unauthenticated, "AUTH.REQUIRED"),
        ("wrong", LIST, r#"stream:"task""#, Code::Unauthenticated, "AUTH.REQUIRED"),
        ("reader", SUBSCRIBE, named, Code::PermissionDenied, "AUTH.STREAM"),
        ("reader", LIST, r#"stream:"hidden""#, Code::PermissionDenied, "AUTH.STREAM"),
        ("reader", SUBSCRIBE_TASKS, r#"node_uuid:"7f""#, Code::PermissionDenied, "AUTH.STREAM"),
        ("reader", SUBSCRIBE, r#"selector{by_stream_prefix:""} tenant:"b""#, Code::PermissionDenied, "AUTH.TENANT"),
    ] {
        let status = end(call(api.router.clone(), bearer, path, asked).await).await;
        assert!(status.code() == code && names(&status, word), "{bearer} {path} {asked}: {status:?}");
    }
    assert!(api.streams().calls().is_empty());
    let all = r#"selector{by_stream_prefix:""}"#;
    let mut answers = call(api.router.clone(), "reader", SUBSCRIBE, all).await.unwrap();
    assert_eq!(place(&answers.message().await.unwrap().unwrap()), at("task", 4));
    // What may not be read is left out.
    assert_eq!(answers.message().await.unwrap_err().code(), Code::Aborted);
}

#[tokio::test]
async fn subscriptions_take_no_place_of_requests_and_have_a_bound_of_their_own() {
    let limits = Limits { requests_max: 1, connections_max: 8, ..Limits::default() };
    let api = Api::with(Some(vec![token("a", &["acme"], &[Role::Viewer])]), limits).await;
    *api.streams().waits.lock() = true;
    let subscribe = || call(api.router.clone(), "a", SUBSCRIBE, r#"selector{by_stream_prefix:""}"#);
    let mut held = Vec::new();
    // Six for all, of which a tenant has half.
    for _ in 0..3 {
        held.push(subscribe().await.unwrap());
    }
    let status = end(subscribe().await).await;
    assert!(status.code() == Code::ResourceExhausted && names(&status, "HTTP.SHARE"), "{status:?}");
    assert!(call(api.router.clone(), "a", LIST, r#"stream:"task""#).await.is_ok());
    held.pop();
    held.push(subscribe().await.unwrap());
}

fn asks_for_services() -> ServerReflectionRequest {
    let message_request = Some(MessageRequest::ListServices(String::new()));
    ServerReflectionRequest { message_request, ..Default::default() }
}

async fn reflected(router: Router, bearer: &str) -> Result<Vec<String>, Status> {
    let mut request = tonic::Request::new(futures::stream::iter([asks_for_services()]));
    if !bearer.is_empty() {
        request.metadata_mut().insert("authorization", format!("Bearer {bearer}").parse().unwrap());
    }
    let mut client = ServerReflectionClient::with_origin(router, origin());
    let mut answers = client.server_reflection_info(request).await?.into_inner();
    let answer = answers.message().await?.unwrap();
    let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else { panic!("{answer:?}") };
    Ok(list.service.into_iter().map(|service| service.name).collect())
}

#[tokio::test]
async fn reflection_tells_who_has_a_token_what_there_is() {
    let api = Api::with(Some(vec![reader()]), Limits::default()).await;
    assert_eq!(reflected(api.router.clone(), "").await.unwrap_err().code(), Code::Unauthenticated);
    let services = reflected(api.router.clone(), "reader").await.unwrap();
    for service in ["waybill.events.v1.EventsService", "waybill.events.v1.TaskService", "grpc.health.v1.Health"] {
        assert!(services.iter().any(|known| known == service), "{services:?}");
    }
}

/// The services that a check may name.
const SERVICES: [&str; 3] = ["", "waybill.events.v1.EventsService", "waybill.events.v1.TaskService"];

/// The status that is told of each of [`SERVICES`].
async fn health(router: &Router) -> [Option<i32>; 3] {
    let mut all = [None; 3];
    for (service, status) in SERVICES.iter().zip(&mut all) {
        let mut answers = call(router.clone(), "", HEALTH, &format!("service:{service:?}")).await.unwrap();
        *status = field(&answers.message().await.unwrap().unwrap(), "status").as_enum_number();
    }
    all
}

#[tokio::test]
async fn health_is_told_to_everybody() {
    let api = Api::with(Some(vec![reader()]), Limits::default()).await;
    assert_eq!(health(&api.router).await, [SERVING; 3]);
    assert_eq!(end(ask(&api, HEALTH, r#"service:"a""#).await).await.code(), Code::NotFound);
    let watched = ask(&api, "grpc.health.v1.Health/Watch", "").await;
    assert_eq!(end(watched).await.code(), Code::Unimplemented);
}

#[tokio::test(start_paused = true)]
async fn a_host_that_is_not_ready_does_not_serve_until_it_is() {
    let api = Api::open().await;
    for reason in [&api.hindrance.unready, &api.hindrance.stuck] {
        for (holds, status) in [(true, NOT_SERVING), (false, SERVING)] {
            reason.store(holds, Ordering::Relaxed);
            // What was heard before isn't told again.
            tokio::time::advance(READINESS_KEPT).await;
            assert_eq!(health(&api.router).await, [status; 3]);
        }
    }
}

#[tokio::test]
async fn a_host_without_streams_serves_none_and_one_that_goes_away_serves_nothing() {
    let host = host().await;
    let parts = parts(&host, &Arc::default(), None, Limits::default());
    let router = Server::new(Parts { streams: None, ..parts }).router();
    assert_eq!(health(&router).await, [SERVING, NOT_SERVING, NOT_SERVING]);

    let mut live = Live::start(Limits::default(), PATIENCE).await;
    assert_eq!(health(&live.router).await, [SERVING; 3]);
    live.stop();
    let goes_away = async {
        while health(&live.router).await != [NOT_SERVING; 3] {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, goes_away).await.unwrap();
}

/// It is open to everybody, so it waits for nobody.
#[tokio::test]
async fn a_check_whose_body_does_not_come_is_given_up() {
    let limits = Limits { request_timeout: Duration::from_secs(3_600), ..Limits::default() };
    let api = Api::with(Some(vec![reader()]), limits).await;
    for method in ["Check", "Watch"] {
        let body = axum::body::Body::from_stream(futures::stream::pending::<Result<bytes::Bytes, std::io::Error>>());
        let request = http::Request::post(format!("/grpc.health.v1.Health/{method}"))
            .header("host", "localhost:7070")
            .header("content-type", "application/grpc")
            .body(body)
            .unwrap();
        let answer = tokio::time::timeout(PATIENCE, api.send(request)).await.unwrap();
        assert_eq!(answer.header("grpc-status"), "4", "{method}: DEADLINE_EXCEEDED");
        assert!(answer.header("grpc-message").contains("900"), "after the time of a probe: {answer:?}");
    }
}

/// A connection, for calls through it.
async fn connected(
    live: &Live,
) -> impl tower::Service<http::Request<tonic::body::Body>, Response = http::Response<Incoming>, Error = hyper::Error>
+ Clone
+ use<> {
    let io = TokioIo::new(live.connect().await);
    let (sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    tower::service_fn(move |request: http::Request<tonic::body::Body>| {
        let mut sender = sender.clone();
        async move { sender.send_request(request).await }
    })
}

#[tokio::test]
async fn a_subscription_goes_on_over_a_connection_until_the_host_goes_away() {
    let mut live = Live::start(Limits::default(), Duration::from_secs(600)).await;
    let streams = Arc::clone(&live.hindrance.streams);
    *streams.waits.lock() = true;
    streams.plays([Ok(vec![piece("default", "task", 4)]), Ok(vec![piece("default", "task", 5)])]);
    let service = connected(&live).await;
    let mut answers = call(service, "", SUBSCRIBE, r#"selector{by_streams{names:"task"}}"#).await.unwrap();
    for seq in [4, 5] {
        assert_eq!(place(&answers.message().await.unwrap().unwrap()), at("task", seq));
    }
    live.stop();
    let status = answers.message().await.unwrap_err();
    assert!(status.code() == Code::Unavailable && names(&status, "PROVIDER.UNAVAILABLE"), "{status:?}");
    drop(answers);
    // The time to drain is long, so this ends only if nothing goes on.
    tokio::time::timeout(PATIENCE, live.ended()).await.unwrap();
}

#[tokio::test]
async fn a_call_of_reflection_that_is_left_open_does_not_hold_up_the_end_of_the_host() {
    let mut live = Live::start(Limits::default(), Duration::from_secs(600)).await;
    let mut client = ServerReflectionClient::with_origin(connected(&live).await, origin());
    let asked = futures::stream::iter([asks_for_services()]).chain(futures::stream::pending());
    let mut answers = client.server_reflection_info(asked).await.unwrap().into_inner();
    assert!(answers.message().await.unwrap().is_some());
    live.stop();
    let status = answers.message().await.unwrap_err();
    assert!(status.code() == Code::Unavailable && names(&status, "PROVIDER.UNAVAILABLE"), "{status:?}");
    drop((answers, client));
    tokio::time::timeout(PATIENCE, live.ended()).await.unwrap();
}

#[tokio::test]
async fn a_subscription_that_is_cut_off_ends_and_its_connection_goes_on() {
    let live = Live::start(Limits::default(), Duration::from_secs(600)).await;
    let streams = Arc::clone(&live.hindrance.streams);
    *streams.waits.lock() = true;
    let service = connected(&live).await;
    let selector = r#"selector{by_streams{names:"task" names:"hidden"}}"#;
    let mut answers = call(service.clone(), "", SUBSCRIBE, selector).await.unwrap();
    for seq in [4, 5] {
        assert_eq!(place(&answers.message().await.unwrap().unwrap()).1, seq);
    }
    streams.cut.notify_one();
    let ended = tokio::time::timeout(PATIENCE, answers.message()).await.unwrap();
    assert!(ended.is_err(), "{ended:?}");
    assert!(call(service, "", LIST, r#"stream:"task""#).await.is_ok());
}
