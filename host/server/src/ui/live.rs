//! What changes while a view is open, as server-sent events: numbers as text, how many rows are newer, how the host is.
//!
//! It is fed from what the host has in memory: what one page asks for is told to all others, and nothing is asked for while none is open.
//! Only how the host is reads rows, as `/readyz` does, and no more often than a page needs a sign of life. At most
//! [`LIVE_READERS_MAX`] pages are told, those of one tenant up to its share; each further one hears how it is now, and asks again after
//! [`LIVE_POLL`].

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, sleep_until, timeout};
use ulid::Ulid;
use waybill_api::glance::{Glance, Totals};
use waybill_api::status::BlockedView;
use waybill_core::ids::Tenant;
use waybill_core::port::saga::SagaStats;
use waybill_core::port::service::ServiceError;
use waybill_page::address;
use waybill_page::frame::Verdict;
use waybill_page::live::{ANEW, Numbers, Present, changed, newer};

use super::visit::{Visit, verdict};
use crate::app::{App, Inner};
use crate::auth::Permission;
use crate::caller::Caller;
use crate::edge;
use crate::limits::{
    LIVE_EVERY, LIVE_HEARTBEAT, LIVE_KEPT, LIVE_POLL, LIVE_READERS_MAX, LIVE_RETRY, PAGE_PART_TIMEOUT,
};
use crate::metrics;
use crate::places::{Place, Places, Sharer};
use crate::problem::Problem;
use crate::routes::outbox::is_seen;
use crate::routes::query::query;
use crate::subscribe::feed::Ongoing;
use crate::subscribe::reader::drained;

/// Open pages that are told, and what was found for them last.
pub(crate) struct Watchers {
    places: Places,
    latest: Mutex<Option<(Instant, Arc<Glimpse>)>>,
    /// Tells this process from one before it, which counted for itself.
    process: String,
}

/// What is known of the whole host.
struct Glimpse {
    glance: Glance,
    held: Vec<BlockedView>,
    sagas: Option<SagaStats>,
}

impl Watchers {
    pub fn new() -> Self {
        Self { places: Places::new(LIVE_READERS_MAX), latest: Mutex::default(), process: Ulid::new().to_string() }
    }

    /// What is known now, at most [`LIVE_KEPT`] old. One page asks; the others wait for what it hears.
    async fn seen(&self, app: &Inner) -> Result<Arc<Glimpse>, ServiceError> {
        let mut latest = self.latest.lock().await;
        if let Some((at, seen)) = &*latest
            && at.elapsed() < LIVE_KEPT
        {
            return Ok(Arc::clone(seen));
        }
        let seen = Arc::new(Glimpse {
            glance: app.service.glance().await?,
            held: app.service.blocked(None).await?,
            sagas: app.sagas.as_ref().map(|sagas| sagas.saga_stats()),
        });
        *latest = Some((Instant::now(), Arc::clone(&seen)));
        Ok(seen)
    }

    /// What was counted of a list's rows until now, for its address; none = its new rows aren't told.
    pub fn since(&self, view: &str, totals: Totals) -> Option<String> {
        counted(view, totals).map(|count| format!("{}-{count}", self.process))
    }

    /// How many rows came since then, in words.
    fn newer(&self, asked: &LiveAsked, totals: Totals) -> String {
        let before = asked.since.rsplit_once('-').zip(counted(&asked.view, totals));
        let Some(((process, before), now)) = before else { return String::new() };
        if process != self.process {
            return ANEW.to_owned();
        }
        let before = before.parse().unwrap_or(u64::MAX);
        newer(now.saturating_sub(before), asked.filtered)
    }
}

/// What is counted of a list's rows since the process began.
fn counted(view: &str, totals: Totals) -> Option<u64> {
    match view {
        "messages" => Some(totals.enqueued),
        "dead-letters" => Some(totals.dead),
        "sagas" => Some(totals.sagas_started),
        _ => None,
    }
}

/// Which page asks, and what it shows.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct LiveAsked {
    /// Address of its view below the page's.
    view: String,
    tenant: Option<String>,
    /// What was counted when its list was read.
    since: String,
    /// Its list has a filter.
    filtered: bool,
}

