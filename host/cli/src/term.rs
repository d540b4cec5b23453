//! Where a command reads from and writes to, so that tests can look over its shoulder.

use std::collections::BTreeMap;
use std::io::{BufRead, IsTerminal, Write};
use std::path::PathBuf;

use crate::args::Global;
use crate::exit::CliError;
use crate::output::safe_lines;

/// Stdin, stdout, stderr and the environment of one command.
pub struct Term {
    /// Results.
    pub out: Box<dyn Write + Send>,
    /// Progress, messages and errors.
    pub err: Box<dyn Write + Send>,
    /// Input.
    pub input: Box<dyn BufRead + Send>,
    /// Columns of the terminal that results go to; none = no terminal.
    pub width: Option<u16>,
    /// There is somebody to ask.
    pub interactive: bool,
    /// Colours may be used in results.
    pub color: bool,
    /// Colours aren't switched off by a flag.
    pub color_wanted: bool,
    /// Messages are left out.
    pub quiet: bool,
    /// The environment.
    pub env: BTreeMap<String, String>,
    /// This program, for what it does in a process of its own; none = it does all of it in this one.
    pub program: Option<PathBuf>,
}

impl Term {
    /// Of this process.
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
            interactive: std::io::stdin().is_terminal() && std::io::stderr().is_terminal(),
            color: width.is_some() && !plain,
            color_wanted: true,
            quiet: false,
            env,
            program: own_program(),
        }
    }

    /// Takes over the flags that concern it.
    pub fn configure(&mut self, global: &Global) {
        self.quiet = global.quiet;
        self.color &= !global.no_color;
        self.color_wanted = !global.no_color;
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

    /// Asks for a yes on stderr; anything else is a no.
    pub fn confirm(&mut self, question: &str) -> Result<bool, CliError> {
        write!(self.err, "{question} [y/N] ").and_then(|()| self.err.flush()).map_err(CliError::io("asking"))?;
        let mut answer = String::new();
        self.input.read_line(&mut answer).map_err(CliError::io("reading the answer"))?;
        Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
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
