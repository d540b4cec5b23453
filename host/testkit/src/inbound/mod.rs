//! Real hosts with an inbox and with tables, while everything around them is killed; what they left behind is read from outside.
//!
//! | file | holds |
//! |---|---|
//! | `handler` | a handler over HTTP that can be killed, and remembers every call |
//! | `handled` | senders of the same ids through a broker to that handler |
//! | `upstream` | the brokers of these runs: sources, senders, kills |
//! | `published` | a table of PostgreSQL that two hosts publish, beside sessions that are in their way |
//!
//! What they judge is counted: no time is asserted.

mod handled;
mod handler;
mod published;
mod upstream;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::process::{Host, Launch};

pub use handled::{Handled, handled};
pub use handler::{Answer, Called, HandlerServer};
pub use published::{Published, Shape, published};
pub use upstream::{Disturbance, Kafka, Load, Mqtt, Nats, Pulsar, Upstream};

/// When nothing has moved for this long, something is wrong: longer than a host that was killed at a bad moment is cautious.
const STALLED_AFTER: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(100);
/// What was killed stays away so long; a host comes back at once.
const AWAY: Duration = Duration::from_millis(700);
/// What a host gets to end in good order.
const TERMINATE_WITHIN: Duration = Duration::from_secs(120);

/// Writes a host's configuration into a folder of its own.
fn prepare(binary: &Path, dir: &Path, config: &str) -> io::Result<Launch> {
    std::fs::create_dir_all(dir)?;
    Launch::prepare(binary.to_owned(), dir, &with_store(config)).map_err(io::Error::other)
}

fn with_store(config: &str) -> String {
    format!("[store]\nurl = \"surrealkv://./data\"\n{config}")
}

/// Has a running host read another configuration.
async fn reload(host: &mut Host, launch: &Launch, config: &str) -> io::Result<()> {
    // Beside it, then over it: the host reads it by itself, too.
    let draft = launch.config.with_extension("draft");
    std::fs::write(&draft, with_store(config))?;
    std::fs::rename(&draft, &launch.config)?;
    let api = host.wait_ready().await.map_err(io::Error::other)?;
    match api.post("/v1/config/reload", &json!({})).await {
        Ok(reply) if reply.is_ok() => Ok(()),
        reply => Err(io::Error::other(format!("the host didn't take another configuration: {reply:?}"))),
    }
}

/// Kills a host and starts it again.
async fn restart(host: Host, launch: &Launch) -> io::Result<Host> {
    if !host.kill().await.map_err(io::Error::other)? {
        return Err(io::Error::other(format!("the host had ended by itself; see {}", launch.log.display())));
    }
    let (host, _) = Host::ready(launch).await.map_err(io::Error::other)?;
    Ok(host)
}

async fn end(host: Host) -> io::Result<()> {
    let status = host.terminate(TERMINATE_WITHIN).await.map_err(io::Error::other)?;
    if status.success() {
        Ok(())
    } else {
        Err(io::Error::other(format!("a host was asked to end and ended with {status}")))
    }
}

/// Waits until `left` is nothing. It fails when that stands still for too long.
async fn until_nothing_is_left(what: &str, mut left: impl AsyncFnMut() -> io::Result<u64>) -> io::Result<()> {
    let (mut least, mut moved) = (None, Instant::now());
    loop {
        // Whoever was killed may not answer yet.
        let now = left().await;
        match &now {
            Ok(0) => return Ok(()),
            // What only goes to and fro gets nowhere.
            Ok(count) if least.is_none_or(|least| *count < least) => (least, moved) = (Some(*count), Instant::now()),
            _ if moved.elapsed() > STALLED_AFTER => {
                return Err(io::Error::other(format!("nothing has moved for {STALLED_AFTER:?}: {what}: {now:?}")));
            }
            _ => {}
        }
        sleep(POLL).await;
    }
}

/// Numbers of each key that don't come as 1, 2, 3 and so on when repeats are left out.
fn disorder<'m>(messages: impl Iterator<Item = (&'m str, u64)>) -> Vec<String> {
    let mut latest: BTreeMap<&str, u64> = BTreeMap::new();
    let mut breaches = Vec::new();
    for (key, number) in messages {
        let before = latest.entry(key).or_default();
        if number > *before + 1 {
            breaches.push(format!("{key}: {number} came after {before}"));
        }
        *before = number.max(*before);
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeat_is_no_disorder_and_a_gap_is() {
        let of = |numbers: &[u64]| disorder(numbers.iter().map(|number| ("a", *number)));
        assert!(of(&[1, 2, 2, 1, 3]).is_empty());
        assert_eq!(of(&[1, 3, 2]), ["a: 3 came after 1"]);
        assert_eq!(of(&[2]), ["a: 2 came after 0"]);
        assert!(disorder([("a", 1), ("b", 1), ("a", 2)].into_iter()).is_empty());
    }
}
