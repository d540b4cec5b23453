//! `grpc.health.v1.Health`: what `/readyz` says, for who asks by gRPC. It is open to everybody, so it answers and keeps nothing open.

use std::sync::Arc;

use futures::stream::Empty;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use waybill_api::status::CheckStatus;

use crate::app::App;
use crate::limits::{PROBE_TIMEOUT, SMALL_PROBE_BYTES};

/// Services that a check may name; the empty name is the host.
const SERVICES: [&str; 3] = ["", "waybill.events.v1.EventsService", "waybill.events.v1.TaskService"];

/// Answers checks of this host.
pub(super) fn service(app: &App) -> HealthServer<Checks> {
    HealthServer::new(Checks(Arc::clone(app))).max_decoding_message_size(SMALL_PROBE_BYTES)
}

pub(super) struct Checks(App);

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
