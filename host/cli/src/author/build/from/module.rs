//! A core module as toolchains without components write it, and the component that is made of it.

use std::path::Path;

use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use wasmparser::{Parser, Payload, Validator, WasmFeatures};
use waybill_core::code::Code;
use wit_component::ComponentEncoder;

use super::no_wasm;
use crate::author::tool;
use crate::exit::{CliError, Exit};

/// How the custom sections begin in which bindings put the types of their world.
const TYPES: &str = "component-type";

/// A component of a core module with the contract's types inside.
pub(super) fn encoded(module: &[u8], from: &Path) -> Result<Vec<u8>, CliError> {
    let name = from.display();
    let kind = ModuleKind::of(module).map_err(|error| no_wasm(from, &error.to_string()))?;
    if !kind.typed {
        return Err(CliError::Host {
            code: Code::PLUGIN_CORE_MODULE,
            what: format!(
                "{name} is a core module without the contract's types (custom section {TYPES})\n  fix link the object file that wit-bindgen made beside the bindings (NAME_component_type.o), or run `wasm-tools component embed` with this host's wit/ first"
            ),
            exit: Exit::Failed,
        });
    }
    if kind.program {
        return Err(tool::failed(format!(
            "{name} is a program: nobody would call its _start, so its memory and its libraries would never be set up\n  fix build a library that exports _initialize (a reactor; with clang and zig cc: -mexec-model=reactor)"
        )));
    }
    let encode = || {
        ComponentEncoder::default()
            .module(module)?
            .validate(true)
            // Nothing of it stays in a component whose module asks for nothing of it.
            .adapter(WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER)?
            .encode()
    };
    encode().map_err(|error| {
        tool::failed(format!(
            "{name} can't be made a component: {error:#}\n  fix it may import what its world has and WASI preview1, and has to export the functions of its world and cabi_realloc"
        ))
    })
}

/// What is looked at before anything is made of a module.
struct ModuleKind {
    /// It holds the types of its world.
    typed: bool,
    /// It is run once, from beginning to end.
    program: bool,
}

impl ModuleKind {
    /// All of it is checked: what makes components takes a module as whole.
    fn of(module: &[u8]) -> wasmparser::Result<Self> {
        Validator::new_with_features(WasmFeatures::all()).validate_all(module)?;
        let (mut typed, mut start, mut initialize) = (false, false, false);
        for payload in Parser::new(0).parse_all(module) {
            match payload? {
                Payload::CustomSection(section) => typed |= section.name().starts_with(TYPES),
                Payload::ExportSection(exports) => {
                    for export in exports {
                        let name = export?.name;
                        start |= name == "_start";
                        initialize |= name == "_initialize";
                    }
                }
                _ => {}
            }
        }
        Ok(Self { typed, program: start && !initialize })
    }
}
