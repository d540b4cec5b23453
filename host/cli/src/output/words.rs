//! JSON values in words.

use jiff::Timestamp;
use serde_json::Value;
use waybill_core::one_line::one_line;
use waybill_core::seq_json::SeqJson;

/// A member as text; `-` when it isn't there.
pub fn text(item: &Value, name: &str) -> String {
    item.get(name).map_or_else(|| "-".to_owned(), plain)
}

/// A member that is a topic, as it is sent: a URL without the scheme that it has before it as a topic.
pub fn topic(item: &Value, name: &str) -> String {
    let whole = text(item, name);
    match whole.strip_prefix("http:") {
        Some(url) if url.starts_with("http://") || url.starts_with("https://") => url.to_owned(),
        _ => whole,
    }
}

/// A value as text without quotes; `-` for null.
pub fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::String(text) if text.is_empty() => "-".into(),
        // A stored text must not draw on the operator's terminal.
        Value::String(text) => one_line(text).into_owned(),
        Value::Bool(true) => "yes".into(),
        Value::Bool(false) => "no".into(),
        other => one_line(&other.to_string()).into_owned(),
    }
}

/// A stored text that draws nothing on the terminal.
pub fn safe(text: &str) -> String {
    plain(&Value::String(text.to_owned()))
}

/// As much of a text as a table takes.
pub fn shortened(whole: &str, characters_max: usize) -> String {
    let cut: String = whole.chars().take(characters_max).collect();
    if cut.len() < whole.len() { format!("{cut}... (all of it: -o json)") } else { cut }
}

/// A plugin with its version and the beginning of its digest.
pub fn plugin(item: &Value) -> String {
    format!("{} {} ({})", text(item, "plugin"), text(item, "version"), short_digest(&text(item, "digest")))
}

/// A text of several lines, none of which draws on the terminal. Tabs become spaces.
pub fn safe_lines(text: &str) -> String {
    let lines: Vec<String> = text
        .split('\n')
        .map(|line| one_line(&line.strip_suffix('\r').unwrap_or(line).replace('\t', "    ")).into_owned())
        .collect();
    lines.join("\n")
}

/// A count with its noun.
pub fn number(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", group(count), if count == 1 { one } else { many })
}

/// A member that is a count or a place in an order, with separators.
pub fn words(item: &Value, name: &str) -> String {
    item.get(name).and_then(SeqJson::in_value).map_or_else(|| text(item, name), group)
}

/// How far a count of dead letters got, if it ended before the end.
pub fn counted_since(item: &Value) -> Option<String> {
    item.get("counted_since").filter(|since| !since.is_null()).map(|_| instant(item, "counted_since"))
}

/// How far a count of scheduled messages got, if it ended before the end.
pub fn scheduled_until(item: &Value) -> Option<String> {
    item.get("scheduled_until").filter(|until| !until.is_null()).map(|_| instant(item, "scheduled_until"))
}

/// So many dead letters, as far as they were counted.
pub fn dead_letters(count: u64, counted: &Value) -> String {
    as_counted(counted, &number(count, "dead letter", "dead letters"))
}

/// So many messages, as far as they were counted.
pub fn messages(count: u64, counted: &Value) -> String {
    as_counted(counted, &number(count, "message", "messages"))
}

fn as_counted(counted: &Value, number: &str) -> String {
    let at_least = if counted_since(counted).is_some() { "at least " } else { "" };
    format!("{at_least}{number}")
}

/// A size for people: three digits or so, and a unit.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..10_240 => format!("{} bytes", group(bytes)),
        10_240..10_485_760 => format!("{} KiB", group(bytes.div_ceil(1 << 10))),
        _ => format!("{} MiB", group(bytes.div_ceil(1 << 20))),
    }
}

fn group(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// An instant, RFC 3339 or milliseconds.
fn timestamp(value: &Value) -> Option<Timestamp> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.as_i64().and_then(|ms| Timestamp::from_millisecond(ms).ok()),
        _ => None,
    }
}

