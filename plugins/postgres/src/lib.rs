//! The bundled plugin for PostgreSQL: publishes the rows of an application's outbox table directly, or brings them into the inbox.
//!
//! Everything that is asked comes from one description of the table (`table`). The rows' locks keep the order, nothing else does,
//! so several hosts may drain one table. What this doesn't do: write rows, logical replication, `COPY`.
//!
//! - `config`, `address`, `template`: what an operator may set
//! - `wire`: PostgreSQL's protocol
//! - `table`: the table's description and its statements
//! - `database`: connections, and one transaction a claim; `marking`: what rows are marked with; `listener`: who notifies
//! - `direct`: the world `table`; `source`: the world `source`
//! - `provision`: an index, a column, a trigger, created when the operator asks for them

mod address;
mod config;
mod database;
mod direct;
mod listener;
mod marking;
mod provision;
mod source;
mod table;
mod template;
mod wire;

waybill_plugin::manifest!();
waybill_plugin::export_table!(direct::Direct);
waybill_plugin::export_source!(source::Stored);
waybill_plugin::export_provision!(Postgres);

/// What is created at the server when the operator asks for it.
struct Postgres;
