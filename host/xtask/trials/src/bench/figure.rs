//! What one run measured, and medians over several.

use std::fmt;
use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    Waybill,
    /// The reference: the same work without Waybill.
    Native,
    /// The store's writes alone.
    Store,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Waybill => "waybill",
            Self::Native => "native",
            Self::Store => "store",
        })
    }
}

/// One run, or the medians of several. What doesn't apply is none.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figure {
    pub messages: u64,
    /// Of them a second.
    pub rate: Option<f64>,
    /// CPU seconds for 10,000 of them: of the measured process, in W7 and W8 of its PostgreSQL too, in W10 and W12 of the server on both sides,
    /// in W11 of server and client.
    pub cpu_s_per_10k: Option<f64>,
    /// Most resident memory, MiB; in W12 of the host, what it takes above what it takes idle.
    pub resident_peak_mib: Option<f64>,
    /// Half took at most this, milliseconds.
    pub p50_ms: Option<f64>,
    /// All but one in a hundred took at most this, milliseconds.
    pub p99_ms: Option<f64>,
    /// From the start of the process until it is ready, milliseconds.
    pub ready_ms: Option<f64>,
}

impl Figure {
    /// Of a throughput run.
    pub fn of_rate(messages: u64, took: Duration) -> Self {
        Self { messages, rate: Some(messages as f64 / took.as_secs_f64()), ..Self::default() }
    }

    /// With the CPU time it took.
    pub fn with_cpu(self, cpu: Duration) -> Self {
        let per_10k = cpu.as_secs_f64() * 10_000.0 / self.messages.max(1) as f64;
        Self { cpu_s_per_10k: Some(per_10k), ..self }
    }

    /// With what another process used for it, too.
    pub fn with_more_cpu(self, cpu: Duration) -> Self {
        let more = cpu.as_secs_f64() * 10_000.0 / self.messages.max(1) as f64;
        Self { cpu_s_per_10k: self.cpu_s_per_10k.map(|own| own + more), ..self }
    }

    /// With times of single messages.
    pub fn with_times(self, mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |share: usize| {
            let place = (times.len() * share / 100).min(times.len().saturating_sub(1));
            times.get(place).map(|time| time.as_secs_f64() * 1e3)
        };
        Self { p50_ms: at(50), p99_ms: at(99), ..self }
    }

    /// Median of each value by itself.
    pub fn median(runs: &[Self]) -> Self {
        let of = |value: fn(&Self) -> Option<f64>| median(runs.iter().filter_map(value).collect());
        Self {
            messages: runs.first().map_or(0, |run| run.messages),
            rate: of(|run| run.rate),
            cpu_s_per_10k: of(|run| run.cpu_s_per_10k),
            resident_peak_mib: of(|run| run.resident_peak_mib),
            p50_ms: of(|run| run.p50_ms),
            p99_ms: of(|run| run.p99_ms),
            ready_ms: of(|run| run.ready_ms),
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            self.rate.map(|rate| format!("{rate:.0}/s")),
            self.cpu_s_per_10k.map(|cpu| format!("{cpu:.3} CPU s / 10,000")),
            self.resident_peak_mib.map(|mib| format!("{mib:.0} MiB")),
            self.p50_ms.zip(self.p99_ms).map(|(half, most)| format!("p50 {half:.2} ms, p99 {most:.2} ms")),
            self.ready_ms.map(|ready| format!("ready in {ready:.0} ms")),
        ];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

/// The middle one, or half way between the two in the middle; none where there are no values.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = values.get(values.len() / 2).copied()?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    values.get(values.len() / 2 - 1).map(|lower| f64::midpoint(*lower, upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_of_each_value_by_itself() {
        let run = |rate, cpu| Figure { rate: Some(rate), cpu_s_per_10k: cpu, ..Figure::default() };
        let median = Figure::median(&[run(3.0, Some(1.0)), run(1.0, None), run(2.0, Some(2.0))]);
        assert_eq!((median.rate, median.cpu_s_per_10k, median.p50_ms), (Some(2.0), Some(1.5), None));
    }

    #[test]
    fn another_process_adds_to_what_was_used() {
        let figure = Figure::of_rate(20_000, Duration::from_secs(1)).with_cpu(Duration::from_secs(1));
        assert_eq!(figure.with_more_cpu(Duration::from_secs(2)).cpu_s_per_10k, Some(1.5));
    }

    #[test]
    fn percentiles_are_of_sorted_times() {
        let figure = Figure::default().with_times((1..=200).rev().map(Duration::from_millis).collect());
        assert_eq!((figure.p50_ms, figure.p99_ms), (Some(101.0), Some(199.0)));
        assert_eq!(Figure::default().with_times(Vec::new()).p50_ms, None);
    }
}
