//! The bundled `redis` transport in the real sandbox against a real redis-server: what arrives, what each refusal means, what
//! becomes of messages when the server goes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod credentials;
mod dedup;
mod delivering;
mod failing;
mod fake;
mod provisioning;
mod refusing;
mod replicas;
mod servers;
mod support;
mod tls;
