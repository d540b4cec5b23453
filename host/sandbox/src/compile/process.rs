//! The parent's side: starts the child, feeds it, waits for it, and judges how it ended.

use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Builder;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use super::child::{ANSWER, EXIT_MEMORY, EXIT_REFUSED, LINES};
use super::{CompileLimits, CompilerProcess, EngineKind};
use crate::error::SandboxError;
use crate::limits::{COMPILE_CLOCK_FACTOR, COMPILED_BYTES_MAX};
use crate::text::cut;

/// How often the parent looks after the child.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Most of the child's stderr that is read, in bytes.
const STDERR_BYTES_MAX: u64 = 16 * 1024;
/// Most of it that an error shows, in bytes.
const CAUSE_BYTES_MAX: usize = 512;
const CHECKSUM_BYTES: usize = 32;

/// The error of a load that nobody waits for any more.
pub(super) fn given_up() -> SandboxError {
    SandboxError::Compiler { cause: "nobody waits for it any more".to_owned() }
}

fn broken(cause: impl Into<String>) -> SandboxError {
    SandboxError::Compiler { cause: cause.into() }
}

/// How the child ended.
enum End {
    Exited(ExitStatus),
    Late,
    GivenUp,
}

/// Compiles one component in a child of its own.
pub(super) fn run(
    process: &CompilerProcess,
    kind: EngineKind,
    lines: bool,
    component: &[u8],
    given_up: &AtomicBool,
) -> Result<Vec<u8>, SandboxError> {
    let limits = process.limits;
    let mut child = Running(
        Command::new(&process.program)
            .args(&process.arguments)
            .arg(kind.as_str())
            .arg(limits.memory_bytes.to_string())
            .arg(limits.cpu.as_secs().max(1).to_string())
            .args(lines.then_some(LINES))
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| broken(format!("{} can't be started: {error}", process.program.display())))?,
    );
    let deadline = Instant::now() + limits.cpu.max(Duration::from_secs(1)) * COMPILE_CLOCK_FACTOR;
    let (end, answer, said) = talk(&mut child, component, deadline, given_up)
        .map_err(|error| broken(format!("talking with it failed: {error}")))?;
    match end {
        End::GivenUp => Err(self::given_up()),
        End::Late => Err(SandboxError::CompileTimeout { seconds: limits.cpu.as_secs().max(1) }),
        End::Exited(status) if status.success() => checked(answer),
        End::Exited(status) => Err(judge(status, &said, limits)),
    }
}

/// The child; gone when this is.
struct Running(Child);

impl Running {
    fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
        let _ = self.0.wait();
    }
}

/// Feeds the child and takes what it answers until it ends; over its time it is killed.
fn talk(
    child: &mut Running,
    component: &[u8],
    deadline: Instant,
    given_up: &AtomicBool,
) -> std::io::Result<(End, Vec<u8>, String)> {
    let gone = || std::io::Error::other("no pipe");
    let mut stdin = child.0.stdin.take().ok_or_else(gone)?;
    let stdout = child.0.stdout.take().ok_or_else(gone)?;
    let stderr = child.0.stderr.take().ok_or_else(gone)?;
    std::thread::scope(|scope| {
        let talked: std::io::Result<(End, Vec<u8>, String)> = (|| {
            // A child that ends early leaves a broken pipe; its exit code says more.
            Builder::new().spawn_scoped(scope, move || stdin.write_all(component).is_ok())?;
            let answer = Builder::new().spawn_scoped(scope, || read(stdout, COMPILED_BYTES_MAX))?;
            let said = Builder::new().spawn_scoped(scope, || read(stderr, STDERR_BYTES_MAX))?;
            let end = wait(child, deadline, given_up)?;
            let lost = || std::io::Error::other("a thread that read its answer ended");
            let answer = answer.join().map_err(|_| lost())?;
            let said = said.join().map_err(|_| lost())?;
            Ok((end, answer, String::from_utf8_lossy(&said).into_owned()))
        })();
        if talked.is_err() {
            // The threads end with the pipes.
            child.kill();
        }
        talked
    })
}

/// Up to `most` bytes, and one more if there are more; what can't be read is missing.
fn read(from: impl Read, most: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = from.take(most + 1).read_to_end(&mut bytes);
    bytes
}

fn wait(child: &mut Running, deadline: Instant, given_up: &AtomicBool) -> std::io::Result<End> {
    loop {
        if let Some(status) = child.0.try_wait()? {
            return Ok(End::Exited(status));
        }
        let end = if given_up.load(Ordering::Acquire) {
            End::GivenUp
        } else if Instant::now() >= deadline {
            End::Late
        } else {
            std::thread::sleep(LOOK_EVERY);
            continue;
        };
        child.kill();
        child.0.wait()?;
        return Ok(end);
    }
}

