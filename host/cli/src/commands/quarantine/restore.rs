//! `waybill quarantine restore`.

use serde_json::Value;

use super::rows::{self, Rows};
use crate::commands::Context;
use crate::exit::CliError;
use crate::output::{number, text};

/// Puts rows back that can be read by now.
pub(super) async fn run(args: &Rows, context: &mut Context<'_>) -> Result<(), CliError> {
    rows::each(args, "restore", report, context).await
}

fn report(id: &str, item: &Value) -> String {
    match item.get("went").and_then(Value::as_str) {
        Some("queued") => {
            let count = item.get("messages").and_then(Value::as_u64).unwrap_or(0);
            format!("restored {id}: {} entered the order anew", number(count, "message", "messages"))
        }
        Some("at_takeover") => {
            format!("restored {id}: the host takes it in when it takes the shard over, at the next start at the latest")
        }
        _ => format!("restored {id}: it is back in {}", text(item, "table")),
    }
}
