//! An OpenTelemetry collector that keeps what it gets, decoded: over HTTP and over gRPC, on one port. Beside that it is a receiver of messages
//! that remembers the trace context of each.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::routing::post;
use bytes::Bytes;
use flate2::read::GzDecoder;
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_server::{LogsService, LogsServiceServer};
use opentelemetry_proto::tonic::collector::logs::v1::{ExportLogsServiceRequest, ExportLogsServiceResponse};
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsServiceRequest, ExportMetricsServiceResponse};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::trace::v1::Span;
use parking_lot::Mutex;
use prost::Message;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tonic::codec::CompressionEncoding;
use tonic::{Request, Response, Status};

/// How often what was asked for is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Status code of a span that failed.
const FAILED: i32 = 2;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExportedSpan {
    pub name: String,
    /// As numbered in OTLP: 1 internal, 2 server, 3 client, 4 producer, 5 consumer.
    pub kind: i32,
    /// Ids in lower-case hex; empty = none.
    pub trace: String,
    pub id: String,
    pub parent: String,
    /// Ids of the traces that it is linked with.
    pub links: Vec<String>,
    pub attributes: BTreeMap<String, String>,
    pub failed: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExportedLog {
    pub text: String,
    /// Id of its trace in lower-case hex; empty = none.
    pub trace: String,
    pub attributes: BTreeMap<String, String>,
}

/// The latest value of one series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExportedPoint {
    pub name: String,
    pub unit: String,
    pub attributes: BTreeMap<String, String>,
    /// Of a histogram: how many values it has.
    pub value: f64,
    /// Upper bounds of a histogram.
    pub bounds: Vec<f64>,
}

/// All that came.
#[derive(Clone, Debug, Default)]
pub struct Exported {
    pub spans: Vec<ExportedSpan>,
    pub logs: Vec<ExportedLog>,
    pub points: Vec<ExportedPoint>,
    /// Attributes of the resource of the latest spans.
    pub resource: BTreeMap<String, String>,
    /// Headers of the latest export over HTTP, with names in lower case.
    pub headers: BTreeMap<String, String>,
    /// `traceparent` of each message that was received, with its path.
    pub received: Vec<(String, String)>,
}

impl Exported {
    /// The first span of this name.
    pub fn span(&self, name: &str) -> Option<&ExportedSpan> {
        self.spans.iter().find(|span| span.name == name)
    }

    /// Value of the latest point of this name.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.points.iter().rev().find(|point| point.name == name).map(|point| point.value)
    }
}

/// A running collector. Dropped, it answers nobody any more.
pub struct Collector {
    address: SocketAddr,
    kept: Kept,
    accepting: JoinHandle<()>,
}

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Exported>>);

impl Drop for Collector {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Collector {
    pub async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let (address, kept) = (listener.local_addr()?, Kept::default());
        let gzip = CompressionEncoding::Gzip;
        let routes = Router::new()
            .route("/v1/{signal}", post(export))
            .route("/receive/{answer}", post(receive))
            .with_state(kept.clone())
            .route_service(
                "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
                TraceServiceServer::new(kept.clone()).accept_compressed(gzip),
            )
            .route_service(
                "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
                MetricsServiceServer::new(kept.clone()).accept_compressed(gzip),
            )
            .route_service(
                "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
                LogsServiceServer::new(kept.clone()).accept_compressed(gzip),
            );
        let accepting = tokio::spawn(async move {
            let _ended = axum::serve(listener, routes).await;
        });
        Ok(Self { address, kept, accepting })
    }

    /// Address for exports.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A topic of messages that are answered with this status.
    pub fn topic(&self, status: u16) -> String {
        format!("http://{}/receive/{status}", self.address)
    }

    /// All that came so far.
    pub fn exported(&self) -> Exported {
        self.kept.0.lock().clone()
    }

