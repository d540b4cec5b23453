//! What waits for people: the step's question, its values, until when, and what silence means. The same for who comes by a signed link.

use maud::{Markup, html};
use waybill_api::instant::Instant;

use super::{Asked, Rows, option};
use crate::acts::{self, Act, May, Target};
use crate::address;
use crate::frame::head;
use crate::icon::Icon;
use crate::parts::{Part, Tone, fault, first_run, in_a_terminal, note, quoted, terminal};
use crate::payload;
use crate::text::{counted, foreign};
use crate::time::AsOf;

/// Members that are shown of a step's input; what is behind them is in the saga.
const MEMBERS_MAX: usize = 40;

/// A step that waits for a person.
#[derive(Clone, Debug)]
pub struct Ask {
    pub tenant: String,
    /// Root or sub-saga that the step is of.
    pub saga: String,
    /// Root, whose view has it.
    pub root: String,
    pub definition: String,
    pub version: u32,
    pub step: String,
    pub since: Option<Instant>,
    /// Then it counts as rejected.
    pub until: Option<Instant>,
    /// What the step shows, as JSON; none = its definition maps nothing.
    pub input: Option<String>,
}

/// All that waits for people, as far as it was looked at; with the address of the rest.
pub fn approvals(asked: &Asked, rows: &Part<Rows<Ask>>, as_of: AsOf) -> Markup {
    html! {
        (head(&html! { "Approvals" }, &html! { p { "Steps that wait for a person, the saga that began last first. A link can be made for somebody without a token." } }, None))
        @match rows {
            Err(why) => { (fault("Approvals", why)) }
            Ok(rows) if rows.items.is_empty() && rows.older.is_none() => {
                (first_run(Icon::Approval, "Nothing waits for a person", "A step with the action wait:approval asks somebody, and shows here at once.", None))
            }
            Ok(rows) => {
                (answer(rows, as_of))
                @for ask in &rows.items { (question(ask, asked.may, as_of)) }
                @if let Some(older) = &rows.older { p.more { a href=(older) rel="next" { "Older" } } }
            }
        }
        (in_a_terminal(&asked.command("saga list")))
    }
}

fn answer(rows: &Rows<Ask>, as_of: AsOf) -> Markup {
    let many = u64::try_from(rows.items.len()).unwrap_or(u64::MAX);
    let soonest = rows.items.iter().filter_map(|ask| ask.until).min_by_key(|until| until.0);
    let text = html! {
        b { (counted(many, "step waits", "steps wait")) @if rows.older.is_some() { " on this page" } "." }
        @if let Some(until) = soonest { " The next runs out at " (as_of.at(until)) ": then it counts as rejected." }
    };
    note(Tone::Hold, Icon::Person, &text, None)
}

/// One of them, with the lines that decide.
fn question(ask: &Ask, may: May, as_of: AsOf) -> Markup {
    let one = Target { step: ask.step.clone(), ..Target::one(&ask.tenant, &ask.saga) };
    let line = |verb: &str| {
        let (saga, step) = (quoted(&ask.saga), quoted(&ask.step));
        format!("waybill saga {verb} {saga} --step {step}{} --reason '…'", option("tenant", &ask.tenant))
    };
    html! {
        section.sheet {
            div.ask {
                h2.t { (foreign(&ask.step)) "?" }
                (about(ask, as_of))
                (values(ask.input.as_deref()))
                (terminal(&line("approve")))
                (terminal(&line("reject")))
                p.acts {
                    (acts::links(&[Act::SagaApprove, Act::SagaReject], &one, may))
                    a.btn href=(address::saga(&ask.tenant, &ask.root)) { "Look at the saga" }
                }
            }
        }
    }
}

fn about(ask: &Ask, as_of: AsOf) -> Markup {
    html! {
        p.q {
            "saga " span.mono { (foreign(&ask.saga)) } ", step " (foreign(&ask.step)) " of " (foreign(&ask.definition)) " " (ask.version) ", tenant " (foreign(&ask.tenant))
            @if let Some(since) = ask.since { " · asked " (as_of.at(since)) ", " (as_of.ago(since)) " ago" }
            @if let Some(until) = ask.until { " · ends " (as_of.at(until)) ", then it counts as rejected" }
        }
    }
}

