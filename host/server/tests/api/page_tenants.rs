//! Two tenants on one host, each with some of everything that the page shows. Whoever has the token of one reads and changes nothing of
//! the other, whatever they ask for.
//!
//! The inbox and the streams are played, so of them it is proved that nothing of the other is asked for; what the other tenants of the
//! played ones have is `secret` and `other`.

use std::time::Duration;

use http_body_util::BodyExt;
use serde_json::json;
use tower::ServiceExt;
use waybill_core::annotation::Annotation;
use waybill_core::new_message::NewMessage;
use waybill_core::port::transport::{Fault, Outcome};
use waybill_page::acts::{Act, On, Pick, Reach, Target};
use waybill_page::address::{self, condition};
use waybill_server::auth::Role;
use waybill_server::limits::{Limits, PAGE_ROWS};
use waybill_testkit::memory_host::{eventually, message};

use crate::page::{as_signed_in, form, form_token, is_clean, signed_in};
use crate::page_acts::opened;
use crate::page_world::{ADMIN, by, done_beside, operation, settled, standing, written};
use crate::support::{Answer, Api, get, of, post, token};

/// What was written into each field of globex.
const MARKS: [&str; 22] = [
    "topic-globex",
    "payload-globex",
    "header-globex",
    "error-globex",
    "correlation-globex",
    "key-dead-globex",
    "dead-globex",
    "waits-globex",
    "parked-globex",
    "held-globex",
    "done-globex",
    "fenced-globex",
    "reason-globex",
    "saga-globex",
    "input-globex",
    "stuck-globex",
    "begun-globex",
    "finished-globex",
    "result-globex",
    "failed-globex",
    "bulk-globex",
    "sent-globex",
];

/// Lists with a filter.
const LISTS: [&str; 6] = ["/ui/messages", "/ui/dead-letters", "/ui/sagas", "/ui/inbox", "/ui/idempotency", "/ui/audit"];
/// The same as files.
const FILES: [&str; 6] = ["messages", "dead-letters", "sagas", "inbox", "idempotency", "audit"];
/// Filters that take everything, or what is the other's. Not every list knows each; it says so then.
const FILTERS: [&str; 15] = [
    "",
    "id=*",
    "tenant=globex",
    "tenant=glob*",
    "tenant=*",
    "tenant=\"globex\" id=*",
    "id=dead-globex",
    "id=saga-globex",
    "key=*",
    "key=key-dead-globex",
    "topic=*globex*",
    "error=*globex*",
    "correlation_id=correlation-globex",
    "code=NO.SUCH",
    "object=*globex*",
];
/// Ways to name a tenant that isn't the caller's.
const TENANTS: [&str; 7] = ["", "acme", "globex", "*", "%20globex", "acme,globex", "acme&tenant=globex"];
/// Views without a filter.
const VIEWS: [&str; 13] = [
    "/ui",
    "/ui/blocked",
    "/ui/approvals",
    "/ui/streams",
    "/ui/operations",
    "/ui/relay?name=bus",
    "/ui/stream?name=task",
    "/ui/plugins",
    "/ui/plugin?name=http",
    "/ui/plugin?name=http&show=grants",
    "/ui/plugin?name=http&show=log",
    "/ui/plugin?name=http&show=users",
    "/ui/configuration",
];

