//! A peer of frames that answers by rules: enough for binary protocols (MQTT, AMQP, Kafka, PostgreSQL and one's own).

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::Uses;
use crate::case::PeerFault;
use crate::frames::{BytesRule, Cut, Frame, Reply};
use crate::limits::FRAME_BYTES_MAX;

struct Script {
    /// The first frame of a connection, and those behind it.
    frames: [Frame; 2],
    greeting: Reply,
    rules: Vec<BytesRule>,
    uses: Uses,
}

/// Serves until it is aborted.
pub(super) async fn serve(listener: TcpListener, frames: [Frame; 2], greeting: Reply, rules: Vec<BytesRule>) {
    let script = Arc::new(Script { frames, greeting, uses: Uses::of(rules.len()), rules });
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let script = Arc::clone(&script);
        connections.spawn(async move {
            // A peer that goes away is what the suite is about.
            let _ = talk(stream, &script).await;
        });
        // What has ended is let go.
        while connections.try_join_next().is_some() {}
    }
}

async fn talk(mut stream: TcpStream, script: &Script) -> std::io::Result<()> {
    let [mut frame, others] = script.frames;
    stream.write_all(&script.greeting.to(&[], 0)).await?;
    let mut held = Vec::new();
    loop {
        let Some((whole, cut)) = next(&mut stream, &mut held, frame).await? else { return Ok(()) };
        frame = others;
        let rules = script.rules.iter().enumerate();
        let mut rules = rules.filter(|(index, rule)| rule.fits(&whole) && script.uses.take(*index, rule.times));
        let Some((_, rule)) = rules.next() else { continue };
        match rule.fault {
            Some(PeerFault::Drop) => return Ok(()),
            Some(PeerFault::Silent) => std::future::pending::<()>().await,
            None => stream.write_all(&rule.send.to(&whole, cut.body)).await?,
        }
    }
}

/// The next frame; none at the end of the connection, or when it is larger than a peer reads.
async fn next(stream: &mut TcpStream, held: &mut Vec<u8>, frame: Frame) -> std::io::Result<Option<(Vec<u8>, Cut)>> {
    loop {
        if let Some(cut) = frame.cut(held).filter(|cut| cut.whole > 0) {
            if cut.whole > FRAME_BYTES_MAX {
                return Ok(None);
            }
            if held.len() >= cut.whole {
                let behind = held.split_off(cut.whole);
                return Ok(Some((std::mem::replace(held, behind), cut)));
            }
        }
        if held.len() > FRAME_BYTES_MAX || stream.read_buf(held).await? == 0 {
            return Ok(None);
        }
    }
}
