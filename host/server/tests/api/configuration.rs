//! `/v1/config`. Reading a configuration again is the command line's: here it answers what a test can foresee.

use async_trait::async_trait;
use serde_json::json;
use waybill_api::configuration::{ConfigurationService, Effect, ReloadRefused, Reloaded, SettingChange, SettingView};
use waybill_server::auth::Role;
use waybill_server::limits::Limits;

use crate::page::{as_signed_in, signed_in};
use crate::support::{Api, get, post, token, with};

/// Always differs in the same two things, and is refused to callers named `clumsy`, and `early`, who may try again. To `patient` it never
/// answers.
pub struct FixedConfiguration;

#[async_trait]
impl ConfigurationService for FixedConfiguration {
    async fn reload(&self, apply: bool, actor: &str) -> Result<Reloaded, ReloadRefused> {
        if actor == "clumsy" {
            let message = "CONFIG.UNKNOWN_KEY: there is no outbox.batsh".to_owned();
            return Err(ReloadRefused { code: "CONFIG.UNKNOWN_KEY".to_owned(), message, retryable: false });
        }
        if actor == "patient" {
            std::future::pending::<()>().await;
        }
        if actor == "early" {
            let message = "[source.shop]: its peer doesn't answer".to_owned();
            return Err(ReloadRefused { code: "PLUGIN.OPEN_FAILED".to_owned(), message, retryable: true });
        }
        let change =
            SettingChange { key: "outbox.batch".into(), from: Some(json!(50)), to: None, effect: Effect::Restart };
        Ok(Reloaded { applied: apply, changes: vec![change], added: vec!["two".into()], ..Reloaded::default() })
    }

    fn settings(&self) -> Vec<SettingView> {
        [
            ("outbox.batch", json!(50), Effect::Now),
            ("server.listen", json!("127.0.0.1:7070"), Effect::Restart),
            ("transport.http.allow", json!(["<script>.example", "\u{202e}"]), Effect::Now),
            ("route[0].match", json!("bus:**"), Effect::Now),
            ("route[0].transport", json!("http"), Effect::Now),
            ("route[1].transport", json!("bus"), Effect::Now),
        ]
        .map(|(key, value, effect)| SettingView { key: key.into(), value, origin: "waybill.toml:3:1".into(), effect })
        .into()
    }
}

#[tokio::test]
async fn a_reload_tells_what_differs_and_a_dry_run_doesnt_apply() {
    let api = Api::open().await;
    for (body, applied) in [("{}", true), (r#"{"dry_run":true}"#, false)] {
        let answer = api.post("/v1/config/reload", body).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["applied"]), (200, &json!(applied)), "{}", answer.text);
        let change = &answer.json()["changes"][0];
        assert_eq!(
            (&change["key"], &change["from"], &change["to"]),
            (&json!("outbox.batch"), &json!(50), &json!(null))
        );
        assert_eq!((&change["effect"], &answer.json()["added"]), (&json!("restart"), &json!(["two"])));
    }
    assert_eq!(api.post("/v1/config/reload", r#"{"dryrun":true}"#).await.problem().0, 400);
}

#[tokio::test(start_paused = true)]
async fn the_page_shows_what_is_in_force_while_a_comparison_takes_long() {
    let api = Api::with(Some(vec![token("patient", &["*"], &[Role::Admin])]), Limits::default()).await;
    let cookie = signed_in(&api.router, "patient").await;
    let page = api.send(as_signed_in("/ui/configuration?compare=now", &cookie)).await;
    assert_eq!(page.status, 200, "{}", page.text);
    assert!(page.text.contains("no answer came within 2 s") && page.text.contains("outbox.batch"), "{}", page.text);
}

#[tokio::test]
async fn what_is_in_force_is_told_with_its_origin_to_who_may_change_it() {
    let tokens = vec![
        token("admin", &["*"], &[Role::Admin]),
        token("operator", &["*"], &[Role::Operator]),
        token("viewer", &["acme"], &[Role::Viewer]),
    ];
    let api = Api::with(Some(tokens), Limits::default()).await;
    let asked = |name: &str| with(get("/v1/config"), "authorization", &format!("Bearer {name}"));
    let shown = api.send(asked("admin")).await.json();
    assert_eq!(shown["items"].as_array().unwrap().len(), 6);
    let setting =
        json!({ "key": "server.listen", "value": "127.0.0.1:7070", "origin": "waybill.toml:3:1", "effect": "restart" });
    assert_eq!(shown["items"][1], setting);
    for name in ["operator", "viewer"] {
        assert_eq!(api.send(asked(name)).await.status, 403, "{name}");
    }
}

#[tokio::test]
async fn a_refusal_says_every_reason() {
    let tokens = ["clumsy", "early"].map(|name| token(name, &["*"], &[Role::Admin]));
    let api = Api::with(Some(tokens.to_vec()), Limits::default()).await;
    for (name, reason, retryable) in [("clumsy", "CONFIG.UNKNOWN_KEY", false), ("early", "PLUGIN.OPEN_FAILED", true)] {
        let answer = api.send(with(post("/v1/config/reload", "{}"), "authorization", &format!("Bearer {name}"))).await;
        assert_eq!(answer.problem(), (422, "CONFIG.RELOAD_REFUSED".to_owned()));
        assert!(answer.json()["detail"].as_str().unwrap().contains(reason), "{}", answer.text);
        assert_eq!(answer.json()["retryable"], retryable, "{}", answer.text);
    }
}
