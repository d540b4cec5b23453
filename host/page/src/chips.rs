//! How a filter was understood: a chip for each of its conditions, which takes it away. A filter that can't be read has none.

use maud::{Markup, html};
use waybill_core::outbox::filter::{Condition, conditions};
use waybill_core::time::UnixMillis;

use crate::text::foreign;

/// Chips of a filter. `without` makes the address of the list with another filter.
pub fn chips(filter: &str, now: UnixMillis, without: impl Fn(&str) -> String) -> Markup {
    let understood = conditions(filter, "", now).unwrap_or_default();
    if understood.is_empty() {
        return html! {};
    }
    html! {
        p.chips {
            span.q { "Took it as" }
            @for (at, condition) in understood.iter().enumerate() {
                @let others = understood.iter().enumerate().filter(|(other, _)| *other != at);
                @let rest = others.map(|(_, other)| written(other)).collect::<Vec<_>>().join(" ");
                a.chip.on href=(without(&rest)) title="Take this condition away" {
                    (foreign(&condition.field)) " " b { (sign(condition)) (foreign(&condition.value)) } " ×"
                }
            }
        }
    }
}

/// What stands between field and value, in words where it isn't equality.
fn sign(condition: &Condition) -> &'static str {
    match condition.text.get(condition.field.len()..).and_then(|rest| rest.chars().next()) {
        Some('>') => "over ",
        Some('<') => "under ",
        _ => "",
    }
}

/// A condition as a filter has it: what was between quotes is again.
fn written(condition: &Condition) -> String {
    let Condition { text, field, value, .. } = condition;
    let is_plain = !text.chars().any(|letter| letter.is_whitespace() || matches!(letter, '"' | '\'' | '\\'));
    if is_plain {
        return text.clone();
    }
    let sign = text.get(field.len()..).and_then(|rest| rest.chars().next()).unwrap_or('=');
    format!("{field}{sign}\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const NOW: UnixMillis = UnixMillis(1_700_000_000_000);

    #[test]
    fn a_condition_is_written_as_it_is_read() {
        for filter in ["code=NATS.*", "error=\"a \\\"b\\\" c\\\\\"", "age>90m", "age<\"1h 30m\"", "key=it's"] {
            let once = conditions(filter, "", NOW).unwrap();
            let again: Vec<String> = once.iter().map(written).collect();
            assert_eq!(conditions(&again.join(" "), "", NOW).unwrap(), once, "{filter}");
        }
    }

    #[test]
    fn each_chip_takes_its_condition_away() {
        let shown = chips("code=A.B error=\"<b> c\" age<1h", NOW, |rest| format!("?{}", rest.replace('"', "'"))).0;
        for part in [
            "href=\"?error='&lt;b&gt; c' age&lt;1h\"",
            "href=\"?code=A.B error='&lt;b&gt; c'\"",
            "age <b>under 1h</b> ×",
            "error <b>&lt;b&gt; c</b>",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert!(chips("", NOW, str::to_owned).0.is_empty() && chips("agee<1h", NOW, str::to_owned).0.is_empty());
    }
}