/// What an open page is told.
pub(super) async fn live(
    State(app): State<App>,
    visit: Result<Visit, Response>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let Ok(visit) = visit else { return Ok(events(Body::from(SIGNED_OUT))) };
    edge::may(&visit.caller.0, Permission::Read)?;
    let asked: LiveAsked = query(&visit.uri)?;
    let scope = visit.scope(asked.tenant.as_deref(), "")?;
    let shares = edge::shares(&app, &visit.caller.0);
    let place = app.ui.as_ref().and_then(|ui| Reading::take(&ui.watchers, &shares));
    let feed = Feed {
        draining: app.draining.subscribe(),
        caller: visit.caller,
        headers: credentials(&headers),
        scope,
        asked,
        told: Reader::default(),
        begin: Some(if place.is_some() { LIVE_RETRY } else { LIVE_POLL }),
        look_at: Instant::now(),
        verdict_at: Instant::now(),
        speak_by: Instant::now(),
        is_over: false,
        place,
        app,
    };
    Ok(events(Body::from_stream(futures::stream::unfold(feed, Feed::next))))
}

/// Said to whoever may not look any more, or never might.
const SIGNED_OUT: &str = "event: end\ndata: signed out\n\n";
/// A sign of life while nothing changes. A script doesn't hear comments.
const BEAT: &str = "event: beat\ndata: -\n\n";

fn events(body: Body) -> Response {
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response.extensions_mut().insert(Ongoing);
    response
}

/// What of a request's head says who looks.
fn credentials(headers: &HeaderMap) -> HeaderMap {
    let mut kept = HeaderMap::new();
    for name in [header::COOKIE, header::AUTHORIZATION] {
        for value in headers.get_all(&name) {
            kept.append(&name, value.clone());
        }
    }
    kept
}

/// A place among the pages that are told.
struct Reading {
    _place: Place,
}

impl Reading {
    /// None = all have one, or as many of a tenant of this page as may.
    fn take(watchers: &Watchers, shares: &[Sharer]) -> Option<Self> {
        let place = watchers.places.take(shares).ok()?;
        metrics::page_readers(1.0);
        Some(Self { _place: place })
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        metrics::page_readers(-1.0);
    }
}

/// What an open page was told.
#[derive(Default)]
struct Reader {
    numbers: Numbers,
    newer: String,
    verdict: Option<Verdict>,
}

/// A message: what differs from what was told.
#[derive(Default, Serialize)]
struct Message {
    /// Numbers by their names.
    n: Numbers,
    #[serde(skip_serializing_if = "Option::is_none")]
    newer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<&'static str>,
}

impl Message {
    fn is_empty(&self) -> bool {
        self.n.is_empty() && self.newer.is_none() && self.verdict.is_none()
    }
}

/// The answer to an open page, which goes on as long as the page is open.
struct Feed {
    app: App,
    caller: Caller,
    headers: HeaderMap,
    /// None = all tenants.
    scope: Option<Tenant>,
    asked: LiveAsked,
    draining: watch::Receiver<bool>,
    told: Reader,
    /// After how long a page whose answer has ended asks again, as long as it wasn't said.
    begin: Option<Duration>,
    look_at: Instant,
    /// When the next look at how the host is is due.
    verdict_at: Instant,
    speak_by: Instant,
    is_over: bool,
    /// None = it is told once.
    place: Option<Reading>,
}

impl Feed {
    async fn next(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        while !self.is_over {
            tokio::select! {
                biased;
                () = drained(&mut self.draining) => return None,
                () = sleep_until(self.look_at) => {}
            }
            let text = self.turn().await;
            self.look_at = Instant::now() + LIVE_EVERY;
            if !text.is_empty() {
                self.speak_by = Instant::now() + LIVE_HEARTBEAT;
                return Some((Ok(Bytes::from(text)), self));
            }
        }
        None
    }

