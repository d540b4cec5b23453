//! Participants: swapped and rolled back like transports, and never without what running sagas still call.

use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Value, json};
use waybill_api::plugins::PluginLogLine;
use waybill_core::endpoint::{EndpointSettings, SlotPolicy};
use waybill_core::ids::Tenant;
use waybill_core::port::participant::{Answered, Direction, Participant, StepContext, StepDone, StepError};
use waybill_core::port::step_needs::{NeededStep, StepNeeds};
use waybill_core::saga::id::{SagaId, SagaKey};
use waybill_sandbox::{
    ComponentSource, EndpointSpec, ParticipantSlot, Phase, Reload, Reloaded, TransportSpec, Trust, World,
};
use waybill_tests::guests;

use super::support::*;

/// What the fleet knows the participant `shop` by.
const SHOP: &str = "participant.shop";

fn steps(fixture: &str, version: &str) -> Vec<u8> {
    component_of("participant", fixture, version, "")
}

fn spec(place: &Place, policy: SlotPolicy) -> TransportSpec {
    let settings = EndpointSettings { config: json!({}), instances: 4, policy, ..EndpointSettings::new("shop") };
    TransportSpec { source: ComponentSource::File(place.file()), endpoint: EndpointSpec::new(settings) }
}

async fn start(place: &Place) -> ParticipantSlot {
    let spec = spec(place, SlotPolicy::default());
    let loaded = place.fleet.load_for_start(World::Participant, "shop", &spec.source, None).await.unwrap();
    let (slot, opened) = place.fleet.start_participant(spec, loaded).await.unwrap();
    opened.unwrap();
    slot
}

async fn execute(slot: &ParticipantSlot, step: &str, input: Value) -> Answered<StepDone> {
    let context = StepContext::new("s-1", "order", "first");
    slot.execute(step, &context, input.to_string().into(), PATIENCE).await
}

fn version(slot: &ParticipantSlot) -> String {
    Participant::identity(slot).version
}

/// Says what sagas need.
#[derive(Default)]
struct Sagas {
    needed: Mutex<Option<Vec<NeededStep>>>,
    /// What they call of other participants by the name alone.
    unclear: Mutex<Vec<NeededStep>>,
}

fn need_of(step: &str, way: Direction) -> NeededStep {
    let example = SagaKey { tenant: Tenant::unnamed(), id: SagaId::new("s-7").unwrap() };
    NeededStep { step: step.to_owned(), way, sagas: 1, example }
}

impl Sagas {
    fn need(&self, step: &str, way: Direction) {
        *self.needed.lock() = Some(vec![need_of(step, way)]);
    }
}

#[async_trait]
impl StepNeeds for Sagas {
    async fn needed(&self, participant: &str) -> Result<Vec<NeededStep>, String> {
        assert_eq!(participant, "shop");
        self.needed.lock().clone().ok_or_else(|| "the sagas of shard 0 are being taken over".to_owned())
    }

