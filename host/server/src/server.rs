//! What a composition root builds and runs.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use bytes::Bytes;
use http::StatusCode;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tower_http::catch_panic::CatchPanicLayer;
use waybill_api::configuration::ConfigurationService;
use waybill_api::idempotency::IdempotencyService;
use waybill_api::plugins::PluginService;
use waybill_api::sagas::SagaService;
use waybill_api::{InboundService, OutboxService};
use waybill_core::port::backup::BackupStore;
use waybill_core::port::service::streams::StreamService;
use waybill_core::port::trace::Tracer;

use crate::app::{App, Inner, Rules};
use crate::approval::ApprovalLinks;
use crate::auth::{Permission, Principal, Tenants, Tokens};
use crate::edge;
use crate::error::ServerError;
use crate::grpc;
use crate::limits::{Limits, METRICS_UPKEEP, SUBSCRIPTIONS_SHARE, TRANSACTIONS_MAX, WAITERS_SHARE};
use crate::listen::check_listen;
use crate::metrics::{Counting, MetricsHandle};
use crate::oidc::Oidc;
use crate::openapi;
use crate::places::Places;
use crate::readiness::Readiness;
use crate::refusals::Refusals;
use crate::routes;
pub use crate::run::Drained;
use crate::subscribe::tickets::Tickets;
use crate::tls::Encryption;
use crate::tokens::StoredTokens;
use crate::ui::{self, Environment, Ui};

/// How many of so many connections may be subscriptions, as `events.subscriptions_max` is bounded by, too: one at least.
fn subscriptions_max(connections_max: usize) -> usize {
    (connections_max.saturating_mul(SUBSCRIPTIONS_SHARE - 1) / SUBSCRIPTIONS_SHARE).max(1)
}

/// What a server is made of.
pub struct Parts {
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
    /// Origins whose pages may subscribe, as browsers write them, e.g. `https://shop.example`.
    pub cors_origins: Vec<String>,
    /// What keeps tokens and messages from being read on their way.
    pub encryption: Encryption,
    /// Which host the page at `/ui` says it is; none = there is no page.
    pub ui: Option<Environment>,
    /// Where people sign in at the page; none = by tokens alone. Needs [`Self::auth`], if with no token in it.
    pub oidc: Option<Oidc>,
    pub limits: Limits,
    /// From [`crate::metrics::install`]; none = `/metrics` shows the outbox's depths only.
    pub metrics: Option<MetricsHandle>,
    /// Makes spans; none = there are none.
    pub tracer: Option<Arc<dyn Tracer>>,
    /// Version of the host, as shown by `/readyz` and `/metrics`.
    pub version: String,
}

pub struct Server {
    app: App,
    router: Router,
}

impl Server {
    /// Puts it together. Nothing listens yet.
    pub fn new(parts: Parts) -> Self {
        Self::with_routes(parts, Router::new())
    }

