//! What every handler shares.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use tokio::sync::watch;
use utoipa::openapi::OpenApi;
use waybill_api::configuration::ConfigurationService;
use waybill_api::idempotency::IdempotencyService;
use waybill_api::plugins::PluginService;
use waybill_api::sagas::SagaService;
use waybill_api::{InboundService, OutboxService};
use waybill_core::port::backup::BackupStore;
use waybill_core::port::service::streams::StreamService;
use waybill_core::port::trace::Tracer;

use crate::approval::ApprovalLinks;
use crate::auth::{Permission, Principal, Tokens};
use crate::grpc;
use crate::limits::Limits;
use crate::metrics::{MetricsHandle, RouteSeries};
use crate::openapi::operations;
use crate::places::Places;
use crate::readiness::Readiness;
use crate::refusals::Refusals;
use crate::subscribe::tickets::Tickets;
use crate::tls::Encryption;
use crate::tokens::StoredTokens;
use crate::ui::{self, Ui};

/// Shared state; the router's state is an [`Arc`] of it.
pub(crate) struct Inner {
    pub service: Arc<dyn OutboxService>,
    /// Sagas; none = the host runs none.
    pub sagas: Option<Arc<dyn SagaService>>,
    /// Links by which persons approve; none = no key is configured.
    pub approvals: Option<ApprovalLinks>,
    pub idempotency: Arc<dyn IdempotencyService>,
    /// The inbox and its sources; none = no source is configured.
    pub inbound: Option<Arc<dyn InboundService>>,
    /// Event streams; none = the host keeps none.
    pub streams: Option<Arc<dyn StreamService>>,
    /// Reads the configuration again; none = it can't.
    pub configuration: Option<Arc<dyn ConfigurationService>>,
    /// The plugins; none = the host has none to change.
    pub plugins: Option<Arc<dyn PluginService>>,
    /// What is backed up; none = this host can't be.
    pub backup: Option<Arc<dyn BackupStore>>,
    /// Who may call; none = nobody is asked for a token, on loopback only.
    pub auth: Option<Tokens>,
    /// Tokens that are made and revoked while the host runs; none = it keeps none.
    pub tokens: Option<StoredTokens>,
    pub limits: Limits,
    /// Origins whose pages may subscribe.
    pub cors_origins: Vec<String>,
    /// How what is said is kept from others on the way.
    pub encryption: Encryption,
    pub requests: Places,
    /// Those among them that wait until a saga is at rest or a message can be claimed.
    pub waiters: Places,
    /// Claims that found no place there and wait briefly instead.
    pub pausers: Places,
    /// Transactions whose statements run.
    pub transactions: Places,
    /// KiB of large bodies held.
    pub bodies: Places,
    /// KiB of large answers that aren't taken yet.
    pub answers: Places,
    /// Subscriptions that are open.
    pub subscriptions: Places,
    /// What opens subscriptions to browsers.
    pub tickets: Tickets,
    /// The page at `/ui`; none = there is none.
    pub ui: Option<Ui>,
    /// What each route needs.
    pub rules: Rules,
    /// Answer of `/openapi.json`.
    pub openapi: Bytes,
    /// Where metrics are recorded; none = `/metrics` shows the outbox's depths only.
    pub metrics: Option<MetricsHandle>,
    /// Makes spans; none = there are none.
    pub tracer: Option<Arc<dyn Tracer>>,
    /// Version of the host.
    pub version: String,
    /// What `/readyz` told last.
    pub readiness: Readiness,
    /// Callers that were turned away.
    pub refusals: Refusals,
    /// The server takes no new connections: what would go on for ever ends now.
    pub draining: watch::Sender<bool>,
    /// The caller where no token is asked for.
    pub local: Arc<Principal>,
    /// The caller without a valid token at public routes.
    pub anonymous: Arc<Principal>,
}

pub(crate) type App = Arc<Inner>;

/// A route as the edge knows it.
pub(crate) struct Rule {
    /// Its path with placeholders, for metrics.
    pub template: Arc<str>,
    /// The methods that are documented, each with what it needs; none = it doesn't say.
    methods: Vec<(Method, Option<Permission>)>,
    pub series: RouteSeries,
    /// A call of gRPC, which is told in its words what goes wrong.
    pub is_grpc: bool,
}

/// What is known of a request by its route and method.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// There is no such route: the router says so.
    NoRoute,
    /// The route doesn't take the method.
    NoMethod {
        /// Those it takes, as in an `allow` header.
        allow: String,
    },
    /// It may be called by whoever has this.
    Needs(Permission),
    /// Nothing says who may call it, so nobody may.
    Closed,
}

/// Routes by path template.
pub(crate) struct Rules {
    documented: HashMap<Arc<str>, Rule>,
    /// Of what no documented route matches, for metrics.
    unmatched: Rule,
}

impl Rules {
    /// Reads them from the OpenAPI document, so that what is documented is what is enforced; calls of gRPC have a table beside it, and so
    /// has the page, where there is one.
    pub fn of(api: &OpenApi, has_page: bool) -> Self {
        let mut rules: HashMap<Arc<str>, Rule> = HashMap::new();
        for operation in operations(api) {
            let template: Arc<str> = Arc::from(operation.path);
            let rule = rules.entry(template.clone()).or_insert_with(|| Rule::new(template));
            rule.methods.push((operation.method, operation.permission));
        }
        rules.extend(grpc::CALLS.map(|(path, permission)| {
            let template: Arc<str> = Arc::from(path);
            let methods = vec![(Method::POST, Some(permission))];
            (template.clone(), Rule { methods, is_grpc: true, ..Rule::new(template) })
        }));
        for (path, method) in ui::ROUTES.into_iter().filter(|_| has_page) {
            let template: Arc<str> = Arc::from(path);
            let rule = rules.entry(template.clone()).or_insert_with(|| Rule::new(template));
            rule.methods.push((method, Some(Permission::Public)));
        }
        Self { documented: rules, unmatched: Rule::new(Arc::from("unmatched")) }
    }

    /// The rule of a request whose route has this template; none = no route matched.
    pub fn of_route(&self, matched: Option<&str>) -> &Rule {
        matched.and_then(|template| self.documented.get(template)).unwrap_or(&self.unmatched)
    }

    /// What a request needs whose route has this template; none = no route matched. A route that isn't documented is closed,
    /// and so is a method without a permission; one that isn't documented doesn't exist.
    pub fn entry(&self, matched: Option<&str>, method: &Method) -> Entry {
        let Some(template) = matched else { return Entry::NoRoute };
        let Some(rule) = self.documented.get(template) else { return Entry::Closed };
        let asked = if method == Method::HEAD { &Method::GET } else { method };
        match rule.methods.iter().find(|(known, _)| known == asked) {
            Some((_, Some(permission))) => Entry::Needs(*permission),
            Some((_, None)) => Entry::Closed,
            None => Entry::NoMethod { allow: rule.allow() },
        }
    }
}

impl Rule {
    fn new(template: Arc<str>) -> Self {
        Self { template, methods: Vec::new(), series: RouteSeries::default(), is_grpc: false }
    }

    fn allow(&self) -> String {
        let names = self.methods.iter().map(|(method, _)| match *method {
            Method::GET => "GET,HEAD",
            ref other => other.as_str(),
        });
        names.collect::<Vec<_>>().join(",")
    }
}
