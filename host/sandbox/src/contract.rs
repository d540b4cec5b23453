//! Whether a component fits the contract: versions and imports by name before it is compiled, types of its exports after
//! it is linked and before anything of it runs.

use wasmtime::component::types::ComponentItem;
use wasmtime::component::{ComponentNamedList, InstancePre, Lift, Lower};

use waybill_bindings::api::types::{CallInfo, HealthReport, Message, OpenArgs, Opened, Outcome, PluginError};
use waybill_bindings::backoff::exports::waybill::plugin::backoff_api::{Attempt, Decision};
use waybill_bindings::services::exports::waybill::plugin::handler_api::{Inbound, Verdict};
use waybill_bindings::services::exports::waybill::plugin::participant_api::{
    StepContext, StepDone, StepError, StepInfo, StepOutput,
};
use waybill_bindings::services::exports::waybill::plugin::provision_api::Change;
use waybill_bindings::services::exports::waybill::plugin::source_api::{Pulled, Settled, Settlement};

use crate::error::SandboxError;
use crate::load::Inspection;
use crate::manifest::{World, semver};

/// Contract this host serves.
pub const CONTRACT_VERSION: &str = "0.1.0";
const PACKAGE: &str = "waybill:plugin";

/// Interfaces of our package that a guest may import.
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
/// The optional export of transports that creates what is missing at the peer.
const PROVISION: &str = "provision-api";
/// Packages of WASI that are linked, in any 0.2 version.
const WASI: [&str; 7] =
    ["wasi:cli", "wasi:clocks", "wasi:random", "wasi:io", "wasi:filesystem", "wasi:sockets", "wasi:http"];

/// Checks versions, the export that makes the world, and the names of all imports.
pub(crate) fn check(inspection: &Inspection) -> Result<(), SandboxError> {
    check_version(&inspection.manifest.contract)?;
    check_export(inspection)?;
    fits(&versions(inspection, PROVISION))?;
    inspection.imports.iter().try_for_each(|import| check_import(inspection.manifest.world, import))
}

impl Inspection {
    /// Whether it fits the contract by name: versions, the export that makes its world, imports. Its types are checked when it
    /// is loaded.
    pub fn check_contract(&self) -> Result<(), SandboxError> {
        check(self)
    }
}

/// Compatible when major and minor are ours: below 1.0 a minor version breaks.
fn check_version(found: &str) -> Result<(), SandboxError> {
    let ours = semver(CONTRACT_VERSION).unwrap_or_default();
    let theirs = semver(found).unwrap_or_default();
    if (theirs.0, theirs.1) == (ours.0, ours.1) {
        return Ok(());
    }
    let fix = if theirs > ours {
        "update waybill, or use an earlier version of the plugin"
    } else {
        "rebuild the plugin against this host's wit/ folder, or use a later version of it"
    };
    Err(SandboxError::ContractVersion { found: found.to_owned(), served: CONTRACT_VERSION, fix: fix.to_owned() })
}

fn check_export(inspection: &Inspection) -> Result<(), SandboxError> {
    let world = inspection.manifest.world;
    for export in world.exports() {
        let versions = versions(inspection, export);
        if versions.is_empty() {
            let interface = format!("{PACKAGE}/{export}@{CONTRACT_VERSION}");
            return Err(SandboxError::MissingExport { world, interface });
        }
        fits(&versions)?;
    }
    Ok(())
}

/// Whether it can create what is missing at its peer.
pub(crate) fn provisions(inspection: &Inspection) -> bool {
    !versions(inspection, PROVISION).is_empty()
}

/// Versions in which an interface of ours is exported.
fn versions<'a>(inspection: &'a Inspection, interface: &str) -> Vec<&'a str> {
    let wanted = format!("{PACKAGE}/{interface}");
    inspection
        .exports
        .iter()
        .filter_map(|export| export.split_once('@'))
        .filter(|(name, _)| *name == wanted)
        .map(|(_, version)| version)
        .collect()
}

