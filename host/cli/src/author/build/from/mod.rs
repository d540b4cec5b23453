//! What another toolchain built: taken as it is if it is a component, made one if it is a core module, and held against the contract.

mod module;
mod types;

use std::path::Path;

use waybill_core::code::Code;
use waybill_sandbox::SandboxError;
use wit_component::DecodedWasm;

use super::Project;
use crate::author::{contract, project, tool};
use crate::exit::{CliError, Exit};

/// How all of WebAssembly begins, then a core module and a component.
const WASM: &[u8] = b"\0asm";
const MODULE: &[u8] = b"\0asm\x01\0\0\0";
const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";
/// Larger files aren't read: no component may have a fifth of it, whatever debug information the module has besides.
const FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// How many differences from the contract are told: one type that differs is in many functions.
const PROBLEMS_SHOWN_MAX: usize = 10;

/// The component in a file, or the one made of the module in it. `into` is where it goes in the end.
pub(super) fn component(from: &Path, into: &Path) -> Result<Vec<u8>, CliError> {
    let name = from.display();
    let found = match std::fs::metadata(from) {
        Ok(found) if found.is_file() => found,
        Ok(_) => return Err(project::wrong(format!("{name} isn't a file\n  fix name the .wasm that was built"))),
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {
            return Err(project::wrong(format!("there is no {name}\n  fix build it first, or correct the path")));
        }
        Err(cause) => return Err(CliError::io(format!("reading {name}"))(cause)),
    };
    if found.len() > FILE_BYTES_MAX {
        return Err(project::wrong(format!(
            "{name} has {} bytes, at most {FILE_BYTES_MAX} are read\n  fix strip it",
            found.len()
        )));
    }
    if same(from, into) {
        return Err(project::wrong(format!(
            "{name} is where the component goes, and would be lost\n  fix name another file with --out, or let your toolchain write another"
        )));
    }
    let bytes = std::fs::read(from).map_err(CliError::io(format!("reading {name}")))?;
    if bytes.starts_with(MODULE) {
        return module::encoded(&bytes, from);
    }
    if bytes.starts_with(COMPONENT) {
        return Ok(bytes);
    }
    let cause = if bytes.starts_with(WASM) { "its version isn't known" } else { "it doesn't begin like one" };
    Err(no_wasm(from, cause))
}

/// Another kind of file, or a damaged one.
fn no_wasm(from: &Path, cause: &str) -> CliError {
    let what = format!(
        "{} is neither a WebAssembly component nor a module ({cause})\n  fix name the .wasm that your toolchain wrote, or build it again",
        from.display()
    );
    CliError::Host { code: Code::PLUGIN_NOT_A_COMPONENT, what, exit: Exit::Failed }
}

fn same(one: &Path, other: &Path) -> bool {
    one.canonicalize().ok().is_some_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

/// Refuses types that are others than the contract's, which the host would find when it links the component.
pub(super) fn check_types(project: &Project, component: &[u8]) -> Result<(), CliError> {
    let name = &project.manifest.name;
    let contract = contract::resolved().map_err(|error| tool::failed(format!("the embedded contract: {error}")))?;
    let (found, world) = match wit_component::decode(component) {
        Ok(DecodedWasm::Component(found, world)) => (found, world),
        Ok(DecodedWasm::WitPackage(..)) => {
            return Err(tool::failed(format!(
                "{name}: it holds interfaces and no code\n  fix name what was built of them"
            )));
        }
        Err(error) => {
            let cause = format!("{error:#}");
            let error = SandboxError::NotAComponent { cause };
            return Err(CliError::Host { code: error.code(), what: format!("{name}: {error}"), exit: Exit::Failed });
        }
    };
    let problems = types::problems(&found, world, &contract);
    if problems.is_empty() {
        return Ok(());
    }
    let mut shown: Vec<String> =
        problems.iter().take(PROBLEMS_SHOWN_MAX).map(|problem| format!("\n  - {problem}")).collect();
    if problems.len() > PROBLEMS_SHOWN_MAX {
        shown.push(format!("\n  - and {} more", problems.len() - PROBLEMS_SHOWN_MAX));
    }
    Err(CliError::Host {
        code: Code::PLUGIN_TYPE_MISMATCH,
        what: format!(
            "{name}: it was made for another contract than this host's {}@{}{}\n  fix make its bindings of this host's wit/ again, and build it with them",
            project.manifest.world.package(),
            project.manifest.contract,
            shown.concat()
        ),
        exit: Exit::Failed,
    })
}
