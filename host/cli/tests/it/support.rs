//! Running a command line and looking at everything it did.

use std::collections::BTreeMap;
use std::io::{Cursor, Write};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use waybill_cli::exit::Exit;
use waybill_cli::term::Term;

/// A stream that can be read afterwards.
#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Buffer {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

/// Three minutes after the hosts of these tests began.
fn now() -> Timestamp {
    Timestamp::from_millisecond(i64::try_from(crate::host::NOW.0).unwrap() + 180_000).unwrap()
}

/// What a command did.
#[derive(Debug)]
pub struct Done {
    pub exit: Exit,
    pub out: String,
    pub err: String,
}

impl Done {
    /// Everything, for a snapshot.
    pub fn all(&self) -> String {
        format!("exit {}\n--- stdout\n{}--- stderr\n{}", self.exit as u8, self.out, self.err)
    }
}

/// A command line to run.
pub struct Command {
    arguments: Vec<String>,
    env: BTreeMap<String, String>,
    input: String,
    width: Option<u16>,
    interactive: bool,
    color: bool,
}

/// A command line without terminal, input or environment.
pub fn waybill(arguments: &[&str]) -> Command {
    let arguments = std::iter::once("waybill").chain(arguments.iter().copied()).map(str::to_owned).collect();
    Command { arguments, env: BTreeMap::new(), input: String::new(), width: None, interactive: false, color: false }
}

impl Command {
    pub fn arg(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }
    pub fn args(mut self, arguments: &[&str]) -> Self {
        self.arguments.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        self
    }
    pub fn color(mut self) -> Self {
        self.color = true;
        self
    }
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.to_owned(), value.to_owned());
        self
    }
    pub fn input(mut self, text: &str) -> Self {
        self.input = text.to_owned();
        self
    }
    pub fn width(mut self, columns: u16) -> Self {
        self.width = Some(columns);
        self
    }
    pub fn interactive(mut self) -> Self {
        self.interactive = true;
        self
    }
    pub fn run(self) -> Done {
        let (out, err) = (Buffer::default(), Buffer::default());
        let mut term = Term {
            out: Box::new(out.clone()),
            err: Box::new(err.clone()),
            input: Box::new(Cursor::new(self.input.into_bytes())),
            width: self.width,
            left_out: false,
            now,
            interactive: self.interactive,
            color: self.color,
            color_wanted: self.color,
            quiet: false,
            env: self.env,
            program: None,
        };
        let exit = waybill_cli::run(self.arguments.into_iter().map(Into::into), &mut term);
        Done { exit, out: out.text(), err: err.text() }
    }
}
