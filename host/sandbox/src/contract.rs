//! Whether a component fits the contract: versions and imports by name before it is compiled, types of its exports after
//! it is linked and before anything of it runs.

use wasmtime::component::types::ComponentItem;
use wasmtime::component::{ComponentNamedList, InstancePre, Lift, Lower};

use waybill_bindings::api::types::{CallInfo, HealthReport, Message, OpenArgs, Opened, Outcome, PluginError};
use waybill_bindings::backoff::exports::waybill::plugin::backoff_api::{Attempt, Decision};
use waybill_bindings::inbound::inbound_types::{Inbound, Notices, Verdict};
use waybill_bindings::services::exports::waybill::inbound::source_api::{Pulled, Settled, Settlement, SourceArgs};
use waybill_bindings::services::exports::waybill::inbound::table_api::{
    ClaimArgs, Claimed, ContextStats, DeadPage, Ended, Mark, TableArgs,
};
use waybill_bindings::services::exports::waybill::plugin::participant_api::{
    StepContext, StepDone, StepError, StepInfo, StepOutput,
};
use waybill_bindings::services::exports::waybill::plugin::provision_api::Change;

use crate::error::SandboxError;
use crate::load::Inspection;
use crate::manifest::{World, semver};

/// Version of `waybill:plugin` that this host serves: transports, participants, retry policies, and everybody's services.
pub const CONTRACT_VERSION: &str = "0.1.0";
/// Version of `waybill:inbound` that this host serves: sources, handlers, tables.
pub const INBOUND_CONTRACT_VERSION: &str = "0.1.0";

const PLUGIN: &str = "waybill:plugin";
const INBOUND: &str = "waybill:inbound";
/// What sources and handlers were part of before `waybill:inbound`, which no host serves.
const BEFORE_INBOUND: [(&str, &str); 2] = [
    ("waybill:inbound/source-api", "waybill:plugin/source-api"),
    ("waybill:inbound/handler-api", "waybill:plugin/handler-api"),
];

/// Interfaces of `waybill:plugin` that a guest may import.
const SERVICES: [&str; 13] = [
    "types",
    "log",
    "secrets",
    "metrics",
    "kv",
    "control",
    "progress",
    "net-types",
    "net",
    "net-blocking",
    "http-types",
    "http",
    "http-blocking",
];
/// The optional export of transports and sources that creates what is missing at the peer.
const PROVISION: &str = "waybill:plugin/provision-api";
/// Interfaces of `waybill:inbound` that a guest may import.
const INBOUND_SERVICES: [&str; 2] = ["inbound-types", "handling"];
/// Packages of WASI that are linked, in any 0.2 version.
const WASI: [&str; 7] =
    ["wasi:cli", "wasi:clocks", "wasi:random", "wasi:io", "wasi:filesystem", "wasi:sockets", "wasi:http"];

/// Checks versions, the export that makes the world, and the names of all imports.
pub(crate) fn check(inspection: &Inspection) -> Result<(), SandboxError> {
    let world = inspection.manifest.world;
    check_version(world.package(), &inspection.manifest.contract)?;
    check_export(inspection)?;
    fits(PROVISION, &versions(inspection, PROVISION))?;
    inspection.imports.iter().try_for_each(|import| check_import(world, import))
}

impl Inspection {
    /// Whether it fits the contract by name: versions, the export that makes its world, imports. Its types are checked when it
    /// is loaded.
    pub fn check_contract(&self) -> Result<(), SandboxError> {
        check(self)
    }
}

/// The package of an interface.
fn package_of(interface: &str) -> &str {
    interface.split_once('/').map_or(interface, |(package, _)| package)
}

/// The version of a package that this host serves.
fn served(package: &str) -> &'static str {
    if package == INBOUND { INBOUND_CONTRACT_VERSION } else { CONTRACT_VERSION }
}

/// Compatible when major and minor are ours: below 1.0 a minor version breaks.
fn check_version(package: &str, found: &str) -> Result<(), SandboxError> {
    let served = served(package);
    let ours = semver(served).unwrap_or_default();
    let theirs = semver(found).unwrap_or_default();
    if (theirs.0, theirs.1) == (ours.0, ours.1) {
        return Ok(());
    }
    let fix = if theirs > ours {
        "update waybill, or use an earlier version of the plugin"
    } else {
        "rebuild the plugin against this host's wit/ folder, or use a later version of it"
    };
    Err(SandboxError::ContractVersion {
        found: format!("{package}@{found}"),
        served: format!("{package}@{served}"),
        fix: fix.to_owned(),
    })
}

