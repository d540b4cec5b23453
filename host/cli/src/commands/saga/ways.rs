//! Ways out of a saga, each as the command that takes it, with what follows.

use waybill_api::saga_ways::WayOutView;
use waybill_api::sagas::SagaView;
use waybill_core::ids::Tenant;
use waybill_core::port::saga::RetryMode;
use waybill_core::saga::event::End;

use crate::commands::Context;
use crate::exit::CliError;
use crate::output::{self, Head, safe};

/// Writes them below the tree; nothing where there are none.
pub(super) fn draw(context: &mut Context<'_>, saga: &SagaView) -> Result<(), CliError> {
    let ways = saga.ways_out.as_deref().unwrap_or_default();
    if ways.is_empty() {
        return Ok(());
    }
    context.term.line("")?;
    let rows: Vec<_> = ways.iter().map(|way| vec![command(way, &saga.tenant), follows(way)]).collect();
    output::table(context.term, &[Head::whole("WAY OUT"), Head::prose("WHAT FOLLOWS")], &rows)
}

/// The command that takes it.
fn command(way: &WayOutView, tenant: &str) -> String {
    let mut command = format!("waybill saga {} {}", safe(&way.act), argument(&way.saga));
    let mut add = |flag: &str, value: &str| command.push_str(&format!(" --{flag} {value}"));
    if let Some(step) = &way.step {
        add("step", &argument(step));
    }
    if way.mode == Some(RetryMode::Retry) {
        add("mode", "retry");
    }
    if tenant != Tenant::UNNAMED {
        add("tenant", &argument(tenant));
    }
    if matches!(way.act.as_str(), "accept" | "skip" | "kill") {
        add("reason", "'...'");
    }
    command
}

/// A value as a shell takes it.
fn argument(value: &str) -> String {
    let value = safe(value);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-:/@~+".contains(c);
    match !value.is_empty() && value.chars().all(is_plain) && !value.starts_with(['-', '~']) {
        true => value,
        false => format!("'{}'", value.replace('\'', r"'\''")),
    }
}

/// What it leads to, in a sentence or two.
fn follows(way: &WayOutView) -> String {
    let named = |what: &str, steps: &[String]| {
        let steps: Vec<String> = steps.iter().map(|step| safe(step)).collect();
        (!steps.is_empty()).then(|| format!("{what} {}", steps.join(", ")))
    };
    let parts = [
        named("calls again", &way.again),
        named("undoes", &way.undone),
        named("stays done:", &way.stays),
        named("isn't known:", &way.unclear),
        Some(ending(way).to_owned()),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

fn ending(way: &WayOutView) -> &'static str {
    match way.ends {
        None => "waits for an operator still",
        Some(End::Completed) => "then completes",
        Some(End::Cancelled) => "then is cancelled",
        Some(End::Skipped) => "then has failed (skipped)",
        Some(End::Killed) => "ends at once as failed (killed)",
        Some(End::Accepted) => "ends at once as failed (accepted)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(act: &str) -> WayOutView {
        WayOutView {
            act: act.to_owned(),
            saga: "order-17".to_owned(),
            step: None,
            mode: None,
            again: Vec::new(),
            undone: Vec::new(),
            stays: Vec::new(),
            unclear: Vec::new(),
            ends: None,
            at_once: false,
        }
    }

    #[test]
    fn a_way_is_a_command_that_can_be_pasted() {
        let skip = WayOutView { step: Some("it's it".to_owned()), ..way("skip") };
        let line = command(&skip, "acme");
        assert_eq!(line, r"waybill saga skip order-17 --step 'it'\''s it' --tenant acme --reason '...'");
        let retry = WayOutView { mode: Some(RetryMode::Retry), ..way("retry") };
        assert_eq!(command(&retry, Tenant::UNNAMED), "waybill saga retry order-17 --mode retry");
    }

    #[test]
    fn what_follows_names_each_step() {
        let accept = WayOutView {
            stays: vec!["reserve".to_owned(), "pay/charge".to_owned()],
            ends: Some(End::Accepted),
            at_once: true,
            ..way("accept")
        };
        assert_eq!(follows(&accept), "stays done: reserve, pay/charge; ends at once as failed (accepted)");
        let retry = WayOutView {
            again: vec!["charge".to_owned()],
            undone: vec!["charge".to_owned(), "reserve".to_owned()],
            ends: Some(End::Cancelled),
            ..way("retry")
        };
        assert_eq!(follows(&retry), "calls again charge; undoes charge, reserve; then is cancelled");
    }
}
