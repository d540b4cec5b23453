//! `waybill quarantine ...`.

use clap::{Args, Subcommand};

/// Rows that could not be read.
#[derive(Debug, Subcommand)]
pub enum Quarantine {
    /// Rows in quarantine, oldest first
    List(List),
    /// One row with its columns and bytes, and why it can't be read
    #[command(after_help = "Examples:\n  \
        waybill quarantine show 01JD8Q6H3ZK7W5V0N2T4R6Y8BC\n  \
        waybill quarantine show 01JD8Q6H3ZK7W5V0N2T4R6Y8BC -o json | jq -r .columns.data | base64 -d | xxd")]
    Show(Show),
    /// Put rows back that can be read by now
    #[command(after_help = "Examples:\n  \
        waybill quarantine restore 01JD8Q6H3ZK7W5V0N2T4R6Y8BC --reason 'read by the new version'\n  \
        waybill quarantine list --table parked --all -o ids | waybill quarantine restore -\n\n\
        A row is read again first: one that still can't be read stays. Messages that were in the order enter it anew, behind\n\
        what is there, and may be delivered twice.")]
    Restore(Act),
    /// Delete rows for good
    #[command(after_help = "Examples:\n  \
        waybill quarantine drop 01JD8Q6H3ZK7W5V0N2T4R6Y8BC --yes --reason 'its message was sent by hand'\n  \
        waybill quarantine list --table outbox_done --all -o ids | waybill quarantine drop - --yes\n\n\
        What stood for a row is free again: an idempotency key executes again, a message's id may be used again. The audit\n\
        trail keeps rows below 16 KiB.")]
    Drop(Drop),
}

/// Which rows.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill quarantine list\n  \
    waybill quarantine list --table dead_letters --all -o ids\n  \
    waybill quarantine list --table parked --cursor 5pXq8hYwMC8z     go on where it ended")]
pub struct List {
    /// Only rows of this table
    #[arg(long, value_name = "TABLE")]
    pub table: Option<String>,
    /// Most rows listed
    #[arg(long, default_value_t = 50, value_name = "N")]
    pub limit: usize,
    /// All of them
    #[arg(long, conflicts_with = "limit")]
    pub all: bool,
    /// Go on where an earlier list of the same kind and filter ended; it told this
    #[arg(long, value_name = "CURSOR", allow_hyphen_values = true)]
    pub cursor: Option<String>,
}

/// One row.
#[derive(Debug, Args)]
pub struct Show {
    /// Its name in quarantine
    pub id: String,
}

/// Rows to act on.
#[derive(Debug, Args)]
pub struct Act {
    /// Their names in quarantine; `-` reads them from stdin
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<String>,
    /// Why, for the audit
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub reason: String,
}

/// Rows to delete.
#[derive(Debug, Args)]
pub struct Drop {
    /// Which.
    #[command(flatten)]
    pub rows: Act,
    /// Don't ask; needed where there is no terminal to ask on
    #[arg(short, long)]
    pub yes: bool,
}