fn check_export(inspection: &Inspection) -> Result<(), SandboxError> {
    let world = inspection.manifest.world;
    for export in world.exports() {
        let versions = versions(inspection, export);
        if versions.is_empty() {
            return Err(before_inbound(inspection, export).unwrap_or_else(|| {
                let interface = format!("{export}@{}", served(package_of(export)));
                SandboxError::MissingExport { world, interface }
            }));
        }
        fits(export, &versions)?;
    }
    Ok(())
}

/// A source or handler that was built for `waybill:plugin`, which had these worlds first.
fn before_inbound(inspection: &Inspection, export: &str) -> Option<SandboxError> {
    let (_, before) = BEFORE_INBOUND.iter().find(|(now, _)| *now == export)?;
    let version = versions(inspection, before).first().copied()?;
    let served = format!("{INBOUND}@{INBOUND_CONTRACT_VERSION}");
    let fix = format!(
        "rebuild it with this host's SDK or against its wit/inbound folder: sources and handlers have a package of their own, {served}"
    );
    Some(SandboxError::ContractVersion { found: format!("{PLUGIN}@{version}"), served, fix })
}

/// Whether it can create what is missing at its peer.
pub(crate) fn provisions(inspection: &Inspection) -> bool {
    !versions(inspection, PROVISION).is_empty()
}

/// Versions in which an interface of ours is exported.
fn versions<'a>(inspection: &'a Inspection, interface: &str) -> Vec<&'a str> {
    inspection
        .exports
        .iter()
        .filter_map(|export| export.split_once('@'))
        .filter(|(name, _)| *name == interface)
        .map(|(_, version)| version)
        .collect()
}

/// One of the versions must be served, if there are any.
fn fits(interface: &str, versions: &[&str]) -> Result<(), SandboxError> {
    let package = package_of(interface);
    if versions.iter().any(|version| check_version(package, version).is_ok()) {
        return Ok(());
    }
    versions.first().map_or(Ok(()), |version| check_version(package, version))
}

fn check_import(world: World, import: &str) -> Result<(), SandboxError> {
    let unknown = || SandboxError::UnknownImport { import: import.to_owned() };
    let (path, version) = import.split_once('@').ok_or_else(unknown)?;
    let (package, interface) = path.split_once('/').ok_or_else(unknown)?;
    if package == PLUGIN || package == INBOUND {
        check_version(package, version)?;
        let offered = match (package, world) {
            (PLUGIN, World::Backoff) => interface == "types",
            (PLUGIN, _) => SERVICES.contains(&interface),
            (_, World::Backoff) => false,
            _ => INBOUND_SERVICES.contains(&interface),
        };
        return if offered { Ok(()) } else { Err(unknown()) };
    }
    let (major, minor, _) = semver(version).ok_or_else(unknown)?;
    let http = package == "wasi:http" && world == World::Backoff;
    if WASI.contains(&package) && (major, minor) == (0, 2) && !http { Ok(()) } else { Err(unknown()) }
}

fn typed<P, R, T>(pre: &InstancePre<T>, interface: &str, function: &str) -> wasmtime::Result<()>
where
    P: ComponentNamedList + Lower,
    R: ComponentNamedList + Lift,
    T: 'static,
{
    let component = pre.component();
    let name = format!("{interface}@{}", served(package_of(interface)));
    let (_, instance) = component.get_export(None, &name).ok_or_else(|| wasmtime::format_err!("no export {name}"))?;
    let (item, _) = component
        .get_export(Some(&instance), function)
        .ok_or_else(|| wasmtime::format_err!("{name} has no function {function}"))?;
    let ComponentItem::ComponentFunc(found) = item else {
        return Err(wasmtime::format_err!("{function} of {name} isn't a function"));
    };
    found
        .typecheck::<P, R>(&pre.instance_type())
        .map_err(|error| error.context(format!("{function} of {name} has other types")))
}

type Answer<T> = (Result<T, PluginError>,);

/// Checks the types of `transport-api`.
pub(crate) fn check_transport_types<T>(pre: &InstancePre<T>) -> wasmtime::Result<()> {
    let api = "waybill:plugin/transport-api";
    typed::<(CallInfo, OpenArgs), Answer<Opened>, T>(pre, api, "open")?;
    typed::<(CallInfo, Vec<Message>), Answer<Vec<Outcome>>, T>(pre, api, "send-batch")?;
    typed::<(CallInfo,), (HealthReport,), T>(pre, api, "health")?;
    typed::<(CallInfo,), Answer<()>, T>(pre, api, "tick")?;
    typed::<(CallInfo,), (), T>(pre, api, "close")
}

