//! What a guest wrote last to stderr: the panic, traceback or stack that tells why it trapped.
//!
//! Bounds: [`LAST_WORDS_LINES_MAX`] lines of [`LAST_WORDS_LINE_BYTES_MAX`] bytes an instance. What it doesn't do: tell which of several
//! calls wrote them; an instance that traps takes all of them along.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::limits::{LAST_WORDS_LINE_BYTES_MAX, LAST_WORDS_LINES_MAX};
use crate::text::cut;

/// Lines of one instance, oldest first, without secrets and control characters.
#[derive(Clone, Default)]
pub(crate) struct LastWords(Arc<Mutex<VecDeque<String>>>);

impl LastWords {
    /// Keeps a line.
    pub(super) fn hear(&self, line: &str) {
        let line = cut(line.trim(), LAST_WORDS_LINE_BYTES_MAX);
        if line.is_empty() {
            return;
        }
        let mut lines = self.0.lock();
        if lines.len() >= LAST_WORDS_LINES_MAX {
            lines.pop_front();
        }
        lines.push_back(line.to_owned());
    }

    /// A trap with what the guest said of it.
    pub(crate) fn explain(&self, trap: &str) -> String {
        let lines: Vec<String> = self.0.lock().iter().cloned().collect();
        let words = Words(&lines);
        if let Some(why) = words.panic().or_else(|| words.traceback()).or_else(|| words.stack()) {
            return format!("{why} ({trap})");
        }
        match lines.last() {
            Some(last) => format!("{trap}; it said last: {last}"),
            None => trap.to_owned(),
        }
    }
}

struct Words<'a>(&'a [String]);

impl Words<'_> {
    /// Rust: the line with the place, and the message behind it.
    fn panic(&self) -> Option<String> {
        const PANICKED: &str = "panicked at ";
        let at = self.0.iter().rposition(|line| line.contains(PANICKED))?;
        let (_, place) = self.0.get(at)?.split_once(PANICKED)?;
        let message: Vec<&str> = self.0.iter().skip(at + 1).map(String::as_str).collect();
        Some(format!("{PANICKED}{place} {}", message.join(" ")).trim_end().to_owned())
    }

    /// Python: the exception, and the innermost place.
    fn traceback(&self) -> Option<String> {
        let at = self.0.iter().rposition(|line| line.starts_with("Traceback (most recent call last)"))?;
        let lines = self.0.get(at + 1..)?;
        let exception = lines.last()?;
        let place = lines.iter().rev().find(|line| line.starts_with("File "));
        Some(place.map_or_else(|| exception.clone(), |place| format!("{exception}, {place}")))
    }

    /// JavaScript: the error, and the innermost place.
    fn stack(&self) -> Option<String> {
        let is_place = |line: &&String| line.starts_with("at ");
        let places = self.0.iter().rev().take_while(is_place).count();
        let at = self.0.len().checked_sub(places)?;
        let place = self.0.get(at)?;
        let error = self.0.get(at.checked_sub(1)?)?;
        Some(format!("{error}, {place}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(lines: &[&str]) -> String {
        let words = LastWords::default();
        lines.iter().for_each(|line| words.hear(line));
        words.explain("wasm trap: unreachable")
    }

    #[test]
    fn a_trap_says_what_the_guest_said_of_it() {
        for (lines, expected) in [
            (
                &["starting", "thread 'main' (1) panicked at src/lib.rs:227:13:", "no stock"] as &[&str],
                "panicked at src/lib.rs:227:13: no stock (wasm trap: unreachable)",
            ),
            (
                &[
                    "Traceback (most recent call last):",
                    "  File \"/0/plugin.py\", line 32, in execute",
                    "    raise KeyError('missing')",
                    "KeyError: 'missing'",
                ],
                "KeyError: 'missing', File \"/0/plugin.py\", line 32, in execute (wasm trap: unreachable)",
            ),
            (
                &[
                    "ReferenceError: console is not defined",
                    "    at execute (/plugin.js:25:5)",
                    "    at run (/plugin.js:1:1)",
                ],
                "ReferenceError: console is not defined, at execute (/plugin.js:25:5) (wasm trap: unreachable)",
            ),
            (&["connected", ""], "wasm trap: unreachable; it said last: connected"),
            (&[], "wasm trap: unreachable"),
            (&["at rest"], "wasm trap: unreachable; it said last: at rest"),
        ] {
            assert_eq!(explained(lines), expected);
        }
    }

    #[test]
    fn only_the_last_lines_are_kept_and_each_is_cut() {
        let words = LastWords::default();
        for number in 0..LAST_WORDS_LINES_MAX * 3 {
            words.hear(&format!("{number} {}", "x".repeat(10_000)));
        }
        let lines = words.0.lock();
        assert_eq!(lines.len(), LAST_WORDS_LINES_MAX);
        assert!(lines.iter().all(|line| line.len() <= LAST_WORDS_LINE_BYTES_MAX));
    }
}
