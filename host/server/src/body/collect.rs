//! Collecting the bytes of a body: within its time, and within its share of the memory for large bodies.

use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures::FutureExt;
use http_body::{Body as _, Frame};
use http_body_util::BodyExt;
use tokio::time::Instant;
use waybill_core::code::Code;

use super::too_large;
use crate::auth::Principal;
use crate::limits::{ANSWER_TIME_SHARE, BODY_STALL_TIMEOUT, RETRY_AFTER_BUSY, SMALL_BODY_BYTES};
use crate::places::{Full, Place, Places, Sharer};
use crate::problem::Problem;

/// Collects the body. Past [`SMALL_BODY_BYTES`] it needs its share of the memory for large bodies: what is announced at once, else
/// each further piece as it comes.
///
/// What is announced isn't taken piece by piece. Nobody waits for room, so bodies can't lock each other up; but while the memory is
/// full, one that is nearly complete would be refused for the sake of those that have just begun, and of many that begin again and
/// again none would come to its end. One that is let in is sure of its room, one that isn't is refused before it is sent. Who
/// announces and doesn't send holds the share of its own tenants, until [`BODY_STALL_TIMEOUT`]; who sends most of it and then
/// drips would hold as much.
pub(super) async fn collect(
    mut share: Share<'_>,
    mut body: Body,
    announced: Option<usize>,
    bytes_max: usize,
    due: Due,
) -> Result<(Bytes, Option<Place>), Problem> {
    if let Some(bytes) = announced {
        share.cover(bytes)?;
    }
    let mut first = Bytes::new();
    let mut whole = BytesMut::new();
    while !body.is_end_stream()
        && let Some(frame) = next(&mut body, due).await?
    {
        let frame = frame.map_err(|cause| {
            Problem::new(Code::SCHEMA_JSON, format!("the body ended before it was complete: {cause}"))
        })?;
        let Ok(data) = frame.into_data() else { continue };
        let held = first.len() + whole.len();
        if held + data.len() > bytes_max {
            return Err(too_large(bytes_max));
        }
        share.cover(held + data.len())?;
        if held == 0 {
            first = data;
            continue;
        }
        if whole.is_empty() {
            whole.reserve(announced.unwrap_or(0).max(first.len() + data.len()));
            whole.extend_from_slice(&std::mem::take(&mut first));
        }
        whole.extend_from_slice(&data);
    }
    let bytes = if whole.is_empty() { first } else { whole.freeze() };
    Ok((bytes, share.held))
}

/// When a body has to be complete. It may be read in a task that goes on when its request is over, and it holds a place.
#[derive(Clone, Copy)]
pub(super) struct Due {
    /// When it has to be complete; none = never.
    by: Option<Instant>,
    /// How long that is from the request's beginning.
    within: Duration,
}

impl Due {
    /// The request's time but for what is left to answer, so that the caller hears that it is the body.
    pub fn of(begun: Instant, request_timeout: Duration) -> Self {
        let within = request_timeout.saturating_sub(request_timeout / ANSWER_TIME_SHARE);
        Self { by: begun.checked_add(within), within }
    }
}

/// The next piece, which may not be long in coming.
async fn next(body: &mut Body, due: Due) -> Result<Option<Result<Frame<Bytes>, axum::Error>>, Problem> {
    // What has come already needs no timer, and most bodies come with their head.
    if let Some(come) = body.frame().now_or_never() {
        return Ok(come);
    }
    let stalled_at = Instant::now() + BODY_STALL_TIMEOUT;
    let late_at = due.by.filter(|by| *by < stalled_at);
    // One timer for both: it is set anew for each piece.
    tokio::time::timeout_at(late_at.unwrap_or(stalled_at), body.frame()).await.map_err(|_| {
        let text = match late_at {
            Some(_) => format!(
                "the body wasn't complete after {} s: send it faster, or less at once",
                due.within.as_secs_f64()
            ),
            None => {
                format!("nothing more of the body came for {} s: send it without pauses", BODY_STALL_TIMEOUT.as_secs())
            }
        };
        Problem::new(Code::HTTP_SLOW_BODY, text)
    })
}

/// The memory for large bodies, and what one of them has of it.
pub(super) struct Share<'a> {
    bodies: &'a Places,
    /// Whose share it counts against; none = nobody's.
    caller: Option<&'a Principal>,
    held: Option<Place>,
    /// So many bytes need no more room.
    covered: usize,
}

impl<'a> Share<'a> {
    pub fn new(bodies: &'a Places, caller: Option<&'a Principal>) -> Self {
        Self { bodies, caller, held: None, covered: SMALL_BODY_BYTES }
    }

    fn cover(&mut self, bytes: usize) -> Result<(), Problem> {
        if bytes <= self.covered {
            return Ok(());
        }
        let kib = (bytes - self.covered).div_ceil(1024);
        let sharers = self.caller.map_or_else(Vec::new, Sharer::of);
        let more = self.bodies.take_all(&sharers, kib).map_err(no_room)?;
        self.covered += kib * 1024;
        match &mut self.held {
            Some(held) => held.merge(more),
            None => self.held = Some(more),
        }
        Ok(())
    }
}

fn no_room(full: Full) -> Problem {
    let (code, what) = match full {
        Full::All => (Code::OUTBOX_BUSY, "the memory for large bodies is in use"),
        Full::Share { .. } => (Code::HTTP_SHARE, "large bodies fill the memory that a tenant has for them"),
    };
    Problem::new(code, format!("{what}: try again after a moment, or send smaller requests")).after(RETRY_AFTER_BUSY)
}

