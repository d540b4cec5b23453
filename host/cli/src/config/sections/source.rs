//! `[source.NAME]`.

use waybill_core::endpoint::{EndpointSettings, LimitOverlay, PluginRef, ReloadPolicy, SlotPolicy};
use waybill_core::ids::{SourceName, Tenant};
use waybill_core::inbox::intake::{FieldNames, MissingId};
use waybill_core::inbox::limits::WINDOW_DEFAULT;
use waybill_core::port::source::Overtaken;

use super::transport::{check_name, grants, limits_with, sha256};
use super::{SECOND, u32_of};
use crate::config::inbound::Source;
use crate::config::kinds::Set;
use crate::config::plugins::Known;
use crate::config::reader::{Key, Section, same};

/// The bundled plugin that reads outbox tables.
const TABLE_PLUGIN: &str = "postgres";
/// Where it says how often an idle table is looked at.
const POLL_EVERY: &str = "poll_every";
/// The environment's name for that (source document 4).
const POLL_ENV: &str = "OUTBOX_POLL_INTERVAL_MS";

pub fn source(mut section: Section<'_, '_>, name: &str, plugins: &Known<'_>) -> Option<Source> {
    check_name(&mut section, "source", name);
    let written = section.required_text("plugin", "a bundled source, or the path of a .wasm", "\"nats\"");
    let plugin = written.and_then(|written| plugins.source(&mut section, &bundled(written, plugins.bundled)));
    let normal = EndpointSettings::new(name);
    let mut config = section.document("config");
    let is_table = matches!(&plugin, Some(PluginRef::Bundled(name)) if name == TABLE_PLUGIN);
    if is_table && let (Some(keys), Some(ms)) = (config.as_object_mut(), section.env_number(POLL_ENV)) {
        keys.entry(POLL_EVERY).or_insert(ms.into());
    }
    let endpoint = EndpointSettings {
        instances: u32_of(section.integer("instances", 1, 1..=64)),
        sha256: sha256(&mut section),
        watch: section.boolean("watch", normal.watch),
        config,
        grants: grants(&mut section, bounds),
        provision: section.boolean("provision", normal.provision),
        policy: SlotPolicy { reload: reload(&mut section), ..normal.policy },
        ..normal
    };
    let home = section.optional_text("home", "a name that sources of one consumer share");
    if let Some(home) = home.as_ref().filter(|home| home.value.len() > HOME_BYTES_MAX) {
        section.refuse("home", home, format!("it takes at most {HOME_BYTES_MAX} bytes"));
    }
    let context = section.optional_text("context", "a name that counts are kept under").map(|set| set.value);
    let tenants = tenants(&mut section);
    let window = section.integer(
        Key::new("window").aliases(const { &[same("max_ack_pending")] }),
        WINDOW_DEFAULT.into(),
        1..=65_536,
    );
    let window_bytes = section.size("window_bytes", 16 << 20, 64 << 10..=1 << 30);
    let overtaken = [("stop", Overtaken::Stop), ("go-on", Overtaken::GoOn)];
    let on_overtaken = section.choice("on_overtaken", "stop", &overtaken);
    let orphan_wait = section.optional_duration("orphan_wait", None, SECOND);
    let missing = [("row", MissingId::Row), ("content", MissingId::Content), ("dead", MissingId::Dead)];
    let missing_id = section.choice("missing_id", "row", &missing);
    let id_time = section.choice("id_time", "id", &[("id", false), ("occurred_at", true)]);
    let map = map(section.sub("map"));
    section.done();
    Some(Source {
        name: SourceName::new(name).ok()?,
        endpoint: EndpointSettings { plugin: plugin?, ..endpoint },
        is_table,
        home: home.map_or_else(|| name.to_owned(), |home| home.value),
        context,
        tenants,
        window: u32_of(window),
        window_bytes: u32_of(window_bytes),
        on_overtaken: on_overtaken.unwrap_or_default(),
        orphan_wait,
        missing_id: missing_id.unwrap_or(MissingId::Row),
        id_time_occurred: id_time.unwrap_or(false),
        map,
    })
}

/// How a new version takes over. With two open for a while more than a window may be out, so that is to be asked for.
fn reload(section: &mut Section<'_, '_>) -> ReloadPolicy {
    let orders = [("stop-start", ReloadPolicy::StopStart), ("overlap", ReloadPolicy::Overlap)];
    section.choice("reload", "stop-start", &orders).unwrap_or(ReloadPolicy::StopStart)
}

/// The bounds that an operator sets. How long a call may take follows from what is asked: a pull waits as long as the host says, the
/// rest has times of its own.
fn bounds(section: &mut Section<'_, '_>) -> LimitOverlay {
    limits_with(section, |_| None)
}

/// Longest name of a home, in bytes: it is a key of the store.
const HOME_BYTES_MAX: usize = 128;

/// `nats` is `nats-source` here, if that is bundled: the transport of that name brings nothing in.
fn bundled(written: Set<String>, known: &[&str]) -> Set<String> {
    let source = format!("{}-source", written.value);
    if known.contains(&source.as_str()) { Set { value: source, ..written } } else { written }
}

fn tenants(section: &mut Section<'_, '_>) -> Vec<Tenant> {
    let written = section.text_or_texts("tenant", "a tenant, or a list of them", &[Tenant::UNNAMED]);
    let mut tenants = Vec::new();
    for set in &written {
        match Tenant::new(&set.value) {
            Ok(tenant) if tenants.contains(&tenant) => section.refuse("tenant", set, "it is there twice"),
            Ok(tenant) => tenants.push(tenant),
            Err(error) => section.refuse("tenant", set, error.to_string()),
        }
    }
    if written.is_empty() {
        let none = Set { value: "[]".to_owned(), origin: section.at.clone() };
        section.refuse("tenant", &none, "name the tenants whose messages it brings, or leave the key out");
    }
    tenants
}

fn map(mut section: Section<'_, '_>) -> FieldNames {
    let mut name =
        |key: &'static str| section.optional_text(key, "the name of a header or property").map(|set| set.value);
    let map = FieldNames {
        id: name("id"),
        key: name("key"),
        tenant: name("tenant"),
        kind: name("type"),
        correlation: name("correlation"),
        causation: name("causation"),
        time: name("time"),
    };
    section.done();
    map
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::problem::Origin;

    #[test]
    fn a_source_is_named_as_its_broker() {
        let of =
            |name: &str| bundled(Set { value: name.into(), origin: Origin::Default }, &["nats", "nats-source"]).value;
        assert_eq!((of("nats"), of("nats-source")), ("nats-source".to_owned(), "nats-source".to_owned()));
        assert_eq!(of("./own.wasm"), "./own.wasm");
    }
}
