//! Every bound of the HTTP server with its unit, its default and the reason for it.

use std::time::Duration;

/// Largest body of the calls that take many messages (`surface.md`, `POST /v1/messages`). Bytes.
pub const BULK_BODY_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Largest body of any other call: notes, filters, one edited message. Bytes.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Largest body of what starts a saga or hands it data: inputs and outputs, whose own bound is configured. Bytes.
pub const SAGA_BODY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Largest body of what asks for a backup: an earlier backup's files, some 150 bytes each, of which a terabyte has tens of thousands. Bytes.
pub const BACKUP_BODY_BYTES_MAX: usize = 16 * 1024 * 1024;
/// One in so many requests at work may wait until a saga is at rest or a message can be claimed. Past it such requests are
/// answered at once, but that as many claims again wait for [`CLAIM_PAUSE`].
pub const WAITERS_SHARE: usize = 4;
/// No tenant has more than one in so many of the requests at work, of those that wait, of the memory for large bodies or
/// large answers, or of the open pages that are told what changes, so that it can't keep out all the others. A request counts against every tenant that its token names; a token of all tenants
/// has a share of its own.
pub const CALLER_SHARE: usize = 2;
/// A body goes on within this time, or the request is refused: it holds a place meanwhile.
pub const BODY_STALL_TIMEOUT: Duration = Duration::from_secs(10);
/// One part in so many of a request's time is left to answer it when its body is slow: a body has the rest, however regularly
/// a little of it comes.
pub const ANSWER_TIME_SHARE: u32 = 20;
/// Largest piece in which an answer goes out: the next one is handed over when the peer has taken it. Bytes.
pub const ANSWER_PIECE_MAX: usize = 16 * 1024;
/// Smallest piece, however short the write timeout. Bytes.
pub const ANSWER_PIECE_MIN: usize = 512;
/// A peer that takes an answer this fast is never too slow, whatever the write timeout (at least one second), and one that takes
/// it slower on the whole is, however regularly it takes a piece. Bytes a second.
pub const ANSWER_RATE_MIN: usize = 1024;
/// What is buffered of one HTTP/2 answer. Bytes.
pub const STREAM_BUFFER_BYTES: usize = 4 * ANSWER_PIECE_MAX;
/// Longest time that a caller waits in one request until a saga is at rest.
pub const SAGA_WAIT_MAX: Duration = Duration::from_secs(20);
/// Longest wait for the next line of a plugin's log: well below the time that a request gets.
pub const LOG_WAIT_MAX: Duration = Duration::from_secs(20);
/// Largest component handed over: what the plugin host takes. Bytes.
pub const COMPONENT_BYTES_MAX: usize = 48 * 1024 * 1024;
/// Bodies larger than this are counted against [`Limits::bodies_bytes_max`]; smaller ones are bounded by
/// [`Limits::requests_max`] alone (1,024 of them are 64 MiB). Bytes.
pub const SMALL_BODY_BYTES: usize = 64 * 1024;
/// Answers larger than this are counted against [`Limits::answers_bytes_max`]; smaller ones are bounded by
/// [`Limits::requests_max`] alone. Bytes.
pub const SMALL_ANSWER_BYTES: usize = 64 * 1024;
/// Most statements of one business transaction: it holds locks while it runs.
pub const STATEMENTS_MAX: usize = 1_000;
/// What the bindings of one statement may take of memory: somewhat more than the store takes of them as values (12 MiB). Bytes.
pub const BINDINGS_BYTES_MAX: usize = 16 * 1024 * 1024;
/// What the statements of one transaction may take of memory, bindings included: a statement writes no more than 16 MiB. Bytes.
pub const STATEMENTS_BYTES_MAX: usize = 24 * 1024 * 1024;
/// Messages of a claim when the worker names no limit.
pub const CLAIM_DEFAULT: usize = 10;
/// Transactions with statements that run at once: each may take 64 MiB beside its text, so all of them 1 GiB.
pub const TRANSACTIONS_MAX: usize = 16;
/// Longest wait of a transaction for a place among those, and at most half of the request's time.
pub const TRANSACTION_WAIT_MAX: Duration = Duration::from_secs(5);
/// A worker's lease when it names no time.
pub const LEASE_DEFAULT: Duration = Duration::from_secs(60);
/// Shortest lease: a shorter one could end before its answer arrived.
pub const LEASE_MIN: Duration = Duration::from_millis(100);
/// Longest lease: a worker that takes longer renews.
pub const LEASE_MAX: Duration = Duration::from_secs(24 * 3600);
/// Longest wait of a claim: well below the time that a request gets.
pub const CLAIM_WAIT_MAX: Duration = Duration::from_secs(20);
/// Wait of a claim for which there is no place among those that wait: as many as those may wait this long, so that a fleet of
/// workers that ask again at once doesn't spin.
pub const CLAIM_PAUSE: Duration = Duration::from_secs(1);
/// Longest name of a worker, in bytes.
pub const WORKER_BYTES_MAX: usize = 128;
/// Longest receipt of a worker, in bytes: one is kept with every message for `keep_done`.
pub const RECEIPT_BYTES_MAX: usize = 1_024;
/// Longest error code of a worker, in bytes.
pub const FAULT_CODE_BYTES_MAX: usize = 64;
/// Most items of one page of a list (`surface.md`).
pub const PAGE_MAX: usize = 1_000;
/// Items of a page when the caller names no limit.
pub const PAGE_DEFAULT: usize = 100;
/// Pages of streams that are counted for one request: people want to know whether there are three or thousands.
pub const COUNTED_PAGES_MAX: usize = 10;
/// Dead letters shown by a dry run.
pub const SAMPLE_MAX: usize = 10;
/// Fastest bulk act, in acts a second.
pub const OPERATION_RATE_MAX: u32 = 10_000;
/// Longest note or reason, in bytes: one is kept with every dead letter it concerns.
pub const NOTE_BYTES_MAX: usize = 2_000;
/// Longest filter, in bytes.
pub const FILTER_BYTES_MAX: usize = 4_096;
/// Longest name of who decides by a link, in bytes: it is kept with the decision.
pub const LINK_BY_BYTES_MAX: usize = 128;
/// Shortest time that a link is good for.
pub const LINK_TIME_MIN: Duration = Duration::from_secs(1);
/// Largest form that is taken of somebody who signs in or decides by a link, in bytes: one reason, escaped.
pub const FORM_BYTES_MAX: usize = 16 * 1024;
/// Largest form of an act on the page, in bytes: what the API takes as a body for it, each byte of which a browser may write as three,
/// beside what every form has.
pub const ACT_FORM_BYTES_MAX: usize = 3 * BODY_BYTES_MAX + FORM_BYTES_MAX;
/// Deepest nesting of a JSON payload: what common JSON readers take (serde_json stops at 128 too).
pub const JSON_DEPTH_MAX: usize = 128;
/// Longest bearer token that is looked at, in bytes.
pub const TOKEN_BYTES_MAX: usize = 4_096;
/// Longest name of a stored token, in bytes: it stands in addresses and in the audit trail.
pub const TOKEN_NAME_BYTES_MAX: usize = 64;
/// Most stored tokens: far more than callers have names, and all of them are known from memory.
pub const STORED_TOKENS_MAX: usize = 10_000;
/// Shortest and longest time for which a token that expires is good: ten years are longer than anybody plans.
pub const TOKEN_TIME_MIN: Duration = Duration::from_secs(1);
pub const TOKEN_TIME_MAX: Duration = Duration::from_secs(3_650 * 24 * 3_600);
/// Most roles of a stored token.
pub const TOKEN_ROLES_MAX: usize = 100;
/// Most tenants of a stored token that isn't for all.
pub const TOKEN_TENANTS_MAX: usize = 1_000;
/// Longest `x-request-id` that is taken over from the caller, in bytes.
pub const REQUEST_ID_BYTES_MAX: usize = 128;
/// Tenants with label values of their own at `/metrics`; the others are summed up as `_other`.
pub const TENANT_LABELS_MAX: usize = 100;
/// `/readyz` and `/metrics` wait this long for the service's answer: probes commonly give up after a second or two.
pub const PROBE_TIMEOUT: Duration = Duration::from_millis(900);
/// What `/readyz` found is told again for so long, so that many who ask cost no more than one.
pub const READINESS_KEPT: Duration = Duration::from_millis(250);
/// Refused callers that are logged a minute, and connections that find no place; the others are counted.
pub const REFUSALS_LOGGED_MAX: u32 = 60;
/// Connections past the bounds that are told so at the same time; further ones are closed without a word.
pub const SHEDDING_MAX: usize = 64;
/// Time for each of them to ask and to be told. As long a connection waits for a place that another has to give up.
pub const SHEDDING_TIMEOUT: Duration = Duration::from_secs(5);
/// An idle connection that was asked to go is cut after this.
pub const GOODBYE_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections that are cut when the drain time is over are waited for no longer than this.
pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection that has to give way to another, because all places are taken, is asked to go and cut after this.
pub const GIVE_WAY_TIMEOUT: Duration = Duration::from_secs(1);
/// Connections that wait at the same time until another has given way; further ones are told that there is no place.
pub const GIVING_WAY_MAX: usize = 256;
/// How often histograms are drained into their buckets when nobody scrapes, so that memory stays flat.
pub const METRICS_UPKEEP: Duration = Duration::from_secs(5);
/// Pause after a failed `accept` (no file descriptors left), so that it doesn't spin.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// What a caller is told to wait after 429, after 503 because of load, and where the same may succeed a moment later.
pub const RETRY_AFTER_BUSY: Duration = Duration::from_secs(1);
/// What a caller is told to wait when the disk is full: an operator has to act.
pub const RETRY_AFTER_DISK: Duration = Duration::from_secs(10);