#[cfg(test)]
mod tests {
    use waybill_core::ids::Tenant;

    use super::*;
    use crate::auth::Tenants;
    use crate::limits::{BULK_BODY_BYTES_MAX, CALLER_SHARE, Limits};

    /// Collects a body that has all the time there is.
    async fn collect_of(
        bodies: &Places,
        caller: Option<&Principal>,
        body: Body,
        announced: Option<usize>,
        bytes_max: usize,
    ) -> Result<(Bytes, Option<Place>), Problem> {
        let due = Due { by: None, within: Duration::ZERO };
        collect(Share::new(bodies, caller), body, announced, bytes_max, due).await
    }

    #[tokio::test]
    async fn large_bodies_share_a_bounded_memory() {
        let bodies = Places::new(100);
        let body = |bytes: usize| Body::from(vec![b' '; bytes]);
        let collect = |bytes: usize| collect_of(&bodies, None, body(bytes), None, usize::MAX);
        let (_, small) = collect(SMALL_BODY_BYTES).await.unwrap();
        assert!(small.is_none());
        let (bytes, held) = collect(SMALL_BODY_BYTES + 60 * 1024).await.unwrap();
        assert_eq!((bytes.len(), bodies.left()), (SMALL_BODY_BYTES + 60 * 1024, 40));
        let refused = collect(SMALL_BODY_BYTES + 60 * 1024).await.err().unwrap();
        assert_eq!((refused.code.status(), bodies.left()), (429, 40));
        drop(held);
        assert_eq!(bodies.left(), 100);
    }

    #[tokio::test]
    async fn a_tenant_has_a_share_of_the_memory_for_large_bodies_in_pieces_too() {
        let bodies = Places::new(100);
        let tenants = Tenants::Only(vec![Tenant::unnamed()]);
        let principal =
            Principal { name: "one".to_owned(), tenants, roles: Vec::new(), streams: Vec::new(), token: None };
        let pieces = |kib: usize| {
            let list =
                (0..SMALL_BODY_BYTES / 1024 + kib).map(|_| Ok::<_, std::io::Error>(Bytes::from(vec![b' '; 1024])));
            Body::from_stream(futures::stream::iter(list.collect::<Vec<_>>()))
        };
        let collect = |body, announced| collect_of(&bodies, Some(&principal), body, announced, usize::MAX);
        let (_, held) = collect(pieces(40), None).await.unwrap();
        assert_eq!(bodies.left(), 60);
        let refused = collect(pieces(11), None).await.err().unwrap();
        assert_eq!((refused.code.as_str(), bodies.left()), ("HTTP.SHARE", 60), "what was refused keeps nothing");
        let announced = Some(SMALL_BODY_BYTES + 11 * 1024);
        assert_eq!(collect(pieces(1), announced).await.err().unwrap().code.as_str(), "HTTP.SHARE");
        let (_, rest) = collect(pieces(10), None).await.unwrap();
        assert_eq!(bodies.left(), 50);
        drop((held, rest));
        assert_eq!(bodies.left(), 100);
    }

    #[test]
    fn a_share_has_room_for_the_largest_body() {
        assert!(Limits::default().bodies_bytes_max / CALLER_SHARE >= BULK_BODY_BYTES_MAX);
    }

    #[tokio::test]
    async fn a_body_in_pieces_is_put_together_and_cut_at_the_bound() {
        let pieces = |count: usize| {
            let list: Vec<Result<Bytes, std::io::Error>> =
                (0..count).map(|_| Ok(Bytes::from_static(b"0123456789"))).collect();
            Body::from_stream(futures::stream::iter(list))
        };
        let bodies = Places::new(100);
        let (bytes, _) = collect_of(&bodies, None, pieces(3), None, 30).await.unwrap();
        assert_eq!(bytes, "012345678901234567890123456789");
        let refused = collect_of(&bodies, None, pieces(4), None, 30).await.err().unwrap();
        assert_eq!(refused.code.as_str(), "HTTP.TOO_LARGE");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stops_is_given_up() {
        let bodies = Places::new(100);
        let first = futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(b"{"))]);
        let body = Body::from_stream(futures::StreamExt::chain(first, futures::stream::pending()));
        let refused = collect_of(&bodies, None, body, None, 30).await.err().unwrap();
        assert_eq!(refused.code.as_str(), "HTTP.SLOW_BODY");
    }

    /// Also one that is begun late in its request, and never after the request's own time.
    #[tokio::test(start_paused = true)]
    async fn a_body_is_complete_before_the_time_of_its_request_is_over() {
        let (bodies, limit) = (Places::new(100), Duration::from_secs(5));
        for already in [0, 3, 7] {
            let begun = Instant::now();
            tokio::time::sleep(Duration::from_secs(already)).await;
            let body = Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>());
            let due = Due::of(begun, limit);
            let refused = collect(Share::new(&bodies, None), body, None, 30, due).await.err().unwrap();
            assert_eq!(refused.code.as_str(), "HTTP.SLOW_BODY");
            assert!(refused.detail.contains("4.75 s"), "{}", refused.detail);
            assert!(begun.elapsed() < limit || already > 5, "the request's time was over");
        }
    }
}
