//! What one sees at the end: a line for each side of each workload, and the ratio of the two; and every run as a JSON line.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use super::figure::{Figure, Side};

/// All runs so far.
pub struct Report {
    runs: BTreeMap<(String, Side), Vec<Figure>>,
    json: Option<File>,
}

#[derive(Serialize)]
struct JsonRecord<'a> {
    workload: &'a str,
    side: Side,
    #[serde(flatten)]
    figure: &'a Figure,
}

impl Report {
    /// With a file for the JSON lines, appended to.
    pub fn new(json: Option<&Path>) -> Result<Self> {
        let json = json
            .map(|path| {
                let file = File::options().create(true).append(true).open(path);
                file.with_context(|| format!("opening {}", path.display()))
            })
            .transpose()?;
        Ok(Self { runs: BTreeMap::new(), json })
    }

    /// Writes JSON lines, if there is a file for them.
    pub fn keep(&mut self, lines: &[String]) -> Result<()> {
        if let Some(file) = &mut self.json {
            for line in lines {
                writeln!(file, "{line}").context("writing the JSON lines")?;
            }
        }
        Ok(())
    }

    pub fn take(&mut self, workload: &str, side: Side, figure: &Figure) -> Result<()> {
        self.keep(&[serde_json::to_string(&JsonRecord { workload, side, figure })?])?;
        eprintln!("  {figure}");
        self.runs.entry((workload.to_owned(), side)).or_default().push(figure.clone());
        Ok(())
    }
}

impl Report {
    /// The native runs beside a workload: its own, else those of the longest name that it begins with (`W9 keys`: `W9`).
    fn reference(&self, workload: &str) -> Option<&[Figure]> {
        let natives = self.runs.iter().filter(|((_, side), _)| *side == Side::Native);
        let beside = natives.filter(|((name, _), _)| {
            workload.strip_prefix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        });
        beside.max_by_key(|((name, _), _)| name.len()).map(|(_, runs)| runs.as_slice())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.runs.is_empty() {
            return Ok(());
        }
        let mut table = Table::new();
        table.load_style(presets::UTF8_BORDERS_ONLY);
        table.set_header([
            "workload",
            "side",
            "runs",
            "/s",
            "CPU s / 10k",
            "peak MiB",
            "p50 ms",
            "p99 ms",
            "ready ms",
            "of native",
        ]);
        for column in table.column_iter_mut().skip(2) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        for ((workload, side), runs) in &self.runs {
            let figure = Figure::median(runs);
            let native = self.reference(workload).map(Figure::median);
            let ratio = match (side, figure.rate, native.and_then(|native| native.rate)) {
                (Side::Waybill, Some(ours), Some(theirs)) => format!("{:.2}", ours / theirs),
                _ => String::new(),
            };
            let cell =
                |value: Option<f64>, places: usize| value.map(|value| format!("{value:.places$}")).unwrap_or_default();
            table.add_row([
                workload.clone(),
                side.to_string(),
                runs.len().to_string(),
                cell(figure.rate, 0),
                cell(figure.cpu_s_per_10k, 3),
                cell(figure.resident_peak_mib, 0),
                cell(figure.p50_ms, 2),
                cell(figure.p99_ms, 2),
                cell(figure.ready_ms, 0),
                ratio,
            ]);
        }
        writeln!(f, "{table}")?;
        writeln!(
            f,
            "medians; of messages, of sagas in W2, of events in W10 and W11, of deliveries in W12; CPU and memory are those of the measured process alone, CPU in W7 and W8 with PostgreSQL's,\nin W10 and W12 on both sides the server's alone, in W11 server's and client's; memory of W12 waybill is what came on top of an idle host; p50 and p99 are of\nrequests (W1b, W1s), of sagas from start to end (W2), of messages (W1r, W7 200/s), of claims (W6), of the small tenants' first messages (W6 fair), of events from when they were due (W12)"
        )
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_variant_is_compared_with_the_nearest_reference() {
        let mut report = Report::new(None).unwrap();
        for (name, messages) in [("W8 nats", 1), ("W8 nats delete", 2), ("W8 http", 3)] {
            report.take(name, Side::Native, &Figure { messages, ..Figure::default() }).unwrap();
        }
        let beside = |name: &str| report.reference(name).and_then(|runs| runs.first()).map(|run| run.messages);
        assert_eq!(beside("W8 nats stored"), Some(1));
        assert_eq!(beside("W8 nats delete"), Some(2));
        assert_eq!(beside("W8 natsy"), None);
        assert_eq!(beside("W9"), None);
    }
}
