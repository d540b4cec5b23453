//! The child's side: limits itself, reads a component from stdin, writes machine code to stdout.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::process::ExitCode;

use sha2::{Digest, Sha256};
use wasmtime::Engine;

use super::EngineKind;
use crate::engine::config;
use crate::error::one_line;
use crate::limits::COMPONENT_BYTES_MAX;

/// First bytes of an answer; the SHA-256 of the machine code and the code follow.
pub(super) const ANSWER: &[u8; 8] = b"waybill1";
/// Last argument where the engine keeps debug information.
pub(super) const LINES: &str = "lines";
/// The compiler refused the component; stderr says why.
pub(super) const EXIT_REFUSED: u8 = 10;
/// There wasn't enough memory.
pub(super) const EXIT_MEMORY: u8 = 11;
/// Anything else; stderr says what.
const EXIT_FAILED: u8 = 12;

/// How much lower its priority is, in steps of `nice`: messages go first.
#[cfg(unix)]
const NICE: i32 = 10;

/// Compiles the component on stdin and writes its machine code to stdout: all that a process started by
/// [`super::CompilerProcess`] does. `arguments` are those after the program's own: engine, bytes of memory, seconds of CPU,
/// and `lines` where debug information is kept.
pub fn compile_component(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match compile(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, cause)) => {
            // The parent shows it; if nobody reads it, the exit code has to do.
            let _ = writeln!(std::io::stderr(), "{cause}");
            ExitCode::from(code)
        }
    }
}

fn compile(arguments: impl IntoIterator<Item = OsString>) -> Result<(), (u8, String)> {
    let failed = |cause: String| (EXIT_FAILED, cause);
    let asked = parse(arguments).ok_or_else(|| failed("usage: ENGINE MEMORY CPU [lines]".to_owned()))?;
    let Asked { kind, memory, cpu, lines } = asked;
    // Before the limits: how memory is reserved depends on those of the parent, and both must agree.
    let engine = Engine::new(&config(kind == EngineKind::Pure, lines)).map_err(|error| failed(one_line(&error)))?;
    limit(memory, cpu).map_err(|error| failed(format!("setting limits: {error}")))?;
    let mut component = Vec::new();
    std::io::stdin()
        .take(COMPONENT_BYTES_MAX as u64 + 1)
        .read_to_end(&mut component)
        .map_err(|error| failed(format!("reading the component: {error}")))?;
    if component.len() > COMPONENT_BYTES_MAX {
        return Err(failed(format!("more than {COMPONENT_BYTES_MAX} bytes")));
    }
    let code = engine.precompile_component(&component).map_err(|error| refused(&error))?;
    let mut out = std::io::stdout().lock();
    [ANSWER.as_slice(), &Sha256::digest(&code), &code]
        .into_iter()
        .try_for_each(|part| out.write_all(part))
        .and_then(|()| out.flush())
        .map_err(|error| failed(format!("writing the answer: {error}")))
}

#[derive(Debug, PartialEq, Eq)]
struct Asked {
    kind: EngineKind,
    memory: u64,
    cpu: u64,
    lines: bool,
}

fn parse(arguments: impl IntoIterator<Item = OsString>) -> Option<Asked> {
    let mut arguments = arguments.into_iter().map(OsString::into_string);
    let mut next = || arguments.next()?.ok();
    let (kind, memory, cpu) = (EngineKind::parse(&next()?)?, next()?.parse().ok()?, next()?.parse().ok()?);
    let lines = match next() {
        None => false,
        Some(word) if word == LINES => true,
        Some(_) => return None,
    };
    next().is_none().then_some(Asked { kind, memory, cpu, lines })
}

fn refused(error: &wasmtime::Error) -> (u8, String) {
    let out_of_memory = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::OutOfMemory)
    };
    let code = if error.chain().any(out_of_memory) { EXIT_MEMORY } else { EXIT_REFUSED };
    (code, one_line(error))
}

/// No more memory and CPU than given, no files, no core dump, a lower priority, and no life beyond the parent's.
#[cfg(unix)]
fn limit(memory: u64, cpu: u64) -> std::io::Result<()> {
    use rustix::process::{Resource, Rlimit, nice, setrlimit};
    let at_most = |soft: u64, hard: u64| Rlimit { current: Some(soft), maximum: Some(hard) };
    setrlimit(Resource::Core, at_most(0, 0))?;
    setrlimit(Resource::Fsize, at_most(0, 0))?;
    // The soft limit sends SIGXCPU, which the parent can tell from other ends; the hard one kills.
    setrlimit(Resource::Cpu, at_most(cpu, cpu.saturating_add(1)))?;
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    nice(NICE)?;
    let own = rustix::process::getrlimit(Resource::As).current.unwrap_or(u64::MAX);
    let memory = memory.min(own);
    setrlimit(Resource::As, at_most(memory, memory))?;
    Ok(())
}

/// Without such limits the parent's clock is the only one.
#[cfg(not(unix))]
fn limit(_: u64, _: u64) -> std::io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_strictly() {
        let read = |text: &str| parse(text.split(' ').map(OsString::from));
        let asked = |lines| Some(Asked { kind: EngineKind::Pure, memory: 1024, cpu: 60, lines });
        assert_eq!((read("pure 1024 60"), read("pure 1024 60 lines")), (asked(false), asked(true)));
        for text in [
            "",
            "pure 1024",
            "pure 1024 60 more",
            "pure 1024 60 lines more",
            "other 1024 60",
            "pure x 60",
            "pure 1024 -1",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