    /// What came, as soon as all is there that is looked for; what came instead if it doesn't come `within` that time.
    ///
    /// # Errors
    /// It didn't come.
    pub async fn until(
        &self,
        within: Duration,
        is_there: impl Fn(&Exported) -> bool,
    ) -> Result<Exported, Box<Exported>> {
        let looking = async {
            loop {
                let exported = self.exported();
                if is_there(&exported) {
                    return exported;
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        tokio::time::timeout(within, looking).await.map_err(|_| Box::new(self.exported()))
    }
}

async fn receive(State(kept): State<Kept>, Path(answer): Path<u16>, headers: HeaderMap) -> StatusCode {
    let context = headers.get("traceparent").and_then(|value| value.to_str().ok()).unwrap_or_default();
    kept.0.lock().received.push((format!("/receive/{answer}"), context.to_owned()));
    StatusCode::from_u16(answer).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

async fn export(
    State(kept): State<Kept>,
    Path(signal): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Vec<u8>, StatusCode> {
    let is_packed = headers.get(header::CONTENT_ENCODING).is_some_and(|value| value == "gzip");
    let body = if is_packed { unpacked(&body).map_err(|_| StatusCode::BAD_REQUEST)? } else { body };
    let text = |value: &axum::http::HeaderValue| value.to_str().unwrap_or_default().to_owned();
    kept.0.lock().headers = headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    let bad = |_| StatusCode::BAD_REQUEST;
    match signal.as_str() {
        "traces" => {
            kept.take_spans(ExportTraceServiceRequest::decode(body).map_err(bad)?);
            Ok(ExportTraceServiceResponse::default().encode_to_vec())
        }
        "metrics" => {
            kept.take_points(ExportMetricsServiceRequest::decode(body).map_err(bad)?);
            Ok(ExportMetricsServiceResponse::default().encode_to_vec())
        }
        "logs" => {
            kept.take_logs(ExportLogsServiceRequest::decode(body).map_err(bad)?);
            Ok(ExportLogsServiceResponse::default().encode_to_vec())
        }
        _ => Err(StatusCode::NOT_FOUND),
    }
}

fn unpacked(body: &[u8]) -> io::Result<Bytes> {
    let mut bytes = Vec::new();
    GzDecoder::new(body).read_to_end(&mut bytes)?;
    Ok(Bytes::from(bytes))
}

#[async_trait]
impl TraceService for Kept {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.take_spans(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[async_trait]
impl MetricsService for Kept {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        self.take_points(request.into_inner());
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}

#[async_trait]
impl LogsService for Kept {
    async fn export(
        &self,
        request: Request<ExportLogsServiceRequest>,
    ) -> Result<Response<ExportLogsServiceResponse>, Status> {
        self.take_logs(request.into_inner());
        Ok(Response::new(ExportLogsServiceResponse::default()))
    }
}

impl Kept {
    fn take_spans(&self, request: ExportTraceServiceRequest) {
        let mut kept = self.0.lock();
        for of_resource in request.resource_spans {
            kept.resource = of_resource.resource.map(|resource| attributes(&resource.attributes)).unwrap_or_default();
            let spans = of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
            kept.spans.extend(spans.map(span));
        }
    }

    fn take_logs(&self, request: ExportLogsServiceRequest) {
        let scopes = request.resource_logs.into_iter().flat_map(|resource| resource.scope_logs);
        let records = scopes.flat_map(|scope| scope.log_records);
        self.0.lock().logs.extend(records.map(|record| ExportedLog {
            text: record.body.as_ref().map(text).unwrap_or_default(),
            trace: hex(&record.trace_id),
            attributes: attributes(&record.attributes),
        }));
    }

    fn take_points(&self, request: ExportMetricsServiceRequest) {
        let scopes = request.resource_metrics.into_iter().flat_map(|resource| resource.scope_metrics);
        let mut kept = self.0.lock();
        for metric in scopes.flat_map(|scope| scope.metrics) {
            let point = |labels: &[KeyValue], value: f64, bounds: &[f64]| ExportedPoint {
                name: metric.name.clone(),
                unit: metric.unit.clone(),
                attributes: attributes(labels),
                value,
                bounds: bounds.to_vec(),
            };
            let number = |value: Option<&Number>| match value {
                Some(Number::AsDouble(number)) => *number,
                Some(Number::AsInt(number)) => *number as f64,
                None => 0.0,
            };
            let points: Vec<ExportedPoint> = match &metric.data {
                Some(Data::Sum(sum)) => {
                    sum.data_points.iter().map(|of| point(&of.attributes, number(of.value.as_ref()), &[])).collect()
                }
                Some(Data::Gauge(gauge)) => {
                    gauge.data_points.iter().map(|of| point(&of.attributes, number(of.value.as_ref()), &[])).collect()
                }
                Some(Data::Histogram(histogram)) => histogram
                    .data_points
                    .iter()
                    .map(|of| point(&of.attributes, of.count as f64, &of.explicit_bounds))
                    .collect(),
                _ => Vec::new(),
            };
            kept.points.extend(points);
        }
    }
}

fn span(span: Span) -> ExportedSpan {
    ExportedSpan {
        name: span.name,
        kind: span.kind,
        trace: hex(&span.trace_id),
        id: hex(&span.span_id),
        parent: hex(&span.parent_span_id),
        links: span.links.iter().map(|link| hex(&link.trace_id)).collect(),
        attributes: attributes(&span.attributes),
        failed: span.status.is_some_and(|status| status.code == FAILED),
    }
}

fn attributes(pairs: &[KeyValue]) -> BTreeMap<String, String> {
    pairs.iter().map(|pair| (pair.key.clone(), pair.value.as_ref().map(text).unwrap_or_default())).collect()
}

fn text(value: &AnyValue) -> String {
    match &value.value {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::DoubleValue(number)) => number.to_string(),
        Some(Value::BoolValue(flag)) => flag.to_string(),
        other => format!("{other:?}"),
    }
}

/// An id in hex; nothing of one that is all zeros, which stands for none.
fn hex(id: &[u8]) -> String {
    if id.iter().all(|byte| *byte == 0) {
        return String::new();
    }
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}
