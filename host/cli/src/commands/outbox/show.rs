//! `waybill outbox show`.

use serde_json::Value;

use crate::args::IdArgs;
use crate::commands::{Context, lists, message, requests};
use crate::exit::CliError;
use crate::output::{self, Format, Head, instant, number, plain, text};

pub(super) async fn run(args: &IdArgs, context: &mut Context<'_>) -> Result<(), CliError> {
    let answer = requests::get(context, "messages", &args.id, args.tenant.as_deref()).await?;
    message::show(context, &answer)?;
    let waits = matches!(text(&answer.body, "state").as_str(), "pending" | "leased");
    let has_key = answer.body.get("key").is_some_and(|key| !key.is_null());
    if context.format == Format::Table && waits && has_key { neighbours(args, context).await } else { Ok(()) }
}

/// Writes who goes before it of its key, and who waits behind it, if anybody does.
async fn neighbours(args: &IdArgs, context: &mut Context<'_>) -> Result<(), CliError> {
    let query = lists::tenant_query(args.tenant.as_deref());
    let near = match context.client.get(&["v1", "messages", &args.id, "neighbours"], &query).await {
        Ok(answer) => answer.body,
        // It went meanwhile: nobody is near it any more.
        Err(_) => return Ok(()),
    };
    let side = |name: &str| near.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let (before, behind) = (side("before"), side("behind"));
    if before.is_empty() && behind.is_empty() {
        return Ok(());
    }
    context.term.line("")?;
    let row = |place: &str, one: &Value| {
        let waits = one.pointer("/waiting/on").map_or("-".into(), plain);
        vec![place.to_owned(), text(one, "id"), text(one, "state"), instant(one, "created_at"), waits]
    };
    let mut rows: Vec<Vec<String>> = before.iter().map(|one| row("before it", one)).collect();
    rows.extend(behind.iter().map(|one| row("behind it", one)));
    let heads = [
        Head::cut("OF ITS KEY"),
        Head::whole("ID"),
        Head::cut("STATE"),
        Head::moment("CREATED"),
        Head::cut("WAITS FOR"),
    ];
    output::table(context.term, &heads, &rows)?;
    for (name, place) in [("further_before", "before"), ("further_behind", "behind")] {
        if let Some(further) = near.get(name).and_then(Value::as_u64).filter(|further| *further > 0) {
            context
                .term
                .say(&format!("{} {place} it in memory", number(further, "more message is", "more messages are")));
        }
    }
    Ok(())
}
