//! Plugins: the list, and one.

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use waybill_api::configuration::SettingView;
use waybill_api::plugin_outcomes::PluginShown;
use waybill_api::plugins::{PluginLog, PluginLogAsked};
use waybill_page::frame::Place;
use waybill_page::parts::Part;
use waybill_page::views::{self, Plugin, PluginTab};
use waybill_page::{Markup, address};

use super::visit::{View, Visit};
use crate::app::App;
use crate::auth::Permission;
use crate::limits::PAGE_LOG_LINES;
use crate::problem::Problem;
use crate::routes::plugins as plugin_routes;
use crate::routes::query::{NoQuery, query};

/// The plugins with the generations that serve.
pub(super) async fn plugins(State(app): State<App>, visit: Visit) -> Response {
    let view = View { place: Place::Plugins, title: "Plugins", needs: Permission::Read };
    let body = async {
        let NoQuery {} = query(&visit.uri)?;
        let shown = visit.part(async { Ok::<_, Problem>(plugin_routes::shown(&app, &visit.caller).await) }).await;
        Ok::<Markup, Problem>(views::plugins(&shown, visit.may(), visit.as_of))
    };
    visit.show(&app, view, body).await
}

/// What the address of one plugin says.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PluginAsked {
    name: String,
    /// Which side: `grants`, `log` or `users`.
    show: String,
    /// Of the log: lines behind this number.
    after: u64,
}

pub(super) async fn plugin(State(app): State<App>, visit: Visit) -> Response {
    let view = View { place: Place::Plugins, title: "Plugin", needs: Permission::Read };
    let body = async {
        let asked: PluginAsked = query(&visit.uri)?;
        let PluginShown { plugin, outcomes } = plugin_routes::shown_one(&app, &visit.caller, &asked.name).await?;
        let tab = PluginTab::of(&asked.show);
        let name = plugin.transport.clone();
        let (settings, users, log) = match tab {
            PluginTab::Generations => (None, None, None),
            PluginTab::Grants => (settings(&app, &visit, |all| of_plugin(all, &name)).await, None, None),
            PluginTab::Users => (None, settings(&app, &visit, |all| that_name(all, &name)).await, None),
            PluginTab::Log => (None, None, Some(log(&app, &visit, &asked).await)),
        };
        let (history, changes) = tokio::join!(visit.hour(&app), visit.changes(&app));
        let shown = Plugin { plugin, outcomes, tab, settings, users, log, history, changes };
        Ok::<Markup, Problem>(views::plugin(&shown, visit.may(), visit.as_of))
    };
    visit.show(&app, view, body).await
}

/// A part of the settings in force; none = this host has none to show.
async fn settings(
    app: &App,
    visit: &Visit,
    part: impl FnOnce(Vec<SettingView>) -> Vec<SettingView>,
) -> Option<Part<Vec<SettingView>>> {
    let configuration = app.configuration.as_ref()?;
    let read = async { Ok::<_, Problem>(part(configuration.settings())) };
    Some(visit.part_for(Permission::Manage, read).await)
}

/// The section of a plugin's user: that of a transport is called as it, that of a handler is its consumer's.
fn section(name: &str) -> String {
    match name.split_once('.') {
        Some(("handler", consumer)) => format!("consumer.{consumer}"),
        Some(("participant" | "source" | "outbox", _)) => name.to_owned(),
        _ => format!("transport.{name}"),
    }
}

/// What is configured of a plugin.
fn of_plugin(mut all: Vec<SettingView>, name: &str) -> Vec<SettingView> {
    let section = section(name);
    all.retain(|setting| {
        let rest = setting.key.strip_prefix(&section);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    });
    all
}

/// Settings of other sections that name it: a route's or a relay's transport, a step's participant.
fn that_name(mut all: Vec<SettingView>, name: &str) -> Vec<SettingView> {
    let own = section(name);
    let called = name.split_once('.').map_or(name, |(_, called)| called);
    let names_it = |key: &str, value: &serde_json::Value| {
        let last = key.rsplit('.').next().unwrap_or(key);
        let is_reference = ["transport", "plugin", "consumer", "consumers", "participant", "source"]
            .iter()
            .any(|word| last.starts_with(word));
        is_reference
            && match value {
                serde_json::Value::String(text) => text == called,
                serde_json::Value::Array(items) => items.iter().any(|item| item.as_str() == Some(called)),
                _ => false,
            }
    };
    // What stands beside the one that names it says which route it is.
    let users: Vec<String> = all
        .iter()
        .filter(|setting| !setting.key.starts_with(&own) && names_it(&setting.key, &setting.value))
        .filter_map(|setting| setting.key.rsplit_once('.').map(|(section, _)| format!("{section}.")))
        .collect();
    all.retain(|setting| users.iter().any(|user| setting.key.starts_with(user)));
    all
}

/// Lines of a plugin's log, and the address of what comes behind.
async fn log(app: &App, visit: &Visit, asked: &PluginAsked) -> (Part<PluginLog>, Option<String>) {
    let wanted = PluginLogAsked { after: asked.after, limit: PAGE_LOG_LINES, ..PluginLogAsked::default() };
    let lines = visit.part_for(Permission::Manage, plugin_routes::lines(app, &asked.name, wanted)).await;
    let next = lines.as_ref().ok().filter(|lines| !lines.items.is_empty()).map(|lines| {
        let after = lines.next.to_string();
        address::with(address::PLUGIN, &[("name", &*asked.name), ("show", "log"), ("after", &*after)])
    });
    (lines, next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use waybill_api::configuration::Effect;

    fn all() -> Vec<SettingView> {
        [
            ("transport.bus.allow", json!(["nats://a"])),
            ("transport.bus2.plugin", json!("bundled:nats")),
            ("route[0].match", json!("bus:**")),
            ("route[0].transport", json!("bus")),
            ("route[1].match", json!("bus")),
            ("relay.lake.transport", json!("bus")),
            ("consumer.ship.url", json!("http://x")),
        ]
        .map(|(key, value)| SettingView { key: key.into(), value, origin: "default".into(), effect: Effect::Now })
        .into()
    }

    fn keys(settings: Vec<SettingView>) -> Vec<String> {
        settings.into_iter().map(|setting| setting.key).collect()
    }

    #[test]
    fn a_plugin_has_its_own_settings_and_is_named_by_others() {
        assert_eq!(keys(of_plugin(all(), "bus")), ["transport.bus.allow"]);
        assert_eq!(keys(of_plugin(all(), "handler.ship")), ["consumer.ship.url"]);
        assert_eq!(keys(that_name(all(), "bus")), ["route[0].match", "route[0].transport", "relay.lake.transport"]);
    }
}