/// The machine code of an answer whose checksum is right.
fn checked(mut answer: Vec<u8>) -> Result<Vec<u8>, SandboxError> {
    if answer.len() as u64 > COMPILED_BYTES_MAX {
        return Err(broken(format!("its machine code has more than {COMPILED_BYTES_MAX} bytes")));
    }
    let code = answer
        .strip_prefix(ANSWER)
        .and_then(|rest| rest.split_at_checked(CHECKSUM_BYTES))
        .filter(|(checksum, code)| Sha256::digest(code).as_slice() == *checksum);
    if code.is_none() {
        return Err(broken("its answer isn't one, or was damaged on the way"));
    }
    Ok(answer.split_off(ANSWER.len() + CHECKSUM_BYTES))
}

/// What an end without an answer means.
fn judge(status: ExitStatus, said: &str, limits: CompileLimits) -> SandboxError {
    let said = cut(said.trim(), CAUSE_BYTES_MAX);
    let is = |code: u8| status.code() == Some(i32::from(code));
    // The allocator's last words before it aborts.
    if is(EXIT_MEMORY) || said.contains("memory allocation of ") {
        return SandboxError::CompileMemory { bytes: limits.memory_bytes };
    }
    if is(EXIT_REFUSED) {
        return SandboxError::Compile { cause: said.to_owned() };
    }
    if out_of_time(status) {
        return SandboxError::CompileTimeout { seconds: limits.cpu.as_secs().max(1) };
    }
    let how = if said.is_empty() { status.to_string() } else { format!("{status}: {said}") };
    SandboxError::CompileCrashed { how }
}

#[cfg(unix)]
fn out_of_time(status: ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt;
    status.signal() == Some(rustix::process::Signal::XCPU.as_raw())
}

#[cfg(not(unix))]
fn out_of_time(_: ExitStatus) -> bool {
    false
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn answer(code: &[u8]) -> Vec<u8> {
        [ANSWER.as_slice(), &Sha256::digest(code), code].concat()
    }

    #[test]
    fn an_answer_counts_only_with_its_checksum() {
        assert_eq!(checked(answer(b"code")).unwrap(), b"code");
        let mut damaged = answer(b"code");
        *damaged.last_mut().unwrap() ^= 1;
        for wrong in [damaged, Vec::new(), b"waybill1".to_vec(), answer(b"code")[1..].to_vec()] {
            assert_eq!(checked(wrong).unwrap_err().code().as_str(), "PLUGIN.COMPILER");
        }
    }

    /// Children that only behave like a compiler that failed.
    #[cfg(unix)]
    #[test]
    fn each_end_has_its_code() {
        for (script, cpu, expected) in [
            ("echo 'bad section' >&2; exit 10", 9, "PLUGIN.COMPILE"),
            ("exit 11", 9, "PLUGIN.COMPILE_MEMORY"),
            ("echo 'memory allocation of 9 bytes failed' >&2; kill -ABRT $$", 9, "PLUGIN.COMPILE_MEMORY"),
            ("kill -XCPU $$", 9, "PLUGIN.COMPILE_TIMEOUT"),
            ("exec sleep 3600", 1, "PLUGIN.COMPILE_TIMEOUT"),
            ("kill -SEGV $$", 9, "PLUGIN.COMPILE_CRASHED"),
            ("exit 101", 9, "PLUGIN.COMPILE_CRASHED"),
            ("echo hello", 9, "PLUGIN.COMPILER"),
        ] {
            let process = CompilerProcess {
                program: "/bin/sh".into(),
                arguments: vec!["-c".into(), script.into(), "sh".into()],
                limits: CompileLimits { cpu: Duration::from_secs(cpu), memory_bytes: 1 << 30 },
            };
            let component = vec![0; 1 << 20];
            let error = run(&process, EngineKind::Services, false, &component, &AtomicBool::new(false)).unwrap_err();
            assert_eq!(error.code().as_str(), expected, "{script}: {error}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_child_that_nobody_waits_for_is_ended() {
        let process = CompilerProcess {
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), "exec sleep 3600".into(), "sh".into()],
            limits: CompileLimits::default(),
        };
        let error = run(&process, EngineKind::Services, false, b"", &AtomicBool::new(true)).unwrap_err();
        assert!(error.to_string().contains("nobody waits"), "{error}");
        let process = CompilerProcess { program: "/no/such/program".into(), ..process };
        let error = run(&process, EngineKind::Services, false, b"", &AtomicBool::new(false)).unwrap_err();
        assert_eq!(error.code().as_str(), "PLUGIN.COMPILER");
    }
}