/// Checks the types of `source-api`.
pub(crate) fn check_source_types<T>(pre: &InstancePre<T>) -> wasmtime::Result<()> {
    let api = "waybill:inbound/source-api";
    typed::<(CallInfo, OpenArgs, SourceArgs), Answer<Opened>, T>(pre, api, "open")?;
    typed::<(CallInfo, u32, u32, u32), Answer<Pulled>, T>(pre, api, "pull")?;
    typed::<(CallInfo, Vec<Settlement>), Answer<Vec<Settled>>, T>(pre, api, "settle")?;
    typed::<(CallInfo,), (HealthReport,), T>(pre, api, "health")?;
    typed::<(CallInfo,), Answer<Notices>, T>(pre, api, "tick")?;
    typed::<(CallInfo,), Answer<()>, T>(pre, api, "quiesce")?;
    typed::<(CallInfo,), (), T>(pre, api, "close")
}

/// Checks the types of `handler-api`.
pub(crate) fn check_handler_types<T>(pre: &InstancePre<T>) -> wasmtime::Result<()> {
    let api = "waybill:inbound/handler-api";
    typed::<(CallInfo, OpenArgs), Answer<Opened>, T>(pre, api, "open")?;
    typed::<(CallInfo, Vec<Inbound>), Answer<Vec<Verdict>>, T>(pre, api, "handle")?;
    typed::<(CallInfo,), (), T>(pre, api, "close")
}

/// Checks the types of `table-api`.
pub(crate) fn check_table_types<T>(pre: &InstancePre<T>) -> wasmtime::Result<()> {
    let api = "waybill:inbound/table-api";
    typed::<(CallInfo, OpenArgs, TableArgs), Answer<Opened>, T>(pre, api, "open")?;
    typed::<(CallInfo, ClaimArgs), Answer<Claimed>, T>(pre, api, "claim")?;
    typed::<(CallInfo, u32, Vec<Mark>), Answer<Ended>, T>(pre, api, "commit")?;
    typed::<(CallInfo,), Answer<Vec<ContextStats>>, T>(pre, api, "stats")?;
    typed::<(CallInfo, Option<String>, u32), Answer<DeadPage>, T>(pre, api, "dead")?;
    typed::<(CallInfo, Vec<String>), Answer<Vec<bool>>, T>(pre, api, "replay")?;
    typed::<(CallInfo,), (HealthReport,), T>(pre, api, "health")?;
    typed::<(CallInfo,), Answer<Notices>, T>(pre, api, "tick")?;
    typed::<(CallInfo,), (), T>(pre, api, "close")
}

/// Checks the types of `participant-api`.
pub(crate) fn check_participant_types<T>(pre: &InstancePre<T>) -> wasmtime::Result<()> {
    type Undo = (CallInfo, String, StepContext, Vec<u8>, Option<Vec<u8>>);
    let api = "waybill:plugin/participant-api";
    typed::<(), (Vec<StepInfo>,), T>(pre, api, "steps")?;
    typed::<(CallInfo, OpenArgs), Answer<Opened>, T>(pre, api, "open")?;
    typed::<(CallInfo, String, StepContext, Vec<u8>), (Result<StepDone, StepError>,), T>(pre, api, "execute")?;
    typed::<Undo, (Result<StepOutput, StepError>,), T>(pre, api, "compensate")?;
    typed::<(CallInfo,), (), T>(pre, api, "close")
}

/// Checks the types of `provision-api`.
pub(crate) fn check_provision_types<T>(pre: &InstancePre<T>) -> wasmtime::Result<()> {
    typed::<(CallInfo, OpenArgs), Answer<Vec<Change>>, T>(pre, PROVISION, "plan")?;
    typed::<(CallInfo, OpenArgs), Answer<Vec<Change>>, T>(pre, PROVISION, "apply")
}

