//! Plugins: the list; and one with its generations, its grants, its log, its users.

use maud::{Markup, html};
use waybill_api::configuration::SettingView;
use waybill_api::history::{Changed, HistoryView};
use waybill_api::plugin_outcomes::GenerationOutcomes;
use waybill_api::plugins::{Generation, PluginLog, PluginLogLine, Plugins, RefusedFile, TransportPlugin};
use waybill_core::history::Measure;

use super::hour::{Changes, Course, drawn};
use super::outcomes::generations_compared;
use super::settings::listed;
use crate::acts::{self, Act, May, Target};
use crate::address;
use crate::frame::head;
use crate::icon::Icon;
use crate::parts::{
    Column, Part, Tone, error_code, fault, first_run, in_a_terminal, note, quoted, section, state, table, tabs, tag,
};
use crate::states::of_generation;
use crate::text::{foreign, or_none, shortened};
use crate::time::AsOf;

/// Letters of a digest in a list.
const DIGEST_LETTERS: usize = 19;

/// Plugins with the generation that serves.
pub fn plugins(shown: &Part<Plugins>, may: May, as_of: AsOf) -> Markup {
    html! {
        (head(&html! { "Plugins" }, &html! { p { "What touches the outside, each in its own sandbox. A new generation takes over without a stop; the one before stays ready for a rollback." } }, None))
        @match shown {
            Err(why) => { (fault("Plugins", why)) }
            Ok(shown) if shown.items.is_empty() => {
                (first_run(Icon::Plug, "No plugin", "A transport in the configuration names one.", Some("waybill plugin list --bundled")))
            }
            Ok(shown) => {
                (on_trial(&shown.items, as_of))
                (table("Plugins", &PLUGIN_COLUMNS, &plugin_rows(&shown.items, may, as_of), None))
                @if !shown.refused_files.is_empty() { (refused_files(&shown.refused_files)) }
            }
        }
        (in_a_terminal("waybill plugin list"))
    }
}

/// What is new, and watched.
fn on_trial(items: &[TransportPlugin], as_of: AsOf) -> Markup {
    let trials = items.iter().filter_map(|plugin| Some((plugin, plugin.probation.as_ref()?)));
    html! { @for (plugin, trial) in trials {
        (note(Tone::Move, Icon::Move, &html! {
            b { a href=(address::plugin(&plugin.transport)) { (foreign(&plugin.transport)) } " is on trial until " (as_of.at(trial.until)) "." }
            " It goes back by itself if it loses more instances than the one before."
        }, None))
    } }
}

fn refused_files(files: &[RefusedFile]) -> Markup {
    let rows = html! { @for file in files {
        tr { th scope="row" { (foreign(&file.file)) } td.full { (error_code(&file.code)) " " (foreign(&file.reason)) } }
    } };
    let columns = [Column::Text("File"), Column::Text("Why")];
    section("Files that can’t be used", None, &table("Files that can’t be used", &columns, &rows, None))
}

const PLUGIN_COLUMNS: [Column; 6] = [
    Column::Text("Used by"),
    Column::Text("State"),
    Column::Text("Plugin"),
    Column::Text("Source"),
    Column::Number("Live since"),
    Column::Text("Acts"),
];

fn plugin_rows(items: &[TransportPlugin], may: May, as_of: AsOf) -> Markup {
    html! { @for plugin in items {
        tr tabindex="-1" {
            th scope="row" { a href=(address::plugin(&plugin.transport)) { (foreign(&plugin.transport)) } span.sub { (foreign(&plugin.world)) } }
            td.end { (state(of_generation(&plugin.live.phase, plugin.probation.is_some()))) }
            td {
                (or_none(plugin.live.plugin.as_deref())) " " (or_none(plugin.live.version.as_deref()))
                span.sub { "generation " (plugin.live.generation) @if let Some(by) = &plugin.live.signature { ", " (foreign(by)) } }
            }
            td.mono { (foreign(&plugin.source)) }
            td.num.nw { (as_of.at(plugin.live.since)) }
            td.full { span.acts { (acts_on(plugin, may)) } }
        }
    } }
}

fn acts_on(plugin: &TransportPlugin, may: May) -> Markup {
    let one = Target::named(&plugin.transport);
    html! {
        (acts::link(Act::PluginReload, &one, may))
        @if plugin.previous.is_some() { (acts::link(Act::PluginRollback, &one, may)) }
    }
}

/// Which side of a plugin is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PluginTab {
    #[default]
    Generations,
    Grants,
    Log,
    Users,
}

impl PluginTab {
    /// Of an address; what is none is the first.
    pub fn of(show: &str) -> Self {
        match show {
            "grants" => Self::Grants,
            "log" => Self::Log,
            "users" => Self::Users,
            _ => Self::Generations,
        }
    }
}

