//! The bundled `postgres` plugin in the real sandbox against a real PostgreSQL: what it claims, marks and brings, what each refusal
//! means, what becomes of rows when the server goes.

mod claiming;
mod kill;
mod login;
mod marking;
mod order;
mod provisioning;
mod source;
mod support;
mod tables;
