//! Every hostile behaviour on a real engine beside a good transport: the host stays up, nothing is lost on either side, and
//! the limit that it met is counted. How little the good transport notices is measured by `cargo xtask bench hostile`, not
//! here. A process of its own, because the recorder of measurements is installed once a process.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use waybill_api::status::CheckStatus;
use waybill_core::port::service::MessageState;
use waybill_engine::Stores;
use waybill_sandbox::{Sandbox, SandboxOptions};
use waybill_testkit::memory_store::MemoryStore;
use waybill_tests::hostile::{BEHAVIOURS, Behaviour, Load, Stage};

use crate::is_alone;

/// Longest that anything is waited for on a busy machine.
const AMPLE: Duration = Duration::from_secs(240);
/// Time for an engine to end.
const END: Duration = Duration::from_secs(60);
/// A good and, every tenth step, a hostile message: 60 and 6.
const LOAD: Load = Load { good: 1, hostile_every: 10, steps: 60 };

fn stores() -> Stores {
    let memory = Arc::new(MemoryStore::new());
    Stores {
        owner: memory.clone(),
        query: memory.clone(),
        transact: memory.clone(),
        dedup: memory.clone(),
        idempotency: memory,
    }
}

/// Sum of the series of a name with a label.
fn counted(handle: &PrometheusHandle, (name, label): (&str, &str)) -> f64 {
    let text = handle.render();
    text.lines()
        .filter(|line| line.starts_with(&format!("{name}{{")) && line.contains(label))
        .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
        .sum()
}

async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waited = tokio::time::timeout(AMPLE, async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    assert!(waited.await.is_ok(), "never: {what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_hostile_behaviour_costs_its_own_deliveries_only() {
    if !is_alone("hostile::each_hostile_behaviour_costs_its_own_deliveries_only").await {
        return;
    }
    // Without a subscriber nothing that guests write would be looked at.
    let subscriber = tracing_subscriber::fmt().with_writer(std::io::sink).finish();
    tracing::subscriber::set_global_default(subscriber).expect("the only subscriber");
    let handle = PrometheusBuilder::new().install_recorder().expect("the only recorder");
    let cache_dir = Some(Path::new(env!("CARGO_TARGET_TMPDIR")).join("hostile"));
    let sandbox = Sandbox::new(SandboxOptions { cache_dir, ..SandboxOptions::default() }).expect("engine");
    let only = std::env::var("HOSTILE").ok();
    for behaviour in BEHAVIOURS.iter().filter(|one| only.as_ref().is_none_or(|only| one.name == only)) {
        survive(&sandbox, &handle, behaviour).await;
    }
}

async fn survive(sandbox: &Sandbox, handle: &PrometheusHandle, behaviour: &Behaviour) {
    let name = behaviour.name;
    let before = counted(handle, behaviour.counted);
    eprintln!("{name}");
    let mut stage = Stage::set(sandbox, stores(), Some(behaviour)).await.expect("starts");
    stage.load(LOAD).await.expect("everything is taken");

    eventually(&format!("{name}: every good message is acknowledged"), async || {
        let (sent, acknowledged) = stage.good();
        sent == acknowledged
    })
    .await;
    eventually(&format!("{name}: {:?} is counted", behaviour.counted), async || {
        counted(handle, behaviour.counted) > before
    })
    .await;
    assert!(
        stage.outbox().ready().await.iter().all(|check| check.status != CheckStatus::Fail),
        "{name}: the host isn't ready"
    );

    let (good, hostile) = stage.ids();
    assert_eq!((good.len(), hostile.len()), (60, 6), "{name}");
    let outbox = stage.outbox();
    let state = async |hostile: bool, id: &str| {
        let tenant = Stage::tenant(hostile).expect("a tenant");
        outbox.message(&tenant, id).await.unwrap_or_else(|lost| panic!("{name}: {id} is lost: {lost}")).state
    };
    for id in &good {
        eventually(&format!("{name}: {id} is done"), async || state(false, id).await == MessageState::Done).await;
    }
    for id in &hostile {
        if behaviour.delivers {
            let what = format!("{name}: {id} is delivered");
            eventually(&what, async || state(true, id).await == MessageState::Done).await;
        } else {
            let found = state(true, id).await;
            let kept = matches!(found, MessageState::Pending | MessageState::Leased | MessageState::Dead);
            assert!(kept, "{name}: {id} is {found:?}");
        }
    }
    assert!(stage.end(END).await, "{name}: the engine doesn't end");
}
