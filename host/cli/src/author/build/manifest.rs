//! The manifest inside a component: put there where the language has no way to, and never another than the project's.

use wasm_encoder::{CustomSection, Section};
use waybill_sandbox::{SandboxError, inspect};

use super::Project;
use crate::author::tool;
use crate::exit::CliError;

/// Name of the section.
const SECTION: &str = "waybill-plugin";

/// The component with its manifest as a custom section at the top level, unless it brought its own (Rust's `manifest!`).
/// `fix` says what to do where it is that of another plugin.
pub(super) fn embedded(project: &Project, mut component: Vec<u8>, fix: &str) -> Result<Vec<u8>, CliError> {
    match inspect(&component) {
        Err(SandboxError::NoManifest) => {
            let section = CustomSection { name: SECTION.into(), data: (&project.manifest_bytes).into() };
            // A custom section is the same in components and modules.
            section.append_to(&mut component);
            Ok(component)
        }
        Err(error) => Err(tool::failed(format!("{}: {error}", project.manifest.name))),
        Ok(inspection) => {
            let (found, own) = (&inspection.manifest, &project.manifest);
            if (&found.name, &found.version, found.world) == (&own.name, &own.version, own.world) {
                return Ok(component);
            }
            Err(tool::failed(format!(
                "the component holds the manifest of {} {} ({}), not the one in waybill-plugin.toml\n  fix {fix}",
                found.name, found.version, found.world
            )))
        }
    }
}
