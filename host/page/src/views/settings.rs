//! The configuration: what is in effect, from where, what takes a restart; and what a reload would change.

use maud::{Markup, html};
use waybill_api::configuration::{Effect, Reloaded, SettingView};

use crate::acts::{self, Act, May, Target};
use crate::address;
use crate::frame::head;
use crate::icon::{self, Icon};
use crate::parts::{Column, Part, State, Tone, fault, first_run, in_a_terminal, note, section, state, table, tabs};
use crate::text::{foreign, shortened};

/// Letters of a value in a list.
const VALUE_LETTERS: usize = 200;

/// What differs between the configuration in force and its file.
#[derive(Clone, Debug)]
pub enum Compared {
    /// This host can't read it again.
    Never,
    /// It wasn't asked for: comparing loads plugins.
    NotYet,
    Now(Box<Part<Reloaded>>),
}

#[derive(Clone, Debug)]
pub struct Configuration {
    pub compared: Compared,
    /// None = this host has none to show.
    pub settings: Option<Vec<SettingView>>,
    /// Only settings whose key begins so.
    pub section: String,
    /// What the caller may do to it.
    pub may: May,
}

pub fn configuration(view: &Configuration) -> Markup {
    let Configuration { compared, settings, section: shown, may } = view;
    html! {
        (head(&html! { "Configuration" }, &html! { p { "What is in effect, where each value comes from, and when another one would count. Secrets show as the reference that names them." } },
            Some(&acts::link(Act::ConfigurationReload, &Target::default(), *may))))
        (section("Against its file", None, &against(compared)))
        @if let Some(settings) = settings { (section("In effect", None, &in_effect(settings, shown))) }
        (in_a_terminal("waybill config show --origin"))
    }
}

fn against(compared: &Compared) -> Markup {
    match compared {
        Compared::Never => first_run(
            Icon::Gear,
            "There is nothing to read again",
            "This host was started without a configuration that can be read again.",
            None,
        ),
        Compared::NotYet => html! {
            div.sheet.empty {
                (icon::small(Icon::Gear))
                p.t { "Compare what is in force with the file" }
                p { "Every setting that differs is listed, with when it would count. Plugins that changed are loaded for it, and not used." }
                p.acts { a.btn.main href=(address::with(address::CONFIGURATION, &[("compare", "now")])) { "Compare now" } }
            }
        },
        Compared::Now(compared) => match &**compared {
            Err(why) => fault("The configuration", why),
            Ok(compared) => differences(compared),
        },
    }
}

pub(super) fn differences(compared: &Reloaded) -> Markup {
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

/// When another value counts.
pub fn counts(effect: Effect) -> State<'static> {
    match effect {
        Effect::Now => State::new(Tone::Ok, Icon::Done, "at once"),
        Effect::Restart => State::new(Tone::Rest, Icon::Wait, "after a restart"),
        Effect::Refused => State::new(Tone::Dead, Icon::Block, "not at all"),
    }
}

/// The first part of a key: `transport` of `transport.orders.plugin` and `route` of `route[0].match`.
fn section_of(key: &str) -> &str {
    key.split(['.', '[']).next().unwrap_or(key)
}

fn in_effect(settings: &[SettingView], shown: &str) -> Markup {
    let of = |section: &str| address::with(address::CONFIGURATION, &[("section", section)]);
    let mut ways = vec![("All", of(""), shown.is_empty())];
    for setting in settings {
        let section = section_of(&setting.key);
        if ways.iter().all(|(known, ..)| *known != section) {
            ways.push((section, of(section), section == shown));
        }
    }
    let wanted: Vec<&SettingView> =
        settings.iter().filter(|setting| shown.is_empty() || section_of(&setting.key) == shown).collect();
    html! {
        (tabs("Sections", &ways))
        @if wanted.is_empty() {
            div.sheet.empty { p.t { "No setting is in " code { (foreign(shown)) } } p { a href=(of("")) { "Look at all" } } }
        } @else { (listed(&wanted)) }
    }
}

/// Settings with their values.
pub fn listed(settings: &[&SettingView]) -> Markup {
    let columns =
        [Column::Text("Setting"), Column::Text("Value"), Column::Text("From"), Column::Text("Another counts")];
    let rows = html! { @for setting in settings {
        tr tabindex="-1" {
            th.mono scope="row" { (foreign(&setting.key)) }
            td.full.mono { (foreign(&shortened(&setting.value.to_string(), VALUE_LETTERS))) }
            td data-l="from" { (foreign(&setting.origin)) }
            td { (state(counts(setting.effect))) }
        }
    } };
    table("Settings", &columns, &rows, None)
}
