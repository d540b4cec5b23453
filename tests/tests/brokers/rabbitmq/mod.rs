//! The bundled `rabbitmq` transport in the real sandbox against a real RabbitMQ: what arrives, what each refusal means, what
//! becomes of messages when the server asks to wait or goes.

mod alarms;
mod delivering;
mod failing;
mod fake;
mod kill;
mod provisioning;
mod refusing;
mod support;
mod tls;
