//! What can go wrong with a plugin before it serves, with stable codes. Failures of calls are `CallError`s of the port.

use thiserror::Error;
use waybill_core::code::Code;
use waybill_core::port::transport::{ErrorKind, Fault};

use crate::manifest::World;

/// A plugin couldn't be loaded, configured or opened.
#[derive(Debug, Error)]
pub enum SandboxError {
    /// The engine or its ticker couldn't start.
    #[error("can't start the WebAssembly engine: {cause}")]
    Engine { cause: String },
    /// The file can't be read.
    #[error("can't read plugin {path}: {cause}: check the path and its permissions")]
    Read { path: String, cause: String },
    /// A component can't be put in its place.
    #[error("can't write plugin {path}: {cause}: check the folder, its permissions and the free space")]
    Write { path: String, cause: String },
    /// Neither a component nor a module.
    #[error(
        "it isn't a WebAssembly component ({cause}): give the .wasm file that `cargo build --target wasm32-wasip2` made"
    )]
    NotAComponent {
        /// What the parser says.
        cause: String,
    },
    #[error("it is a core WebAssembly module, not a component: build it for wasm32-wasip2")]
    CoreModule,
    #[error(
        "it is precompiled machine code, which is never taken from outside: give the .wasm component it was made from"
    )]
    Precompiled,
    #[error("the component has {bytes} bytes, at most {bytes_max} are taken: strip it, or build with opt-level \"s\"")]
    TooLarge { bytes: usize, bytes_max: usize },
    #[error("it has no manifest: put waybill-plugin.toml beside Cargo.toml and call waybill_plugin::manifest!()")]
    NoManifest,
    /// The manifest is wrong.
    #[error("its manifest isn't usable: {cause}")]
    BadManifest { cause: String },
    /// Another world than the place it is used in.
    #[error("plugin {plugin:?} is a {found} plugin and can't be used as a {asked}: name a {asked} plugin here")]
    OtherWorld { plugin: String, found: World, asked: World },
    /// The manifest says one world, the component exports another or none.
    #[error(
        "its manifest says world {world}, but the component doesn't export {interface}: correct `world`, or export it"
    )]
    MissingExport {
        /// World in the manifest.
        world: World,
        /// Interface that is missing.
        interface: String,
    },
    /// Built against another contract.
    #[error("it was built for contract {found}, this host serves {served}: {fix}")]
    ContractVersion {
        /// Package and version.
        found: String,
        /// Package and version.
        served: String,
        fix: String,
    },
    /// It wants something that no host service offers.
    #[error(
        "it imports {import}, which this host doesn't offer: remove the dependency that needs it (offered: waybill:plugin@0.1, waybill:inbound@0.1, wasi 0.2 cli, clocks, random, io, filesystem, sockets, http)"
    )]
    UnknownImport {
        /// Name of the import.
        import: String,
    },
    #[error("it doesn't fit the contract: {cause}: rebuild it against this host's wit/ folder")]
    TypeMismatch { cause: String },
    /// The compiler refused it.
    #[error("it can't be compiled: {cause}")]
    Compile {
        /// What the compiler says.
        cause: String,
    },
    /// It took too long to compile.
    #[error(
        "compiling it took more than {seconds} s of CPU time or far longer by the clock: build it smaller (opt-level \"s\"), or raise compile_cpu in [plugins]"
    )]
    CompileTimeout {
        /// CPU time it may take.
        seconds: u64,
    },
    /// Compiling it took too much memory.
    #[error(
        "compiling it took more than {bytes} bytes of memory: build it smaller (opt-level \"s\"), or raise compile_memory in [plugins]"
    )]
    CompileMemory {
        /// Address space it may take.
        bytes: u64,
    },
    /// The compiler crashed on it. The host didn't.
    #[error(
        "the compiler crashed on it ({how}): build it with another toolchain or version, and report it with the file"
    )]
    CompileCrashed {
        /// How its process ended.
        how: String,
    },
    /// The process that compiles doesn't work.
    #[error("the process that compiles plugins doesn't work: {cause}")]
    Compiler { cause: String },
    /// The compile cache can't be used.
    #[error(
        "the compile cache at {path} isn't usable: {cause}. It holds code that the host runs: name a folder that only the host's user can write to in plugins.cache, or write \"off\" there"
    )]
    Cache { path: String, cause: String },
    /// The configuration isn't valid by the plugin's schema.
    #[error("config of {endpoint:?} isn't valid at {path}: {cause}")]
    Config {
        endpoint: String,
        /// JSON pointer; `/` is the document.
        path: String,
        cause: String,
    },
    /// `provision = true`, and the plugin can't.
    #[error(
        "provision is true for {endpoint:?}, but its plugin {plugin:?} has nothing to provision: leave the key out"
    )]
    NoProvisioning { endpoint: String, plugin: String },
    /// The steps that a participant describes can't be served.
    #[error("the steps of participant plugin {plugin:?} can't be used: {cause}")]
    Steps {
        plugin: String,
        /// What is wrong, with the fix.
        cause: String,
    },
    /// What the plugin can't do without isn't granted.
    #[error("plugin {plugin:?} can't do without {missing}, which isn't granted: add to [{section}]\n    {lines}")]
    GrantMissing {
        plugin: String,
        /// Section of `waybill.toml` that lacks it.
        section: String,
        /// What is missing, in the manifest's words.
        missing: String,
        /// The lines to add.
        lines: String,
    },
    /// More instances than the plugin can run.
    #[error(
        "[{section}] has instances = {instances}, and plugin {plugin:?} runs at most {most} side by side: write instances = {most}"
    )]
    Instances {
        plugin: String,
        section: String,
        instances: u32,
        /// What the manifest says.
        most: u32,
    },
    /// A grant or an ask isn't a pattern.
    #[error("{pattern:?} isn't a pattern for `allow`: {cause}")]
    Grant {
        pattern: String,
        /// What is wrong, with the fix.
        cause: String,
    },
    /// `open` failed at start.
    #[error("{endpoint:?} didn't open: {}: {}{}", .fault.code, .fault.reason, open_fix(*.kind))]
    Open { endpoint: String, kind: ErrorKind, fault: Fault },
}

