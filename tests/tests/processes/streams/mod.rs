//! Event streams of the real binary: numbered, read, kept and relayed while hosts and brokers are killed. The acceptance of document 3, over HTTP,
//! server-sent events and gRPC.
//!
//! | file | holds |
//! |---|---|
//! | `numbering` | appenders at once, and kills (acceptance 1) |
//! | `seam` | from replay to live, cut connections, cursors over a restart (2) |
//! | `lagging` | readers that stop reading (3) |
//! | `grpc` | the calls of gRPC: replay, resuming, what isn't kept, readers that stop (3, 5) |
//! | `idle` | streams that nobody reads (4) |
//! | `selectors` | each selector against a filter of its own (5) |
//! | `by_resource` | reads of one resource, while its index is made |
//! | `kept` | retention and compaction (6) |
//! | `large` | payloads that lie beside their chunks |
//! | `relays` | a backlog, order by key, kills of host and broker (7) |
//! | `sagas` | the histories of sagas |
//! | `wire` | what consumers of each broker see (8) |
//! | `browser` | a page of another site, with and without tokens |
//! | `settings` | bounds by their names, also while it runs (10) |

mod browser;
mod by_resource;
mod grpc;
mod idle;
mod kept;
mod lagging;
mod large;
mod numbering;
mod relays;
mod sagas;
mod seam;
mod selectors;
mod settings;
mod support;
mod wire;