    /// What there is to say now, if anything.
    async fn turn(&mut self) -> String {
        if !self.may_look() {
            self.is_over = true;
            return SIGNED_OUT.to_owned();
        }
        self.is_over = self.place.is_none();
        let begin = self.begin.take().map(|wait| format!("retry: {}\n", wait.as_millis())).unwrap_or_default();
        // Without an answer nothing is said, and the page shows how old its numbers are.
        let Some(message) = self.next_message().await else { return begin };
        if begin.is_empty() && message.is_empty() {
            return if Instant::now() >= self.speak_by { BEAT.to_owned() } else { String::new() };
        }
        // Texts only: there is nothing that can't be written.
        format!("{begin}data: {}\n\n", serde_json::to_string(&message).unwrap_or_default())
    }

    /// Whether who opened the page still may look at it as they did.
    fn may_look(&self) -> bool {
        let Some(auth) = &self.app.auth else { return true };
        let principal = match edge::bearer(&self.headers) {
            Some(token) => auth.authenticate(token),
            None => super::session(&self.app, address::LIVE, &self.headers).map(|session| session.principal),
        };
        principal.is_some_and(|now| now.may(Permission::Read) && now.tenants == self.caller.0.tenants)
    }

    async fn next_message(&mut self) -> Option<Message> {
        let ui = self.app.ui.as_ref()?;
        let numbers = present(&self.app, &self.caller, self.scope.as_ref(), PAGE_PART_TIMEOUT).await?;
        let verdict = if Instant::now() >= self.verdict_at {
            self.verdict_at = Instant::now() + LIVE_HEARTBEAT;
            Some(verdict(&self.app).await)
        } else {
            self.told.verdict
        };
        let newer = if tells_newer(&self.caller, self.scope.as_ref()) {
            ui.watchers.newer(&self.asked, self.app.service.totals())
        } else {
            String::new()
        };
        let now = Reader { numbers, newer, verdict };
        let message = Message {
            n: changed(&self.told.numbers, &now.numbers),
            newer: (now.newer != self.told.newer).then(|| now.newer.clone()),
            verdict: now.verdict.filter(|_| now.verdict != self.told.verdict).map(Verdict::word),
        };
        self.told = now;
        Some(message)
    }
}

/// The numbers as a caller may see them now; none where they don't come in time.
pub(super) async fn present(app: &App, caller: &Caller, tenant: Option<&Tenant>, within: Duration) -> Option<Numbers> {
    let ui = app.ui.as_ref()?;
    let seen = timeout(within, ui.watchers.seen(app)).await.ok()?.ok()?;
    let is_within = |whose: &str| tenant.is_none_or(|tenant| whose == tenant.as_str());
    // The navigation tells who sees all tenants of all of them, on whatever view.
    let of = tenant.filter(|_| !caller.sees_all());
    let present = Present {
        depths: seen.glance.depths.iter().filter(|row| is_within(&row.tenant)).collect(),
        transports: &seen.glance.transports,
        held: seen.held.iter().filter(|hold| is_seen(hold, caller, of)).count(),
        // These are of all tenants together.
        sagas: seen.sagas.clone().filter(|_| caller.sees_all()),
        dead: seen.glance.dead,
        shows_dead: caller.sees_all(),
    };
    Some(present.numbers())
}

/// Whether new rows are told: they are counted of all tenants together.
pub(super) fn tells_newer(caller: &Caller, scope: Option<&Tenant>) -> bool {
    caller.sees_all() && scope.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(view: &str, since: &str) -> LiveAsked {
        LiveAsked { view: view.to_owned(), since: since.to_owned(), ..LiveAsked::default() }
    }

    #[test]
    fn what_is_newer_is_counted_from_the_list_on_within_one_process() {
        let watchers = Watchers::new();
        let totals = |enqueued| Totals { enqueued, ..Totals::default() };
        let since = watchers.since("messages", totals(5)).unwrap();
        assert_eq!(watchers.newer(&asked("messages", &since), totals(5)), "");
        assert!(watchers.newer(&asked("messages", &since), totals(7)).starts_with("2 newer"));
        let of_another = Watchers::new().since("messages", totals(5)).unwrap();
        assert_eq!(watchers.newer(&asked("messages", &of_another), totals(7)), ANEW);
        for (view, since) in [("messages", ""), ("messages", "x"), ("plugins", &*since)] {
            assert_eq!(watchers.newer(&asked(view, since), totals(7)), "", "{view} {since}");
        }
        assert_eq!(watchers.since("plugins", totals(5)), None);
    }
}
