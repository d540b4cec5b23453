//! What a plan asks the services. It changes nothing.

use std::sync::Arc;

use axum::extract::State;
use serde_json::{Value, json};
use waybill_api::dead_letters::DeadLetterView;
use waybill_core::port::dead::DeadKind;
use waybill_page::acts::{Act, Target};
use waybill_page::address;
use waybill_page::views::{Concerns, Many, Sample};

use super::super::visit::Visit;
use super::{Asked, inner_address, many, permission, read, request};
use crate::app::App;
use crate::auth::Permission;
use crate::json::operations::{Concerned, DryRun};
use crate::problem::Problem;
use crate::routes::configuration::read_again;
use crate::routes::{idempotency, streams};

/// What there is to know of what an act concerns.
pub(super) async fn concerns(app: &App, visit: &Visit, asked: &Asked) -> Concerns {
    let target = &asked.target;
    match asked.act {
        _ if target.is_many() => {
            let found = async { many::planned(app, &visit.caller, asked).await.map(shown) };
            Concerns::Many(visit.part_for(permission(asked.act.about().right), found).await)
        }
        _ if !target.picks.is_empty() => Concerns::Picked,
        Act::StreamPurge => Concerns::Facts(visit.part_for(Permission::Operate, stream(app, visit, target)).await),
        Act::KeyRelease => Concerns::Facts(visit.part(key(app, visit, target)).await),
        Act::ConfigurationReload => {
            let compared = read_again(app, &visit.caller, false);
            Concerns::Settings(Box::new(visit.part_for(Permission::Manage, compared).await))
        }
        _ => Concerns::One,
    }
}

type Facts = Vec<(&'static str, String)>;

/// What a member of an answer says.
fn text(of: &Value, name: &str) -> String {
    match of.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => String::new(),
    }
}

/// What a purge of all of a stream would take.
async fn stream(app: &App, visit: &Visit, target: &Target) -> Result<Facts, Problem> {
    let request = request(&visit.caller, target, json!({ "dry_run": true }).to_string())?;
    let (state, id) = (State(Arc::clone(app)), axum::extract::Path(target.id.clone()));
    let answer = streams::purge(state, visit.caller.clone(), id, request.uri().clone(), request).await?;
    let found = read(answer).await?;
    Ok(vec![
        ("Events that go unless a number is given:", text(&found, "events")),
        ("Last number:", text(&found, "last_seq")),
    ])
}

/// How an idempotency key stands.
async fn key(app: &App, visit: &Visit, target: &Target) -> Result<Facts, Problem> {
    let uri = inner_address(&[("key", &target.id), ("tenant", &target.tenant)])?;
    let found = read(idempotency::show(State(Arc::clone(app)), visit.caller.clone(), uri).await?).await?;
    let facts = [("State:", "state"), ("Begun, times:", "begun"), ("Its lease ends:", "lease_until")];
    let facts = facts.into_iter().map(|(name, member)| (name, text(&found, member)));
    Ok(facts.filter(|(_, value)| !value.is_empty()).collect())
}

/// What a filter takes, as the page shows it.
fn shown(found: DryRun) -> Many {
    let is_of_messages = found.sample.iter().all(|one| {
        matches!(one, Concerned::Message(_))
            || matches!(one, Concerned::DeadLetter(dead) if matches!(**dead, DeadLetterView::Message(_)))
    });
    let plan = found.plan;
    Many {
        matched: found.matched,
        before: plan.as_ref().map(|plan| plan.before),
        counted_since: found.counted_since,
        quarantined: plan.as_ref().map_or(0, |plan| plan.left_out.quarantined),
        replayed_before: plan.as_ref().map_or(0, |plan| plan.replayed_before),
        keys_with_several: plan.as_ref().map_or(0, |plan| plan.keys_with_several),
        other_tenants_than: plan.and_then(|plan| plan.left_out.other_tenants_than),
        sample: found.sample.into_iter().map(sample).collect(),
        is_of_messages,
    }
}

fn sample(one: Concerned) -> Sample {
    match one {
        Concerned::Message(message) => Sample {
            address: address::message(&message.tenant, &message.id),
            what: message.topic,
            why: message.last_error.unwrap_or_default(),
            id: message.id,
            tenant: message.tenant,
        },
        Concerned::Saga(saga) => Sample {
            address: address::saga(&saga.tenant, &saga.id),
            what: format!("{} {}", saga.definition, saga.version),
            why: saga.waiting_for.or(saga.code).unwrap_or_default(),
            id: saga.id,
            tenant: saga.tenant,
        },
        Concerned::DeadLetter(dead) => dead_sample(*dead),
    }
}

fn dead_sample(dead: DeadLetterView) -> Sample {
    match dead {
        DeadLetterView::Message(message) => sample(Concerned::Message(message)),
        DeadLetterView::Saga(saga) => Sample {
            address: address::saga(&saga.tenant, &saga.id),
            what: saga.step,
            why: saga.last_error,
            id: saga.id,
            tenant: saga.tenant,
        },
        DeadLetterView::Inbox(inbox) => Sample {
            address: address::dead_letter(&inbox.tenant, &inbox.id, DeadKind::Inbox),
            what: inbox.subject,
            why: inbox.last_error,
            id: inbox.id,
            tenant: inbox.tenant,
        },
        DeadLetterView::Event(event) => Sample {
            address: address::dead_letter(&event.tenant, &event.id, DeadKind::Event),
            what: event.stream,
            why: event.last_error,
            id: event.id,
            tenant: event.tenant,
        },
    }
}
