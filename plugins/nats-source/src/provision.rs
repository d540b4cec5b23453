//! The stream and the consumer, created or changed when the operator asks for it.

use serde_json::{Value, json};
use waybill_nats_wire::api::{self, Setting, compare};
use waybill_nats_wire::stream;
use waybill_plugin::broker::{Pool, Session as _};
use waybill_plugin::deadline::Deadline;
use waybill_plugin::provision::{Action, Change, Provision};
use waybill_plugin::transport::{CallInfo, OpenArgs, PluginError};

use crate::config::{Config, Keys};
use crate::consumer::{self, document};
use crate::{Connection, NatsSource};

/// Settings that can't be changed once a consumer is there.
const FIXED: &[&str] = &["deliver_policy", "ack_policy"];

impl Provision for NatsSource {
    type Config = Config;

    async fn plan(call: &CallInfo, args: &OpenArgs, config: Config) -> Result<Vec<Change>, PluginError> {
        provision(call, args, config, false).await
    }

    async fn apply(call: &CallInfo, args: &OpenArgs, config: Config) -> Result<Vec<Change>, PluginError> {
        provision(call, args, config, true).await
    }
}

async fn provision(call: &CallInfo, args: &OpenArgs, config: Config, apply: bool) -> Result<Vec<Change>, PluginError> {
    config.check()?;
    let keys = config.own.clone();
    let deadline = Deadline::of_call(call.timeout);
    let mut connection = Pool::<Connection>::new(args, config)?.connect(deadline).await?;
    let mut changes = Vec::new();
    if let Some(wanted) = &keys.provision {
        let wanted = wanted.stream.document(Some(&keys.stream))?;
        changes.push(stream::provision(&mut connection, wanted, apply, deadline).await?);
    }
    if let Some(name) = &keys.consumer {
        let is_new = changes.iter().any(|change| change.action == Action::Create);
        changes.push(provision_consumer(&mut connection, &keys, name, is_new && !apply, apply, deadline).await?);
    }
    connection.close(deadline).await;
    Ok(changes)
}

/// `is_streamless`: the stream is only planned, so there can't be a consumer.
async fn provision_consumer(
    connection: &mut Connection,
    keys: &Keys,
    name: &str,
    is_streamless: bool,
    apply: bool,
    deadline: Deadline,
) -> Result<Change, PluginError> {
    let wanted = document(keys, Some(name));
    let found = match is_streamless {
        true => None,
        false => consumer::info(connection, &keys.stream, name, deadline).await?.map(api::config_of).transpose()?,
    };
    let target = format!("consumer {name} of stream {}", keys.stream);
    let mut change = compare(&target, &wanted, found.as_ref(), judge);
    let config = match change.action {
        Action::Create => Some(wanted),
        Action::Change => {
            let mut whole = found.unwrap_or_default();
            for filter in ["filter_subject", "filter_subjects"] {
                whole.remove(filter);
            }
            whole.extend(wanted);
            Some(whole)
        }
        Action::Keep | Action::Conflict => None,
    };
    if keys.max_deliver > 0 {
        let limit = format!(
            "max_deliver is {}: the server gives a message up after that many deliveries, whatever is known of it here; -1 is safe",
            keys.max_deliver
        );
        change.detail = if change.detail.is_empty() { limit } else { format!("{}; {limit}", change.detail) };
    }
    if apply && let Some(config) = config {
        let request = json!({ "stream_name": keys.stream, "config": config }).to_string();
        let subject = format!("CONSUMER.DURABLE.CREATE.{}.{name}", keys.stream);
        api::answer(&connection.ask(&subject, &request, deadline).await?)?;
    }
    Ok(change)
}

/// How a setting of a consumer differs.
fn judge(setting: &str, wanted: &Value, now: &Value) -> Setting {
    // JetStream leaves out what is so by default, and writes any number of deliveries as -1.
    let unlimited = |value: &Value| value.as_i64().is_none_or(|number| number <= 0);
    match setting {
        "max_deliver" if unlimited(wanted) && unlimited(now) => Setting::Same,
        _ if FIXED.contains(&setting) => Setting::Conflict("can't be changed"),
        _ => Setting::Different,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn change(json: &str, found: &Value) -> Change {
        let config: Config = waybill_plugin::config::parse(json).unwrap();
        compare("consumer", &document(&config.own, Some("ship")), found.as_object(), judge)
    }

    #[test]
    fn a_consumer_with_other_settings_is_changed_or_left_to_the_operator() {
        let found = json!({ "durable_name": "ship", "deliver_policy": "all", "ack_policy": "explicit",
            "ack_wait": 30_000_000_000_u64, "max_deliver": 20, "max_ack_pending": 1000, "filter_subject": "orders.>" });
        for (json, action, part) in [
            (r#"{"stream":"S","max_deliver":20,"filter_subject":"orders.>"}"#, Action::Keep, ""),
            (r#"{"stream":"S","filter_subject":"orders.>"}"#, Action::Change, "max_deliver is 20, wanted -1"),
            (r#"{"stream":"S","max_deliver":20,"ack_wait":"2m"}"#, Action::Change, "ack_wait"),
            (r#"{"stream":"S","max_deliver":20,"filter_subject":"b"}"#, Action::Change, "filter_subject"),
            (
                r#"{"stream":"S","max_deliver":20,"max_ack_pending":50}"#,
                Action::Change,
                "max_ack_pending is 1000, wanted 50",
            ),
        ] {
            let change = change(json, &found);
            assert_eq!(change.action, action, "{json}: {}", change.detail);
            assert!(change.detail.contains(part), "{json}: {}", change.detail);
        }
        let mut other = found.clone();
        other["ack_policy"] = json!("none");
        assert_eq!(change(r#"{"stream":"S"}"#, &other).action, Action::Conflict);
        let mut unlimited = found;
        unlimited["max_deliver"] = json!(-1);
        assert_eq!(change(r#"{"stream":"S"}"#, &unlimited).action, Action::Keep);
    }
}
