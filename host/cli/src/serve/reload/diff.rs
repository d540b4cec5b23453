//! What differs between two configurations, and when it counts.

use std::collections::BTreeMap;

use serde_json::Value;
use waybill_api::configuration::{Effect, ReloadRefused, Reloaded, SettingChange};
use waybill_core::endpoint::EndpointSettings;
use waybill_core::glob::Glob;

use crate::config::reader::Shown;

/// Settings that change while the host runs: these keys, in which a star stands for a name, and all below those that end with a dot or
/// a bracket.
const LIVE: &[&str] = &[
    "transport.",
    "participant.",
    "source.",
    "consumer.",
    "inbox.dedup_window",
    "inbox.keep_done",
    "inbox.max_payload_bytes",
    "route[",
    "tenant[",
    "index[",
    "outbox.batch",
    "outbox.batch_bytes",
    "outbox.send_timeout",
    "outbox.keep_done",
    "outbox.max_attempts",
    "outbox.retry_after_max",
    "outbox.backoff",
    "outbox.backoff.",
    "alert.",
    "audit.keep",
    "auth.token[",
    "dead.keep",
    "dead.alert_at",
    "idempotency.",
    "events.live_buffer_size",
    "events.replay_max_batch",
    "events.retention_per_stream",
    "events.max_payload_bytes",
    "relay.max_inflight",
    "relay.*.max_inflight",
    "saga.definitions",
    "saga.keep_done",
    "saga.max_input_bytes",
    "saga.max_output_bytes",
    "saga.max_running",
    "saga.max_running_bytes",
    "saga.rest_after",
    "saga.max_calls",
    "saga.max_calls_per_tenant",
    "saga.default_retry",
    "saga.default_retry.",
    "saga.allow.",
    "plugins.folder",
    "plugins.trusted_keys",
    "plugins.trusted_keys.",
    "plugins.require_signature",
];

/// Settings that change while the host runs, but don't come or go.
const LIVE_WHILE_SET: &[&str] = &["server.tls.cert", "server.tls.key"];

/// When a setting counts after it was changed; `stays` tells that it has a value before and after.
pub fn effect(key: &str, stays: bool) -> Effect {
    let is_live = LIVE.iter().any(|live| match live.ends_with(['.', '[']) {
        true => key.starts_with(live),
        false => Glob::new(*live).matches(key),
    });
    let is_live_while_set = LIVE_WHILE_SET.contains(&key);
    if is_live || (stays && is_live_while_set) { Effect::Now } else { Effect::Restart }
}

/// Every setting that differs, by key.
pub fn changes(old: &[Shown], new: &[Shown]) -> Vec<SettingChange> {
    let values = |shown: &[Shown]| -> BTreeMap<String, Value> {
        shown.iter().map(|shown| (shown.path.clone(), shown.value.clone())).collect()
    };
    let (old, new) = (values(old), values(new));
    let stays = |key: &String| old.contains_key(key) && new.contains_key(key);
    let keys: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let differs = keys.into_iter().filter(|key| old.get(*key) != new.get(*key));
    differs
        .map(|key| SettingChange {
            key: key.clone(),
            from: old.get(key).cloned(),
            to: new.get(key).cloned(),
            effect: effect(key, stays(key)),
        })
        .collect()
}

/// Nothing of it would count while the host runs, for a reload is refused as a whole.
pub fn refuse(compared: &mut Reloaded, refused: &ReloadRefused) {
    for change in compared.changes.iter_mut().filter(|change| change.effect == Effect::Now) {
        change.effect = Effect::Refused;
    }
    compared.warnings.push(format!("a reload is refused as a whole: {refused}"));
}

/// Transports of two configurations, by name.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Transports {
    /// Only in the new one.
    pub added: Vec<String>,
    /// In both, with other settings.
    pub changed: Vec<String>,
    /// Only in the old one.
    pub removed: Vec<String>,
}