/// Fills a tenant with some of everything; the id of its operation.
async fn fill(api: &Api, tenant: &str) -> String {
    let host = &api.host;
    let mark = |what: &str| format!("{what}-{tenant}");
    let full = |what: &str| {
        let plain = message(&mark(what));
        NewMessage {
            topic: format!("http:http://{tenant}.example/{}", mark("topic")),
            payload: format!("{{\"note\":\"{}\"}}", mark("payload")).into(),
            key: Some(format!("key-{}", mark(what))),
            headers: vec![("x-note".to_owned(), mark("header"))],
            annotations: plain.annotations.clone().with(Annotation::CorrelationId, mark("correlation")),
            ..of(tenant, plain)
        }
    };
    let fault = || Fault::new("HTTP.400", mark("error"));
    for what in ["dead", "fenced"] {
        host.sent(full(what), [Outcome::Permanent(fault())]).await;
    }
    host.sent(full("parked"), [Outcome::Retryable(fault())]).await;
    host.scheduled(full("waits"), Duration::from_secs(3_600)).await;
    host.delivered(full("done")).await;
    host.waiting_saga(tenant, &mark("waiting")).await;
    host.stuck_saga(tenant, &mark("stuck")).await;
    let saga = json!({"definition": "order", "id": mark("saga"), "tenant": tenant, "input": {"note": mark("input")}});
    let started = api.send(by(post("/v1/sagas", saga.to_string()), ADMIN)).await;
    assert_eq!(started.status, 202, "{}", started.text);
    host.until_waiting(tenant, &mark("saga"), "approval").await;
    host.begun_key(tenant, &mark("begun")).await;
    host.finished_key(tenant, &mark("finished"), &format!("\"{}\"", mark("result"))).await;
    host.failed_key(tenant, &mark("failed"), &mark("error")).await;
    let asked = json!({
        "kind": "quarantine", "tenant": tenant, "filter": condition("id", &mark("fenced")), "reason": mark("reason"),
    });
    let id = operation(api, &asked).await;
    let shown = format!("/v1/operations/{id}");
    eventually("the operation is over", async || api.send(by(get(&shown), ADMIN)).await.json()["state"] != "running")
        .await;
    host.held(full("held"), &format!("http://{tenant}-held.example")).await;
    // More than a page of what has pages.
    for number in 0..=PAGE_ROWS {
        let id = format!("{}-{number}", mark("bulk"));
        host.dead(of(tenant, message(&id))).await;
        host.delivered(of(tenant, message(&format!("{}-{number}", mark("sent"))))).await;
        host.begun_key(tenant, &id).await;
        host.begin("order", tenant, &id).await;
        host.until_waiting(tenant, &id, "approval").await;
    }
    id
}

/// A host with both tenants, and who is signed in for each of them.
struct Both {
    api: Api,
    acme: String,
    globex: String,
    operation: String,
}

async fn both() -> Both {
    let tokens = vec![
        token(ADMIN, &["*"], &[Role::Admin]),
        token("of-acme", &["acme"], &[Role::Operator, Role::Sender]),
        token("of-globex", &["globex"], &[Role::Operator, Role::Sender]),
    ];
    let api = Api::with(Some(tokens), Limits::default()).await;
    fill(&api, "acme").await;
    let operation = fill(&api, "globex").await;
    let acme = signed_in(&api.router, "of-acme").await;
    let globex = signed_in(&api.router, "of-globex").await;
    Both { api, acme, globex, operation }
}

/// What an address says, decoded.
fn decoded(path: &str) -> String {
    let query = path.split_once('?').map_or("", |(_, query)| query);
    form_urlencoded::parse(query.as_bytes()).map(|(name, value)| format!("{name}={value}\n")).collect()
}

/// Nothing of globex is in an answer but what was asked for by its name.
#[track_caller]
fn says_nothing(answer: &Answer, path: &str) {
    assert!(answer.status.as_u16() < 500, "{path}: {}", answer.text);
    let asked = decoded(path);
    for mark in MARKS.iter().filter(|mark| !asked.contains(**mark)) {
        assert!(
            !answer.text.contains(mark) && !answer.header("location").contains(mark),
            "{path} says {mark}: {}",
            answer.text
        );
    }
    if !asked.contains("globex") {
        assert!(!answer.text.contains("globex"), "{path}: {}", answer.text);
    }
    // The other tenants of the played relay and of the played source.
    assert!(!answer.text.contains("secret") && !answer.text.contains("stock"), "{path}: {}", answer.text);
}

impl Both {
    async fn looks(&self, path: &str) -> Answer {
        let answer = self.api.send(as_signed_in(path, &self.acme)).await;
        says_nothing(&answer, path);
        answer
    }

    /// How much was asked of what is played: nothing of globex, and nothing of all tenants together.
    #[track_caller]
    fn asked_of_acme(&self) -> usize {
        let mut calls = self.api.inbound().calls();
        calls.extend(self.api.streams().calls());
        for call in &calls {
            let of_all = ["newest *", "stored *", "status_of *", "inbox_stats *", "overtaken bus of all"];
            let is_of_others = call.contains("globex") || of_all.iter().any(|all| call.starts_with(all));
            assert!(!is_of_others, "{call}");
        }
        calls.len()
    }
}

