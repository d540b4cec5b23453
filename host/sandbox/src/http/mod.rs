//! The HTTP client behind `http`, `http-blocking` and `wasi:http`: HTTP/1.1 and HTTP/2 with kept connections.
//!
//! Every endpoint has a pool of its own: a pool shared by two endpoints would let one of them use a connection that only
//! the other was granted. Bounds: requests in flight, requests per peer, time, header and body sizes (`limits.rs`).
//! What it doesn't do: follow redirects, use proxies from the environment, keep cookies, decompress.

mod body;
mod client;
mod connector;
mod failure;
mod handlers;
mod held;
mod known;
mod peers;
mod request;
mod steps;
#[cfg(test)]
mod tests;
mod wasi;

pub(crate) use client::HttpClient;
pub(crate) use failure::net_error;
pub use handlers::HttpHandlerClient;
pub(crate) use held::Held;
pub use steps::HttpStepClient;
pub(crate) use wasi::HttpGate;
