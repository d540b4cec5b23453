//! `/v1/plugins`.

use async_trait::async_trait;
use http::Request;
use serde_json::json;
use waybill_api::plugins::*;
use waybill_core::code::Code;
use waybill_core::port::plugins::PluginsError;
use waybill_server::auth::Role;
use waybill_server::limits::Limits;

use crate::support::{Api, Fake, NOW, post, token, with};

fn generation(number: u32, phase: &str) -> Generation {
    let text = |text: &str| Some(text.to_owned());
    Generation {
        generation: number,
        phase: phase.to_owned(),
        digest: "sha256:ab".to_owned(),
        plugin: text("acme"),
        version: text("1.0.0"),
        signature: text("signed by acme"),
        since: NOW.into(),
        until: None,
        code: None,
        reason: None,
    }
}

fn plugin(transport: &str) -> TransportPlugin {
    TransportPlugin {
        transport: transport.to_owned(),
        world: "transport".to_owned(),
        source: "/plugins/acme.wasm".to_owned(),
        watch: true,
        reload: "overlap".to_owned(),
        live: generation(2, "live"),
        previous: Some(generation(1, "gone")),
        probation: Some(Probation { until: NOW.into(), losses: 1, losses_before: 0 }),
        refused: None,
        history: vec![generation(1, "gone"), generation(2, "live")],
        bad: vec![BadDigest {
            digest: "sha256:cd".to_owned(),
            code: "PLUGIN.PROBATION_FAILED".to_owned(),
            reason: "it trapped".to_owned(),
            at: NOW.into(),
        }],
        fallback: None,
    }
}

impl Fake {
    fn changed(&self, transport: &str, call: String) -> Result<PluginChanged, PluginsError> {
        self.calls.lock().unwrap().push(call);
        match transport {
            "gone" => Err(PluginsError::NotFound("gone".to_owned())),
            "bad" => {
                let reason = "it was rolled back".to_owned();
                Err(PluginsError::Refused { code: Code::PLUGIN_REMEMBERED_BAD, reason })
            }
            "broken" => {
                let reason = "secret: the engine at 0x1234 is gone".to_owned();
                Err(PluginsError::Refused { code: Code::PLUGIN_ENGINE, reason })
            }
            _ => Ok(PluginChanged { changed: true, plugin: plugin(transport) }),
        }
    }
}

#[async_trait]
impl PluginService for Fake {
    async fn plugins(&self) -> Plugins {
        let (code, reason) = ("PLUGIN.CORE_MODULE".to_owned(), "it is a core module".to_owned());
        let refused_files = vec![RefusedFile { file: "junk.wasm".to_owned(), code, reason }];
        Plugins { items: vec![plugin("orders")], next_cursor: None, refused_files }
    }
    async fn reload(&self, transport: &str, asked: PluginReload, actor: &str) -> Result<PluginChanged, PluginsError> {
        self.changed(transport, format!("reload {transport} {:?} {} {actor}", asked.sha256, asked.force))
    }
    async fn roll_back(&self, transport: &str, reason: &str, actor: &str) -> Result<PluginChanged, PluginsError> {
        self.changed(transport, format!("rollback {transport} {reason:?} {actor}"))
    }
    async fn upload(&self, transport: &str, upload: PluginUpload, actor: &str) -> Result<PluginChanged, PluginsError> {
        let PluginUpload { component, signature, reload } = upload;
        self.changed(
            transport,
            format!(
                "upload {transport} {} {signature:?} {:?} {} {actor}",
                component.len(),
                reload.sha256,
                reload.force
            ),
        )
    }
}

#[tokio::test]
async fn the_list_shows_generations_and_files_that_cant_be_used() {
    let body = Api::open().get("/v1/plugins").await.json();
    let item = &body["items"][0];
    assert_eq!((&item["transport"], &item["live"]["generation"]), (&json!("orders"), &json!(2)));
    assert_eq!((&item["previous"]["phase"], &item["probation"]["losses"]), (&json!("gone"), &json!(1)));
    assert_eq!((&item["bad"][0]["code"], &item["fallback"]), (&json!("PLUGIN.PROBATION_FAILED"), &json!(null)));
    assert_eq!(body["refused_files"][0]["file"], "junk.wasm");
}

#[tokio::test]
async fn a_reload_needs_no_body_and_a_rollback_takes_a_reason() {
    let api = Api::open();
    let digest = "ab".repeat(32);
    let body = json!({ "sha256": digest, "force": true }).to_string();
    for (path, body) in [
        ("/v1/plugins/orders/reload", "{}".to_owned()),
        ("/v1/plugins/orders/reload", body),
        ("/v1/plugins/orders/rollback", r#"{"reason":"loses headers"}"#.to_owned()),
    ] {
        let answer = api.post(path, body).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["changed"]), (200, &json!(true)), "{}", answer.text);
    }
    assert_eq!(
        api.fake.calls(),
        [
            "reload orders None false local".to_owned(),
            format!("reload orders Some(\"{digest}\") true local"),
            "rollback orders \"loses headers\" local".to_owned(),
        ]
    );
}

#[tokio::test]
async fn a_refusal_keeps_its_code_and_a_defect_its_details_to_the_log() {
    let api = Api::open();
    for (path, status, code) in [
        ("/v1/plugins/gone/reload", 404, "TRANSPORT.NOT_FOUND"),
        ("/v1/plugins/bad/reload", 409, "PLUGIN.REMEMBERED_BAD"),
        ("/v1/plugins/broken/rollback", 500, "UNKNOWN.INTERNAL"),
    ] {
        let answer = api.post(path, "{}").await;
        assert_eq!(answer.problem(), (status, code.to_owned()), "{path}");
        assert!(!answer.text.contains("0x1234"), "{}", answer.text);
    }
    let wrong = api.post("/v1/plugins/orders/reload", r#"{"sha256":"abc"}"#).await;
    assert_eq!((wrong.problem().0, &wrong.json()["path"]), (400, &json!("sha256")));
    assert_eq!(api.post("/v1/plugins/orders/reload", r#"{"forced":true}"#).await.problem().0, 400);
}

#[tokio::test]
async fn a_component_is_handed_over_as_bytes_with_its_signature() {
    let api = Api::open();
    let put = |kind: &str, body: &'static str| {
        let request = Request::put("/v1/plugins/orders/component?force=true").header("host", "localhost:7070");
        request.header("content-type", kind).body(body.into()).unwrap()
    };
    let answer = api.send(with(put("application/wasm", "\0asm"), "waybill-signature", "ed25519 a b")).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(api.fake.calls(), ["upload orders 4 Some(\"ed25519 a b\") None true local"]);
    assert_eq!(api.send(put("application/json", "{}")).await.problem(), (415, "HTTP.MEDIA_TYPE".to_owned()));
    let huge = with(put("application/wasm", ""), "content-length", "99999999999");
    assert_eq!(api.send(huge).await.problem(), (413, "HTTP.TOO_LARGE".to_owned()));
    assert!(api.fake.calls().is_empty());
}

#[tokio::test]
async fn only_an_admin_changes_plugins() {
    let tokens = vec![token("viewer", &["*"], &[Role::Viewer]), token("admin", &["*"], &[Role::Admin])];
    let api = Api::with(Some(tokens), Limits::default());
    let ask = |who: &str| with(post("/v1/plugins/orders/reload", "{}"), "authorization", &format!("Bearer {who}"));
    assert_eq!(api.send(ask("viewer")).await.problem(), (403, "AUTH.ROLE".to_owned()));
    assert_eq!(api.send(ask("admin")).await.status, 200);
}