/// One of the versions must be served, if there are any.
fn fits(versions: &[&str]) -> Result<(), SandboxError> {
    if versions.iter().any(|version| check_version(version).is_ok()) {
        return Ok(());
    }
    versions.first().map_or(Ok(()), |version| check_version(version))
}

fn check_import(world: World, import: &str) -> Result<(), SandboxError> {
    let unknown = || SandboxError::UnknownImport { import: import.to_owned() };
    let (path, version) = import.split_once('@').ok_or_else(unknown)?;
    let (package, interface) = path.split_once('/').ok_or_else(unknown)?;
    if package == PACKAGE {
        check_version(version)?;
        let offered = if world == World::Backoff { interface == "types" } else { SERVICES.contains(&interface) };
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
    let name = format!("{PACKAGE}/{interface}@{CONTRACT_VERSION}");
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
    let api = "transport-api";
    typed::<(CallInfo, OpenArgs), Answer<Opened>, T>(pre, api, "open")?;
    typed::<(CallInfo, Vec<Message>), Answer<Vec<Outcome>>, T>(pre, api, "send-batch")?;
    typed::<(CallInfo,), (HealthReport,), T>(pre, api, "health")?;
    typed::<(CallInfo,), Answer<()>, T>(pre, api, "tick")?;
    typed::<(CallInfo,), (), T>(pre, api, "close")
}

/// Checks the types of `source-api`.
pub(crate) fn check_source_types<T>(pre: &InstancePre<T>) -> wasmtime::Result<()> {
    let api = "source-api";
    typed::<(CallInfo, OpenArgs), Answer<Opened>, T>(pre, api, "open")?;
    typed::<(CallInfo, u32, u32, u32), Answer<Pulled>, T>(pre, api, "pull")?;
    typed::<(CallInfo, Vec<Settlement>), Answer<Vec<Settled>>, T>(pre, api, "settle")?;
    typed::<(CallInfo,), (HealthReport,), T>(pre, api, "health")?;
    typed::<(CallInfo,), Answer<()>, T>(pre, api, "tick")?;
    typed::<(CallInfo,), (), T>(pre, api, "close")
}

/// Checks the types of `handler-api`.
pub(crate) fn check_handler_types<T>(pre: &InstancePre<T>) -> wasmtime::Result<()> {
    let api = "handler-api";
    typed::<(CallInfo, OpenArgs), Answer<Opened>, T>(pre, api, "open")?;
    typed::<(CallInfo, Vec<Inbound>), Answer<Vec<Verdict>>, T>(pre, api, "handle")?;
    typed::<(CallInfo,), (), T>(pre, api, "close")
}

/// Checks the types of `participant-api`.
pub(crate) fn check_participant_types<T>(pre: &InstancePre<T>) -> wasmtime::Result<()> {
    type Undo = (CallInfo, String, StepContext, Vec<u8>, Option<Vec<u8>>);
    let api = "participant-api";
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
    let api = "backoff-api";
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
            assert_eq!(code(check_version(version)), expected, "{version}");
        }
    }

    #[test]
    fn the_fix_says_who_must_move() {
        assert!(check_version("0.2.0").unwrap_err().to_string().contains("update waybill"));
        assert!(check_version("0.0.1").unwrap_err().to_string().contains("rebuild the plugin"));
    }

    #[test]
    fn imports_are_known_by_name_and_version() {
        for (world, import, expected) in [
            (World::Transport, "waybill:plugin/net@0.1.0", "ok"),
            (World::Transport, "waybill:plugin/net@0.1.3", "ok"),
            (World::Transport, "waybill:plugin/net@0.2.0", "PLUGIN.CONTRACT_VERSION"),
            (World::Transport, "waybill:plugin/disk@0.1.0", "PLUGIN.UNKNOWN_IMPORT"),
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
}