/// A subscription over which nothing comes hears a comment after this: proxies commonly cut what is silent for 30 or 60 s.
pub const SSE_HEARTBEAT: Duration = Duration::from_secs(15);
/// Most streams whose cursor is a text, with a number for each. Over HTTP, where it goes into a header, no more are named at once.
pub const CURSOR_STREAMS_MAX: usize = 64;
/// Subscriptions take three in so many of the connections that the host takes, so that the rest is left for requests.
pub const SUBSCRIPTIONS_SHARE: usize = 4;
/// Longest cursor that is looked at: 64 numbers, or a token. Bytes.
pub const CURSOR_BYTES_MAX: usize = 4_096;
/// A call of reflection, which holds the place of a request, ends after this: tools are done in a second.
pub const REFLECTION_TIME_MAX: Duration = Duration::from_secs(60);
/// Largest request of a health check, which is open to everybody, and largest question to reflection: each is a name. Bytes.
pub const SMALL_PROBE_BYTES: usize = 1_024;
/// A ticket is good for so long: a page asks for one and subscribes at once.
pub const TICKET_TIME: Duration = Duration::from_secs(60);
/// Tickets that weren't used yet, each some 300 bytes.
pub const TICKETS_MAX: usize = 4_096;

/// A session of the page ends so long after its last request: who walks away from a screen is signed out.
pub const SESSION_IDLE: Duration = Duration::from_secs(3600);
/// A session of the page ends so long after it began, whatever is asked meanwhile.
pub const SESSION_TIME: Duration = Duration::from_secs(12 * 3600);
/// Sessions of the page with one token, or of one person; the one that was quiet for longest gives way to another.
pub const SESSIONS_OF_ONE_MAX: usize = 16;
/// Sessions of the page, each some 300 bytes.
pub const SESSIONS_MAX: usize = 4_096;
/// A sign-in at a provider is finished within this time: people look for their second factor meanwhile.
pub const SIGN_IN_TIME: Duration = Duration::from_secs(600);
/// Longest address of the page that a sign-in at a provider goes on to; a longer one is forgotten. Bytes.
pub const SIGN_IN_TO_BYTES_MAX: usize = 2_048;
/// A provider answers a request within this time: a person waits for it.
pub const PROVIDER_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for a connection to a provider.
pub const PROVIDER_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Largest answer of a provider that is read: its document, its keys, an ID token with hundreds of groups. Bytes.
pub const PROVIDER_ANSWER_BYTES_MAX: usize = 256 * 1024;
/// What a provider says of itself, and its keys, are asked for again after this: a key that it took back counts no longer then.
pub const PROVIDER_KEPT: Duration = Duration::from_secs(3600);
/// Keys of a provider are asked for again because of one that isn't among them no sooner than this: anybody may name one.
pub const PROVIDER_KEYS_PAUSE: Duration = Duration::from_secs(60);
/// A provider that failed isn't asked again before this is over, so that many who wait for it don't queue up.
pub const PROVIDER_FAULT_PAUSE: Duration = Duration::from_secs(5);
/// Codes that are exchanged at a provider at once; further ones wait for their turn.
pub const EXCHANGES_MAX: usize = 16;
/// And no longer than this: then they are told to try again.
pub const EXCHANGE_TURN_TIMEOUT: Duration = Duration::from_secs(5);
/// Tenants that a provider may name of a person: each costs memory while the session lasts.
pub const PERSON_TENANTS_MAX: usize = 256;
/// How far a provider's clock may be from ours.
pub const PROVIDER_LEEWAY: Duration = Duration::from_secs(60);
/// Longest text of a provider that is shown, in characters.
pub const PROVIDER_TEXT_MAX: usize = 200;
/// Longest subject of a person, in bytes (OpenID Connect Core 1.0, section 2).
pub const SUBJECT_BYTES_MAX: usize = 255;
/// Longest e-mail address, in bytes (RFC 5321).
pub const EMAIL_BYTES_MAX: usize = 254;
/// Forms of the page that were sent, each some 1 KiB with its answer: the oldest of the tenant that has most gives way, and its answer
/// isn't shown any more.
pub const FORMS_SENT_MAX: usize = 1_024;
/// Rows of a list on the page: more are read by going on.
pub const PAGE_ROWS: usize = 50;
/// Changes that a view of the page looks at: those of an hour in which much changes.
pub const PAGE_CHANGES: usize = 12;
/// Approvals of one page: each is read with its steps.
pub const PAGE_APPROVALS: usize = 20;
/// Lines of a plugin's log on the page.
pub const PAGE_LOG_LINES: usize = 200;
/// Rows of a list that is saved as a file.
pub const SAVED_ROWS_MAX: usize = 10_000;
/// A saved list ends behind the row that passes this. So much room is asked for before anything is read for it. Bytes.
pub const SAVED_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Reading a list for a file ends after this, and the file's name says so.
pub const SAVED_TIMEOUT: Duration = Duration::from_secs(2);
/// A part of the page that takes longer is left out, so that the others are seen.
pub const PAGE_PART_TIMEOUT: Duration = Duration::from_secs(2);
/// A page comes without the numbers of its navigation if these take longer: they come when it is open.
pub const PAGE_NUMBERS_TIMEOUT: Duration = Duration::from_secs(1);

