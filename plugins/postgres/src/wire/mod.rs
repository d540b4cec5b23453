//! PostgreSQL's protocol, version 3: messages, login, statements and their answers, and one session over a byte stream.
//!
//! - `frames`: messages in what has come; `array`, `statement`: what goes out; `answer`: what comes back; `asking`: both at once
//! - `refusal`: errors by their SQLSTATE: what is at fault
//! - `login`: who we are; `connection`: one that is logged in; `upgrade`: TLS before the first message

pub(crate) mod answer;
pub(crate) mod array;
mod asking;
mod connection;
mod frames;
mod login;
pub(crate) mod refusal;
mod statement;
mod upgrade;

pub(crate) use answer::{Answer, Row};
pub(crate) use connection::{Connection, Failed};
pub(crate) use refusal::Class;
pub(crate) use statement::{Pipeline, Statement, Value};
