//! The bundled `nats` transport in the real sandbox against a real nats-server: what arrives, what each refusal means, what
//! becomes of messages when the server goes.

mod credentials;
mod delivering;
mod failing;
mod fake;
mod kill;
mod provisioning;
mod refusing;
mod servers;
mod support;
mod tls;
