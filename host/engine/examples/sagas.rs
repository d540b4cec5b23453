//! What the engine costs by itself for a saga: three steps of a participant that does nothing, through the in-memory store.
//! It prints sagas a second and CPU time a saga; it asserts nothing.
//!
//! `cargo run --release -p waybill-engine --example sagas -- [sagas] [at once]`

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::cast_precision_loss)]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use waybill_api::sagas::SagaService;
use waybill_core::ids::Tenant;
use waybill_core::port::participant::{Answered, Participant, StepContext, StepDone, StepInfo, StepOutput};
use waybill_core::port::saga::{Define, DefinitionFormat, StartSaga};
use waybill_core::port::transport::{Health, HealthReport, PluginIdentity};
use waybill_core::saga::json::Json;
use waybill_engine::{Engine, EngineConfig, Participants, Stores, SystemClock};
use waybill_testkit::memory_store::MemoryStore;

/// Answers at once; the last step says that its saga is through.
#[derive(Default)]
struct Nothing {
    last: Mutex<HashMap<String, oneshot::Sender<()>>>,
}

impl Nothing {
    fn done(&self) -> StepOutput {
        StepOutput { data: Bytes::from_static(b"{\"done\":true}"), ..StepOutput::default() }
    }
}

#[async_trait]
impl Participant for Nothing {
    fn name(&self) -> &str {
        "nothing"
    }
    fn identity(&self) -> PluginIdentity {
        let text = |text: &str| text.to_owned();
        PluginIdentity { plugin: text("nothing"), version: text("1.0.0"), digest: "ab".repeat(32), generation: 1 }
    }
    fn steps(&self) -> Vec<StepInfo> {
        Vec::new()
    }
    async fn execute(&self, name: &str, context: &StepContext, _: Bytes, _: Duration) -> Answered<StepDone> {
        if name == "c"
            && let Some(last) = self.last.lock().remove(&context.saga_id)
        {
            let _gone = last.send(());
        }
        Answered { by: self.identity(), result: Ok(StepDone::Output(self.done())) }
    }
    async fn compensate(
        &self,
        _: &str,
        _: &StepContext,
        _: Bytes,
        _: Option<Bytes>,
        _: Duration,
    ) -> Answered<StepOutput> {
        Answered { by: self.identity(), result: Ok(self.done()) }
    }
    fn health(&self) -> HealthReport {
        HealthReport { health: Health::Ready, detail: None }
    }
    async fn close(&self, _: Duration) {}
}

const DEFINITION: &str = "name = \"order\"\nversion = 1\n\
[[steps]]\nname = \"a\"\naction = \"fn:nothing/a\"\ncompensation = \"fn:nothing/a\"\n\
[[steps]]\nname = \"b\"\naction = \"fn:nothing/b\"\ncompensation = \"fn:nothing/b\"\n\
[[steps]]\nname = \"c\"\naction = \"fn:nothing/c\"\ncompensation = \"fn:nothing/c\"\n";

fn main() {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u64>().expect("arguments are numbers"));
    let (sagas, at_once) = (numbers.next().unwrap_or(50_000), numbers.next().unwrap_or(64));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(run(sagas, at_once));
}

async fn run(sagas: u64, at_once: u64) {
    let memory = Arc::new(MemoryStore::new());
    let nothing = Arc::new(Nothing::default());
    let mut config = EngineConfig::new("bench");
    config.sagas.store = Some(memory.clone());
    config.sagas.keep_done = Duration::from_millis(200);
    config.sagas.participants = Arc::new(Participants::new([nothing.clone() as Arc<dyn Participant>]));
    let stores = Stores {
        owner: memory.clone(),
        query: memory.clone(),
        transact: memory.clone(),
        dedup: memory.clone(),
        idempotency: memory.clone(),
    };
    let engine = Engine::start(config, stores, Arc::new(SystemClock));
    let service = engine.sagas().unwrap();
    let (text, format) = (DEFINITION.to_owned(), DefinitionFormat::Toml);
    service
        .define(Define { text, format, dry_run: false, given: Vec::new(), actor: "bench".to_owned() })
        .await
        .unwrap();
    while service.start(start("warm".to_owned())).await.is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    let (began, cpu) = (Instant::now(), cpu_time());
    let next = Arc::new(AtomicU64::new(0));
    let tasks = (0..at_once).map(|_| {
        let (service, nothing, next) = (Arc::clone(&service), Arc::clone(&nothing), Arc::clone(&next));
        tokio::spawn(async move { client(&*service, &nothing, &next, sagas).await })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let (took, used) = (began.elapsed(), cpu_time() - cpu);
    println!(
        "{sagas} sagas of 3 steps, {at_once} at once: {:.0} sagas/s, {:.1} us CPU a saga",
        sagas as f64 / took.as_secs_f64(),
        used.as_secs_f64() * 1e6 / sagas as f64
    );
    assert!(engine.drain(Duration::from_secs(10)).await);
}

/// One saga after the other, until there are enough.
async fn client(service: &dyn SagaService, nothing: &Nothing, next: &AtomicU64, sagas: u64) {
    loop {
        let number = next.fetch_add(1, Ordering::AcqRel);
        if number >= sagas {
            return;
        }
        let id = format!("s{number}");
        let (sender, ended) = oneshot::channel();
        nothing.last.lock().insert(id.clone(), sender);
        service.start(start(id)).await.unwrap();
        ended.await.unwrap();
    }
}

fn start(id: String) -> StartSaga {
    StartSaga {
        tenant: Tenant::unnamed(),
        definition: "order".to_owned(),
        version: None,
        id: Some(id),
        input: Json::parse("{\"order\":17,\"sku\":\"A-1\",\"amount\":1999}").unwrap(),
        deadline: None,
        headers: Vec::new(),
        envelope_id: None,
        correlation_id: None,
        traceparent: None,
        actor: "bench".to_owned(),
    }
}

/// CPU time of this process.
fn cpu_time() -> Duration {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let seconds = u64::try_from(spent.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(spent.tv_nsec).unwrap_or(0))
}
