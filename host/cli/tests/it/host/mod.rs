//! A host in memory with the real HTTP API, in a thread of its own.
//!
//! | file | holds |
//! |---|---|
//! | `shop` | messages and keys of a shop |
//! | `sagas` | sagas of a shop |
//!
//! It is brought into its state while the clock of its runtime is paused, so what a snapshot shows is the same every time; then
//! it serves. Its own clock stands still at [`NOW`], but for what the state takes.

mod sagas;
mod shop;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use waybill_api::InboundService;
use waybill_core::audit::AuditQuery;
use waybill_core::backoff::RetryPolicy;
use waybill_core::ids::Tenant;
use waybill_core::port::service::streams::StreamService;
use waybill_core::port::transport::Transport;
use waybill_core::time::UnixMillis;
use waybill_server::approval::ApprovalLinks;
use waybill_server::auth::{Role, Tenants, TokenRecord, Tokens};
use waybill_server::limits::Limits;
use waybill_server::server::{Parts, Server, bind};
use waybill_server::tls::Encryption;
use waybill_server::tokens::StoredTokens;
use waybill_testkit::fake_transport::FakeTransport;
use waybill_testkit::memory_host::{EngineConfig, InMemoryHost};

/// 2026-11-21T09:00:00Z.
pub const NOW: UnixMillis = UnixMillis(1_795_251_600_000);

/// Services that the host in memory doesn't have.
#[derive(Default)]
struct Beside {
    inbound: Option<Arc<dyn InboundService>>,
    streams: Option<Arc<dyn StreamService>>,
}

pub struct TestHost {
    pub url: String,
    memory: Arc<InMemoryHost>,
    runtime: Handle,
    /// Entries of the audit trail that bringing it into its state has made.
    before: usize,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl TestHost {
    /// One that was asked for nothing yet.
    pub fn empty() -> Self {
        Self::with(async |_| {})
    }

    /// One whose state is brought about by `setup`.
    pub fn with(setup: impl AsyncFnOnce(&InMemoryHost) + Send + 'static) -> Self {
        Self::start(None, Beside::default(), |_| {}, setup)
    }

    /// The same with more transports, of these names.
    pub fn with_transports(
        names: &[&str],
        setup: impl AsyncFnOnce(&InMemoryHost, &[Arc<FakeTransport>]) + Send + 'static,
    ) -> Self {
        let transports: Vec<Arc<FakeTransport>> = names.iter().map(|name| FakeTransport::new(*name)).collect();
        let more = transports.clone();
        let change = move |config: &mut EngineConfig| {
            config.transports.extend(more.into_iter().map(|transport| transport as Arc<dyn Transport>));
        };
        Self::start(None, Beside::default(), change, async move |host| setup(host, &transports).await)
    }

    /// A shop that asks for tokens; `sesame-sesame-sesame` is a viewer's, `acme-acme-acme-acme` one of tenant acme.
    pub fn locked() -> Self {
        Self::start(Some(tokens()), Beside::default(), |_| {}, shop::bring_about)
    }

    /// A shop with an inbox beside it.
    pub fn receiving(inbound: Arc<dyn InboundService>) -> Self {
        let beside = Beside { inbound: Some(inbound), ..Beside::default() };
        Self::start(None, beside, |_| {}, shop::bring_about)
    }

    /// One with event streams beside it.
    pub fn streaming(streams: Arc<dyn StreamService>) -> Self {
        let beside = Beside { streams: Some(streams), ..Beside::default() };
        Self::start(None, beside, |_| {}, async |_| {})
    }

    fn start(
        auth: Option<Tokens>,
        beside: Beside,
        change: impl FnOnce(&mut EngineConfig) + Send + 'static,
        setup: impl AsyncFnOnce(&InMemoryHost) + Send + 'static,
    ) -> Self {
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async move {
                tokio::time::pause();
                let memory = InMemoryHost::start_with(NOW, |config| {
                    config.retries.policy = RetryPolicy { base_ms: 1_000, jitter: 0.0, ..RetryPolicy::default() };
                    change(config);
                });
                let memory = Arc::new(memory.await);
                setup(&memory).await;
                let before = memory.outbox.audit(&AuditQuery::default(), None, 1_000).await.unwrap().items.len();
                tokio::time::resume();
                let listener =
                    bind(SocketAddr::from(([127, 0, 0, 1], 0)), auth.is_some(), &Encryption::None).await.unwrap();
                tell.send((listener.local_addr().unwrap(), Arc::clone(&memory), Handle::current(), before)).unwrap();
                let shutdown = async {
                    let _ = stopped.await;
                };
                Server::new(Parts { inbound: beside.inbound, streams: beside.streams, ..parts(&memory, auth) })
                    .run(vec![listener], shutdown, Duration::ZERO)
                    .await
                    .unwrap();
            });
        });
        let (address, memory, runtime, before) = told.recv().unwrap();
        let url = format!("http://{address}");
        Self { url, memory, runtime, before, stop: Some(stop), thread: Some(thread) }
    }

    /// Asks the host itself, not over HTTP.
    pub fn ask<T>(&self, ask: impl AsyncFnOnce(&InMemoryHost) -> T) -> T {
        self.runtime.block_on(ask(&self.memory))
    }

    /// What was done since it serves, as the audit trail has it, oldest first: `KIND TENANT/OBJECT REASON`. What the host did of
    /// itself is left out.
    pub fn acts(&self) -> Vec<String> {
        let mut events =
            self.ask(async |host| host.outbox.audit(&AuditQuery::default(), None, 1_000).await.unwrap().items);
        events.truncate(events.len() - self.before);
        let told = events.iter().rev().filter(|event| event.actor != "host").map(|event| {
            let tenant = event.tenant.as_ref().map_or(String::new(), |tenant| format!("{tenant}/"));
            let why = ["reason", "note"].iter().find_map(|name| event.detail[*name].as_str()).unwrap_or_default();
            format!("{} {tenant}{} {why}", event.kind, event.object).trim_end().to_owned()
        });
        told.collect()
    }
}

impl Drop for TestHost {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

fn parts(memory: &InMemoryHost, auth: Option<Tokens>) -> Parts {
    Parts {
        configuration: None,
        service: memory.outbox.clone(),
        idempotency: memory.keys.clone(),
        sagas: Some(memory.sagas.clone()),
        inbound: None,
        streams: None,
        approvals: ApprovalLinks::new(&[7; 32], "https://waybill.example").ok(),
        plugins: Some(memory.plugins.clone()),
        backup: None,
        cors_origins: Vec::new(),
        tokens: Some(StoredTokens::new(
            auth.clone().unwrap_or_else(Tokens::none),
            memory.store.clone(),
            memory.store.clone(),
        )),
        auth,
        encryption: Encryption::None,
        ui: None,
        oidc: None,
        limits: Limits::default(),
        metrics: None,
        tracer: None,
        version: "0.0.0".into(),
    }
}

fn tokens() -> Tokens {
    use sha2::{Digest, Sha256};
    let record = |name: &str, token: &str, tenants| TokenRecord {
        name: name.into(),
        // printf %s TOKEN | sha256sum
        sha256: Sha256::digest(token).iter().map(|byte| format!("{byte:02x}")).collect(),
        tenants,
        roles: vec![Role::Viewer],
        streams: Vec::new(),
    };
    let acme = Tenants::Only(vec![Tenant::new("acme").unwrap()]);
    Tokens::new(vec![
        record("looker", "sesame-sesame-sesame", Tenants::All),
        record("acme", "acme-acme-acme-acme", acme),
    ])
    .unwrap()
}