#[tokio::test]
async fn whoever_looks_for_one_tenant_reads_nothing_of_another() {
    let both = both().await;
    done_beside(&both.api);
    // What is asked for by globex is there, so that what acme doesn't read isn't just missing.
    let dead = both.api.send(as_signed_in("/ui/message?id=dead-globex", &both.globex)).await.text;
    for mark in ["topic-globex", "payload-globex", "error-globex", "correlation-globex", "key-dead-globex"] {
        assert!(dead.contains(mark), "{mark}: {dead}");
    }
    for path in VIEWS {
        both.looks(path).await;
        let mark = if path.contains('?') { '&' } else { '?' };
        for tenant in TENANTS {
            let path = format!("{path}{mark}tenant={tenant}");
            let answer = both.looks(&path).await;
            is_clean(&answer, &path);
        }
    }
    for tenant in TENANTS {
        let own = both.looks(&format!("/ui/messages?tenant={tenant}")).await;
        let is_own = matches!(tenant, "" | "acme");
        assert_eq!(own.text.contains("sent-acme"), is_own, "{tenant}: {}", own.text);
        for filter in FILTERS {
            let filter = address::with("", &[("filter", filter)]).replacen('?', "&", 1);
            for list in LISTS {
                both.looks(&format!("{list}?tenant={tenant}{filter}")).await;
            }
            for list in FILES {
                for format in ["csv", "jsonl"] {
                    both.looks(&format!("/ui/save?list={list}&as={format}&tenant={tenant}{filter}")).await;
                }
            }
        }
    }
    assert!(both.asked_of_acme() > 0);
}

#[tokio::test]
async fn an_id_of_another_tenant_is_no_id() {
    let both = both().await;
    done_beside(&both.api);
    let operation = address::with(address::OPERATION, &[("id", &both.operation)]);
    for tenant in ["", "globex", "acme"] {
        let of_tenant = if tenant.is_empty() { String::new() } else { format!("&tenant={tenant}") };
        let paths = [
            "/ui/message?id=dead-globex",
            "/ui/message?id=dead-globex&show=raw",
            "/ui/message?id=dead-globex&show=headers",
            "/ui/message?id=done-globex",
            "/ui/message?id=stuck-globex&kind=saga",
            "/ui/saga?id=saga-globex",
            "/ui/saga?id=stuck-globex",
            "/ui/idempotency?key=finished-globex",
            "/ui/idempotency?key=failed-globex",
        ];
        for path in paths {
            let path = format!("{path}{of_tenant}");
            let answer = both.looks(&path).await;
            assert_eq!(answer.status, 404, "{path}: {}", answer.text);
            is_clean(&answer, &path);
        }
    }
    for path in [
        "/ui/inbox?consumer=ship&id=other-1&tenant=globex",
        "/ui/stream?name=task&tenant=globex",
        "/ui/idempotency?key=begun-globex&tenant=globex",
        &*operation,
    ] {
        assert_eq!(both.looks(path).await.status, 404, "{path}");
    }
    // The search leads to nobody else's.
    for mark in MARKS {
        let found = both.looks(&address::with(address::FIND, &[("q", mark)])).await;
        assert!(found.header("location").starts_with("/ui/messages?filter=key"), "{mark}: {found:?}");
    }
    both.asked_of_acme();
    // What came of a form is told to the session that sent it.
    let plan =
        opened(&both.api, &Target::one("globex", "dead-globex").address(Act::DeadQuarantine), &both.globex).await;
    let pressed = plan.with(&[("reason", "reason-globex")]).press(&both.api, &both.globex).await;
    assert_eq!(pressed.status, 303, "{}", pressed.text);
    let to = pressed.header("location");
    assert_eq!(both.api.send(as_signed_in(to, &both.globex)).await.status, 200);
    assert_eq!(both.looks(to).await.status, 404);
}

#[tokio::test]
async fn a_cursor_of_another_tenant_is_refused() {
    let both = both().await;
    // Acts alone fill no page of the trail.
    let audit = "/ui/audit?filter=kind%3DTx*";
    for list in ["/ui/messages", "/ui/dead-letters", "/ui/sagas", "/ui/inbox", "/ui/idempotency", audit, "/ui/streams"]
    {
        let page = both.api.send(as_signed_in(list, &both.globex)).await.text;
        let older = page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
        let older = older.map(|address| address.replace("&amp;", "&")).find(|address| address.contains("after="));
        let older = older.unwrap_or_else(|| panic!("{list} has no further page: {page}"));
        assert_eq!(both.api.send(as_signed_in(&older, &both.globex)).await.status, 200, "{older}");
        let after = older.split("after=").nth(1).and_then(|rest| rest.split('&').next()).unwrap();
        let more = if list.contains('?') { "&" } else { "?" };
        for path in [format!("{list}{more}after={after}"), format!("{list}{more}tenant=acme&after={after}")] {
            let answer = both.looks(&path).await;
            is_clean(&answer, &path);
            let says_why =
                answer.text.contains("isn't one of this list") || answer.text.contains("isn’t one of this list");
            assert!(says_why, "{path}: {}", answer.text);
        }
        both.looks(&older).await;
        both.looks(&format!("{list}?tenant=globex&after={after}")).await;
    }
}

