//! Units in which metrics are shown and aren't recorded: names of documents in milliseconds, and counters of less than a second.
//!
//! Made of the page when somebody scrapes, so that a message is measured once.

use std::fmt::Write as _;

use super::{OTHER_UNITS, PLUGIN_METRICS};

pub(super) const MS_PER_SECOND: f64 = 1e3;
const US_PER_SECOND: f64 = 1e6;

/// Help of what nobody described.
const UNDESCRIBED: &str = "Measured by a plugin itself; its own documentation says what.";

/// A family that is shown in another unit than it is recorded in.
pub(super) struct Shown {
    pub(super) recorded: &'static str,
    name: &'static str,
    convert: fn(f64) -> f64,
    /// Whether it stands beside the recorded one or in its place.
    beside: bool,
}

pub(super) const SHOWN: [Shown; 3] = [
    Shown {
        recorded: "tx_outbox_latency_seconds",
        name: "tx_outbox_latency_ms",
        convert: |seconds| seconds * MS_PER_SECOND,
        beside: true,
    },
    Shown {
        recorded: "tx_saga_step_latency_seconds",
        name: "tx_saga_step_latency_ms",
        convert: |seconds| seconds * MS_PER_SECOND,
        beside: true,
    },
    // The recorder counts whole numbers.
    Shown {
        recorded: "waybill_plugin_cpu_microseconds_total",
        name: "waybill_plugin_cpu_seconds_total",
        convert: |microseconds| microseconds / US_PER_SECOND,
        beside: false,
    },
];

/// A page of the recorder as it is shown. Every family of it has help.
pub(super) fn shown(page: &str) -> String {
    let mut text = String::with_capacity(page.len());
    for family in page.split_inclusive("\n\n") {
        let name = family_name(family);
        let other = SHOWN.iter().find(|shown| name == Some(shown.recorded));
        if other.is_none_or(|shown| shown.beside) {
            if let (Some(name), false) = (name, family.starts_with("# HELP ")) {
                let _ = writeln!(text, "# HELP {name} {UNDESCRIBED}");
            }
            text.push_str(family);
        }
        if let Some(shown) = other {
            shown.write(family, &mut text);
        }
    }
    text
}

/// The name on a family's `# TYPE` line.
fn family_name(family: &str) -> Option<&str> {
    family.lines().find_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
}

impl Shown {
    fn write(&self, family: &str, text: &mut String) {
        let help = [OTHER_UNITS, PLUGIN_METRICS].into_iter().flatten().find(|(name, _)| *name == self.name);
        let _ = writeln!(text, "# HELP {} {}", self.name, help.map_or(UNDESCRIBED, |(_, help)| help));
        for line in family.lines() {
            let _ = match line.strip_prefix("# TYPE ") {
                Some(kind) => {
                    writeln!(text, "# TYPE {}{}", self.name, kind.strip_prefix(self.recorded).unwrap_or_default())
                }
                None if line.starts_with('#') => Ok(()),
                None => writeln!(text, "{}", self.line(line)),
            };
        }
    }

    /// One line of values: an observation's bound, a sum or a counter in the other unit; a number of observations as it is.
    fn line(&self, line: &str) -> String {
        let Some(rest) = line.strip_prefix(self.recorded) else { return line.to_owned() };
        let (series, value) = rest.rsplit_once(' ').unwrap_or((rest, ""));
        let converted =
            |text: &str| text.parse().map_or_else(|_| text.to_owned(), |value| (self.convert)(value).to_string());
        if series.starts_with("_count") {
            return format!("{}{rest}", self.name);
        }
        if !series.starts_with("_bucket") {
            return format!("{}{series} {}", self.name, converted(value));
        }
        // The recorder writes the bound as the last label.
        match series.rsplit_once("le=\"") {
            Some((labels, bound)) if bound != "+Inf\"}" => {
                let bound = converted(bound.trim_end_matches("\"}"));
                format!("{}{labels}le=\"{bound}\"}} {value}", self.name)
            }
            _ => format!("{}{rest}", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use metrics::{counter, histogram};

    use super::*;
    use crate::metrics::{BUCKETS_MS, describe, recorder};

    fn page(record: impl FnOnce()) -> String {
        let recorder = recorder().unwrap();
        metrics::with_local_recorder(&recorder, || {
            describe(&[&[("tx_outbox_latency_seconds", "Time.")]]);
            record();
        });
        shown(&recorder.handle().render())
    }

    #[test]
    fn a_document_s_name_has_the_same_observations_in_its_unit() {
        let hostile = "a\" le=\"7\"} 9";
        let text = page(|| {
            for seconds in [0.0015, 7.0, 7.0, 90_000.0] {
                histogram!("tx_outbox_latency_seconds", "tenant" => hostile).record(seconds);
            }
        });
        let labels = r#"{tenant="a\" le=\"7\"} 9""#;
        for line in [
            format!("tx_outbox_latency_seconds_bucket{labels},le=\"0.002\"}} 1"),
            format!("tx_outbox_latency_ms_bucket{labels},le=\"2\"}} 1"),
            format!("tx_outbox_latency_seconds_bucket{labels},le=\"10\"}} 3"),
            format!("tx_outbox_latency_ms_bucket{labels},le=\"10000\"}} 3"),
            format!("tx_outbox_latency_ms_bucket{labels},le=\"+Inf\"}} 4"),
            format!("tx_outbox_latency_ms_sum{labels}}} 90014001.5"),
            format!("tx_outbox_latency_ms_count{labels}}} 4"),
            "# TYPE tx_outbox_latency_ms histogram".to_owned(),
            "# HELP tx_outbox_latency_ms As tx_outbox_latency_seconds, in milliseconds.".to_owned(),
        ] {
            assert!(text.lines().any(|written| written == line), "{line} isn't in\n{text}");
        }
        for bound in BUCKETS_MS {
            assert!(text.contains(&format!("tx_outbox_latency_ms_bucket{labels},le=\"{bound}\"}}")), "{bound}\n{text}");
        }
    }

    #[test]
    fn cpu_time_is_shown_in_seconds_only() {
        let text = page(|| counter!("waybill_plugin_cpu_microseconds_total", "plugin" => "http").increment(1_234_567));
        assert!(
            text.lines().any(|line| line == "waybill_plugin_cpu_seconds_total{plugin=\"http\"} 1.234567"),
            "{text}"
        );
        assert!(text.contains("# TYPE waybill_plugin_cpu_seconds_total counter\n"), "{text}");
        assert!(!text.contains("microseconds"), "{text}");
    }

    #[test]
    fn what_a_plugin_measures_has_help_too() {
        let text = page(|| {
            counter!("waybill_plugin_fetched_total", "transport" => "web").increment(2);
            histogram!("tx_outbox_latency_seconds", "tenant" => "a").record(1.0);
        });
        assert!(text.contains(&format!(
            "# HELP waybill_plugin_fetched_total {UNDESCRIBED}\n# TYPE waybill_plugin_fetched_total counter\n"
        )));
        let families = text.matches("# TYPE ").count();
        assert_eq!((families, text.matches("# HELP ").count()), (3, 3), "{text}");
        assert!(text.contains("# HELP tx_outbox_latency_seconds Time.\n"), "{text}");
    }
}