/// Checks the types of `backoff-api`.
pub(crate) fn check_backoff_types<T>(pre: &InstancePre<T>) -> wasmtime::Result<()> {
    let api = "waybill:plugin/backoff-api";
    typed::<(String,), (Result<(), String>,), T>(pre, api, "validate")?;
    typed::<(String, Attempt), (Decision,), T>(pre, api, "decide")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn code(result: Result<(), SandboxError>) -> &'static str {
        result.map_or_else(|error| error.code().as_str(), |()| "ok")
    }

    #[test]
    fn a_contract_fits_within_its_minor_version() {
        for (version, expected) in [
            ("0.1.0", "ok"),
            ("0.1.7", "ok"),
            ("0.2.0", "PLUGIN.CONTRACT_VERSION"),
            ("0.0.9", "PLUGIN.CONTRACT_VERSION"),
            ("1.0.0", "PLUGIN.CONTRACT_VERSION"),
        ] {
            assert_eq!(code(check_version(PLUGIN, version)), expected, "{version}");
        }
    }

    #[test]
    fn the_fix_says_who_must_move() {
        assert!(check_version(PLUGIN, "0.2.0").unwrap_err().to_string().contains("update waybill"));
        assert!(check_version(INBOUND, "0.0.1").unwrap_err().to_string().contains("rebuild the plugin"));
    }

    #[test]
    fn imports_are_known_by_name_and_version() {
        for (world, import, expected) in [
            (World::Transport, "waybill:plugin/net@0.1.0", "ok"),
            (World::Transport, "waybill:plugin/net@0.1.3", "ok"),
            (World::Transport, "waybill:plugin/net@0.2.0", "PLUGIN.CONTRACT_VERSION"),
            (World::Transport, "waybill:plugin/disk@0.1.0", "PLUGIN.UNKNOWN_IMPORT"),
            (World::Handler, "waybill:inbound/handling@0.1.0", "ok"),
            (World::Handler, "waybill:inbound/handling@0.2.0", "PLUGIN.CONTRACT_VERSION"),
            (World::Source, "waybill:inbound/table-api@0.1.0", "PLUGIN.UNKNOWN_IMPORT"),
            (World::Backoff, "waybill:inbound/inbound-types@0.1.0", "PLUGIN.UNKNOWN_IMPORT"),
            (World::Transport, "wasi:http/types@0.2.6", "ok"),
            (World::Transport, "wasi:http/types@0.3.0", "PLUGIN.UNKNOWN_IMPORT"),
            (World::Transport, "wasi:keyvalue/store@0.2.0", "PLUGIN.UNKNOWN_IMPORT"),
            (World::Transport, "env", "PLUGIN.UNKNOWN_IMPORT"),
            (World::Backoff, "waybill:plugin/types@0.1.0", "ok"),
            (World::Backoff, "waybill:plugin/log@0.1.0", "PLUGIN.UNKNOWN_IMPORT"),
            (World::Backoff, "wasi:io/streams@0.2.6", "ok"),
            (World::Backoff, "wasi:http/types@0.2.6", "PLUGIN.UNKNOWN_IMPORT"),
        ] {
            assert_eq!(code(check_import(world, import)), expected, "{import}");
        }
    }

    fn inspection(world: &str, exports: &[&str]) -> Inspection {
        let manifest = format!(
            "name = \"x\"\nversion = \"0.1.0\"\nworld = \"{world}\"\ncontract = \"0.1.0\"\ndescription = \"x\""
        );
        Inspection {
            manifest: crate::Manifest::parse(manifest.as_bytes()).unwrap(),
            digest: String::new(),
            bytes: 0,
            imports: Vec::new(),
            exports: exports.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    #[test]
    fn a_source_or_handler_from_before_its_package_is_told_to_be_rebuilt() {
        for (world, interface) in [("source", "source-api"), ("handler", "handler-api"), ("broker", "source-api")] {
            let before = format!("waybill:plugin/{interface}@0.1.0");
            let error = check(&inspection(world, &["waybill:plugin/transport-api@0.1.0", &before])).unwrap_err();
            assert_eq!(error.code().as_str(), "PLUGIN.CONTRACT_VERSION", "{world}");
            let text = error.to_string();
            assert!(
                text.contains("waybill:plugin@0.1.0") && text.contains("rebuild it with this host's SDK"),
                "{text}"
            );
        }
        for (world, exports) in [
            ("source", &["waybill:inbound/source-api@0.1.0"] as &[&str]),
            ("database", &["waybill:inbound/source-api@0.1.0", "waybill:inbound/table-api@0.1.0"]),
        ] {
            assert_eq!(code(check(&inspection(world, exports))), "ok", "{world}");
        }
        assert_eq!(code(check(&inspection("table", &[]))), "PLUGIN.MISSING_EXPORT");
    }
}
