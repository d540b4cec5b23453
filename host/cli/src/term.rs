//! Where a command reads from and writes to, so that tests can look over its shoulder.

use std::collections::BTreeMap;
use std::io::{BufRead, IsTerminal, Write};
use std::path::PathBuf;

use jiff::Timestamp;

use crate::exit::CliError;
use crate::output::safe_lines;

/// What to do where an act needs a yes and there is nobody to ask.
pub const DRY_RUN_FIRST: &str = "look with --dry-run, then add --yes";

/// Stdin, stdout, stderr and the environment of one command.
pub struct Term {
    pub out: Box<dyn Write + Send>,
    /// Progress, messages and errors.
    pub err: Box<dyn Write + Send>,
    pub input: Box<dyn BufRead + Send>,
    /// Columns of the terminal that results have to fit; none = no terminal, or they needn't.
    pub width: Option<u16>,
    /// Something of a table was left out, so that it fits.
    pub left_out: bool,
    pub now: fn() -> Timestamp,
    /// There is somebody to ask.
    pub interactive: bool,
    /// Colours may be used in results.
    pub color: bool,
    /// Colours aren't switched off by a flag.
    pub color_wanted: bool,
    /// Messages are left out.
    pub quiet: bool,
    pub env: BTreeMap<String, String>,
    /// This program, for what it does in a process of its own; none = it does all of it in this one.
    pub program: Option<PathBuf>,
}

impl Term {
    pub fn of_process() -> Self {
        let width = std::io::stdout().is_terminal().then(terminal_width).flatten();
        // Variables that aren't UTF-8 are none of ours.
        let env: BTreeMap<String, String> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let plain = env.get("NO_COLOR").is_some_and(|value| !value.is_empty())
            || env.get("TERM").is_some_and(|term| term == "dumb");
        Self {
            out: Box::new(std::io::stdout()),
            err: Box::new(std::io::stderr()),
            input: Box::new(std::io::BufReader::new(std::io::stdin())),
            width,
            left_out: false,
            now: Timestamp::now,
            interactive: std::io::stdin().is_terminal() && std::io::stderr().is_terminal(),
            color: width.is_some() && !plain,
            color_wanted: true,
            quiet: false,
            env,
            program: own_program(),
        }
    }

    /// Takes over the flags that concern it.
    pub fn configure(&mut self, quiet: bool, no_color: bool, wide: bool) {
        self.quiet = quiet;
        self.width = self.width.filter(|_| !wide);
        self.color &= !no_color;
        self.color_wanted = !no_color;
    }

    /// Whether stderr may be coloured.
    pub fn color_errors(&self) -> bool {
        let plain = self.env.get("NO_COLOR").is_some_and(|value| !value.is_empty());
        !plain && self.color_wanted && std::io::stderr().is_terminal()
    }

    /// Writes a line of results. A reader that went away (`| head`) ends the command quietly.
    pub fn line(&mut self, text: &str) -> Result<(), CliError> {
        writeln!(self.out, "{text}").map_err(CliError::io("writing the result"))
    }

    /// Writes a message, unless they aren't wanted.
    pub fn say(&mut self, text: &str) {
        if !self.quiet {
            // Nobody reads messages when stderr is gone.
            let _ = writeln!(self.err, "{text}");
        }
    }

    /// Writes an error. What others wrote into it can't draw on the terminal.
    pub fn complain(&mut self, text: &str) {
        let _ = writeln!(self.err, "{}", safe_lines(text));
    }

    /// Has the operator agree to an act; anything but a yes is a no. `fix` says what to do where there is nobody to ask.
    pub fn confirm(&mut self, act: &str, question: &str, fix: &str) -> Result<(), CliError> {
        if !self.interactive {
            return Err(CliError::nobody_to_ask(act, fix));
        }
        write!(self.err, "{question} [y/N] ").and_then(|()| self.err.flush()).map_err(CliError::io("asking"))?;
        let mut answer = String::new();
        self.input.read_line(&mut answer).map_err(CliError::io("reading the answer"))?;
        match answer.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => Err(CliError::Declined),
        }
    }
}

/// Where this program can be run from again. On Linux that is what runs now, even if the file was replaced by an update.
fn own_program() -> Option<PathBuf> {
    let link = PathBuf::from("/proc/self/exe");
    if cfg!(target_os = "linux") && link.exists() { Some(link) } else { std::env::current_exe().ok() }
}

/// Columns of the terminal behind stdout.
fn terminal_width() -> Option<u16> {
    comfy_table::Table::new().width()
}

/// What a test's command has written.
#[cfg(test)]
#[derive(Clone, Default)]
pub struct Written(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

#[cfg(test)]
impl Written {
    pub fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

#[cfg(test)]
impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