/// One plugin, with what the side that is shown needs.
#[derive(Clone, Debug)]
pub struct Plugin {
    pub plugin: TransportPlugin,
    /// How its generations did, the one that serves first.
    pub outcomes: Vec<GenerationOutcomes>,
    pub tab: PluginTab,
    /// What is configured of it: what it is granted among it. None = it wasn't asked for, or there is none.
    pub settings: Option<Part<Vec<SettingView>>>,
    /// What names it: routes, relays, tenants.
    pub users: Option<Part<Vec<SettingView>>>,
    /// Its log, and the address of what comes behind.
    pub log: Option<(Part<PluginLog>, Option<String>)>,
    /// None = they aren't the caller's to see.
    pub history: Option<HistoryView>,
    pub changes: Part<Changed>,
}

pub fn plugin(view: &Plugin, may: May, as_of: AsOf) -> Markup {
    let Plugin { plugin, tab, .. } = view;
    let live = &plugin.live;
    let under = html! {
        p.meta {
            (tag(of_generation(&live.phase, plugin.probation.is_some())))
            span {
                "generation " (live.generation) ", " (or_none(live.plugin.as_deref())) " " (or_none(live.version.as_deref()))
                @if let Some(by) = &live.signature { ", " (foreign(by)) }
                ", from " span.mono { (foreign(&plugin.source)) }
            }
        }
    };
    let way = |show: &str| address::with(address::PLUGIN, &[("name", &plugin.transport), ("show", show)]);
    let ways = [
        ("Generations", way(""), *tab == PluginTab::Generations),
        ("Grants", way("grants"), *tab == PluginTab::Grants),
        ("Log", way("log"), *tab == PluginTab::Log),
        ("Used by", way("users"), *tab == PluginTab::Users),
    ];
    html! {
        div { p.crumb { a href=(address::PLUGINS) { "Plugins" } } (head(&html! { (foreign(&plugin.transport)) }, &under, Some(&acts_on(plugin, may)))) }
        (answer(plugin, as_of))
        (tabs("Sides of the plugin", &ways))
        @match tab {
            PluginTab::Generations => { (hour(view, as_of)) (generations_compared(&view.outcomes)) (generations(plugin, as_of)) (bad(plugin, as_of)) }
            PluginTab::Grants => { (configured("What it may reach, and how it is set", view.settings.as_ref(), "Nothing is configured of it: it has the defaults, and no grants.")) }
            PluginTab::Log => { @if let Some((log, next)) = &view.log { (said(log, next.as_deref(), as_of)) } }
            PluginTab::Users => { (configured("What names it", view.users.as_ref(), "No route, relay or tenant in the configuration names it.")) }
        }
        (in_a_terminal(&command(plugin, *tab)))
    }
}

fn command(plugin: &TransportPlugin, tab: PluginTab) -> String {
    match tab {
        PluginTab::Log => format!("waybill plugin logs {}", quoted(&plugin.transport)),
        PluginTab::Grants | PluginTab::Users => "waybill config show --origin".to_owned(),
        PluginTab::Generations => "waybill plugin list -o json".to_owned(),
    }
}

/// What is so, and what the host does by itself.
fn answer(plugin: &TransportPlugin, as_of: AsOf) -> Markup {
    html! {
        @if let Some(trial) = &plugin.probation {
            (note(Tone::Move, Icon::Move, &html! {
                b { "On trial until " (as_of.at(trial.until)) "." }
                " Instances lost: " (trial.losses) "; the one before lost " (trial.losses_before) " in a time as long. The trial watches lost instances, not refusals: look at what died beside it."
            }, None))
        }
        @if let Some(back) = &plugin.rolled_back {
            (note(Tone::Hold, Icon::Undo, &html! {
                b { "Generation " (back.generation) " was rolled back." }
                @if let Some(code) = &back.code { " " (error_code(code)) } " " (foreign(back.reason.as_deref().unwrap_or_default()))
            }, None))
        }
        @if let Some(refused) = &plugin.refused {
            (note(Tone::Hold, Icon::Warn, &html! {
                b { "The latest candidate was refused at " (as_of.at(refused.since)) "." } " What serves wasn’t touched."
                @if let Some(code) = &refused.code { " " (error_code(code)) } " " (foreign(refused.reason.as_deref().unwrap_or_default()))
            }, None))
        }
        @if let Some(why) = &plugin.fallback { (note(Tone::Hold, Icon::Warn, &html! { (foreign(why)) }, None)) }
    }
}

/// What was delivered and what died through it, with the swaps marked.
fn hour(view: &Plugin, as_of: AsOf) -> Markup {
    let Some(history) = &view.history else { return html! {} };
    let items = view.changes.as_ref().map_or(&[][..], |changed| changed.items.as_slice());
    let own: Vec<_> = items.iter().filter(|change| change.object == view.plugin.transport).cloned().collect();
    let changes = Changes::new(&own, Some(history.from));
    let course = |measure| Course::with(history, measure, Some(&view.plugin.transport)).map(Course::a_minute);
    let Some(delivered) = course(Measure::Delivered) else { return html! {} };
    let (dead, retried) = (course(Measure::Dead), course(Measure::Retried));
    let place = (history, changes.marks(), as_of);
    let drawn = html! {
        div.sheet.charts {
            (drawn(("Delivered", Tone::Rest), ("delivered", &delivered), None, place))
            @if let Some(dead) = &dead {
                (drawn(("New dead letters", Tone::Dead), ("dead", dead), retried.as_ref().map(|course| ("failed attempts", course)), place))
            }
        }
        @if !own.is_empty() { p.hint.gap { "The marks are its own changes, " (own.len()) " of them." } }
    };
    section("The last hour", None, &drawn)
}

