//! The message of an incident as its receiver reads it.

use std::time::Duration;

use serde_json::{Value, json};

use super::incidents::{Notice, Phase};
use super::rule::Rule;
use crate::time::UnixMillis;

/// Alertmanager forgets an alert that isn't repeated, after minutes, unless it says when it ends: one that goes on says this much after
/// its beginning, and the message of its end says when it did.
const FIRES_FOR: Duration = Duration::from_secs(365 * 24 * 3600);

/// What a receiver reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// All of it as members of one object.
    #[default]
    Json,
    /// One text, as incoming webhooks of Slack, Mattermost and Rocket.Chat take it.
    Slack,
    /// `POST /api/v2/alerts` of Alertmanager.
    Alertmanager,
}

impl Format {
    /// The payload of a notice.
    pub fn payload(self, notice: &Notice) -> Value {
        match self {
            Self::Json => json!({
                "status": status(notice),
                "rule": notice.rule.as_str(),
                "subject": notice.subject,
                "host": notice.host,
                "since": notice.since.to_string(),
                "until": notice.until.map(|until| until.to_string()),
                "detail": notice.detail,
            }),
            Self::Slack => json!({ "text": escaped(&line(notice)) }),
            Self::Alertmanager => json!([alert(notice)]),
        }
    }
}

fn status(notice: &Notice) -> &'static str {
    match notice.phase {
        Phase::Begin => "firing",
        Phase::End => "resolved",
    }
}

/// All of it in one line for people.
fn line(notice: &Notice) -> String {
    let state = match notice.phase {
        Phase::Begin => "ALERT",
        Phase::End => "OVER",
    };
    let subject = if notice.subject.is_empty() { String::new() } else { format!(" ({})", notice.subject) };
    let detail = if notice.detail.is_empty() { String::new() } else { format!(": {}", notice.detail) };
    let until = notice.until.map(|until| format!(" until {until}")).unwrap_or_default();
    let (title, host, since) = (notice.rule.title(), &notice.host, notice.since);
    format!("[{state}] waybill on {host}: {title}{subject}{detail} (since {since}{until})")
}

/// Slack reads three characters as its own; in JSON they stand for themselves otherwise.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// One alert; its labels, by which Alertmanager knows it again, are the same at its beginning and its end.
fn alert(notice: &Notice) -> Value {
    let ends: UnixMillis = notice.until.unwrap_or_else(|| notice.since.plus(FIRES_FOR));
    let severity = if notice.rule == Rule::DiskLow { "critical" } else { "warning" };
    json!({
        "labels": {
            "alertname": notice.rule.alert_name(),
            "host": notice.host,
            "subject": notice.subject,
            "severity": severity,
        },
        "annotations": { "summary": line(notice), "description": notice.detail },
        "startsAt": notice.since.to_string(),
        "endsAt": ends.to_string(),
    })
}
