//! The host's log on stderr: text for people, or one JSON object a line.

use tracing_subscriber::EnvFilter;

use crate::config::{LogFormat, LogSettings};

/// Sets the log up. A second call in one process changes nothing.
pub fn start(settings: &LogSettings, color: bool) {
    let filter = EnvFilter::new(directives(&settings.level));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let result = match settings.format {
        LogFormat::Text => builder.with_ansi(color).with_target(false).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    if let Err(error) = result {
        // Only a test that serves twice in one process gets here.
        tracing::debug!(%error, "the log is set up already");
    }
}

/// The storage engine warns each time one of its own threads lets go of a store that is closed already.
const QUIET: &str = "surrealkv=error";

/// A bare level is about this program; libraries are quieter, because their messages are for their authors.
fn directives(level: &str) -> String {
    match level {
        "error" | "off" => level.to_owned(),
        "warn" | "info" => format!("warn,{QUIET},waybill={level}"),
        "debug" | "trace" => format!("info,{QUIET},waybill={level}"),
        directives => directives.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_about_this_program() {
        assert_eq!(directives("debug"), "info,surrealkv=error,waybill=debug");
        assert_eq!(directives("warn,waybill_engine=trace"), "warn,waybill_engine=trace");
    }
}
