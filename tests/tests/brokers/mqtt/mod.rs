//! The bundled `mqtt` transport in the real sandbox against a real Mosquitto: what arrives, what each refusal means, what becomes
//! of messages when the server goes.

mod delivering;
mod failing;
mod fake;
mod kill;
mod refusing;
mod support;
mod tls;
