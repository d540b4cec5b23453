//! The bundled `redis` transport in the real sandbox against a real redis-server: what arrives, what each refusal means, what
//! becomes of messages when the server goes.

mod credentials;
mod dedup;
mod delivering;
mod failing;
mod fake;
mod kill;
mod provisioning;
mod refusing;
mod replicas;
mod servers;
mod support;
mod tls;
