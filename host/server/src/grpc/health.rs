//! `grpc.health.v1.Health`: what `/readyz` says, for who asks by gRPC. It is open to everybody, so it answers and keeps nothing open.

use std::sync::Arc;

use axum::Router;
use axum::extract;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::IntoResponse;
use futures::stream::Empty;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use waybill_api::status::CheckStatus;
use waybill_core::code::Code;

use super::{HEALTH_CHECK, HEALTH_WATCH};
use crate::app::App;
use crate::body;
use crate::limits::{PROBE_TIMEOUT, SMALL_PROBE_BYTES};
use crate::problem::Problem;

/// Services that a check may name; the empty name is the host.
const SERVICES: [&str; 3] = ["", "waybill.events.v1.EventsService", "waybill.events.v1.TaskService"];

/// Answers checks of this host.
pub(super) fn routes(app: &App) -> Router<App> {
    let health = HealthServer::new(Checks(Arc::clone(app))).max_decoding_message_size(SMALL_PROBE_BYTES);
    Router::new()
        .route_service(HEALTH_CHECK, health.clone())
        .route_service(HEALTH_WATCH, health)
        .layer(from_fn_with_state(Arc::clone(app), prompt))
}

/// What is asked comes with its head, or soon: a stranger's connection gives way to others only while nothing is done on it.
async fn prompt(
    extract::State(app): extract::State<App>,
    request: extract::Request,
    next: Next,
) -> axum::response::Response {
    match tokio::time::timeout(PROBE_TIMEOUT, body::whole(&app, request, SMALL_PROBE_BYTES)).await {
        Ok(Ok((request, _))) => next.run(request).await,
        Ok(Err(problem)) => problem.into_response(),
        Err(_) => {
            let detail =
                format!("the body wasn't complete after {} ms: send it with its head", PROBE_TIMEOUT.as_millis());
            Problem::new(Code::HTTP_SLOW_BODY, detail).into_response()
        }
    }
}

struct Checks(App);

#[tonic::async_trait]
impl Health for Checks {
    async fn check(&self, asked: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        let app = &self.0;
        let service = asked.get_ref().service.as_str();
        if !SERVICES.contains(&service) {
            return Err(Status::not_found(format!("there is no service {service:?} here")));
        }
        let checks = tokio::time::timeout(PROBE_TIMEOUT, app.readiness.checks(app.service.as_ref())).await;
        let is_ready = checks.is_ok_and(|checks| checks.iter().all(|check| check.status != CheckStatus::Fail));
        let is_served = service.is_empty() || app.streams.is_some();
        let status = match is_ready && is_served && !*app.draining.borrow() {
            true => ServingStatus::Serving,
            false => ServingStatus::NotServing,
        };
        Ok(Response::new(HealthCheckResponse { status: status.into() }))
    }

    type WatchStream = Empty<Result<HealthCheckResponse, Status>>;

    async fn watch(&self, _: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented("health is told when it is asked for: call Check"))
    }
}
