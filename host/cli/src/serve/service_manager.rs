//! What systemd, or whoever gave a socket in `NOTIFY_SOCKET`, gets to know about the host. Without one nobody is talked to.

use std::time::Duration;

/// It serves: whoever comes after it may start.
pub(super) fn serving(url: &str) {
    say(&format!("READY=1\nSTATUS=listening on {url}"));
}

/// Whether it is ready, or what it waits for: one line in `systemctl status`.
pub(super) fn state(state: &str) {
    // A line break would begin another message.
    say(&format!("STATUS={}", state.replace(['\n', '\r'], " ")));
}

/// It drains, and may take this long to end: systemd's own patience (`TimeoutStopSec`) counts only where it is longer.
pub(super) fn stopping(within: Duration) {
    say(&format!("STOPPING=1\nEXTEND_TIMEOUT_USEC={}\nSTATUS=draining", within.as_micros()));
}

#[cfg(target_os = "linux")]
fn say(message: &str) {
    if let Err(error) = sd_notify::notify(&[sd_notify::NotifyState::Custom(message)]) {
        tracing::warn!(%error, "the service manager wasn't reached by NOTIFY_SOCKET");
    }
}

#[cfg(not(target_os = "linux"))]
fn say(_message: &str) {}