/// Open pages that are told what changes, of one tenant up to its share ([`CALLER_SHARE`]); further ones ask every [`LIVE_POLL`].
pub const LIVE_READERS_MAX: usize = 32;
/// An open page is told of changes so often at most.
pub const LIVE_EVERY: Duration = Duration::from_secs(1);
/// What was found for one open page is told to the others for so long, so that many cost what one does.
pub const LIVE_KEPT: Duration = Duration::from_millis(900);
/// An open page hears something after this at the latest; and how the host is, which asks the store, is looked at so often.
pub const LIVE_HEARTBEAT: Duration = Duration::from_secs(5);
/// A page for which there is no place among those that are told asks after this.
pub const LIVE_POLL: Duration = Duration::from_secs(10);
/// A page whose connection broke opens another one after this.
pub const LIVE_RETRY: Duration = Duration::from_secs(2);

/// Bounds that an operator may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests at work at once; further ones are answered 503 at once. Probes and `/metrics` aren't counted.
    pub requests_max: usize,
    /// Bytes of large bodies held at once; further ones are answered 429. A body counts with what it announces, else with what
    /// has come of it, until its request is answered. A tenant's share ([`CALLER_SHARE`]) has to hold the largest body.
    pub bodies_bytes_max: usize,
    /// Bytes of large answers that aren't taken yet. Further ones are dropped: to a look 503 or 429 is answered, to anything else
    /// that it was done. One that is larger than there is for its caller goes when there is nothing else.
    pub answers_bytes_max: usize,
    /// Open connections. For a further one the longest quiet of those gives way that never carried a valid credential; without
    /// such a one it is told 503 and closed.
    pub connections_max: usize,
    /// Open connections of one peer (an IPv4 address, an IPv6 network of 64 bits); further ones are told 429 and closed.
    pub connections_per_peer: usize,
    /// A request, its body included, is answered within this time.
    pub request_timeout: Duration,
    /// The first request of a connection has to be there within this time, and TLS within as much before it: who only
    /// connects is cut.
    pub first_request_timeout: Duration,
    /// An HTTP/1 connection waits this long for the whole head of its next request, idle time included; an HTTP/2 connection
    /// is asked to go after as long without a stream. Longer than the pools of common proxies keep connections (60 s), so that
    /// the client closes first and no request falls into the gap; short enough that slow senders of heads, bounded by
    /// `connections_max`, go away.
    pub idle_timeout: Duration,
    /// An answer of which the peer takes no whole piece (see [`ANSWER_PIECE_MAX`]) for this long is given up: with HTTP/2 its
    /// stream ends, with HTTP/1 its connection, and any connection whose socket stands still. So is one of which not all is
    /// taken within this time and what [`ANSWER_RATE_MIN`] allows for its size. It is noticed within a quarter of this time.
    pub write_timeout: Duration,
    /// Most headers of a request. Twice as many are read, to refuse them with words.
    pub headers_max: usize,
    /// Bytes of a request's head. Twice as many are read, to refuse them with words.
    pub header_bytes_max: usize,
    /// HTTP/2 streams of one connection.
    pub streams_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            requests_max: 1_024,
            bodies_bytes_max: 256 * 1024 * 1024,
            answers_bytes_max: 256 * 1024 * 1024,
            connections_max: 4_096,
            connections_per_peer: 1_024,
            request_timeout: Duration::from_secs(60),
            first_request_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            write_timeout: Duration::from_secs(60),
            headers_max: 100,
            header_bytes_max: 32 * 1024,
            streams_max: 256,
        }
    }
}