#[tokio::test]
async fn an_open_page_hears_nothing_of_another_tenant() {
    let both = both().await;
    for view in ["overview", "messages", "dead-letters", "sagas", "blocked", "inbox", "operations"] {
        let path = format!("/ui/live?view={view}&since=x-1");
        let live = both.api.router.clone().oneshot(as_signed_in(&path, &both.acme)).await.unwrap();
        assert_eq!(live.status(), 200, "{path}");
        let frame = live.into_body().frame().await.unwrap().unwrap();
        let heard = String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap();
        assert!(heard.contains("data: ") && !heard.contains("globex"), "{path}: {heard}");
        let refused = both.api.send(as_signed_in(&format!("{path}&tenant=globex"), &both.acme)).await;
        assert_eq!(refused.status, 403, "{}", refused.text);
        says_nothing(&refused, &format!("{path}&tenant=globex"));
    }
}

/// Ways to ask for an act on what globex has.
fn foreign_targets(act: Act, operation: &str) -> Vec<Target> {
    let about = act.about();
    let id = match about.on {
        On::DeadLetter => "dead-globex",
        On::Message => "waits-globex",
        On::Saga if matches!(act, Act::SagaRetry | Act::SagaSkip | Act::SagaAccept) => "stuck-globex",
        On::Saga => "saga-globex",
        On::Key => "begun-globex",
        On::Stream => "task",
        On::Operation => operation,
        On::Transport | On::Plugin | On::Source | On::Relay | On::Host => return Vec::new(),
    };
    let mut targets = Vec::new();
    match (about.on, about.reach) {
        (_, Reach::New) => return ["globex", ""].map(Target::of).to_vec(),
        (On::Operation, _) => targets.push(Target::named(id)),
        // Every tenant of the played streams has this one.
        (On::Stream, _) => targets.push(Target::one("globex", id)),
        (_, Reach::One | Reach::Any) => targets.extend(["globex", "", "acme"].map(|tenant| Target::one(tenant, id))),
        (_, Reach::Many) => {}
    }
    if about.reach != Reach::One {
        targets.extend([
            Target::matching("globex", "id=*"),
            Target::matching("globex", &condition("id", id)),
            Target::matching("", "tenant=globex"),
            Target::matching("acme", "tenant=globex"),
            Target::matching("", &condition("id", id)),
        ]);
    }
    if about.on == On::DeadLetter && about.reach == Reach::Any {
        let pick = |tenant: &str| Pick { tenant: tenant.into(), id: id.into(), kind: "message".into() };
        targets.push(Target { picks: vec![pick("globex"), pick("")], ..Target::default() });
    }
    targets
}

#[tokio::test]
async fn an_act_on_what_another_tenant_has_changes_nothing() {
    let both = both().await;
    let before = settled(&both.api, "globex").await;
    done_beside(&both.api);
    let (mut tried, mut number) = (0, 0);
    for act in Act::ALL {
        for target in foreign_targets(act, &both.operation) {
            let path = target.address(act);
            let plan = both.looks(&path).await;
            let typed = act.typed(&target, target.is_many().then_some(1)).unwrap_or_default();
            let (token, key) = (form_token(&plan.text), format!("key-{number}"));
            let mut fields = vec![("form", &*token), ("press", &*key), ("count", "1"), ("typed", &*typed)];
            fields.extend(written(act));
            if act.about().reach == Reach::New {
                fields.push(("tenant", "globex"));
            }
            let answer = both.api.send(form(&path, &fields, &both.acme)).await;
            // What the caller wrote is shown to them again.
            if act.about().reach != Reach::New {
                says_nothing(&answer, &path);
            }
            // A filter takes what is one's own, which is nothing here; of picked rows each has its own refusal.
            let is_refused = answer.status.is_client_error();
            let takes_nothing = answer.status == 303 && target.id.is_empty();
            assert!(is_refused || takes_nothing, "{path}: {} {}", answer.status, answer.text);
            if takes_nothing {
                let to = answer.header("location").to_owned();
                let shown = both.api.send(as_signed_in(&to, &both.acme)).await;
                assert_eq!(shown.status, 200, "{path}: {}", shown.text);
                says_nothing(&shown, &path);
            }
            number += 1;
        }
        tried += usize::from(!foreign_targets(act, &both.operation).is_empty());
    }
    let is_of_tenants = |on: On| on.has_tenant() || on == On::Operation;
    assert_eq!(tried, Act::ALL.iter().filter(|act| is_of_tenants(act.about().on)).count());
    assert_eq!(settled(&both.api, "globex").await, before);
    assert_eq!(standing(&both.api, "globex").await, before);
    assert_eq!(done_beside(&both.api), [""; 0]);
}
