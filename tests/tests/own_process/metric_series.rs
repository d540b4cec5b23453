//! The number of series that others can make: ten thousand tenants, codes, definitions and paths. A process of its own, because a recorder is
//! installed once a process.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use waybill_api::OutboxService;
use waybill_api::sagas::SagaService;
use waybill_api::status::CheckStatus;
use waybill_core::ids::Tenant;
use waybill_core::new_message::NewMessage;
use waybill_core::port::participant::{StepDone, StepError};
use waybill_core::port::saga::{Define, DefinitionFormat, HttpStep, HttpSteps, StartSaga};
use waybill_core::port::transport::Fault;
use waybill_core::route::{Pattern, Route};
use waybill_core::saga::json::Json;
use waybill_engine::{Engine, EngineConfig, Stores, SystemClock};
use waybill_server::limits::Limits;
use waybill_server::metrics;
use waybill_server::server::{Parts, Server, bind};
use waybill_server::tls::Encryption;
use waybill_testkit::fake_transport::{FakeTransport, permanent};
use waybill_testkit::memory_store::MemoryStore;

use crate::is_alone;

/// How many different ones are tried.
const MANY: usize = 10_000;
/// Series of one name that others' words may make: what `engine/labels.rs` allows, with what is shared.
const SERIES_OF_A_NAME_MAX: usize = 2_500;
/// Sagas that are defined and started at the same time.
const AT_ONCE: usize = 200;
/// Longest wait on a busy machine.
const AMPLE: Duration = Duration::from_secs(120);