    async fn unclear(&self, participant: &str, steps: &[String]) -> Result<Vec<NeededStep>, String> {
        assert_eq!(participant, "shop");
        Ok(self.unclear.lock().iter().filter(|need| steps.contains(&need.step)).cloned().collect())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_ends_on_the_plugin_it_began_on_and_the_next_goes_to_the_one_that_serves() {
    let place = Place::new(Trust::default());
    place.put(&steps(guests::SERVES_STEPS, "1.0.0"));
    let slot = start(&place).await;
    let slow = slot.clone();
    let (began, under_way) = tokio::sync::oneshot::channel();
    let call = tokio::spawn(async move {
        let sleeping = execute(&slow, "sleep", json!(1_000));
        tokio::pin!(sleeping);
        // It has begun when it was asked once and isn't done.
        assert!(futures::poll!(&mut sleeping).is_pending());
        began.send(()).unwrap();
        sleeping.await
    });
    under_way.await.unwrap();

    place.put(&steps(guests::SERVES_STEPS, "2.0.0"));
    let reloaded = place.fleet.reload(SHOP, Reload::default()).await.unwrap();
    assert!(matches!(reloaded, Reloaded::Live(_)));
    let second = execute(&slot, "tell", json!(1)).await;
    assert!(second.result.is_ok());
    assert_eq!((second.by.version.as_str(), second.by.generation), ("2.0.0", 2));
    let first = call.await.unwrap();
    assert!(first.result.is_ok(), "{first:?}");
    assert_eq!((first.by.version.as_str(), first.by.generation), ("1.0.0", 1));
    assert_ne!(first.by.digest, second.by.digest);

    place.fleet.roll_back(SHOP, "it does worse").await.unwrap();
    assert_eq!(execute(&slot, "tell", json!(1)).await.by.version, "1.0.0");

    place.put(&good("3.0.0"));
    place.fleet.reload(SHOP, Reload::default()).await.unwrap_err();
    assert_eq!(version(&slot), "1.0.0", "a transport is no participant");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_traps_in_its_probation_is_rolled_back_and_is_not_taken_again() {
    let place = Place::new(Trust::default());
    place.put(&steps(guests::SERVES_STEPS, "1.0.0"));
    let slot = start(&place).await;
    place.put(&steps(guests::STEP_PANICS, "2.0.0"));
    place.fleet.reload(SHOP, Reload::default()).await.unwrap();
    let back = async {
        while version(&slot) != "1.0.0" {
            let _trapped = execute(&slot, "panic", json!(null)).await;
        }
    };
    tokio::time::timeout(PATIENCE, back).await.expect("it is rolled back");
    assert!(execute(&slot, "tell", json!(1)).await.result.is_ok());
    let life = slot.life();
    let failed = life.records().find(|record| record.number == 2).unwrap();
    assert_eq!(failed.why.as_ref().unwrap().code, "PLUGIN.PROBATION_FAILED");
    let log = place.log(SHOP).await;
    let lost =
        |line: &&PluginLogLine| line.generation == 2 && line.message.contains("an instance was lost: PLUGIN.TRAPPED");
    assert!(log.iter().filter(lost).count() >= 3, "{log:?}");
    let again = place.fleet.reload(SHOP, Reload::default()).await.unwrap_err();
    assert_eq!(again.code().as_str(), "PLUGIN.REMEMBERED_BAD");

    // A host that starts with the file as it lies there has the one before serve.
    let state = place.folder.path().join("state");
    let is_kept = |path: std::path::PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = || std::fs::read_to_string(&path).unwrap_or_default();
        name.starts_with(SHOP) && text().contains("PROBATION_FAILED") && text().contains("\"version\": \"1.0.0\"")
    };
    let kept = async {
        while !std::fs::read_dir(&state).unwrap().any(|entry| is_kept(entry.unwrap().path())) {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, kept).await.expect("it is written down");
    let again = Place::in_folder(place.folder, Trust::default());
    let spec = spec(&again, SlotPolicy::default());
    let loaded = again.fleet.load_for_start(World::Participant, "shop", &spec.source, None).await.unwrap();
    assert!(loaded.fallback.is_some() && loaded.plugin.manifest().version == "1.0.0");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_waited_for_a_participant_that_is_rolled_back_are_given_back_untried() {
    let place = Place::new(Trust::default());
    place.put(&steps(guests::SERVES_STEPS, "1.0.0"));
    let mut spec = spec(&place, SlotPolicy::default());
    spec.endpoint.settings.instances = 1;
    let loaded = place.fleet.load_for_start(World::Participant, "shop", &spec.source, None).await.unwrap();
    let (slot, opened) = place.fleet.start_participant(spec, loaded).await.unwrap();
    opened.unwrap();
    place.put(&steps(guests::SERVES_STEPS, "2.0.0"));
    place.fleet.reload(SHOP, Reload::default()).await.unwrap();
    // The first has the only instance, which is warm; the others wait for it.
    let mut under_way = Box::pin(execute(&slot, "sleep", json!(1_000)));
    let mut waiting: Vec<_> = (0..5).map(|_| Box::pin(execute(&slot, "tell", json!(1)))).collect();
    for call in std::iter::once(&mut under_way).chain(&mut waiting) {
        assert!(futures::poll!(call).is_pending());
    }
    place.fleet.roll_back(SHOP, "it does worse").await.unwrap();
    for waited in futures::future::join_all(waiting).await {
        let error = waited.result.unwrap_err();
        assert!(matches!(&error, StepError::Release(fault) if fault.code == "PLUGIN.SWAPPING"), "{error:?}");
    }
    let ended = under_way.await;
    assert!(ended.result.is_ok() && ended.by.version == "2.0.0", "{ended:?}");
    assert_eq!(execute(&slot, "tell", json!(1)).await.by.version, "1.0.0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_running_sagas_call_by_its_name_alone_does_not_become_unclear() {
    let place = Place::new(Trust::default());
    place.put(&steps(guests::STEP_PANICS, "1.0.0"));
    let slot = start(&place).await;
    let sagas = Arc::new(Sagas::default());
    *sagas.needed.lock() = Some(Vec::new());
    let asked: Arc<dyn StepNeeds> = Arc::clone(&sagas) as _;
    place.fleet.ask_needs(&asked);
    slot.may_come().await.unwrap();
    *sagas.unclear.lock() = vec![need_of("tell", Direction::Execute)];
    place.put(&steps(guests::SERVES_STEPS, "2.0.0"));
    let refused = place.fleet.reload(SHOP, Reload::default()).await.unwrap_err();
    assert_eq!(refused.code().as_str(), "PLUGIN.AMBIGUOUS_STEP");
    assert!(refused.to_string().contains("step \"tell\" (saga s-7)") && !refused.retryable(), "{refused}");
    assert_eq!(version(&slot), "1.0.0");
    place.fleet.reload(SHOP, Reload { force: true, ..Reload::default() }).await.unwrap();
    assert_eq!(version(&slot), "2.0.0");
    assert_eq!(slot.may_come().await.unwrap_err().code().as_str(), "PLUGIN.AMBIGUOUS_STEP");
    // What it serves already makes nothing less clear than it is.
    place.put(&steps(guests::SERVES_STEPS, "3.0.0"));
    place.fleet.reload(SHOP, Reload::default()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_running_sagas_still_call_is_not_taken_from_them() {
    let place = Place::new(Trust::default());
    place.put(&steps(guests::SERVES_STEPS, "1.0.0"));
    let slot = start(&place).await;
    let sagas = Arc::new(Sagas::default());
    let asked: Arc<dyn StepNeeds> = Arc::clone(&sagas) as _;
    place.fleet.ask_needs(&asked);
    place.put(&steps(guests::STEP_PANICS, "2.0.0"));

    let unknown = place.fleet.reload(SHOP, Reload::default()).await.unwrap_err();
    assert!(unknown.code().as_str() == "PROVIDER.UNAVAILABLE" && unknown.retryable(), "{unknown}");

    for (step, way, word) in [
        ("tell", Direction::Execute, "step \"tell\" (saga s-7)"),
        ("tell", Direction::Compensate, "the compensation of step \"tell\" (saga s-7)"),
    ] {
        sagas.need(step, way);
        let refused = place.fleet.reload(SHOP, Reload::default()).await.unwrap_err();
        assert_eq!(refused.code().as_str(), "PLUGIN.STEP_NEEDED");
        assert!(refused.to_string().contains(word) && !refused.retryable(), "{refused}");
        assert_eq!(slot.may_go().await.unwrap_err().code().as_str(), "PLUGIN.STEP_NEEDED");
    }
    assert_eq!(version(&slot), "1.0.0");
    let refused = slot.life().records().last().cloned().unwrap();
    assert_eq!((refused.phase, refused.why.unwrap().code.as_str()), (Phase::Rejected, "PLUGIN.STEP_NEEDED"));

    // What it doesn't serve itself keeps nobody away.
    sagas.need("gone", Direction::Execute);
    place.fleet.reload(SHOP, Reload::default()).await.unwrap();
    assert_eq!(version(&slot), "2.0.0");

    // The other way round it can be forced, and a rollback needs no force.
    sagas.need("fine", Direction::Execute);
    place.put(&steps(guests::SERVES_STEPS, "3.0.0"));
    place.fleet.reload(SHOP, Reload::default()).await.unwrap_err();
    place.fleet.reload(SHOP, Reload { force: true, ..Reload::default() }).await.unwrap();
    let blocked = execute(&slot, "fine", json!(null)).await.result.unwrap_err();
    assert!(matches!(&blocked, StepError::Blocked { fault, .. } if fault.code == "PLUGIN.NO_STEP"), "{blocked:?}");
    sagas.need("tell", Direction::Execute);
    place.fleet.roll_back(SHOP, "back").await.unwrap();
    assert_eq!(version(&slot), "2.0.0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watched_file_of_a_participant_is_loaded_by_itself() {
    let place = Place::new(Trust::default());
    place.put(&steps(guests::SERVES_STEPS, "1.0.0"));
    let mut spec = spec(&place, SlotPolicy::default());
    spec.endpoint.settings.watch = true;
    let loaded = place.fleet.load_for_start(World::Participant, "shop", &spec.source, None).await.unwrap();
    let (slot, opened) = place.fleet.start_participant(spec, loaded).await.unwrap();
    opened.unwrap();
    let stop = tokio_util::sync::CancellationToken::new();
    let (fleet, stopped) = (place.fleet.clone(), stop.clone());
    let watching = tokio::spawn(async move { fleet.watch(stopped).await });
    place.put(&steps(guests::SERVES_STEPS, "2.0.0"));
    let loaded = async {
        while version(&slot) != "2.0.0" {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, loaded).await.expect("it is loaded");
    stop.cancel();
    watching.await.unwrap();
}
