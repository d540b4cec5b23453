//! Servers end with the process that started them, however that ends.

use std::io;
use std::path::Path;
use std::process::Stdio;

use tokio::process::{Child, Command};

/// Starts a process that ends these, and removes their folder, when this process is gone: its input ends then. Whoever kills one of
/// them kills the guard first, or it may end whoever gets the number next.
///
/// # Errors
/// The system refuses.
pub fn guard(children: &[&Child], folder: &Path) -> io::Result<Child> {
    const SCRIPT: &str = r#"cat > /dev/null; folder=$1; shift; kill -9 "$@"; sleep 1; rm -rf "$folder""#;
    let mut command = Command::new("sh");
    command.args(["-c", SCRIPT, "guard"]).arg(folder);
    command.args(children.iter().filter_map(|child| child.id()).map(|pid| pid.to_string()));
    // A signal to our group must not end it first.
    command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}