fn open_fix(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::InvalidConfig => "; correct its config",
        ErrorKind::Denied => "; check its secrets and what `allow` grants",
        ErrorKind::Unavailable | ErrorKind::Throttled => "; check that the peer is up and reachable",
        ErrorKind::Trapped | ErrorKind::TimedOut | ErrorKind::Contract | ErrorKind::Internal => {
            "; this is a defect of the plugin: see its log, or go back to an earlier version"
        }
        ErrorKind::Fenced | ErrorKind::Unsupported | ErrorKind::Cancelled => "",
    }
}

impl SandboxError {
    pub fn code(&self) -> Code {
        match self {
            Self::Engine { .. } => Code::PLUGIN_ENGINE,
            Self::Read { .. } => Code::PLUGIN_READ,
            Self::Write { .. } => Code::PLUGIN_WRITE,
            Self::NotAComponent { .. } => Code::PLUGIN_NOT_A_COMPONENT,
            Self::CoreModule => Code::PLUGIN_CORE_MODULE,
            Self::Precompiled => Code::PLUGIN_PRECOMPILED,
            Self::TooLarge { .. } => Code::PLUGIN_TOO_LARGE,
            Self::NoManifest => Code::PLUGIN_NO_MANIFEST,
            Self::BadManifest { .. } => Code::PLUGIN_BAD_MANIFEST,
            Self::OtherWorld { .. } => Code::PLUGIN_OTHER_WORLD,
            Self::MissingExport { .. } => Code::PLUGIN_MISSING_EXPORT,
            Self::ContractVersion { .. } => Code::PLUGIN_CONTRACT_VERSION,
            Self::UnknownImport { .. } => Code::PLUGIN_UNKNOWN_IMPORT,
            Self::TypeMismatch { .. } => Code::PLUGIN_TYPE_MISMATCH,
            Self::Compile { .. } => Code::PLUGIN_COMPILE,
            Self::CompileTimeout { .. } => Code::PLUGIN_COMPILE_TIMEOUT,
            Self::CompileMemory { .. } => Code::PLUGIN_COMPILE_MEMORY,
            Self::CompileCrashed { .. } => Code::PLUGIN_COMPILE_CRASHED,
            Self::Compiler { .. } => Code::PLUGIN_COMPILER,
            Self::Cache { .. } => Code::PLUGIN_CACHE,
            Self::Config { .. } => Code::PLUGIN_CONFIG,
            Self::Grant { .. } => Code::PLUGIN_GRANT,
            Self::GrantMissing { .. } => Code::PLUGIN_GRANT_MISSING,
            Self::Instances { .. } => Code::PLUGIN_INSTANCES,
            Self::NoProvisioning { .. } => Code::PLUGIN_NO_PROVISIONING,
            Self::Steps { .. } => Code::PLUGIN_STEPS,
            Self::Open { .. } => Code::PLUGIN_OPEN_FAILED,
        }
    }

    /// Whether the same act may succeed later without a change.
    pub fn retryable(&self) -> bool {
        match self {
            Self::Open { kind, .. } => matches!(kind, ErrorKind::Unavailable | ErrorKind::Throttled),
            Self::Read { .. } | Self::Write { .. } | Self::Compiler { .. } => true,
            _ => false,
        }
    }
}

/// The chain of causes of a wasmtime error in one line, without its backtrace.
pub(crate) fn one_line(error: &wasmtime::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        let first = cause.lines().next().unwrap_or_default().trim();
        // The frames behind it are left out, so its heading says nothing.
        if first.is_empty() || text.ends_with(first) || first.starts_with("error while executing at wasm backtrace") {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&waybill_core::one_line::one_line(first));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Codes of the load path that no request is answered with: defects of the host itself, which its log explains, and keys of the
    /// configuration.
    const UNANSWERED: [Code; 3] = [Code::PLUGIN_ENGINE, Code::PLUGIN_CACHE, Code::PLUGIN_KEY];

    #[test]
    fn every_code_of_the_load_path_is_answered_as_itself() {
        let sources = [include_str!("error.rs"), include_str!("slot/error.rs"), include_str!("verify/mod.rs")];
        let mut found = 0;
        for source in sources {
            for name in source.split(concat!("=> ", "Code::PLUGIN_")).skip(1) {
                let name: String = name.chars().take_while(|c| c.is_ascii_uppercase() || *c == '_').collect();
                let code = Code::of(&format!("PLUGIN.{name}"));
                let code = code.filter(|code| code.is_answer() || UNANSWERED.contains(code));
                assert!(code.is_some(), "PLUGIN.{name} has no HTTP status: give its row in host/core/src/code one");
                found += 1;
            }
        }
        assert!(found >= 35, "only {found} codes were found");
    }
}
