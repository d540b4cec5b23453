//! A subscription as its peer has it, whatever it is written as: what it may not read is left out, the host's going away ends it, and who
//! takes nothing of it is cut off.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::AbortHandle;
use waybill_core::code::Code;
use waybill_core::port::service::streams::{EventPiece, Subscription, SubscriptionEnd};
use waybill_core::streams::access::StreamRight;

use crate::auth::{Principal, Tokens};
use crate::places::Place;
use crate::problem::{Problem, StreamHas};
use crate::progress::Cutter;

pub(crate) struct Reader {
    subscription: Box<dyn Subscription>,
    /// Who reads: what they may not read is left out.
    principal: Arc<Principal>,
    /// Who may read now; none = nobody is asked for a token.
    tokens: Option<Tokens>,
    /// Becomes true when the host goes away.
    draining: watch::Receiver<bool>,
    _cut: Option<Watching>,
    _place: Place,
}

/// Why a subscription is over, for its peer.
pub(crate) struct Ended {
    pub code: Code,
    pub detail: String,
    /// What the stream has, where the cursor didn't fit it.
    pub stream: Option<Box<StreamHas>>,
}

impl Reader {
    /// `cutter` ends the answer when the peer takes nothing of it; none = only the peer ends it.
    pub(crate) fn new(
        subscription: Box<dyn Subscription>,
        principal: Arc<Principal>,
        tokens: Option<Tokens>,
        draining: watch::Receiver<bool>,
        cutter: Option<Cutter>,
        place: Place,
    ) -> Self {
        let cut = cutter.map(|cutter| {
            let cut = subscription.cut();
            let watching = tokio::spawn(async move {
                cut.await;
                cutter.cut();
            });
            Watching(watching.abort_handle())
        });
        Self { subscription, principal, tokens, draining, _cut: cut, _place: place }
    }

    /// The next events, in order; perhaps none of those that came may be read. It may be dropped while it waits, and nothing is lost.
    pub(crate) async fn next(&mut self) -> Result<Vec<EventPiece>, Ended> {
        tokio::select! {
            biased;
            () = drained(&mut self.draining) => Err(going_away()),
            next = self.subscription.next() => {
                let mut pieces = next.map_err(ended)?;
                let reader = self.reader().ok_or_else(let_out)?;
                pieces.retain(|piece| reader.has(StreamRight::Read, &piece.stream.name));
                Ok(pieces)
            }
        }
    }

    /// Who reads, by the tokens that are in force now; none = their token was taken away. Nothing is told to them from then on.
    fn reader(&self) -> Option<Arc<Principal>> {
        match &self.tokens {
            Some(tokens) => tokens.still(&self.principal),
            None => Some(Arc::clone(&self.principal)),
        }
    }

    /// The cursor behind what [`Self::next`] gave last, with what was left out.
    pub(crate) fn cursor(&self) -> Option<Arc<str>> {
        self.subscription.cursor()
    }
}

/// Waits for the cut as long as the answer lives.
struct Watching(AbortHandle);

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Waits until the host goes away.
pub(crate) async fn drained(draining: &mut watch::Receiver<bool>) {
    // Without a sender the host is gone.
    let _ = draining.wait_for(|is_draining| *is_draining).await;
}

fn ended(end: SubscriptionEnd) -> Ended {
    match end {
        SubscriptionEnd::Failed(error) => Problem::from(error).into(),
        end => Ended { code: end.code(), detail: end.to_string(), stream: None },
    }
}

impl From<Problem> for Ended {
    /// What an answer of this problem would say; our own failures keep their details to the log.
    fn from(problem: Problem) -> Self {
        if let Some(cause) = &problem.cause {
            tracing::warn!(code = problem.code.as_str(), %cause, "a subscription failed");
        }
        Self { code: problem.code, detail: problem.detail, stream: problem.stream }
    }
}

fn let_out() -> Ended {
    let detail =
        "this subscription's token was taken away, or one of its tenants: subscribe anew with one that is in force"
            .to_owned();
    Ended { code: Code::AUTH_REQUIRED, detail, stream: None }
}

/// What is said to whoever is served until then.
pub(crate) fn going_away() -> Ended {
    let detail = "this host is going away: resume at another, or here when it is back".to_owned();
    Ended { code: Code::PROVIDER_UNAVAILABLE, detail, stream: None }
}
