//! An act before it is done: what it concerns, what it may repeat, what is asked for; and the form that does it.

use maud::{Markup, html};
use waybill_api::configuration::Reloaded;
use waybill_api::instant::Instant;

use super::given::Given;
use super::settings::differences;
use crate::acts::{Act, Field, Form, May, On, Target, Weight, hidden};
use crate::address;
use crate::frame::head;
use crate::icon::{self, Icon};
use crate::parts::{Column, Fault, FaultKind, Part, Tone, fault, id_link, note, section, table, terminal};
use crate::text::{count, counted, foreign, shortened};
use crate::time::AsOf;

/// Letters of an error in a sample.
const ERROR_LETTERS: usize = 160;
/// Acts a second unless another number is written.
const RATE: u64 = 100;
/// How many a trial puts back first.
const TRIAL: u64 = 5;

/// An act before it is done.
#[derive(Clone, Debug)]
pub struct Plan {
    pub act: Act,
    pub target: Target,
    pub concerns: Concerns,
    /// On dead letters: only what died until then.
    pub before: Option<Instant>,
    /// What the caller may do.
    pub may: May,
    /// None = the caller may not do it, or has no session.
    pub form: Option<Form>,
    /// Why the last try came to nothing.
    pub refusal: Option<Fault>,
    /// What was written into the form before.
    pub given: Given,
}

