//! What holds messages back, plugins, the audit trail, the configuration.

use maud::{Markup, html};
use waybill_api::configuration::{Effect, Reloaded};
use waybill_api::plugins::{Generation, Plugins, TransportPlugin};
use waybill_api::status::{AuditView, BlockedView};

use super::{Asked, Rows};
use crate::address;
use crate::frame::head;
use crate::icon::{self, Icon};
use crate::parts::{
    Column, Part, State, Tone, fault, filter, first_run, in_a_terminal, none_by_filter, note, pager, section, state,
    table,
};
use crate::states::of_generation;
use crate::text::{count, foreign, or_none, shortened};
use crate::time::AsOf;

/// Letters of a detail in a list.
const DETAIL_LETTERS: usize = 300;

/// What holds messages back.
pub fn blocked(asked: &Asked, rows: &Part<Vec<BlockedView>>, as_of: AsOf) -> Markup {
    html! {
        (head(&html! { "Blocked" }, &html! { p { "What holds messages back, the longest held first. Nothing of it uses up an attempt." } }, None))
        @match rows {
            Err(why) => { (fault("What holds messages back", why)) }
            Ok(rows) if rows.is_empty() => {
                (first_run(Icon::Done, "Nothing holds messages back", "Every message goes as soon as it is its turn.", None))
            }
            Ok(rows) => { (table("Blocked", &BLOCKED_COLUMNS, &blocked_rows(rows, as_of), None)) }
        }
        (in_a_terminal(&blocked_command(&asked.tenant)))
    }
}

fn blocked_command(tenant: &str) -> String {
    match tenant {
        "" => "waybill outbox blocked".to_owned(),
        tenant => format!("waybill outbox blocked --tenant {}", crate::parts::quoted(tenant)),
    }
}

const BLOCKED_COLUMNS: [Column; 6] = [
    Column::Text("What"),
    Column::Text("Held"),
    Column::Text("Why"),
    Column::Number("Waiting"),
    Column::Text("Since"),
    Column::Text("Next try"),
];

fn blocked_rows(rows: &[BlockedView], as_of: AsOf) -> Markup {
    html! { @for hold in rows {
        tr {
            td.end { (state(State::new(Tone::Hold, Icon::Block, hold.kind.as_str()))) }
            th scope="row" {
                span.mono { (foreign(&hold.subject)) }
                span.sub { (or_none(hold.transport.as_deref())) " · tenant " (foreign(hold.tenant.as_deref().unwrap_or("all"))) }
            }
            td.full {
                @if let Some(code) = &hold.code { code { (foreign(code)) } " " }
                (foreign(&hold.reason))
            }
            td.num data-l="waiting" { (count(hold.waiting)) }
            td.nw data-l="since" { (as_of.at(hold.since)) span.sub { (as_of.ago(hold.since)) } }
            td.nw data-l="next try" { (as_of.maybe(hold.until)) }
        }
    } }
}

/// Plugins with their generations.
pub fn plugins(shown: &Part<Plugins>, as_of: AsOf) -> Markup {
    html! {
        (head(&html! { "Plugins" }, &html! { p { "What touches the outside, each in its own sandbox. A new generation takes over without a stop; the one before stays ready for a rollback." } }, None))
        @match shown {
            Err(why) => { (fault("Plugins", why)) }
            Ok(shown) if shown.items.is_empty() => {
                (first_run(Icon::Plug, "No plugin", "A transport in the configuration names one.", Some("waybill plugin list --bundled")))
            }
            Ok(shown) => {
                (table("Plugins", &PLUGIN_COLUMNS, &plugin_rows(&shown.items, as_of), None))
                @if !shown.refused_files.is_empty() {
                    (section("Files that can’t be used", None, &table("Files that can’t be used",
                        &[Column::Text("File"), Column::Text("Why")],
                        &html! { @for file in &shown.refused_files {
                            tr { th scope="row" { (foreign(&file.file)) } td.full { code { (foreign(&file.code)) } " " (foreign(&file.reason)) } }
                        } }, None)))
                }
                @for plugin in &shown.items { (generations(plugin, as_of)) }
            }
        }
        (in_a_terminal("waybill plugin list"))
    }
}

