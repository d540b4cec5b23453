//! Scripts that run the binary in a place or under a tool.

#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::Command;

/// Writes a program. Another process does it: what a test beside this one starts could hold the file open for a moment, and a file that is open
/// for writing can't be run.
pub fn write(at: &Path, text: &str) {
    let write = "printf '%s' \"$1\" >\"$2\" && chmod 755 \"$2\"";
    let written = Command::new("sh").args(["-c", write, "sh", text]).arg(at).status().unwrap();
    assert!(written.success(), "{} isn't written", at.display());
}