/// What an act concerns.
#[derive(Clone, Debug)]
pub enum Concerns {
    One,
    Picked,
    Many(Part<Many>),
    /// What there is to know of one.
    Facts(Part<Vec<(&'static str, String)>>),
    /// What a reload would change.
    Settings(Box<Part<Reloaded>>),
}

/// What a filter takes.
#[derive(Clone, Debug, Default)]
pub struct Many {
    pub matched: u64,
    /// Of dead letters: only what died until then.
    pub before: Option<Instant>,
    /// Of what is older nothing was counted.
    pub counted_since: Option<Instant>,
    pub quarantined: u64,
    /// Of messages: put back before.
    pub replayed_before: u64,
    pub keys_with_several: u64,
    /// Dead letters of all tenants but this one are left out.
    pub other_tenants_than: Option<String>,
    pub sample: Vec<Sample>,
    /// The sample has nothing but messages.
    pub is_of_messages: bool,
}

/// One of what a filter takes.
#[derive(Clone, Debug)]
pub struct Sample {
    pub address: String,
    pub id: String,
    pub tenant: String,
    pub what: String,
    pub why: String,
}

impl Plan {
    fn many(&self) -> Option<&Many> {
        match &self.concerns {
            Concerns::Many(Ok(many)) => Some(many),
            _ => None,
        }
    }

    /// The count that the act is sent with.
    fn matched(&self) -> Option<u64> {
        self.many().map(|many| many.matched)
    }

    fn title(&self) -> String {
        let about = self.act.about();
        let (one, several) = about.on.nouns();
        match (self.matched(), self.target.picks.len()) {
            (Some(matched), _) => format!("{} {}", about.word, counted(matched, one, several)),
            (None, 0) if self.target.is_many() => format!("{} {several}", about.word),
            (None, 0) => format!("{}: {one}", about.word),
            (None, picked) => {
                format!("{} {}", about.word, counted(u64::try_from(picked).unwrap_or(u64::MAX), one, several))
            }
        }
    }

    /// There is something to do.
    fn is_of_any(&self) -> bool {
        match &self.concerns {
            Concerns::Many(Ok(many)) => many.matched > 0,
            Concerns::Many(Err(_)) | Concerns::Facts(Err(_)) => false,
            Concerns::Settings(compared) => compared.is_ok(),
            Concerns::One | Concerns::Picked | Concerns::Facts(Ok(_)) => true,
        }
    }
}

/// An act before it is done.
pub fn plan(plan: &Plan, as_of: AsOf) -> Markup {
    let title = plan.title();
    html! {
        (head(&html! { (title) }, &html! { p { "A plan: nothing has happened yet." } }, None))
        @if let Some(refusal) = &plan.refusal { (refused(refusal)) }
        @if plan.form.is_none() { (not_allowed(plan.act, plan.may)) }
        form.sheet.plan method="post" action=(plan.target.address(plan.act)) aria-label=(title) {
            @if let Some(form) = &plan.form { (hidden(form)) }
            @if let Some(matched) = plan.matched() { input type="hidden" name="count" value=(matched); }
            div.body {
                div.fields { (what(plan, as_of)) p.hint { (plan.act.about().effect) } }
                div.fields { (asked(plan)) }
                div.fields { p.t { "The same in a terminal" } (terminal(&line(plan))) }
            }
            footer { (buttons(plan)) }
        }
        @if let Some(many) = plan.many().filter(|many| !many.sample.is_empty()) { (sample(many)) }
        @if let Concerns::Settings(compared) = &plan.concerns {
            (section("What would change", None, &match &**compared {
                Ok(compared) => differences(compared),
                Err(why) => fault("The configuration", why),
            }))
        }
    }
}

pub(super) fn refused(refusal: &Fault) -> Markup {
    let is_unsure = refusal.kind == FaultKind::Failed && refusal.is_retryable;
    let answer = if is_unsure {
        "The host didn’t say that it was done: look before you send it again."
    } else {
        "Nothing was done."
    };
    let text = html! {
        b { (answer) } " " code { (foreign(&refusal.code)) } " " (foreign(&refusal.detail)) " " (foreign(&refusal.fix))
        span.q { " Request " span.mono { (foreign(&refusal.request_id)) } }
    };
    note(Tone::Dead, Icon::Warn, &text, None)
}

pub(super) fn not_allowed(act: Act, may: May) -> Markup {
    let about = act.about();
    let text = html! { b { "You may look, not act." } " “" (about.word) "” " (may.lack(about.right)) "." };
    let elsewhere = html! { a.btn.bare href=(address::SIGN_IN) { "Sign in as another" } };
    note(Tone::Hold, Icon::Fence, &text, Some(&elsewhere))
}

fn line(plan: &Plan) -> String {
    let frozen = plan.act.about().on == On::DeadLetter;
    let planned = plan.matched().filter(|_| frozen && !plan.target.before.is_empty());
    plan.act.command(&plan.target, planned.map(|matched| (plan.target.before.as_str(), matched)))
}

pub(super) fn tick(shape: Icon, class: &'static str, body: &Markup) -> Markup {
    html! { li class=(class) { (icon::shape(shape)) span { (body) } } }
}

fn what(plan: &Plan, as_of: AsOf) -> Markup {
    match &plan.concerns {
        Concerns::Many(Err(why)) | Concerns::Facts(Err(why)) => fault("What it concerns", why),
        Concerns::Many(Ok(many)) => html! { ul.ticks { (counts(plan, many, as_of)) } },
        Concerns::Picked => html! {
            ul.ticks { @for pick in &plan.target.picks {
                (tick(Icon::Done, "", &html! { span.mono { (foreign(&pick.id)) } @if !pick.tenant.is_empty() { " of " (foreign(&pick.tenant)) } }))
            } }
        },
        Concerns::One | Concerns::Settings(_) => html! { ul.ticks { (named(&plan.target)) } },
        Concerns::Facts(Ok(facts)) => html! {
            ul.ticks {
                (named(&plan.target))
                @for (name, value) in facts { (tick(Icon::Done, "", &html! { (name) " " b { (foreign(value)) } })) }
            }
        },
    }
}

/// One by its id.
fn named(target: &Target) -> Markup {
    html! {
        @if !target.id.is_empty() {
            (tick(Icon::Done, "", &html! {
                span.mono { (foreign(&target.id)) }
                @if !target.tenant.is_empty() { " of tenant " (foreign(&target.tenant)) }
                @if !target.step.is_empty() { ", step " (foreign(&target.step)) }
            }))
        }
    }
}

fn counts(plan: &Plan, many: &Many, as_of: AsOf) -> Markup {
    html! {
        (tick(Icon::Done, "", &html! {
            b { (count(many.matched)) " match" } " " code { (foreign(&plan.target.filter)) }
            @if plan.act.about().on == On::DeadLetter {
                @if let Some(before) = plan.before { " and died before " (as_of.exactly(before)) ". What dies later is not taken." }
            }
        }))
        @if let Some(since) = many.counted_since {
            (tick(Icon::Warn, "c-hold", &html! { "Of what is older than " (as_of.at(since)) " nothing was counted; it is acted on all the same" }))
        }
        @if many.quarantined > 0 { (tick(Icon::Fence, "", &html! { (count(many.quarantined)) " quarantined are left out" })) }
        @if let Some(tenant) = &many.other_tenants_than {
            (tick(Icon::Fence, "", &html! { "Those of other tenants than " (foreign(tenant)) " are left out" }))
        }
        @if many.keys_with_several > 0 {
            (tick(Icon::Done, "", &html! { (counted(many.keys_with_several, "key has", "keys have")) " several: within each the order is kept" }))
        }
        @if many.replayed_before > 0 {
            (tick(Icon::Warn, "c-dead", &html! { (count(many.replayed_before)) " of them were put back before, and died again" }))
        }
        @if many.matched > 0 {
            (tick(Icon::Wait, "", &html! { "About " (crate::text::length(std::time::Duration::from_secs(many.matched.div_ceil(RATE)))) " at " (RATE) " a second" }))
        }
    }
}

/// What is asked for beside the target.
fn asked(plan: &Plan) -> Markup {
    let given = &plan.given;
    html! {
        @for field in plan.act.about().fields { (input(*field, &plan.target, given)) }
        @if let Some(many) = plan.many() { (pace(plan.act, many, given)) }
        @if let Some(typed) = plan.act.typed(&plan.target, plan.matched()) {
            label {
                "To do it, type " (if plan.matched().is_some() { "how many there are" } else { "its name" }) ": " span.mono { (foreign(&typed)) }
                input type="text" name="typed" value="" required autocomplete="off" spellcheck="false";
            }
        }
    }
}

/// How fast many are acted on, and what goes first.
fn pace(act: Act, many: &Many, given: &Given) -> Markup {
    let rate = if given.is_set("rate") { given.text("rate").to_owned() } else { RATE.to_string() };
    let tries_first =
        if given.0.is_empty() { many.is_of_messages && many.matched > TRIAL } else { given.is_set("trial") };
    html! {
        label { "Rate, at most" small { "a second" } input type="number" name="rate" min="1" max="10000" value=(rate); }
        @if act == Act::DeadReplay {
            label.row {
                input type="checkbox" name="trial" value=(TRIAL) checked[tries_first];
                "Send " (TRIAL) " first; stop if one dies again. It takes messages alone"
            }
        }
    }
}

fn input(field: Field, target: &Target, given: &Given) -> Markup {
    let or = |name: &str, of_target: &str| {
        if given.is_set(name) { given.text(name).to_owned() } else { of_target.to_owned() }
    };
    let line = |name: &'static str, title: &'static str, about: &'static str, value: String, is_needed: bool| {
        html! { label { (title) small { (about) } input type="text" name=(name) value=(value) required[is_needed] autocomplete="off" spellcheck="false"; } }
    };
    let checkbox = |name: &'static str, title: &'static str| {
        html! { label.row { input type="checkbox" name=(name) value="yes" checked[given.is_set(name)]; (title) } }
    };
    match field {
        Field::Reason => line("reason", "Reason", "kept in the audit trail", or("reason", ""), false),
        Field::ReasonNeeded => line("reason", "Reason", "needed; kept in the audit trail", or("reason", ""), true),
        Field::At => line("at", "When", "an instant as 2026-12-01T08:00:00Z; empty: now", or("at", ""), false),
        Field::Step => line("step", "Step", "empty: the one that it is about", or("step", &target.step), false),
        Field::StepNeeded => line("step", "Step", "which one", or("step", &target.step), true),
        Field::Rows => html! {
            label { "Keys of the rows" small { "one a line" } textarea name="rows" rows="4" required { (given.text("rows")) } }
        },
        Field::Force => checkbox("force", "Take a component that was rolled back before, or serves already"),
        Field::Finished => {
            checkbox("finished", "Also when its outcome is known: it is forgotten, and may be executed again")
        }
        Field::Below => line("below", "Only below number", "empty: all of it", or("below", ""), false),
        Field::Signal => html! {
            (line("signal", "Signal", "its name", or("signal", ""), true))
            label { "Data" small { "any JSON, or nothing" } textarea name="data" rows="4" spellcheck="false" { (given.text("data")) } }
        },
        Field::Mode => select(
            "mode",
            "Way",
            given,
            &[
                ("", "a stuck one goes on undoing"),
                ("retry", "a stuck one goes forward again, as long as nothing was undone"),
            ],
        ),
        Field::Seek => html! {
            (line("stream", "Stream", "its name", or("stream", &target.stream), true))
            (select("to", "To", given, &[("", "behind a number"), ("earliest", "the earliest that is kept"), ("latest", "behind the latest")]))
            (line("after", "Behind number", "where no end is chosen", or("after", ""), false))
        },
    }
}

fn select(name: &str, title: &str, given: &Given, ways: &[(&str, &str)]) -> Markup {
    html! {
        label { (title) select name=(name) {
            @for (value, word) in ways { option value=(value) selected[given.text(name) == *value] { (word) } }
        } }
    }
}

fn buttons(plan: &Plan) -> Markup {
    let about = plan.act.about();
    let class = if about.weight == Weight::Plain { "btn main" } else { "btn risk" };
    let back = back(plan);
    html! {
        @if plan.form.is_none() {
            span.btn role="link" aria-disabled="true" { (about.word) span.hint { (plan.may.lack(about.right)) } }
        } @else if plan.is_of_any() {
            button class=(class) { (plan.title()) }
        } @else {
            span.btn role="link" aria-disabled="true" { (about.word) }
        }
        a.btn.bare href=(back) { "Leave it" }
        @if plan.matched().is_some() { span.hint { "Can be stopped at any time; what was done stays done." } }
    }
}

/// Where it is looked at.
fn back(plan: &Plan) -> String {
    let Target { tenant, id, kind, filter, .. } = &plan.target;
    place(plan.act, tenant, id, kind, filter)
}

/// Where what an act is about is looked at: one, or the list that a filter takes.
pub(super) fn place(act: Act, tenant: &str, id: &str, kind: &str, filter: &str) -> String {
    let list = |path: &str| address::with(path, &[("tenant", tenant), ("filter", filter)]);
    let is_one = !id.is_empty();
    match act.about().on {
        On::DeadLetter if is_one && kind == "saga" => address::saga(tenant, id),
        On::DeadLetter if is_one => address::with(address::MESSAGE, &[("tenant", tenant), ("id", id), ("kind", kind)]),
        On::DeadLetter => list(address::DEAD_LETTERS),
        On::Message if is_one => address::message(tenant, id),
        On::Message => list(address::MESSAGES),
        On::Saga if is_one => address::saga(tenant, id),
        On::Saga => list(address::SAGAS),
        On::Transport => address::OVERVIEW.to_owned(),
        On::Source => address::INBOX.to_owned(),
        On::Key => address::key(tenant, id),
        On::Plugin => address::plugin(id),
        On::Relay => address::relay(id),
        On::Stream => address::stream(tenant, id),
        On::Operation => crate::acts::operation(id),
        On::Host => address::CONFIGURATION.to_owned(),
    }
}

fn sample(many: &Many) -> Markup {
    let columns = [Column::Text("Id"), Column::Text("Of"), Column::Text("Why"), Column::Text("Tenant")];
    let rows = html! { @for row in &many.sample {
        tr {
            td { (id_link(&row.address, &row.id)) }
            td.mono { (foreign(&row.what)) }
            td.full { (foreign(&shortened(&row.why, ERROR_LETTERS))) }
            td data-l="tenant" { (foreign(&row.tenant)) }
        }
    } };
    let foot = html! { span { (many.sample.len()) " of " (count(many.matched)) } };
    section("Some of them", None, &table("Some of them", &columns, &rows, Some(&foot)))
}