const PLUGIN_COLUMNS: [Column; 5] = [
    Column::Text("Used by"),
    Column::Text("State"),
    Column::Text("Plugin"),
    Column::Text("Source"),
    Column::Number("Live since"),
];

fn plugin_rows(items: &[TransportPlugin], as_of: AsOf) -> Markup {
    html! { @for plugin in items {
        tr tabindex="-1" {
            th scope="row" { (foreign(&plugin.transport)) span.sub { (foreign(&plugin.world)) } }
            td.end { (state(of_generation(&plugin.live.phase, plugin.probation.is_some()))) }
            td {
                (or_none(plugin.live.plugin.as_deref())) " " (or_none(plugin.live.version.as_deref()))
                span.sub { "generation " (plugin.live.generation) @if let Some(by) = &plugin.live.signature { ", " (foreign(by)) } }
            }
            td.mono { (foreign(&plugin.source)) }
            td.num.nw { (as_of.at(plugin.live.since)) }
        }
    } }
}

/// A plugin's generations, if it ever had another.
fn generations(plugin: &TransportPlugin, as_of: AsOf) -> Markup {
    if plugin.history.len() < 2 && plugin.refused.is_none() && plugin.fallback.is_none() {
        return html! {};
    }
    let columns =
        [Column::Text("No."), Column::Text("State"), Column::Text("Plugin"), Column::Text("Live"), Column::Text("Why")];
    let rows = html! { @for generation in plugin.history.iter().rev() { (generation_row(generation, as_of)) } };
    html! {
        section.section {
            header { h2.title { (foreign(&plugin.transport)) } }
            @if let Some(trial) = &plugin.probation {
                (note(Tone::Move, Icon::Move, &html! {
                    b { "On trial until " (as_of.at(trial.until)) "." }
                    " Instances lost: " (trial.losses) "; the one before lost " (trial.losses_before) " in a time as long."
                }, None))
            }
            @if let Some(why) = &plugin.fallback { (note(Tone::Hold, Icon::Warn, &html! { (foreign(why)) }, None)) }
            (table("Generations", &columns, &rows, None))
        }
    }
}

fn generation_row(generation: &Generation, as_of: AsOf) -> Markup {
    html! {
        tr {
            th.nw scope="row" { (generation.generation) }
            td { (state(of_generation(&generation.phase, false))) }
            td { (or_none(generation.plugin.as_deref())) " " (or_none(generation.version.as_deref())) span.sub.mono { (foreign(&shortened(&generation.digest, 19))) } }
            td.nw { (as_of.at(generation.since)) @if let Some(until) = generation.until { " – " (as_of.at(until)) } }
            td.full { @if let Some(code) = &generation.code { code { (foreign(code)) } " " } (foreign(generation.reason.as_deref().unwrap_or_default())) }
        }
    }
}

#[derive(Clone, Debug)]
pub struct Trail {
    pub asked: Asked,
    pub rows: Part<Rows<AuditView>>,
}

pub fn audit(view: &Trail, as_of: AsOf) -> Markup {
    let asked = &view.asked;
    html! {
        (head(&html! { "Audit" }, &html! { p { "What people and the host did, newest first. Events of messages and sagas come where their kind or an object is asked for." } }, None))
        (filter(address::AUDIT, &asked.filter, "actor=ann kind=Message* object=order-17 since=2026-12-01", &[("tenant", &asked.tenant)]))
        @match &view.rows {
            Err(why) => { (fault("The audit trail", why)) }
            Ok(rows) if rows.items.is_empty() && rows.older.is_none() && asked.filter.is_empty() && !asked.is_further => {
                (first_run(Icon::Audit, "Nothing happened yet", "Acts of operators and of the host show here at once.", None))
            }
            Ok(rows) if rows.items.is_empty() => {
                (none_by_filter("line", &asked.filter, address::AUDIT, rows.older.is_some()))
                @if let Some(older) = &rows.older { p.more { a href=(older) { "Older" } } }
            }
            Ok(rows) => {
                (table("Audit", &AUDIT_COLUMNS, &audit_rows(&rows.items, as_of), Some(&pager(rows.items.len(), rows.older.as_deref()))))
            }
        }
        (in_a_terminal(&audit_command(asked)))
    }
}

