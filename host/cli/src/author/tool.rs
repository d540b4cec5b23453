//! The languages' own tools: found on the path, run with their words shown as they come.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use waybill_core::code::Code;

use crate::exit::{CliError, Exit};
use crate::term::Term;

/// Where a program is, by the terminal's `PATH`.
pub(crate) fn find(name: &str, term: &Term) -> Option<PathBuf> {
    let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    std::env::split_paths(term.env.get("PATH")?).map(|folder| folder.join(&file)).find(|path| is_program(path))
}

/// Whether a path is a file that may be run.
pub(crate) fn is_program(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    }
    #[cfg(not(unix))]
    {
        path.is_file()
    }
}

/// A tool isn't there.
pub(crate) fn missing(what: &str, fix: &str) -> CliError {
    CliError::Host { code: Code::PLUGIN_TOOL_MISSING, what: format!("{what}\n  fix {fix}"), exit: Exit::Failed }
}

/// A tool ended badly, or made something that can't be a plugin.
pub(crate) fn failed(what: String) -> CliError {
    CliError::Host { code: Code::PLUGIN_BUILD_FAILED, what, exit: Exit::Failed }
}

/// Runs a tool to its end and answers its stdout. Its stderr is shown line by line, with `--quiet` only when it failed.
pub(crate) fn run(command: &mut Command, what: &str, term: &mut Term) -> Result<Vec<u8>, CliError> {
    let starting = || format!("starting {what}");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(CliError::io(starting()))?;
    // Read beside stderr, or a full pipe would stop the tool.
    let stdout = child.stdout.take().map(|mut stdout| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            stdout.read_to_end(&mut bytes).map(|_| bytes)
        })
    });
    let mut kept = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        for line in BufReader::new(stderr).split(b'\n') {
            let line = line.map_err(CliError::io(format!("reading what {what} says")))?;
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            term.say(&line);
            kept.push(line);
        }
    }
    let status = child.wait().map_err(CliError::io(format!("waiting for {what}")))?;
    let bytes = match stdout.map(std::thread::JoinHandle::join) {
        Some(Ok(read)) => read.map_err(CliError::io(format!("reading what {what} writes")))?,
        Some(Err(_)) | None => Vec::new(),
    };
    if status.success() {
        return Ok(bytes);
    }
    if term.quiet {
        kept.iter().for_each(|line| term.complain(line));
    }
    Err(failed(format!("{what} ended with {status}: see above")))
}
