//! What the sagas' shard costs by itself, in CPU time a saga: no store, no runtime, no calls.
//!
//! `cargo run --release -p waybill-testkit --example saga_speed -- [SAGAS] [AT_ONCE]`
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement")]

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use waybill_core::ids::{ShardId, Tenant};
use waybill_core::port::saga::DefinitionFormat;
use waybill_core::saga::call::{Answer, CallRef};
use waybill_core::saga::definition::{DefinitionSet, default_retry, parse};
use waybill_core::saga::id::{SagaId, SagaKey};
use waybill_core::saga::json::Json;
use waybill_core::saga::limits::SagaLimits;
use waybill_core::saga::machine::Rules;
use waybill_core::saga::records::SagaTakeover;
use waybill_core::saga::shard::{NewSaga, SagaCommand, SagaEffect, SagaShard, SagaShardConfig, Ticket};
use waybill_core::time::UnixMillis;

const DEFINITION: &str = r#"
name = "order"
[[steps]]
name = "reserve"
action = "fn:shop/reserve"
compensation = "fn:shop/release"
[[steps]]
name = "charge"
action = "fn:shop/charge"
compensation = "fn:shop/refund"
[[steps]]
name = "ship"
action = "fn:shop/ship"
"#;

fn start(number: u64, definitions: &Arc<DefinitionSet>) -> SagaCommand {
    let key = SagaKey { tenant: Tenant::unnamed(), id: SagaId::root(&format!("saga-{number:020}")).unwrap() };
    let input = Json::parse("{\"order\":17,\"items\":[{\"sku\":\"a\",\"count\":2}]}").unwrap();
    SagaCommand::Start(Box::new(NewSaga::new(key, Arc::clone(definitions), input, default_retry())))
}

fn main() {
    let mut args = std::env::args().skip(1).filter_map(|arg| arg.parse::<u64>().ok());
    let (sagas, at_once) = (args.next().unwrap_or(200_000), args.next().unwrap_or(64));
    let root = Arc::new(parse(DEFINITION, DefinitionFormat::Toml).unwrap().definition);
    let definitions = Arc::new(DefinitionSet::new(root, Vec::new()));
    let config = SagaShardConfig {
        shard: ShardId(0),
        tx_events: Some("host".into()),
        limits: SagaLimits::default(),
        rules: Rules::default(),
        died: true,
    };
    let mut now = UnixMillis(1_800_000_000_000);
    let takeover = SagaTakeover::default();
    let mut shard = SagaShard::restore(config, takeover, |_| None, now, 0.5).shard;
    let output = Json::parse("{\"ok\":true}").unwrap();
    let mut calls: VecDeque<CallRef> = VecDeque::new();
    let (mut begun, mut ended, mut commits, mut transitions) = (0, 0, 0_u64, 0_u64);
    let began = Instant::now();
    while ended < sagas {
        while begun < sagas && begun - ended < at_once {
            shard.submit(Some(Ticket(begun)), start(begun, &definitions), now, 0.5);
            begun += 1;
        }
        while let Some(call) = calls.pop_front() {
            shard.submit(None, SagaCommand::Answer { call, answer: Answer::done(output.clone()) }, now, 0.5);
        }
        now = now.plus(Duration::from_millis(1));
        shard.tick(now, 0.5);
        if shard.build(commits + 1).is_some() {
            commits += 1;
            shard.committed();
        }
        for effect in shard.take_effects() {
            match effect {
                SagaEffect::Call(call) => calls.push_back(call.reference),
                SagaEffect::Moved { events, state, .. } => {
                    transitions += events.len() as u64;
                    ended += u64::from(state == waybill_core::saga::state::SagaState::Completed);
                }
                _ => {}
            }
        }
    }
    let took = began.elapsed().as_secs_f64() * 1e6;
    #[expect(clippy::cast_precision_loss, reason = "a measurement")]
    let (a_saga, a_transition) = (took / sagas as f64, took / transitions as f64);
    println!(
        "{sagas} sagas of 3 steps, {at_once} at once: {a_saga:.1} us a saga, {a_transition:.2} us a transition, {commits} commits"
    );
}
