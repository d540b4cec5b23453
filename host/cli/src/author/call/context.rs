//! The context of a call made by hand.

use jiff::Timestamp;
use ulid::Ulid;
use waybill_core::port::participant::StepContext;
use waybill_core::time::UnixMillis;

use super::Call;
use crate::exit::CliError;

/// Reads `--tenant` and `--context`. Without a saga's id each call has one of its own, so that nothing takes two calls for one.
pub(super) fn read(args: &Call) -> Result<StepContext, CliError> {
    let step =
        args.step.clone().unwrap_or_else(|| args.target.rsplit(['/', ':']).next().unwrap_or_default().to_owned());
    let mut context = StepContext::new(format!("by-hand-{}", Ulid::new()), "by-hand", step);
    context.tenant.clone_from(&args.tenant);
    for pair in &args.context {
        let Some((name, value)) = pair.split_once('=') else {
            return Err(CliError::usage(
                format!("--context {pair:?} isn't NAME=VALUE"),
                "write e.g. --context saga-id=s-1",
            ));
        };
        set(&mut context, name, value)?;
    }
    Ok(context)
}

fn set(context: &mut StepContext, name: &str, value: &str) -> Result<(), CliError> {
    let number = || {
        value.parse::<u32>().map_err(|_| {
            CliError::usage(format!("--context {name}={value:?} isn't a number"), "write a whole number".to_owned())
        })
    };
    let text = || value.to_owned();
    match name {
        "saga-id" => context.saga_id = text(),
        "definition" => context.definition = text(),
        "definition-version" => context.definition_version = number()?,
        "step" => context.step = text(),
        "attempt" => context.attempt = number()?,
        "envelope-id" => context.envelope_id = Some(text()),
        "correlation-id" => context.correlation_id = Some(text()),
        "saga-deadline" => context.saga_deadline = Some(instant(value)?),
        _ => match name.strip_prefix("header.") {
            Some(header) => context.headers.push((header.to_owned(), text())),
            None => context.attributes.push((name.to_owned(), text())),
        },
    }
    Ok(())
}

fn instant(value: &str) -> Result<UnixMillis, CliError> {
    value
        .parse::<Timestamp>()
        .ok()
        .and_then(|at| u64::try_from(at.as_millisecond()).ok())
        .map(UnixMillis)
        .ok_or_else(|| CliError::usage(format!("{value:?} isn't an instant"), "write e.g. 2026-11-22T10:00:00Z"))
}
