//! JSON given on the command line: itself, `@FILE`, or `-` for stdin. It is kept as written.

use serde_json::Value;
use serde_json::value::RawValue;
use waybill_core::json_fault::placed_fault;

use crate::exit::CliError;
use crate::term::Term;

/// Most bytes read from a file or stdin: what a host takes in one request.
const INPUT_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Reads what a flag names.
pub(super) fn read(term: &mut Term, flag: &str, given: &str) -> Result<Box<RawValue>, CliError> {
    let (text, from) = match given.strip_prefix('@') {
        _ if given == "-" => (limited(&mut term.input, "stdin")?, "stdin"),
        Some(path) => {
            let mut file = std::fs::File::open(path).map_err(CliError::io(format!("reading {path}")))?;
            (limited(&mut file, path)?, path)
        }
        None => (given.to_owned(), flag),
    };
    raw_json(text.trim().to_owned(), from)
}

/// All of a stream, unless it is more than is taken.
pub(super) fn limited(stream: &mut (impl std::io::Read + ?Sized), name: &str) -> Result<String, CliError> {
    use std::io::Read as _;
    let mut text = String::new();
    let read = stream.take(INPUT_BYTES_MAX + 1).read_to_string(&mut text);
    read.map_err(CliError::io(format!("reading {name}")))?;
    if text.len() as u64 > INPUT_BYTES_MAX {
        let what = format!("{name} has more than {INPUT_BYTES_MAX} bytes");
        return Err(CliError::usage(what, "keep large data elsewhere and pass a reference"));
    }
    Ok(text)
}

/// Checks that a text is JSON, and keeps it as it is.
pub(super) fn raw_json(text: String, from: &str) -> Result<Box<RawValue>, CliError> {
    RawValue::from_string(text).map_err(|error| {
        CliError::usage(
            format!("{from} isn't JSON: {}", placed_fault(&error)),
            "quote it for your shell, e.g. '{\"a\":1}', or give @FILE, or - for stdin",
        )
    })
}

/// A text as JSON.
pub(super) fn raw_text(text: &str) -> Result<Box<RawValue>, CliError> {
    raw_json(Value::String(text.to_owned()).to_string(), "this text")
}
