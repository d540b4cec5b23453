//! Compiling a component: in this process where it is trusted, in a child process with limits where it isn't.
//!
//! A compiler that is fed on purpose can take all memory and all time, and its makers don't count that as a vulnerability.
//! So a component from outside is compiled by this program run anew ([`CompilerProcess`]), which gets the bytes through a
//! pipe, limits itself before it reads them, and answers machine code with its checksum. It ends with the load that
//! wanted it. What it doesn't do: keep a child that was taken over from answering bad machine code.

mod child;
mod gate;
mod process;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use wasmtime::Engine;
use wasmtime::component::Component;

pub use child::compile_component;

use crate::cache::machine_code;
use crate::error::{SandboxError, one_line};
use crate::limits::{COMPILE_CPU, COMPILE_MEMORY_BYTES, COMPILES_AT_ONCE_MAX};
use gate::Gate;

/// Which of the two engines compiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EngineKind {
    /// For worlds that do I/O.
    Services,
    /// For worlds without any.
    Pure,
}

impl EngineKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Services => "services",
            Self::Pure => "pure",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Services, Self::Pure].into_iter().find(|kind| kind.as_str() == text)
    }
}

/// What one compilation may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompileLimits {
    /// CPU time, all threads together; whole seconds count. It may take twenty times as long by the clock.
    pub cpu: Duration,
    /// Address space, in bytes.
    pub memory_bytes: u64,
}

impl Default for CompileLimits {
    fn default() -> Self {
        Self { cpu: COMPILE_CPU, memory_bytes: COMPILE_MEMORY_BYTES }
    }
}

/// A program that calls [`compile_component`] with the arguments that follow `arguments`.
#[derive(Clone, Debug)]
pub struct CompilerProcess {
    pub program: PathBuf,
    /// Its first arguments, e.g. a hidden subcommand.
    pub arguments: Vec<OsString>,
    /// What one compilation may take.
    pub limits: CompileLimits,
}

/// Compiles for one sandbox.
pub(crate) struct Compiler {
    process: Option<CompilerProcess>,
    /// See [`crate::SandboxOptions::lines`]: both engines must agree.
    lines: bool,
    gate: Gate,
}

impl Compiler {
    pub(crate) fn new(process: Option<CompilerProcess>, lines: bool) -> Self {
        Self { process, lines, gate: Gate::new(COMPILES_AT_ONCE_MAX) }
    }

    /// Compiles and answers the component and its machine code. Blocks for as long as it takes; `given_up` ends it early.
    pub(crate) fn compile(
        &self,
        engine: &Engine,
        kind: EngineKind,
        bytes: &[u8],
        trusted: bool,
        given_up: &AtomicBool,
    ) -> Result<(Component, Vec<u8>), SandboxError> {
        let refused = |error: wasmtime::Error| SandboxError::Compile { cause: one_line(&error) };
        let Some(process) = self.process.as_ref().filter(|_| !trusted) else {
            let component = Component::from_binary(engine, bytes).map_err(refused)?;
            let code = component.serialize().map_err(refused)?;
            return Ok((component, code));
        };
        let _pass = self.gate.enter(given_up).ok_or_else(process::given_up)?;
        let code = process::run(process, kind, self.lines, bytes, given_up)?;
        let component = machine_code(engine, &code).map_err(|error| SandboxError::Compiler {
            cause: format!("its answer isn't usable: {}", one_line(&error)),
        })?;
        Ok((component, code))
    }
}