/// Compares transports. Without `same_calls` every one that is in both counts as changed.
pub fn transports(old: &[EndpointSettings], new: &[EndpointSettings], same_calls: bool) -> Transports {
    let find = |list: &'_ [EndpointSettings], name: &str| list.iter().find(|one| one.name == name).cloned();
    let mut found = Transports::default();
    for one in new {
        match find(old, &one.name) {
            None => found.added.push(one.name.clone()),
            Some(before) if before != *one || !same_calls => found.changed.push(one.name.clone()),
            Some(_) => {}
        }
    }
    found.removed = old.iter().filter(|one| find(new, &one.name).is_none()).map(|one| one.name.clone()).collect();
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;
    use crate::config::problem::Origin;

    fn shown(settings: &[(&str, Value)]) -> Vec<Shown> {
        let one = |(path, value): &(&str, Value)| Shown {
            path: (*path).to_owned(),
            value: value.clone(),
            origin: Origin::Default,
        };
        settings.iter().map(one).collect()
    }

    #[test]
    fn what_differs_is_found_with_both_values_and_when_it_counts() {
        let old = shown(&[
            ("server.listen", json!("127.0.0.1:1")),
            ("route[0].match", json!("bus:**")),
            ("dead.keep", json!("30d")),
        ]);
        let new =
            shown(&[("server.listen", json!("127.0.0.1:2")), ("dead.keep", json!("30d")), ("outbox.batch", json!(10))]);
        let found = changes(&old, &new);
        let keys: Vec<(&str, Effect)> = found.iter().map(|change| (change.key.as_str(), change.effect)).collect();
        assert_eq!(
            keys,
            [("outbox.batch", Effect::Now), ("route[0].match", Effect::Now), ("server.listen", Effect::Restart)]
        );
        assert_eq!((found[1].from.clone(), found[1].to.clone()), (Some(json!("bus:**")), None));
    }

    #[test]
    fn a_key_is_live_as_a_whole_or_below_a_live_section() {
        for (key, expected) in [
            ("transport.orders.config.servers", Effect::Now),
            ("participant.orders.plugin", Effect::Now),
            ("tenant[0].weight", Effect::Now),
            ("index[0].path", Effect::Now),
            ("source.shop.window", Effect::Now),
            ("consumer.ship.backoff.base_ms", Effect::Now),
            ("inbox.keep_done", Effect::Now),
            ("inbox.dedup_memory", Effect::Restart),
            ("outbox.backoff.base_ms", Effect::Now),
            ("outbox.batch", Effect::Now),
            ("idempotency.ttl", Effect::Now),
            ("events.live_buffer_size", Effect::Now),
            ("events.replay_max_batch", Effect::Now),
            ("events.retention_per_stream", Effect::Now),
            ("events.max_payload_bytes", Effect::Now),
            ("relay.max_inflight", Effect::Now),
            ("relay.orders.max_inflight", Effect::Now),
            ("events.live_buffer_bytes", Effect::Restart),
            ("relay.orders.topic", Effect::Restart),
            ("stream[0].keep_count", Effect::Restart),
            ("saga.allow.http", Effect::Now),
            ("saga.max_running", Effect::Now),
            ("saga.approval_key", Effect::Restart),
            ("outbox.batches", Effect::Restart),
            ("outbox.owner_ttl", Effect::Restart),
            ("outbox.max_payload_bytes", Effect::Restart),
            ("audit.keep", Effect::Now),
            ("audit.messages", Effect::Restart),
            ("dead.on_dead", Effect::Restart),
            ("store.url", Effect::Restart),
            ("limits.window_messages", Effect::Restart),
            ("plugins.cache", Effect::Restart),
        ] {
            assert!(effect(key, true) == expected && effect(key, false) == expected, "{key}");
        }
    }

    #[test]
    fn what_is_refused_as_a_whole_counts_at_once_in_no_part() {
        let old = shown(&[("source.shop.home", json!("shop")), ("store.url", json!("memory"))]);
        let new = shown(&[("source.shop.home", json!("elsewhere")), ("store.url", json!("surrealkv://x"))]);
        let mut compared = Reloaded { changes: changes(&old, &new), ..Reloaded::default() };
        let refused = ReloadRefused {
            code: "INBOX.OTHER_HOME".to_owned(),
            message: "keep its home".to_owned(),
            retryable: false,
        };
        refuse(&mut compared, &refused);
        let effects: Vec<Effect> = compared.changes.iter().map(|change| change.effect).collect();
        assert_eq!(effects, [Effect::Refused, Effect::Restart]);
        assert_eq!(compared.warnings, ["a reload is refused as a whole: INBOX.OTHER_HOME: keep its home"]);
    }

    #[test]
    fn tokens_come_and_go_at_once_and_whether_one_is_asked_for_changes_with_a_restart() {
        let tokens = |names: &[&str]| {
            let settings =
                names.iter().enumerate().map(|(index, name)| (format!("auth.token[{index}].name"), json!(name)));
            let settings: Vec<(String, Value)> = settings.collect();
            shown(&settings.iter().map(|(key, value)| (key.as_str(), value.clone())).collect::<Vec<_>>())
        };
        let effects = |old: &[Shown], new: &[Shown]| -> Vec<Effect> {
            changes(old, new).iter().map(|change| change.effect).collect()
        };
        assert_eq!(effects(&tokens(&["a"]), &tokens(&["b", "c"])), [Effect::Now; 2]);
        assert_eq!(effects(&tokens(&["a", "b"]), &tokens(&["a"])), [Effect::Now]);
        assert_eq!(effects(&tokens(&["a"]), &[]), [Effect::Now]);
        assert_eq!(effects(&[], &tokens(&["a"])), [Effect::Now]);
        let asks = |required: bool| shown(&[("auth.required", json!(required))]);
        assert_eq!(effects(&asks(true), &asks(false)), [Effect::Restart]);
        // They do so where people sign in at a provider, which comes and goes with a restart.
        let provider = shown(&[("auth.oidc.issuer", json!("https://login.example"))]);
        let both = [provider.clone(), tokens(&["a"])].concat();
        assert_eq!(effects(&both, &provider), [Effect::Now]);
        assert_eq!(effects(&both, &tokens(&["a"])), [Effect::Restart]);
    }

    #[test]
    fn certificates_move_at_once_and_come_and_go_with_a_restart() {
        let files = |name: &str| shown(&[("server.tls.cert", json!(name)), ("server.tls.key", json!(name))]);
        let effects = |old: &[Shown], new: &[Shown]| -> Vec<Effect> {
            changes(old, new).iter().map(|change| change.effect).collect()
        };
        assert_eq!(effects(&files("a"), &files("b")), [Effect::Now; 2]);
        assert_eq!(effects(&files("a"), &[]), [Effect::Restart; 2]);
        assert_eq!(effects(&[], &files("b")), [Effect::Restart; 2]);
    }
}