/// Series by name, and the value of all that begin so.
fn series(page: &str, name: &str) -> (usize, f64) {
    let lines = page.lines().filter(|line| line.starts_with(&format!("{name}{{")));
    lines.fold((0, 0.0), |(count, sum), line| {
        (count + 1, sum + line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
    })
}

/// Fails every step for good, with a code of its own: the number in its input.
struct Failing;

#[async_trait]
impl HttpSteps for Failing {
    async fn post(&self, step: HttpStep) -> Result<StepDone, StepError> {
        let input: serde_json::Value = serde_json::from_slice(&step.body).unwrap();
        Err(StepError::Permanent(Fault::new(format!("Y.{:06}", input["n"].as_u64().unwrap()), "no")))
    }
}

/// Runs a saga of a definition, a tenant and a code that no other has.
async fn fail_one(sagas: &dyn SagaService, number: usize) {
    let action = "action = \"http://pay.example/charge\"";
    let text = format!("name = \"saga-{number}\"\nversion = 1\n[[steps]]\nname = \"step-{number}\"\n{action}\n");
    let define =
        Define { text, format: DefinitionFormat::Toml, dry_run: false, given: Vec::new(), actor: "ann".to_owned() };
    sagas.define(define).await.expect("is taken");
    let start = StartSaga {
        tenant: Tenant::new(format!("tenant-{number}").as_str()).unwrap(),
        definition: format!("saga-{number}"),
        version: None,
        id: None,
        input: Json::parse(&format!("{{\"n\":{number}}}")).unwrap(),
        deadline: None,
        headers: Vec::new(),
        envelope_id: None,
        correlation_id: None,
        traceparent: None,
        actor: "ann".to_owned(),
    };
    sagas.start(start).await.expect("begins");
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_codes_and_paths_make_a_bounded_number_of_series() {
    if !is_alone("metric_series::tenants_codes_and_paths_make_a_bounded_number_of_series").await {
        return;
    }
    let handle = metrics::install(&[waybill_engine::METRICS], None).expect("the only recorder");
    let transport = FakeTransport::new("sink");
    transport.stop_logging();
    transport.set_limits(|limits| limits.lanes = 8);
    transport.tell(|delivery| permanent(std::str::from_utf8(&delivery.payload).unwrap()));
    let memory = Arc::new(MemoryStore::new());
    let stores = Stores {
        owner: memory.clone(),
        query: memory.clone(),
        transact: memory.clone(),
        dedup: memory.clone(),
        idempotency: memory.clone(),
    };
    let mut config = EngineConfig::new("host");
    config.routes.0.push(Route::new(Pattern::parse("bus:**").unwrap(), "sink"));
    config.transports.push(transport);
    config.sagas.store = Some(memory.clone());
    config.sagas.http = Some(Arc::new(Failing));
    let engine = Engine::start(config, stores, Arc::new(SystemClock));
    let outbox: Arc<dyn OutboxService> = engine.outbox();
    tokio::time::timeout(AMPLE, async {
        while outbox.ready().await.iter().any(|check| check.status == CheckStatus::Fail) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("is ready");

    // As many tenants as messages, each with a code and a topic of its own.
    for first in (0..MANY).step_by(500) {
        let message = |number: usize| NewMessage {
            topic: format!("bus:topic{number}"),
            tenant: Some(format!("tenant-{number}")),
            payload: format!("X.{number:06}").into_bytes().into(),
            ..NewMessage::default()
        };
        outbox.enqueue((first..first + 500).map(message).collect()).await.expect("is taken");
    }
    tokio::time::timeout(AMPLE, async {
        while series(&handle.render(), "tx_outbox_dead_total").1 < MANY as f64 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .expect("all die");

    // As many sagas, each of a tenant, a definition and a code of its own.
    let sagas = engine.sagas().expect("has sagas");
    futures::stream::iter(0..MANY).for_each_concurrent(AT_ONCE, |number| fail_one(sagas.as_ref(), number)).await;
    tokio::time::timeout(AMPLE, async {
        while series(&handle.render(), "tx_saga_duration_seconds_count").1 < MANY as f64 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .expect("all end");

    // As many paths as that, by methods that nobody knows.
    let listener = bind("127.0.0.1:0".parse().unwrap(), false, &Encryption::None).await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::new(Parts {
        service: outbox,
        sagas: Some(sagas),
        approvals: None,
        idempotency: engine.idempotency(),
        inbound: None,
        streams: None,
        configuration: None,
        plugins: None,
        backup: None,
        cors_origins: Vec::new(),
        auth: None,
        tokens: None,
        encryption: Encryption::None,
        ui: None,
        oidc: None,
        limits: Limits::default(),
        metrics: Some(handle.clone()),
        tracer: None,
        version: "0".to_owned(),
    });
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(server.run(vec![listener], async { drop(stopped.await) }, Duration::from_secs(1)));
    let client = reqwest::Client::new();
    for number in 0..MANY / 10 {
        for path in
            [format!("/nothing/{number}"), format!("/v1/messages/{number}"), format!("/v1/sagas/{number}/{number}")]
        {
            let method = reqwest::Method::from_bytes(format!("M{number}").as_bytes()).unwrap();
            for method in [reqwest::Method::GET, method] {
                client.request(method, format!("http://{address}{path}")).send().await.expect("answers");
            }
        }
    }
    stop.send(()).unwrap();
    running.await.unwrap().unwrap();

    let page = handle.render();
    let names: std::collections::BTreeSet<&str> =
        page.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split(['{', ' ']).next()).collect();
    for name in names {
        let (count, _) = series(&page, name);
        // A histogram has a line for each of its steps.
        let lines = if name.ends_with("_bucket") { 20 } else { 1 };
        assert!(count <= SERIES_OF_A_NAME_MAX * lines, "{name} has {count} series");
    }
    assert!(series(&page, "tx_outbox_dead_total").0 >= 200, "the first have labels of their own");
    assert!(page.contains("tx_outbox_dead_total{tenant=\"other\",code=\"other\"}"), "the rest share");
    assert!(series(&page, "waybill_http_requests_total").0 < 100);
    for name in ["tx_saga_started_total", "tx_saga_compensated_total", "tx_saga_duration_seconds_count"] {
        let (count, sum) = series(&page, name);
        assert!(count >= 200 && sum == MANY as f64, "{name}: {count} series of {sum} sagas");
        let shared =
            page.lines().any(|line| line.starts_with(&format!("{name}{{")) && line.contains("definition=\"other\""));
        assert!(shared, "{name}: the rest share");
    }
}
