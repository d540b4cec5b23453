//! `[alert]`: where alerts go, and what is refused.

use std::time::Duration;

use waybill_core::alert::{Bounds, Format, Pace, Target};

use crate::configuration::{case, refused};

const TRANSPORTS: &str = "[transport.hooks]\nplugin = \"http\"\n[transport.bus]\nplugin = \"nats\"\n\
                          [[route]]\nmatch = \"http:**\"\ntransport = \"hooks\"\n\
                          [[route]]\nmatch = \"bus:**\"\ntransport = \"bus\"\n";
const HOOK: &str = "transport = \"hooks\"\ntopic = \"https://hooks.example.com/ops?team=1\"\n";

fn of(alert: &str) -> String {
    format!("{TRANSPORTS}[alert]\n{alert}")
}

#[test]
fn without_the_section_there_are_no_alerts_and_with_it_each_rule_has_a_bound() {
    assert_eq!(case(TRANSPORTS).load().unwrap().alert, None);
    let settings = case(&of(HOOK)).load().unwrap().alert.unwrap();
    let topic = "https://hooks.example.com/ops?team=1".to_owned();
    assert_eq!(settings.to, Target { transport: "hooks".to_owned(), topic, format: Format::Json });
    assert_eq!(settings.fallback, None);
    assert_eq!(settings.pace, Pace { after: Duration::from_secs(30), clear_after: Duration::from_secs(120) });
    let bounds = Bounds {
        dead: Some(100),
        oldest: Some(Duration::from_secs(900)),
        stuck: Some(1),
        breaker: true,
        rollback: true,
        disk_free: Some(1 << 30),
        relay_lag: Some(Duration::from_secs(300)),
        source_lag: Some(100_000),
    };
    assert_eq!(settings.bounds, bounds);
}

#[test]
fn zero_is_never_and_a_fallback_has_a_topic_and_a_format_of_its_own() {
    let all = format!(
        "{HOOK}format = \"slack\"\nfallback = \"bus\"\nfallback_topic = \"bus:ops.alerts\"\n\
         fallback_format = \"alertmanager\"\ndead_letters_at = 0\noldest_at = \"0s\"\nstuck_sagas_at = 0\nbreaker = false\n\
         rollback = false\ndisk_free_below = 0\nrelay_lag_at = \"0s\"\nsource_lag_at = 0\n"
    );
    let settings = case(&of(&all)).load().unwrap().alert.unwrap();
    assert_eq!((settings.to.format, settings.bounds), (Format::Slack, Bounds::default()));
    let (transport, topic) = ("bus".to_owned(), "bus:ops.alerts".to_owned());
    assert_eq!(settings.fallback, Some(Target { transport, topic, format: Format::Alertmanager }));
}

#[test]
fn what_could_reach_nobody_is_refused() {
    for (alert, words) in [
        ("after = \"10s\"\n".to_owned(), "name the transport that takes alerts"),
        ("transport = \"hooks\"\n".to_owned(), "write where that transport sends alerts"),
        ("topic = \"bus:ops\"\n".to_owned(), "name the transport that takes that topic"),
        ("transport = \"bus\"\ntopic = \"ops\"\n".to_owned(), "alert.topic"),
        ("transport = \"bus\"\ntopic = \"custom:ops\"\n".to_owned(), "no [[route]] takes it"),
        ("transport = \"hooks\"\ntopic = \"bus:ops\"\n".to_owned(), "leads topic to \"bus\""),
        (format!("{HOOK}fallback = \"bus\"\n"), "write where that transport sends alerts"),
        (
            format!("{HOOK}fallback = \"hooks\"\nfallback_topic = \"https://other.example.com/\"\n"),
            "it is alert.transport",
        ),
        (format!("{HOOK}format = \"teams\"\n"), "alertmanager"),
        (format!("{HOOK}disk_free_below = \"1MiB\"\n"), "at least 64MiB"),
        (format!("{HOOK}after = \"6m\"\n"), "at most 5m"),
    ] {
        let text = refused(&of(&alert));
        assert!(text.contains(words), "{alert}: {text}");
    }
}
