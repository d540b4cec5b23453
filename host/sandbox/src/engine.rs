//! The WebAssembly engines and what all plugins share: linkers, compile cache, resolver, TLS roots.
//!
//! Two engines: one for worlds that do I/O (epoch interruption: a busy guest yields every tick), one for pure worlds (fuel
//! beside it, so that a decision costs the same on every machine). Cranelift only: Winch had sandbox escapes.
//!
//! Memory is allocated on demand, not pooled: plugins are strangers, a fresh mapping holds nothing of the instance before,
//! and endpoints keep their instances for long, so the 7 us that pooling saves don't matter.

use std::path::PathBuf;
use std::sync::Arc;

use wasmtime::component::Linker;
use wasmtime::{Config, Engine, EngineWeak, InstanceAllocationStrategy, Strategy, WasmBacktraceDetails};
use waybill_core::port::changes::Changes;
use waybill_core::port::tasks::Tasks;

use crate::cache::CompileCache;
use crate::changes::ChangeReporter;
use crate::compile::{Compiler, CompilerProcess};
use crate::cpu;
use crate::error::{SandboxError, one_line};
use crate::grants::{OwnListeners, Resolve, SystemResolver};
use crate::host::{InstanceState, add_services};
use crate::limits::{EPOCH_TICK, EPOCH_TICK_IDLE, STACK_BYTES_MAX};
use crate::log_book::LogBook;
use crate::pure::{PureState, add_inert_wasi};
use crate::seal::Seal;
use crate::tls::TlsRoots;

/// Address space reserved for a linear memory: with 4 GiB no access needs a bounds check, and nothing of it is used until
/// it is touched. 47 bits hold 32,000 of them.
const MEMORY_RESERVATION: u64 = 4 << 30;
/// The same where the process's address space is limited (`ulimit -v`): accesses are checked instead.
const MEMORY_RESERVATION_TIGHT: u64 = 16 << 20;
/// Address space below which it counts as limited.
const ADDRESS_SPACE_TIGHT: u64 = 1 << 40;

/// The key in a folder that has no other.
pub(crate) const SEAL_KEY: &str = "seal.key";

/// How to build a [`Sandbox`].
#[derive(Clone)]
pub struct SandboxOptions {
    /// Folder for compiled components; none = compile at every start. Made with mode 0700 if it is missing, refused if it
    /// isn't this user's own or others may write to it.
    pub cache_dir: Option<PathBuf>,
    /// File with the key that seals what is kept there; none = `seal.key` in that folder. If there is no such file,
    /// [`Sandbox::keep_seal`] makes it. Refused if it isn't this user's or others may read it; its folder may be anybody's.
    pub seal_key: Option<PathBuf>,
    /// Resolver for every plugin's connections.
    pub resolver: Arc<dyn Resolve>,
    /// Compiles components that aren't embedded, in a process of its own; none = this process does, which only fits components
    /// that are trusted.
    pub compiler: Option<CompilerProcess>,
    /// Traps tell lines of source text, of components with debug information. No limit bounds what reading that takes, so it is for an
    /// author's own components.
    pub lines: bool,
    /// Who is told of tasks of plugins that fail in the host; none = the log.
    pub tasks: Option<Arc<dyn Tasks>>,
    /// Who is told of generations that take each other's place, and of breakers; none = nobody but the log.
    pub changes: Option<Arc<dyn Changes>>,
}

impl Default for SandboxOptions {
    fn default() -> Self {
        Self {
            cache_dir: None,
            seal_key: None,
            resolver: Arc::new(SystemResolver::default()),
            compiler: None,
            lines: false,
            tasks: None,
            changes: None,
        }
    }
}

impl std::fmt::Debug for SandboxOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SandboxOptions")
            .field("cache_dir", &self.cache_dir)
            .field("compiler", &self.compiler)
            .finish_non_exhaustive()
    }
}

/// The plugin host. Cheap to clone; plugins loaded from it keep it alive.
#[derive(Clone)]
pub struct Sandbox(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) services: Engine,
    pub(crate) services_linker: Linker<InstanceState>,
    pub(crate) pure: Engine,
    pub(crate) pure_linker: Linker<PureState>,
    pub(crate) cache: Option<CompileCache>,
    pub(crate) compiler: Compiler,
    pub(crate) resolver: Arc<dyn Resolve>,
    pub(crate) own: OwnListeners,
    pub(crate) tls: TlsRoots,
    pub(crate) tasks: Option<Arc<dyn Tasks>>,
    pub(crate) changes: ChangeReporter,
    pub(crate) log_book: LogBook,
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sandbox").field("cache", &self.0.cache).finish_non_exhaustive()
    }
}

