//! Which things an act is about, and acting on those that are named by their ids: one after the other, each by itself.

use std::time::Duration;

use clap::{ArgGroup, Args};
use indicatif::ProgressBar;
use tokio::time::{Interval, interval};

use super::Context;
use crate::exit::{CliError, Exit};
use crate::output::safe;

/// Most ids read from stdin: more is a matter for a filter.
const IDS_MAX: usize = 100_000;

/// Which things: by id or by filter.
#[derive(Clone, Debug, Args)]
#[group(skip)]
#[command(group(ArgGroup::new("which").args(["ids", "filter"]).required(true)))]
pub struct Selection {
    /// Ids; `-` reads them from stdin, one a line
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    /// All that match; '' for all there are
    #[arg(long)]
    pub filter: Option<String>,
    /// Tenant of the ids [default: the token's only one, else default]
    #[arg(long)]
    pub tenant: Option<String>,
}

/// Which things: by id only.
#[derive(Clone, Debug, Args)]
pub struct Ids {
    /// Ids; `-` reads them from stdin, one a line
    #[arg(value_name = "ID", required = true)]
    pub ids: Vec<String>,
    /// Tenant of the ids [default: the token's only one, else default]
    #[arg(long)]
    pub tenant: Option<String>,
}

impl From<Ids> for Selection {
    fn from(Ids { ids, tenant }: Ids) -> Self {
        Self { ids, filter: None, tenant }
    }
}

/// An id in its tenant, if that is named.
pub(super) struct Id {
    pub(super) tenant: Option<String>,
    pub(super) id: String,
    /// It was read from stdin: a list named it, and nobody chose it.
    pub(super) piped: bool,
}

/// Ids with their tenants, where they are named. A line of stdin is an id, or tenant, tab, id, as `-o ids` writes them.
pub(super) fn read_ids(context: &mut Context<'_>, given: &[String], tenant: Option<&str>) -> Result<Vec<Id>, CliError> {
    let tenant = tenant.map(str::to_owned);
    let mut ids = Vec::new();
    for given in given {
        if given != "-" {
            ids.push(Id { tenant: tenant.clone(), id: given.clone(), piped: false });
            continue;
        }
        let mut line = String::new();
        loop {
            line.clear();
            let read = context.term.input.read_line(&mut line).map_err(CliError::io("reading ids from stdin"))?;
            if read == 0 {
                break;
            }
            let line = line.trim_end_matches(['\n', '\r']);
            let (tenant, id) = match line.split_once('\t') {
                Some((named, id)) => (Some(named.to_owned()), id),
                None => (tenant.clone(), line),
            };
            if !id.is_empty() {
                ids.push(Id { tenant, id: id.to_owned(), piped: true });
            }
            if ids.len() > IDS_MAX {
                return Err(CliError::usage(format!("more than {IDS_MAX} ids"), "use --filter for so many"));
            }
        }
    }
    Ok(ids)
}

/// Beats so many acts a second, if a rate was given.
pub(super) fn pace(rate: Option<u32>) -> Option<Interval> {
    let rate = rate.filter(|rate| *rate > 0)?;
    Some(interval(Duration::from_secs_f64(1.0 / f64::from(rate))))
}

/// Acts on each in the order given; naming the ids was the confirmation. `act` answers whether it was done, and then whether
/// that could be written, without which nothing more is done. It also ends where nothing after it would fare better, and
/// `broke_off` words how many were done by then.
pub(super) async fn each(
    context: &mut Context<'_>,
    ids: &[Id],
    bar: &ProgressBar,
    broke_off: impl Fn(u64) -> Option<String>,
    mut act: impl AsyncFnMut(&mut Context<'_>, &Id) -> Result<Result<(), CliError>, CliError>,
) -> Result<(), CliError> {
    if ids.is_empty() {
        context.term.say("no ids: nothing to do");
    }
    let (mut done, mut failed, mut last) = (0_u64, 0_u64, None);
    for id in ids {
        let result = act(context, id).await;
        bar.inc(1);
        match result {
            Ok(written) => {
                written?;
                done += 1;
            }
            Err(error) if ids.len() == 1 || is_hopeless(&error) => {
                bar.finish_and_clear();
                if let (1.., Some(text)) = (done, broke_off(done)) {
                    context.term.complain(&text);
                }
                return Err(error);
            }
            Err(error) => {
                failed += 1;
                bar.suspend(|| context.term.complain(&format!("{}: {error}", safe(&id.id))));
                last = Some(error.exit());
            }
        }
    }
    bar.finish_and_clear();
    match (done, last) {
        (_, None) => Ok(()),
        (0, Some(exit)) => Err(CliError::NoneDone { failed, exit }),
        (done, Some(_)) => Err(CliError::Partly { done, failed }),
    }
}

/// Whether nothing after this error would fare better.
fn is_hopeless(error: &CliError) -> bool {
    matches!(error.exit(), Exit::Unreachable | Exit::NotAllowed | Exit::TimedOut)
}
