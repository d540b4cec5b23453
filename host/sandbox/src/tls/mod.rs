//! TLS of this host's own connections: trust roots, the settings of one connection, what went wrong in plain words, and
//! channel bindings. Shared by `http` and `net`; secrets come in as bytes, so nothing here knows where they are kept.
//!
//! TLS 1.2 and 1.3 by rustls with ring. What it doesn't do: accept what a certificate doesn't prove, resume sessions of
//! `net` (a broker's connection lives long, and a full handshake proves the peer anew), check revocation.

mod binding;
mod client;
mod failure;
mod roots;

pub(crate) use client::{TlsClient, TlsMaterial, TlsPeer, describe};
pub(crate) use roots::TlsRoots;
