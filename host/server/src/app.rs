//! What every handler shares.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use http::Method;
use tokio::sync::Semaphore;
use utoipa::openapi::OpenApi;
use waybill_core::port::configuration::ConfigurationService;
use waybill_core::port::idempotency::IdempotencyService;
use waybill_core::port::plugins::PluginService;
use waybill_core::port::saga::SagaService;
use waybill_core::port::service::OutboxService;

use crate::approval::ApprovalLinks;
use crate::auth::{Authenticator, Permission, Principal};
use crate::limits::Limits;
use crate::metrics::MetricsHandle;
use crate::openapi::operations;

/// Shared state; the router's state is an [`Arc`] of it.
pub(crate) struct Inner {
    /// The outbox.
    pub service: Arc<dyn OutboxService>,
    /// Sagas; none = the host runs none.
    pub sagas: Option<Arc<dyn SagaService>>,
    /// Links by which persons approve; none = no key is configured.
    pub approvals: Option<ApprovalLinks>,
    /// Idempotency keys.
    pub idempotency: Arc<dyn IdempotencyService>,
    /// Reads the configuration again; none = it can't.
    pub configuration: Option<Arc<dyn ConfigurationService>>,
    /// The plugins; none = the host has none to change.
    pub plugins: Option<Arc<dyn PluginService>>,
    /// Who may call; none = loopback only, no tokens.
    pub auth: Option<Arc<dyn Authenticator>>,
    /// Bounds.
    pub limits: Limits,
    /// Requests at work.
    pub requests: Arc<Semaphore>,
    /// Places of those among them that wait until a saga is at rest.
    pub waiters: Semaphore,
    /// KiB of large bodies held.
    pub bodies: Arc<Semaphore>,
    /// What each route needs.
    pub rules: Rules,
    /// `/openapi.json`.
    pub openapi: Bytes,
    /// Where metrics are recorded; none = `/metrics` shows the outbox's depths only.
    pub metrics: Option<MetricsHandle>,
    /// Version of the host.
    pub version: String,
    /// The server takes no new connections.
    pub draining: AtomicBool,
    /// The caller where no token is asked for.
    pub local: Arc<Principal>,
    /// The caller without a valid token at public routes.
    pub anonymous: Arc<Principal>,
}

/// The router's state.
pub(crate) type App = Arc<Inner>;

/// A route as the edge knows it.
pub(crate) struct Rule {
    /// Its path with placeholders, for metrics.
    pub template: Arc<str>,
    /// What each method needs.
    methods: Vec<(Method, Permission)>,
}

impl Rule {
    /// What a method needs; none = the route doesn't take it, or says nothing about it.
    pub fn needs(&self, method: &Method) -> Option<Permission> {
        let method = if method == Method::HEAD { &Method::GET } else { method };
        self.methods.iter().find(|(known, _)| known == method).map(|(_, permission)| *permission)
    }
}

/// Routes by path template.
pub(crate) struct Rules(HashMap<Arc<str>, Rule>);

impl Rules {
    /// Reads them from the OpenAPI document, so that what is documented is what is enforced.
    pub fn of(api: &OpenApi) -> Self {
        let mut rules: HashMap<Arc<str>, Rule> = HashMap::new();
        for operation in operations(api) {
            let template: Arc<str> = Arc::from(operation.path);
            let rule = rules.entry(template.clone()).or_insert_with(|| Rule { template, methods: Vec::new() });
            if let Some(permission) = operation.permission {
                rule.methods.push((operation.method, permission));
            }
        }
        Self(rules)
    }

    /// The rule of a template.
    pub fn get(&self, template: &str) -> Option<&Rule> {
        self.0.get(template)
    }
}