fn audit_command(asked: &Asked) -> String {
    let of_tenant = match asked.tenant.as_str() {
        "" => String::new(),
        tenant => format!(" --tenant {}", crate::parts::quoted(tenant)),
    };
    match asked.filter.as_str() {
        "" => format!("waybill audit list{of_tenant}"),
        filter => format!("waybill audit list{of_tenant} --filter {}", crate::parts::quoted(filter)),
    }
}

const AUDIT_COLUMNS: [Column; 5] =
    [Column::Text("When"), Column::Text("What"), Column::Text("Who"), Column::Text("To what"), Column::Text("Detail")];

fn audit_rows(rows: &[AuditView], as_of: AsOf) -> Markup {
    html! { @for line in rows {
        tr tabindex="-1" {
            td.nw { (as_of.at(line.at)) }
            th scope="row" { (foreign(&line.kind)) }
            td data-l="by" { (foreign(&line.actor)) }
            td.mono { (foreign(&shortened(&line.object, DETAIL_LETTERS))) @if let Some(tenant) = &line.tenant { span.sub { (foreign(tenant)) } } }
            td.full.mono { (foreign(&detail(line))) }
        }
    } }
}

fn detail(line: &AuditView) -> String {
    if line.detail.is_null() { String::new() } else { shortened(&line.detail.to_string(), DETAIL_LETTERS) }
}

/// What differs between the configuration in force and its file.
#[derive(Clone, Debug)]
pub enum Compared {
    /// This host can't read it again.
    Never,
    /// It wasn't asked for: comparing loads plugins.
    NotYet,
    Now(Box<Part<Reloaded>>),
}

/// What differs between the configuration in force and its file.
pub fn configuration(compared: &Compared) -> Markup {
    html! {
        (head(&html! { "Configuration" }, &html! { p { "What the host would do if it read its configuration again now. Comparing changes nothing." } }, None))
        @match compared {
            Compared::Never => {
                (first_run(Icon::Gear, "There is nothing to read again", "This host was started without a configuration that can be read again.", None))
            }
            Compared::NotYet => {
                div.sheet.empty {
                    (icon::small(Icon::Gear))
                    h3 { "Compare what is in force with the file" }
                    p { "Every setting that differs is listed, with when it would count. Plugins that changed are loaded for it, and not used." }
                    p.acts { a.btn.main href=(address::with(address::CONFIGURATION, &[("compare", "now")])) { "Compare now" } }
                }
            }
            Compared::Now(compared) => {
                @match &**compared {
                    Err(why) => { (fault("The configuration", why)) }
                    Ok(compared) => { (differences(compared)) }
                }
            }
        }
        (in_a_terminal("waybill config reload --dry-run"))
    }
}

fn differences(compared: &Reloaded) -> Markup {
    let columns = [Column::Text("Setting"), Column::Text("In force"), Column::Text("Read now"), Column::Text("Counts")];
    let value = |value: &Option<serde_json::Value>| value.as_ref().map_or_else(|| "–".to_owned(), ToString::to_string);
    html! {
        p { "File: " span.mono { (foreign(compared.file.as_deref().unwrap_or("none: defaults, environment and flags"))) } }
        @for warning in &compared.warnings { (note(Tone::Hold, Icon::Warn, &html! { (foreign(warning)) }, None)) }
        @if compared.changes.is_empty() {
            (first_run(Icon::Done, "The file says what is in force", "A reload would change nothing.", None))
        } @else {
            (table("Differences", &columns, &html! { @for change in &compared.changes {
                tr {
                    th.mono scope="row" { (foreign(&change.key)) }
                    td.mono { (foreign(&value(&change.from))) }
                    td.mono { (foreign(&value(&change.to))) }
                    td { (state(counts(change.effect))) }
                }
            } }, None))
        }
    }
}

fn counts(effect: Effect) -> State<'static> {
    match effect {
        Effect::Now => State::new(Tone::Ok, Icon::Done, "at once"),
        Effect::Restart => State::new(Tone::Rest, Icon::Wait, "after a restart"),
        Effect::Refused => State::new(Tone::Dead, Icon::Block, "not at all"),
    }
}