/// What the step shows, by name; what has none as JSON.
fn values(input: Option<&str>) -> Markup {
    let Some(json) = input else {
        return html! { p.q { "Its definition says nothing of what is asked." } };
    };
    let members = (json.len() <= payload::SHOWN_MAX).then(|| payload::members(json)).flatten();
    match members {
        Some(members) if !members.is_empty() => html! {
            dl.kv { @for (name, value) in members.iter().take(MEMBERS_MAX) { dt { (foreign(name)) } dd { (foreign(value)) } } }
            @if members.len() > MEMBERS_MAX { p.q { (members.len() - MEMBERS_MAX) " more values; the saga has all." } }
        },
        _ => html! { pre tabindex="0" { (payload::readable(json)) } },
    }
}

/// What a signed link asks.
#[derive(Clone, Debug)]
pub struct Asking {
    pub ask: Ask,
    /// Who decides, in the words of whoever made the link.
    pub by: String,
    /// From then on the link is refused.
    pub expires_at: Instant,
    /// The link's own decision.
    pub approves: bool,
    /// Where a form goes that approves, and one that rejects.
    pub approve: String,
    pub reject: String,
}

/// Who comes by a link decides here. The key Enter decides nothing: the first button takes it, and does nothing.
pub fn ask(asking: &Asking, as_of: AsOf) -> Markup {
    let Asking { ask, by, expires_at, approves, approve, reject } = asking;
    html! {
        div.head { div { h1 { @if *approves { "Approve " } @else { "Reject " } (foreign(&ask.step)) " of saga " (foreign(&ask.saga)) "?" } } }
        div.sheet {
            div.ask {
                (about(ask, as_of))
                (values(ask.input.as_deref()))
                form method="post" action=(approve) {
                    button disabled hidden {}
                    label { "Reason " small { "kept with the decision" } input type="text" name="reason" maxlength="1000" autocomplete="off"; }
                    p.acts.gap {
                        button.btn.main { "Approve" }
                        button.btn.risk formaction=(reject) { "Reject" }
                    }
                }
                p.q { "You decide as " (foreign(by)) ". This link ends " (as_of.at(*expires_at)) ". Approved, the saga goes on; rejected, it undoes what was done." }
            }
        }
    }
}

/// What became of a link's decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decided {
    Approved,
    Rejected,
}

pub fn decided(decided: Decided, saga: &str, step: &str) -> Markup {
    let (tone, shape, word, then) = match decided {
        Decided::Approved => (Tone::Ok, Icon::Done, "Approved.", " The saga goes on."),
        Decided::Rejected => (Tone::Undo, Icon::Undo, "Rejected.", " The saga undoes what was done."),
    };
    html! {
        div.head { div { h1 { "Step " (foreign(step)) " of saga " (foreign(saga)) } } }
        (note(tone, shape, &html! { strong { (word) } (then) }, None))
    }
}

/// Why nothing was decided.
pub fn undecided(title: &str, code: &str, detail: &str, fix: &str, request_id: &str) -> Markup {
    let why = html! { strong { "Nothing was decided by this. " } (foreign(detail)) " " (foreign(fix)) };
    html! {
        div.head { div { h1 { (title) } } }
        (note(Tone::Hold, Icon::Warn, &why, None))
        p.q { code { (foreign(code)) } ", request " span.mono { (foreign(request_id)) } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use waybill_core::time::UnixMillis;

    #[test]
    fn who_decides_sees_names_and_values_as_they_came_and_two_unlike_buttons() {
        let asking = Asking {
            ask: Ask {
                tenant: "acme".into(),
                saga: "order-18".into(),
                root: "order-18".into(),
                definition: "order".into(),
                version: 3,
                step: "release".into(),
                since: None,
                until: None,
                input: Some("{\"amount\":12400.00,\"to\":\"<b>globex</b>\u{202e}\"}".into()),
            },
            by: "ann".into(),
            expires_at: Instant(UnixMillis(1_700_000_000_000)),
            approves: true,
            approve: "a.b".into(),
            reject: "c.d".into(),
        };
        let shown = ask(&asking, AsOf(UnixMillis(1_700_000_000_000))).0;
        for part in ["12400.00", "&lt;b&gt;globex", "U+202E", "action=\"a.b\"", "formaction=\"c.d\"", "disabled"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }
}
