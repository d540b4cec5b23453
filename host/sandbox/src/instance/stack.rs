//! Where in a guest's code it trapped, of a component that names its functions. Lines are told of one with debug information, by a sandbox
//! that reads it ([`crate::SandboxOptions::lines`]).

use wasmtime::WasmBacktrace;

/// Frames that are told: what a reason has room for.
const FRAMES_MAX: usize = 6;
/// What a language's own way from a failure to the trap begins with.
const RUNTIME: [&str; 8] = ["std::", "core::", "alloc::", "<alloc::", "rust_panic", "__rust", "_rust", "abort"];
/// Where Rust's own libraries lie in what they were compiled from.
const RUST: &str = "/rustc/";
/// What `waybill plugin build` puts in place of the project's folder.
const PROJECT: &str = "/plugin/";

struct Frame {
    name: String,
    place: Option<String>,
}

/// The functions on the way to a trap, the innermost first.
pub(super) fn of_trap(error: &wasmtime::Error) -> Option<String> {
    // Only as text its names are those of the language.
    told_of(&error.downcast_ref::<WasmBacktrace>()?.to_string())
}

fn told_of(backtrace: &str) -> Option<String> {
    let frames = frames(backtrace);
    let own = frames.iter().skip_while(|frame| {
        let is_rust = frame.place.as_deref().is_some_and(|place| place.starts_with(RUST));
        is_rust || RUNTIME.iter().any(|begin| frame.name.starts_with(begin))
    });
    let told: Vec<&Frame> = own.take(FRAMES_MAX).collect();
    // Names alone are those of an interpreter, of which the author knows nothing.
    told.iter().any(|frame| frame.place.is_some()).then(|| {
        let words = told.iter().map(|Frame { name, place }| match place {
            Some(place) => format!("{name} ({place})"),
            None => name.clone(),
        });
        format!("in {}", words.collect::<Vec<_>>().join(", "))
    })
}

/// Frames with a name, those that were inlined among them.
fn frames(backtrace: &str) -> Vec<Frame> {
    let mut frames: Vec<Frame> = Vec::new();
    // Whether the last line was a frame with a name: a place belongs to it.
    let mut is_named = false;
    for line in backtrace.lines().skip(1).map(str::trim) {
        if let Some(place) = line.strip_prefix("at ") {
            if let (true, Some(frame)) = (is_named, frames.last_mut()) {
                frame.place = Some(place.strip_prefix(PROJECT).unwrap_or(place).to_owned());
            }
            continue;
        }
        let name = line.strip_prefix("- ").or_else(|| Some(line.split_once(" - ")?.1)).and_then(name);
        is_named = name.is_some();
        frames.extend(name.map(|name| Frame { name, place: None }));
    }
    frames
}

/// A function's name without its module and the compiler's hash.
fn name(written: &str) -> Option<String> {
    let name = match written.split_once('!') {
        Some((module, name)) if !module.contains(['(', ' ']) => name,
        _ => written,
    };
    if name.starts_with("<wasm function") || name.starts_with("<inlined function") {
        return None;
    }
    let is_hash =
        |end: &str| end.len() == 17 && end.starts_with('h') && end.bytes().skip(1).all(|byte| byte.is_ascii_hexdigit());
    let short = name.rsplit_once("::").filter(|(_, end)| is_hash(end)).map_or(name, |(short, _)| short);
    Some(without_hashes(short))
}

/// Without the hashes of crates, as in `std[d123b7a1a2ed1472]::process::abort`.
fn without_hashes(name: &str) -> String {
    let is_hash = |text: &str| text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut parts = name.split('[');
    let mut short = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(']') {
            Some((hash, rest)) if is_hash(hash) => short.push_str(rest),
            _ => {
                short.push('[');
                short.push_str(part);
            }
        }
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_told_with_their_lines_and_without_the_way_through_the_runtime() {
        let backtrace = "error while executing at wasm backtrace:
    0:  0x1a2b - rust_panic
                    at /rustc/1/library/std/src/panicking.rs:870:5
    1:  0x1a00 - core::panicking::panic_fmt::h0123456789abcdef
    2:   0x900 - ledger::books::put::hfedcba9876543210
                    at /plugin/src/books.rs:41:9
                - ledger::write
                    at /plugin/src/lib.rs:20:5
    3:   0x800 - <unknown>!<wasm function 12>
    4:   0x700 - ledger.wasm!ledger::send_batch";
        assert_eq!(
            told_of(backtrace).as_deref(),
            Some("in ledger::books::put (src/books.rs:41:9), ledger::write (src/lib.rs:20:5), ledger::send_batch")
        );
    }

    #[test]
    fn names_have_no_hashes_of_crates_and_what_rust_does_to_trap_is_left_out() {
        let backtrace = "error while executing at wasm backtrace:
    0:  0x1a2b - std[d123b7a1a2ed1472]::process::abort
                    at /rustc/59807616/library/std/src/process.rs:2533:5
    1:  0x1a00 - __rustc[b7974e8690430dd9]::__rust_start_panic
                    at /rustc/59807616/library/panic_abort/src/lib.rs:50:5
    2:  0x1000 - <dyn core[0123456789abcdef]::any::Any>::f
                    at /rustc/59807616/library/core/src/any.rs:1:1
    3:   0x900 - <shop[fedcba9876543210]::Plugin as shop[fedcba9876543210]::Guest>::take::<[u8; 4]>
                    at /plugin/src/lib.rs:80:5";
        let expected = "in <shop::Plugin as shop::Guest>::take::<[u8; 4]> (src/lib.rs:80:5)";
        assert_eq!(told_of(backtrace).as_deref(), Some(expected));
    }

    #[test]
    fn a_component_without_lines_has_no_stack() {
        let backtrace = "error while executing at wasm backtrace:\n    0:  0x1a2b - <unknown>!<wasm function 12>\n    1:  0x1 - m!<wasm function 3>";
        assert_eq!(told_of(backtrace), None);
        let interpreter = "error while executing at wasm backtrace:\n    0:  0x1a2b - qjs.wasm!JS_CallInternal";
        assert_eq!(told_of(interpreter), None);
    }

    #[test]
    fn only_the_innermost_are_told() {
        let lines: Vec<String> =
            (0..16).map(|number| format!("  {number}: 0x1 - f{number}\n    at a.rs:{number}")).collect();
        let told = told_of(&format!("error while executing at wasm backtrace:\n{}", lines.join("\n")));
        assert_eq!(
            told.as_deref(),
            Some("in f0 (a.rs:0), f1 (a.rs:1), f2 (a.rs:2), f3 (a.rs:3), f4 (a.rs:4), f5 (a.rs:5)")
        );
    }
}