/// A member that is an instant, to the second in UTC.
pub fn instant(item: &Value, name: &str) -> String {
    match item.get(name).and_then(timestamp) {
        Some(at) => format!("{at:.0}"),
        None => text(item, name),
    }
}

/// A member that is a number of milliseconds, in words: the two largest units.
pub fn ago(item: &Value, name: &str) -> String {
    let Some(ms) = item.get(name).and_then(Value::as_u64) else { return text(item, name) };
    let seconds = ms / 1_000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match (ms, seconds, hours, days) {
        (..1_000, ..) => format!("{ms}ms"),
        (_, ..60, ..) => format!("{seconds}s"),
        (_, _, 0, _) => format!("{minutes}m{}s", seconds % 60),
        (_, _, _, 0) => format!("{hours}h{}m", minutes % 60),
        _ => format!("{days}d{}h", hours % 24),
    }
}

/// The beginning of a digest: enough to tell versions apart.
pub fn short_digest(digest: &str) -> String {
    digest.strip_prefix("sha256:").unwrap_or(digest).chars().take(12).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_stay_lines_and_draw_nothing() {
        assert_eq!(safe_lines("a\r\n\tb\u{1b}[2K\u{9b}1A\u{202e}\rc\n"), "a\n    b\\u{1b}[2K\\u{9b}1A\\u{202e}\\rc\n");
    }

    #[test]
    fn durations_are_short_words() {
        for (ms, words) in [(7, "7ms"), (1_500, "1s"), (61_000, "1m1s"), (7_260_000, "2h1m"), (90_000_000, "1d1h")] {
            assert_eq!(ago(&json!({ "a": ms }), "a"), words);
        }
        assert_eq!(ago(&json!({}), "a"), "-");
    }

    #[test]
    fn counts_are_grouped_and_named() {
        assert_eq!(number(1, "message", "messages"), "1 message");
        assert_eq!(number(1_234_567, "message", "messages"), "1,234,567 messages");
        assert_eq!(number(0, "message", "messages"), "0 messages");
    }

    #[test]
    fn a_topic_is_shown_as_it_is_sent() {
        for (topic_, shown) in [
            ("http:http://a/b", "http://a/b"),
            ("http:https://a/b", "https://a/b"),
            ("http:HTTP://a/b", "http:HTTP://a/b"),
            ("bus:orders", "bus:orders"),
            ("saga:order/charge", "saga:order/charge"),
        ] {
            assert_eq!(topic(&json!({ "topic": topic_ }), "topic"), shown);
        }
    }

    #[test]
    fn places_in_an_order_are_exact() {
        let item = json!({ "seq": "1882582264456413184", "count": 1_234, "name": "x1" });
        assert_eq!(words(&item, "seq"), "1,882,582,264,456,413,184");
        assert_eq!((words(&item, "count"), words(&item, "name")), ("1,234".to_owned(), "x1".to_owned()));
        assert_eq!(SeqJson::in_value(&item["seq"]), Some(1_882_582_264_456_413_184));
    }

    #[test]
    fn a_stored_text_draws_nothing_on_the_terminal() {
        assert_eq!(plain(&json!("a\u{1b}[31mb\nc")), "a\\u{1b}[31mb\\nc");
    }

    #[test]
    fn a_text_that_was_cut_says_where_all_of_it_is() {
        assert_eq!(shortened("äbc", 3), "äbc");
        assert_eq!(shortened("äbcd", 3), "äbc... (all of it: -o json)");
    }

    #[test]
    fn a_plugin_that_is_unknown_is_dashes() {
        assert_eq!(plugin(&Value::Null), "- - (-)");
        let known = json!({ "plugin": "http", "version": "0.1.0", "digest": "sha256:0123456789abcdef" });
        assert_eq!(plugin(&known), "http 0.1.0 (0123456789ab)");
    }

    #[test]
    fn instants_are_read_from_texts_and_numbers() {
        let item = json!({ "a": "2026-11-21T09:00:00.123Z", "b": 1_700_000_000_000_i64 });
        assert_eq!(instant(&item, "a"), "2026-11-21T09:00:00Z");
        assert_eq!(instant(&item, "b"), "2023-11-14T22:13:20Z");
    }
}
