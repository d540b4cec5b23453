//! chromium as a process.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;

use rustix::process::{Pid, Signal};
use tokio::process::{Child, Command};

use crate::process::find_program;

const FLAGS: &[&str] = &[
    "--headless=new",
    // Its own walls need rights that a test as root in a container hasn't. It sees nothing but the pages of tests.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    // A proxy that the machine has for the rest of the world wouldn't find these names.
    "--no-proxy-server",
    "--host-resolver-rules=MAP *.example 127.0.0.1",
    // Nothing else than the page, neither at its start nor at its end.
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--disable-breakpad",
    "--password-store=basic",
];

/// What it is called: by Debian, by Ubuntu and others, and by those who build Chrome of it.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Where this machine has one.
pub fn find_browser() -> Option<PathBuf> {
    first(find_program)
}

fn first(find: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    NAMES.into_iter().find_map(find)
}

/// A browser with one page. It is killed with all its processes when dropped.
pub struct Browser {
    child: Child,
    folder: tempfile::TempDir,
}

impl Browser {
    /// Starts it with the page at this address. What it shows is the page's to tell.
    ///
    /// # Errors
    /// There is no such browser, or the system refuses.
    pub fn open(url: &str) -> io::Result<Self> {
        let program = find_browser().ok_or_else(|| {
            io::Error::other(format!(
                "none of {} is installed: `apt-get install chromium` (Debian), or https://www.chromium.org/getting-involved/download-chromium",
                NAMES.join(", ")
            ))
        })?;
        let folder = tempfile::tempdir()?;
        let mut command = Command::new(program);
        command.args(FLAGS).arg(format!("--user-data-dir={}", folder.path().join("profile").display())).arg(url);
        // What it keeps beside its profile.
        command.env("HOME", folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(folder.path().join("log"))?);
        // It starts others, which end with it by their group.
        let child = command.process_group(0).kill_on_drop(true).spawn()?;
        Ok(Self { child, folder })
    }

    /// What it complained of, for the text of a failure.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let group = self.child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        if let Some(group) = group {
            // One that has ended has no group any more.
            let _gone = rustix::process::kill_process_group(group, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_is_found_by_each_name_that_distributions_give_it() {
        let found = |there: &[&str]| {
            let path = first(|name| there.contains(&name).then(|| PathBuf::from(name)));
            path.map(|path| path.display().to_string())
        };
        for name in ["chromium", "chromium-browser", "google-chrome"] {
            assert_eq!(found(&[name]).as_deref(), Some(name));
        }
        assert_eq!(found(&["google-chrome", "chromium"]).as_deref(), Some("chromium"));
        assert_eq!(found(&["firefox"]), None);
    }
}
