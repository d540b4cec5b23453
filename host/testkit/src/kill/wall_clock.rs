//! A wall clock that the harness sets: a small library that is loaded into the host and moves what it reads, while its
//! boot-time clock and its timers stay what they are.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

const SOURCE: &str = include_str!("wall_clock.c");
/// Where it finds by how much the clock is ahead.
const FILE_VARIABLE: &str = "STEPPED_CLOCK";

/// The wall clock of the hosts of one run.
pub(super) struct WallClock {
    ahead: File,
    environment: Vec<(&'static str, OsString)>,
}

impl WallClock {
    /// Compiles the library with the machine's C compiler; `dir` holds it and its file.
    pub(super) fn make(dir: &Path) -> io::Result<Self> {
        let (source, library, file) = (dir.join("wall_clock.c"), dir.join("wall_clock.so"), dir.join("clock-ahead"));
        std::fs::write(&source, SOURCE)?;
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let mut command = Command::new(compiler);
        command.args(["-shared", "-fPIC", "-O2", "-o"]).arg(&library).arg(&source);
        let output = command.output()?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(io::Error::other(format!("the C compiler ended with {}: {text}", output.status)));
        }
        let ahead = File::options().read(true).write(true).create(true).truncate(true).open(&file)?;
        let clock = Self { ahead, environment: vec![("LD_PRELOAD", library.into()), (FILE_VARIABLE, file.into())] };
        clock.set_ahead(0)?;
        Ok(clock)
    }

    /// What a host's environment needs.
    pub(super) fn environment(&self) -> Vec<(&'static str, OsString)> {
        self.environment.clone()
    }

    /// Sets the clock so many seconds ahead of the machine's, at once for hosts that run too; negative = behind.
    pub(super) fn set_ahead(&self, seconds: i64) -> io::Result<()> {
        self.ahead.write_all_at(&seconds.to_ne_bytes(), 0)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_program_under_it_reads_the_clock_as_it_is_set() {
        let dir = tempfile::tempdir().unwrap();
        let clock = WallClock::make(dir.path()).unwrap();
        let read = || -> i64 {
            let output = Command::new("date").arg("+%s").envs(clock.environment()).output().unwrap();
            String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
        };
        let before = read();
        clock.set_ahead(-86_400).unwrap();
        let behind = read();
        clock.set_ahead(86_400).unwrap();
        let ahead = read();
        // A day is longer than any machine takes to run three programs.
        assert!(behind < before && before < ahead, "{behind} {before} {ahead}");
    }
}