impl Sandbox {
    /// Builds the engines and starts their ticker. Call it once a process.
    pub fn new(options: SandboxOptions) -> Result<Self, SandboxError> {
        let failed = |error: wasmtime::Error| SandboxError::Engine { cause: one_line(&error) };
        let services = Engine::new(&config(false, options.lines)).map_err(failed)?;
        let pure = Engine::new(&config(true, options.lines)).map_err(failed)?;
        let mut services_linker = Linker::new(&services);
        add_services(&mut services_linker).map_err(failed)?;
        let mut pure_linker = Linker::new(&pure);
        add_inert_wasi(&mut pure_linker).map_err(failed)?;
        start_ticker([services.weak(), pure.weak()])?;
        let cache = options.cache_dir.map(|folder| {
            let key = options.seal_key.unwrap_or_else(|| folder.join(SEAL_KEY));
            let cache = CompileCache::open(&folder, Seal::open(&key)?)?;
            if key.parent() == Some(&folder) {
                cache.seal.keep()?;
            }
            Ok(cache)
        });
        let cache = cache.transpose()?;
        Ok(Self(Arc::new(Shared {
            services,
            services_linker,
            pure,
            pure_linker,
            cache,
            compiler: Compiler::new(options.compiler, options.lines),
            resolver: options.resolver,
            own: OwnListeners::default(),
            tls: TlsRoots::default(),
            tasks: options.tasks,
            changes: ChangeReporter(options.changes),
            log_book: LogBook::default(),
        })))
    }
}

impl Sandbox {
    /// Writes the key of the compile cache if it is new. Before that, what is cached is of no use to another process.
    pub fn keep_seal(&self) -> Result<(), SandboxError> {
        self.0.cache.as_ref().map_or(Ok(()), |cache| cache.seal.keep())
    }

    /// Where this host listens: no plugin reaches that unless it is granted exactly.
    pub fn own_listeners(&self) -> &OwnListeners {
        &self.0.own
    }
}

/// The same in this process and in one that compiles for it: machine code fits only an equal engine.
pub(crate) fn config(pure: bool, lines: bool) -> Config {
    let mut config = Config::new();
    config
        .strategy(Strategy::Cranelift)
        .allocation_strategy(InstanceAllocationStrategy::OnDemand)
        .epoch_interruption(true)
        .max_wasm_stack(STACK_BYTES_MAX)
        .memory_reservation(if address_space_is_tight() { MEMORY_RESERVATION_TIGHT } else { MEMORY_RESERVATION })
        // Nothing that a component of our worlds needs, and each one more way to be surprised.
        .wasm_threads(false)
        .wasm_memory64(false)
        // Said here, or a variable of the environment would decide, which a process that compiles doesn't get.
        .wasm_backtrace_details(if lines { WasmBacktraceDetails::Enable } else { WasmBacktraceDetails::Disable })
        .wasm_backtrace_max_frames(std::num::NonZeroUsize::new(16));
    if pure {
        config.consume_fuel(true).cranelift_nan_canonicalization(true).relaxed_simd_deterministic(true);
    }
    config
}

#[cfg(unix)]
fn address_space_is_tight() -> bool {
    let limit = rustix::process::getrlimit(rustix::process::Resource::As);
    limit.current.is_some_and(|bytes| bytes < ADDRESS_SPACE_TIGHT)
}

#[cfg(not(unix))]
fn address_space_is_tight() -> bool {
    usize::BITS < 64
}

/// Advances the epoch of both engines until they are gone. A thread, because it must run when every worker of the runtime
/// is busy in a guest.
fn start_ticker(engines: [EngineWeak; 2]) -> Result<(), SandboxError> {
    std::thread::Builder::new()
        .name("waybill-epoch".to_owned())
        .spawn(move || {
            loop {
                std::thread::sleep(if cpu::guests_are_at_work() { EPOCH_TICK } else { EPOCH_TICK_IDLE });
                let mut alive = false;
                for engine in engines.iter().filter_map(EngineWeak::upgrade) {
                    engine.increment_epoch();
                    alive = true;
                }
                if !alive {
                    return;
                }
            }
        })
        .map(|_| ())
        .map_err(|error| SandboxError::Engine { cause: format!("no thread for the epoch ticker: {error}") })
}