fn generations(plugin: &TransportPlugin, as_of: AsOf) -> Markup {
    let columns =
        [Column::Text("No."), Column::Text("State"), Column::Text("Plugin"), Column::Text("Live"), Column::Text("Why")];
    let rows = html! { @for generation in plugin.history.iter().rev() { (generation_row(generation, as_of)) } };
    let about = html! { "the newest first; " @if plugin.previous.is_some() { "the one before stays ready for a rollback" } @else { "there is none to go back to" } };
    section("Generations", Some(&about), &table("Generations", &columns, &rows, None))
}

fn generation_row(generation: &Generation, as_of: AsOf) -> Markup {
    html! {
        tr {
            th.nw scope="row" { (generation.generation) }
            td { (state(of_generation(&generation.phase, false))) }
            td { (or_none(generation.plugin.as_deref())) " " (or_none(generation.version.as_deref())) span.sub.mono { (foreign(&shortened(&generation.digest, DIGEST_LETTERS))) } }
            td.nw { (as_of.at(generation.since)) @if let Some(until) = generation.until { " – " (as_of.at(until)) } }
            td.full { @if let Some(code) = &generation.code { (error_code(code)) " " } (foreign(generation.reason.as_deref().unwrap_or_default())) }
        }
    }
}

/// Components that aren't used again.
fn bad(plugin: &TransportPlugin, as_of: AsOf) -> Markup {
    if plugin.bad.is_empty() {
        return html! {};
    }
    let rows = html! { @for bad in &plugin.bad {
        tr {
            th.mono scope="row" { (foreign(&shortened(&bad.digest, DIGEST_LETTERS))) }
            td.full { (error_code(&bad.code)) " " (foreign(&bad.reason)) }
            td.num.nw { (as_of.at(bad.at)) }
        }
    } };
    let columns = [Column::Text("Component"), Column::Text("What it did"), Column::Number("Noticed")];
    section("Not used again unless forced", None, &table("Not used again unless forced", &columns, &rows, None))
}

/// A part of the configuration.
fn configured(title: &str, settings: Option<&Part<Vec<SettingView>>>, none: &str) -> Markup {
    let shown = match settings {
        None => first_run(
            Icon::Gear,
            "The configuration isn’t there",
            "This host was started without one that can be shown.",
            None,
        ),
        Some(Err(why)) => fault("The configuration", why),
        Some(Ok(settings)) if settings.is_empty() => first_run(Icon::Gear, none, "", None),
        Some(Ok(settings)) => listed(&settings.iter().collect::<Vec<_>>()),
    };
    section(title, None, &shown)
}

/// The lines of its log.
fn said(log: &Part<PluginLog>, next: Option<&str>, as_of: AsOf) -> Markup {
    let log = match log {
        Err(why) => return section("Log", None, &fault("The log", why)),
        Ok(log) if log.items.is_empty() => {
            let empty = first_run(
                Icon::Audit,
                "It has said nothing",
                "Lines show here as they are written; the host’s own log has all of them.",
                None,
            );
            return section("Log", None, &empty);
        }
        Ok(log) => log,
    };
    let shown = html! {
        div.sheet {
            ol.tail tabindex="0" aria-label="Log" { @for line in &log.items { (line_of(line, as_of)) } }
            p.more {
                span { (log.items.len()) " lines, oldest first" @if log.missed > 0 { "; " (log.missed) " before them aren’t kept" } }
                @if let Some(next) = next { a href=(next) { "What comes behind" } }
            }
        }
    };
    section("Log", Some(&html! { "what it said, and what the host said of it" }), &shown)
}

fn line_of(line: &PluginLogLine, as_of: AsOf) -> Markup {
    let class = match line.level.as_str() {
        "error" => Some("c-dead"),
        "warn" => Some("c-hold"),
        _ => None,
    };
    html! {
        li {
            span.q { (as_of.exactly(line.at)) }
            span class=[class] { (foreign(&line.level)) }
            span {
                (foreign(&line.message))
                @for (name, value) in &line.fields { " " span.q { (foreign(name)) "=" } (foreign(value)) }
                span.q { " generation " (line.generation) @if let Some(instance) = line.instance { ", instance " (instance) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_side_of_a_plugin_is_the_first() {
        assert_eq!(PluginTab::of("<script>"), PluginTab::Generations);
        assert_eq!(PluginTab::of("log"), PluginTab::Log);
    }
}
