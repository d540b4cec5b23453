//! What the tests of roles, tenants and bad input share: a token for each role, and how everything stands.

use http::Request;
use waybill_core::streams::access::StreamRole;
use waybill_page::acts::{Act, Field};
use waybill_server::auth::{Role, Tenants, TokenRecord};

use crate::support::{Api, get, token, with};

/// The token that sees and may everything.
pub const ADMIN: &str = "admin-all";

/// Lists of what tenants have.
const OF_TENANTS: [&str; 6] =
    ["/v1/messages", "/v1/dead-letters", "/v1/sagas", "/v1/idempotency", "/v1/operations", "/v1/audit"];
/// What all tenants share.
const OF_ALL: [&str; 2] = ["/v1/transports", "/v1/plugins"];
/// How often it is looked whether everything stands still.
const LOOKS_MAX: usize = 1_000;

/// A token with one role, or one that names streams and has no role.
pub struct Who {
    pub record: TokenRecord,
    pub role: Option<Role>,
}

impl Who {
    pub fn name(&self) -> &str {
        &self.record.name
    }

    /// Whether it has what an act needs, in the words that the page itself has for that.
    pub fn may(&self, act: Act) -> bool {
        let needed = act.about().right.roles();
        let is_named = self.role.is_some_and(|role| needed.split([',', ' ']).any(|word| word == role.as_str()));
        // Its streams are named in the token, whatever its role is.
        if act == Act::StreamAppend && self.name() == "append" {
            return true;
        }
        is_named && (self.record.tenants == Tenants::All || !needed.ends_with("for all tenants"))
    }
}

/// Every role for tenant acme and for all tenants, and both rights to streams.
pub fn everybody() -> Vec<Who> {
    let mut all = Vec::new();
    for role in Role::ALL {
        for (word, tenant) in [("acme", "acme"), ("all", "*")] {
            let name = format!("{}-{word}", role.as_str());
            all.push(Who { record: token(&name, &[tenant], &[role]), role: Some(role) });
        }
    }
    for word in ["append", "read"] {
        let streams = vec![StreamRole::parse(&format!("{word}:**")).unwrap().unwrap()];
        all.push(Who { record: TokenRecord { streams, ..token(word, &["acme"], &[]) }, role: None });
    }
    all
}

pub fn by<B>(request: Request<B>, name: &str) -> Request<B> {
    let mut request = request;
    request.headers_mut().insert("authorization", format!("Bearer {name}").parse().unwrap());
    request
}

/// What there is of a tenant and what was done to it, as an administrator sees it; of all tenants if none is named.
pub async fn standing(api: &Api, tenant: &str) -> String {
    let mut all = String::new();
    let of_tenant = if tenant.is_empty() { String::new() } else { format!("&tenant={tenant}") };
    let lists = OF_TENANTS.map(|path| format!("{path}?limit=1000{of_tenant}"));
    let shared = OF_ALL.into_iter().filter(|_| tenant.is_empty()).map(str::to_owned);
    for path in lists.into_iter().chain(shared) {
        let answer = api.send(by(get(&path), ADMIN)).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        all.push_str(&answer.text);
        all.push('\n');
    }
    all
}

/// The same as soon as two looks see the same.
pub async fn settled(api: &Api, tenant: &str) -> String {
    let mut before = standing(api, tenant).await;
    for _ in 0..LOOKS_MAX {
        tokio::task::yield_now().await;
        let now = standing(api, tenant).await;
        if now == before {
            return now;
        }
        before = now;
    }
    panic!("it never stands still: {before}");
}

/// Takes what was done to the inbox and the streams, which are played.
pub fn done_beside(api: &Api) -> Vec<String> {
    let looks =
        ["stored", "newest", "status_of", "inbox_stats", "failed_rows", "dead_letter", "read_", "stream", "overtaken"];
    let mut calls = api.inbound().calls();
    calls.extend(api.streams().calls());
    calls.retain(|call| !looks.iter().any(|look| call.starts_with(look)) && !call.contains(" plan true "));
    calls
}

/// What is written into the form of an act.
pub fn written(act: Act) -> Vec<(&'static str, &'static str)> {
    let mut fields = Vec::new();
    for field in act.about().fields {
        match field {
            Field::Reason | Field::ReasonNeeded => fields.push(("reason", "because")),
            Field::At => fields.push(("at", "2099-01-01T00:00:00Z")),
            Field::StepNeeded => fields.push(("step", "reserve")),
            Field::Signal => fields.extend([("signal", "paid"), ("data", "{}")]),
            Field::Seek => fields.extend([("stream", "task"), ("after", "4")]),
            Field::Rows => fields.push(("rows", "17")),
            Field::Force => fields.push(("force", "yes")),
            Field::Below => fields.push(("below", "5")),
            Field::Step | Field::Mode | Field::Finished => {}
        }
    }
    match act {
        Act::DeadEdit => fields.push(("headers", "x-edited=yes")),
        Act::MessageSend => fields.extend([("topic", "bus:orders.new"), ("payload", "1")]),
        Act::SagaStart => fields.extend([("definition", "order"), ("input", "{}")]),
        Act::StreamAppend => fields.extend([("stream", "task"), ("resource", "TASK/t-1"), ("op", "CREATE")]),
        _ => {}
    }
    fields
}

/// Starts an operation as an administrator; its id.
pub async fn operation(api: &Api, body: &serde_json::Value) -> String {
    let request = crate::support::post("/v1/operations", body.to_string());
    let started = api.send(with(request, "authorization", &format!("Bearer {ADMIN}"))).await;
    assert_eq!(started.status, 202, "{}", started.text);
    started.json()["id"].as_str().unwrap().to_owned()
}
