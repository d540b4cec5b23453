//! Subscribers over server-sent events. Each goes on behind the last event that it has when its connection breaks, when the host is killed,
//! and when it is told that it lagged.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::task::JoinSet;
use waybill_testkit::api::Api;
use waybill_testkit::subscriber::{Frame, SubscribeError, Subscriber};

use super::fleet::{Node, PREFIX, RESOURCE_TYPE};
use crate::demo::POLL;

/// What the system holds for a subscriber that doesn't read, in bytes; a little more goes beside it.
const HELD: u32 = 16 * 1024;
/// Codes of an end after which the same goes on.
const LAGGED: &str = "EVENT.LAGGED";
const RESUMABLE: [&str; 2] = ["EVENT.STALLED", "PROVIDER.UNAVAILABLE"];
/// The host has no place now, or is about to end.
const UNAVAILABLE: u16 = 503;

/// An event as a subscriber has it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Place {
    pub stream: String,
    #[serde(deserialize_with = "waybill_testkit::seq_json::read")]
    pub seq: u64,
    #[serde(rename = "event_id")]
    pub id: String,
}

/// What a subscriber has to tell at the end.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// In the order in which they came.
    pub read: Vec<Place>,
    /// What it was told when it had lagged.
    pub lagged: Vec<String>,
    /// Connections that it made after its first one.
    pub resumed: usize,
}

/// A subscriber and what it has.
#[derive(Clone, Debug)]
pub struct Reader {
    pub name: &'static str,
    selector: String,
    /// Those that its selector takes.
    pub streams: BTreeSet<String>,
    /// It stops reading when it is told to.
    pub is_slow: bool,
    pub account: Arc<Mutex<Account>>,
}

impl Reader {
    /// Of every kind of selector one; those that take everything are slowed.
    pub fn all(nodes: &[Node]) -> Vec<Self> {
        let every: BTreeSet<String> = nodes.iter().map(Node::stream).collect();
        let reader =
            |name, selector, streams, is_slow| Self { name, selector, streams, is_slow, account: Arc::default() };
        let some = |count| nodes.iter().take(count).map(Node::stream).collect::<BTreeSet<_>>();
        let named = |streams: &BTreeSet<String>| {
            let names: Vec<&str> = streams.iter().map(String::as_str).collect();
            format!("stream:{}", names.join(","))
        };
        let mut readers = vec![
            reader("one stream", named(&some(1)), some(1), false),
            reader("three streams", named(&some(3)), some(3), false),
            reader("a prefix", format!("prefix:{PREFIX}"), every.clone(), false),
            reader("a prefix, slowed", format!("prefix:{PREFIX}"), every.clone(), true),
            reader("a type, slowed", format!("type:{RESOURCE_TYPE}"), every, true),
        ];
        if let Some(node) = nodes.last() {
            readers.push(reader("a node", format!("node:{}", node.uuid), BTreeSet::from([node.stream()]), false));
        }
        readers
    }

    #[cfg(test)]
    pub fn selector(&self) -> &str {
        &self.selector
    }

    pub fn count(&self) -> u64 {
        self.account.lock().read.len() as u64
    }
}

/// All subscribers, each on its own.
pub struct Readers {
    pub all: Vec<Reader>,
    following: JoinSet<Result<Infallible>>,
    /// True while the slow ones don't read.
    held: watch::Sender<bool>,
}

impl Readers {
    pub fn start(api: &Arc<Mutex<Api>>, nodes: &[Node]) -> Self {
        let (held, is_held) = watch::channel(false);
        let (all, mut following) = (Reader::all(nodes), JoinSet::new());
        for reader in all.clone() {
            following.spawn(follow(Arc::clone(api), reader, is_held.clone()));
        }
        Self { all, following, held }
    }

    /// Makes the slow ones stop reading, or go on.
    pub fn hold(&self, is_held: bool) {
        self.held.send_replace(is_held);
    }

    /// What the slowest of those has that are to have everything.
    pub fn least(&self) -> u64 {
        let most = self.all.iter().map(|reader| reader.streams.len()).max();
        let everything = self.all.iter().filter(|reader| Some(reader.streams.len()) == most);
        everything.map(Reader::count).min().unwrap_or_default()
    }

    /// Says why a subscriber gave up, if one did.
    pub fn check(&mut self) -> Result<()> {
        match self.following.try_join_next() {
            Some(ended) => match ended.context("a subscriber of the demo died")?? {},
            None => Ok(()),
        }
    }
}

async fn follow(api: Arc<Mutex<Api>>, reader: Reader, mut is_held: watch::Receiver<bool>) -> Result<Infallible> {
    let mut cursor: Option<Bytes> = None;
    let mut is_first = true;
    loop {
        let base = api.lock().base().to_owned();
        let behind = cursor.as_deref().map(std::str::from_utf8).transpose().context("a cursor that is no text")?;
        let held = reader.is_slow.then_some(HELD);
        let opened = Subscriber::open_with(&base, &reader.selector, behind, held).await;
        match opened {
            Ok(subscriber) => {
                if !std::mem::take(&mut is_first) {
                    reader.account.lock().resumed += 1;
                }
                read(subscriber, &reader, &mut cursor, &mut is_held).await?;
            }
            Err(SubscribeError::Refused { status, body }) if status != UNAVAILABLE => {
                bail!("{} was refused with {status}: {body}", reader.name)
            }
            // It is killed, or not ready yet.
            Err(_) => {}
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Reads until the subscription ends in a way that it may be resumed after.
async fn read(
    mut subscriber: Subscriber,
    reader: &Reader,
    cursor: &mut Option<Bytes>,
    is_held: &mut watch::Receiver<bool>,
) -> Result<()> {
    loop {
        if reader.is_slow {
            // Without a sender the demo is over.
            let _ = is_held.wait_for(|is_held| !*is_held).await;
        }
        match subscriber.next().await {
            Ok(Some(Frame::Event { cursor: behind, envelope })) => {
                let place = serde_json::from_slice(&envelope).context("an event that can't be read")?;
                reader.account.lock().read.push(place);
                *cursor = Some(behind);
            }
            Ok(Some(Frame::Moved { cursor: behind })) => *cursor = Some(behind),
            Ok(Some(Frame::Alive)) => {}
            Ok(Some(Frame::Ended { code, detail })) if code == LAGGED => {
                reader.account.lock().lagged.push(detail);
                return Ok(());
            }
            Ok(Some(Frame::Ended { code, .. })) if RESUMABLE.contains(&code.as_str()) => return Ok(()),
            Ok(Some(Frame::Ended { code, detail })) => bail!("{} was ended with {code}: {detail}", reader.name),
            Ok(None) | Err(_) => return Ok(()),
        }
    }
}