    /// With further routes behind the same edge. Nothing documents them, so it keeps each of them closed: this is for the
    /// test that it does.
    #[doc(hidden)]
    pub fn with_routes(parts: Parts, further: Router) -> Self {
        let (routes, api) = routes::all().split_for_parts();
        let rules = Rules::of(&api, parts.ui.is_some());
        let (name, tenants) = ("anonymous".to_owned(), Tenants::Only(Vec::new()));
        let nobody = Principal { name, tenants, roles: Vec::new(), streams: Vec::new(), token: None };
        let app: App = Arc::new(Inner {
            waiters: Places::new(parts.limits.requests_max / WAITERS_SHARE),
            pausers: Places::new(parts.limits.requests_max / WAITERS_SHARE),
            requests: Places::new(parts.limits.requests_max),
            bodies: Places::new(parts.limits.bodies_bytes_max / 1024),
            transactions: Places::new(TRANSACTIONS_MAX),
            answers: Places::new(parts.limits.answers_bytes_max / 1024),
            subscriptions: Places::new(subscriptions_max(parts.limits.connections_max)),
            tickets: Tickets::new(),
            ui: parts.ui.map(|environment| Ui::new(environment, parts.oidc)),
            rules,
            openapi: Bytes::from(serde_json::to_vec(&openapi::completed(api)).unwrap_or_default()),
            service: parts.service,
            sagas: parts.sagas,
            approvals: parts.approvals,
            idempotency: parts.idempotency,
            inbound: parts.inbound,
            streams: parts.streams,
            configuration: parts.configuration,
            plugins: parts.plugins,
            backup: parts.backup,
            auth: parts.auth,
            tokens: parts.tokens,
            cors_origins: parts.cors_origins,
            encryption: parts.encryption,
            limits: parts.limits,
            metrics: parts.metrics,
            tracer: parts.tracer,
            version: parts.version,
            readiness: Readiness::default(),
            refusals: Refusals::default(),
            draining: watch::Sender::new(false),
            local: Arc::new(Principal::local()),
            anonymous: Arc::new(nobody),
        });
        let router = routes
            .merge(grpc::routes(&app))
            .merge(if app.ui.is_some() { ui::routes(&app) } else { Router::new() })
            .merge(further.with_state::<App>(()))
            .fallback(|| async { StatusCode::NOT_FOUND })
            .layer(CatchPanicLayer::custom(edge::panicked))
            .layer(from_fn_with_state(app.clone(), edge::edge))
            .with_state(app.clone());
        Self { app, router }
    }

    /// The routes behind the edge, as a service of one's own.
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    /// What counts the gauges that `/metrics` counts, as long as the server runs.
    pub fn counting(&self) -> Counting {
        Counting(Arc::downgrade(&self.app))
    }

    /// Serves the listeners until `shutdown` ends; then takes no more connections, lets requests under way end for at
    /// most `drain`, and cuts the rest. Refuses listeners beyond loopback while no authentication is configured, or nothing
    /// encrypts what is said.
    pub async fn run(
        self,
        listeners: Vec<TcpListener>,
        shutdown: impl Future<Output = ()>,
        drain: Duration,
    ) -> Result<Drained, ServerError> {
        for listener in &listeners {
            let address =
                listener.local_addr().map_err(|cause| ServerError::Bind { address: "(unknown)".to_owned(), cause })?;
            check_listen(address, self.app.auth.is_some(), &self.app.encryption)?;
        }
        let upkeep = self.app.metrics.clone().map(|metrics| {
            tokio::spawn(async move {
                let mut pulse = tokio::time::interval(METRICS_UPKEEP);
                loop {
                    pulse.tick().await;
                    metrics.upkeep();
                }
            })
        });
        let app = self.app.clone();
        let on_drain = move || {
            app.draining.send_replace(true);
        };
        let tls = match &self.app.encryption {
            Encryption::Tls(tls) => Some(tls.clone()),
            Encryption::None | Encryption::Proxy => None,
        };
        let drained = crate::run::serve(self.router, listeners, &self.app.limits, tls, shutdown, on_drain, drain).await;
        if let Some(upkeep) = upkeep {
            upkeep.abort();
        }
        Ok(drained)
    }
}

/// Binds an address that [`check_listen`] allows.
pub async fn bind(
    address: std::net::SocketAddr,
    asks_for_tokens: bool,
    encryption: &Encryption,
) -> Result<TcpListener, ServerError> {
    check_listen(address, asks_for_tokens, encryption)?;
    TcpListener::bind(address).await.map_err(|cause| ServerError::Bind { address: address.to_string(), cause })
}

/// What each operation needs, by method and path, as enforced: for tests and for `docs/`.
pub fn permissions() -> Vec<(String, String, Option<Permission>)> {
    let api = routes::all().split_for_parts().1;
    crate::openapi::operations(&api)
        .into_iter()
        .map(|operation| (operation.method.to_string(), operation.path.to_owned(), operation.permission))
        .collect()
}
