//! Acts of the page: planned at an address, done by its form, answered by the address of what came of it.
//!
//! | file | holds |
//! |---|---|
//! | `planned` | what a plan asks the services |
//! | `perform` | an act on one or on picked ones, by the API's own routes |
//! | `many` | an act on all that a filter takes, as an operation |
//! | `sent_forms` | forms that were sent: a second press does nothing anew |
//! | `written` | acts that make something of what is written: their forms, what is checked before, how it is made |
//! | `drafts` | what is written, while its plan is read |
//! | `bodies` | what is written, as the API's routes take it |
//! | `operations` | operations, their list and one |

mod bodies;
mod drafts;
mod many;
mod operations;
mod perform;
mod planned;
mod sent_forms;
mod written;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use http::{HeaderValue, Uri, header};
use serde::Deserialize;
use serde_json::Value;
use ulid::Ulid;
use waybill_api::instant::Instant;
use waybill_core::code::Code;
use waybill_page::Markup;
use waybill_page::acts::{Act, FORM, Form, On, Reach, Right, Target};
use waybill_page::address;
use waybill_page::frame::Place;
use waybill_page::parts::Fault;
use waybill_page::views::{self, Concerns, Given};

use super::see_other;
use super::sign_in::may_post;
use super::visit::{View, Visit};
use crate::app::App;
use crate::auth::Permission;
use crate::body::{self, Fields};
use crate::caller::Caller;
use crate::edge;
use crate::limits::{ACT_FORM_BYTES_MAX, PAGE_ROWS};
use crate::problem::Problem;
use crate::routes::query::query;

pub(crate) use drafts::Drafts;
pub(super) use operations::{operation, operations};
use sent_forms::SentForm;
pub(crate) use sent_forms::SentForms;

/// What an act needs, as the edge knows it.
pub(super) fn permission(right: Right) -> Permission {
    match right {
        Right::Send => Permission::Send,
        Right::Append => Permission::Append,
        Right::Operate => Permission::Operate,
        Right::Manage => Permission::Manage,
    }
}

/// An act and its target, as the address says them.
#[derive(Clone, Debug)]
struct Asked {
    act: Act,
    target: Target,
    /// On dead letters: only what died until then.
    before: Option<Instant>,
}

impl Asked {
    fn read(uri: &Uri) -> Result<Self, Problem> {
        let (act, target) = Target::read(uri.query().unwrap_or_default()).map_err(Problem::invalid)?;
        let picks = target.picks.len();
        if picks > PAGE_ROWS {
            let text = format!("{picks} rows are picked, at most {PAGE_ROWS} are taken: act on all that match instead");
            return Err(Problem::invalid(text).at("pick"));
        }
        let ways = [!target.id.is_empty(), target.is_many(), picks > 0];
        let of = ways.into_iter().filter(|way| *way).count();
        let is_right = match (act.about().on, act.about().reach) {
            (On::Host, _) | (_, Reach::New) => of == 0,
            (_, Reach::One) => of == 1 && !target.id.is_empty(),
            (_, Reach::Any) => of == 1,
            (_, Reach::Many) => of == 1 && target.is_many(),
        };
        let is_draft = !target.draft.is_empty();
        let is_shown = target.show.is_empty() || is_draft && target.show == FORM;
        let is_right = is_right && is_shown && (act.is_written() || !is_draft);
        if !is_right || picks > 0 && act.about().on != On::DeadLetter {
            let text = format!("the address doesn't say what to {} as that is done", act.about().word.to_lowercase());
            return Err(Problem::invalid(text).at("id"));
        }
        let before = (!target.before.is_empty()).then(|| instant("before", &target.before)).transpose()?;
        Ok(Self { act, target, before })
    }

    fn address(&self) -> String {
        self.target.address(self.act)
    }

    /// The same, where it is written anew.
    fn undrafted(&self) -> Self {
        Self { target: self.target.undrafted(), ..self.clone() }
    }

    /// The same, with what died until an instant; with none what is there.
    fn until(&self, before: Option<Instant>) -> Self {
        let written = before.map(|before| before.0.to_string()).unwrap_or_default();
        let target = Target { before: written, ..self.target.clone() };
        Self { act: self.act, target, before }
    }
}

/// An instant as it is written.
fn instant(field: &'static str, text: &str) -> Result<Instant, Problem> {
    let read = Instant::deserialize(Value::from(text.trim()));
    read.map_err(|error| Problem::invalid(error.to_string()).at(field))
}

/// What the API's routes read members of a target from. Those that are too long for an address are refused: without them a route would
/// act on something else.
fn inner_address(members: &[(&str, &str)]) -> Result<Uri, Problem> {
    let address = address::with(address::PLAN, members);
    address.parse().map_err(|_| Problem::invalid("what the address names is too long to be there").at("tenant"))
}

/// A request as the API's routes take it, with the target's tenant and kind.
fn request(caller: &Caller, target: &Target, body: String) -> Result<Request, Problem> {
    let mut request = Request::new(Body::from(body));
    *request.uri_mut() = inner_address(&[("tenant", &target.tenant), ("kind", &target.kind)])?;
    *request.method_mut() = http::Method::POST;
    request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    request.extensions_mut().insert(caller.clone());
    Ok(request)
}

/// A request with an idempotency key, where the host demands one: a form is worked on once by itself.
fn keyed(app: &App, mut request: Request) -> Result<Request, Problem> {
    if app.idempotency.settings().require {
        let key = HeaderValue::from_str(&Ulid::new().to_string()).map_err(Problem::internal)?;
        request.headers_mut().insert("idempotency-key", key);
    }
    Ok(request)
}

/// The answer of a route, which is small.
async fn read(response: Response) -> Result<Value, Problem> {
    let bytes = axum::body::to_bytes(response.into_body(), crate::limits::BODY_BYTES_MAX).await;
    serde_json::from_slice(&bytes.map_err(Problem::internal)?).map_err(Problem::internal)
}

/// The member of a form that holds its key, by which a second press is the same act.
const PRESS: &str = "press";

const PLAN: View = View { place: Place::None, title: "Plan", needs: Permission::Read };

/// A plan. The instant until which it takes dead letters is in its form's address, so that what is done is what was planned.
pub(super) async fn plan(State(app): State<App>, visit: Visit) -> Response {
    match Asked::read(&visit.uri) {
        Ok(asked) if !asked.target.draft.is_empty() => written::kept(&app, &visit, asked).await,
        Ok(asked) => {
            let view = view(&visit, &asked);
            visit.show(&app, view, planned(&app, &visit, &asked, Given::default(), None)).await
        }
        Err(problem) => visit.show(&app, PLAN, async { Err(problem) }).await,
    }
}

/// Who may append to some streams and look at nothing else has a form for it.
fn view(visit: &Visit, asked: &Asked) -> View {
    let appends = asked.act == Act::StreamAppend && visit.may().append;
    View { needs: if appends { Permission::Append } else { PLAN.needs }, ..PLAN }
}

/// The page of a plan, with what was written before and why it came to nothing.
async fn planned(
    app: &App,
    visit: &Visit,
    asked: &Asked,
    given: Given,
    refusal: Option<Fault>,
) -> Result<Markup, Problem> {
    if asked.act.is_written() {
        return written::form(app, visit, asked, given, refusal).await;
    }
    let may = visit.may();
    let is_allowed = may.has(asked.act.about().right);
    let concerns = planned::concerns(app, visit, asked).await;
    let asked = match &concerns {
        Concerns::Many(Ok(many)) => &asked.until(many.before),
        _ => asked,
    };
    let plan = views::Plan {
        act: asked.act,
        target: asked.target.clone(),
        concerns,
        before: asked.before,
        may,
        form: form(app, visit).filter(|_| is_allowed),
        refusal,
        given,
    };
    Ok(views::plan(&plan, visit.as_of))
}

/// What goes with a form of this view; none where the caller came without a session.
fn form(app: &App, visit: &Visit) -> Option<Form> {
    Some(Form { token: visit.form_token(app)?.to_owned(), key: Ulid::new().to_string().to_lowercase() })
}

/// Does what a plan's form asks for, and leads to what came of it. What was refused is a plan again.
pub(super) async fn act(State(app): State<App>, visit: Visit, request: Request) -> Response {
    let sent = async {
        let asked = Asked::read(&visit.uri)?;
        if visit.may().is_read_only {
            return Err(Problem::new(Code::AUTH_ROLE, visit.may().lack(asked.act.about().right)));
        }
        let (parts, body) = request.into_parts();
        let headers = parts.headers.clone();
        let Fields { fields, share } = body::fields(&app, Request::from_parts(parts, body), ACT_FORM_BYTES_MAX).await?;
        let given = Given(fields);
        let token = visit.form_token(&app).unwrap_or_default();
        may_post(&app, &headers, &visit.uri, given.text("form"), token)?;
        edge::may(&visit.caller.0, permission(asked.act.about().right))?;
        Ok::<_, Problem>((asked, given, share))
    };
    // Large ones hold their share of the memory until they are answered.
    let (asked, given, _share) = match sent.await {
        Ok(sent) => sent,
        Err(problem) => {
            // The cause is shown to whoever asked.
            let view = View { needs: Permission::Any, ..PLAN };
            return visit.show(&app, view, async { Err(problem) }).await;
        }
    };
    if asked.act.is_written() {
        return written::sent(&app, &visit, asked, given).await;
    }
    let key = given.text(PRESS).to_owned();
    match done(&app, &visit, asked.clone(), given.clone(), key).await {
        Ok(to) => see_other(&to),
        Err(problem) => again(&app, &visit, asked, given, problem).await,
    }
}

/// Does it, unless this very form was sent before; where what came of it is shown.
async fn done(app: &App, visit: &Visit, asked: Asked, given: Given, key: String) -> Result<String, Problem> {
    let ui = app.ui.as_ref().ok_or_else(|| Problem::internal("there is no page"))?;
    let place = edge::place(app, &visit.caller.0)?;
    if key.is_empty() {
        return Err(Problem::invalid("the form has no key: open the plan anew").at(PRESS));
    }
    let sent = SentForm {
        owner: visit.form_token(app).unwrap_or_default().to_owned(),
        key,
        address: asked.address(),
        sharers: edge::shares(app, &visit.caller.0),
    };
    let (app, caller) = (Arc::clone(app), visit.caller.clone());
    let work = async move {
        let _place = place;
        if asked.act.is_written() {
            return written::made(&app, &caller, &asked, given).await;
        }
        match asked.target.is_many() {
            true => many::begin(&app, &caller, &asked, &given).await,
            false => perform::perform(&app, &caller, &asked, &given).await,
        }
    };
    let done = ui.sent_forms.run(&sent, work).await?;
    Ok(done.address(&sent.key))
}

/// The plan again, as it is now, with why nothing was done.
async fn again(app: &App, visit: &Visit, asked: Asked, given: Given, problem: Problem) -> Response {
    // A set that grew is planned anew with all that is there.
    let asked = if problem.code == Code::OPERATION_SET_GREW { asked.until(None) } else { asked };
    let refusal = visit.fault(&problem);
    let page = planned(app, visit, &asked, given, Some(refusal)).await;
    match page {
        Ok(page) => visit.refused(app, PLAN, &page, problem).await,
        Err(problem) => visit.show(app, PLAN, async { Err(problem) }).await,
    }
}

/// What the address of an answer says.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct AnswerAsked {
    key: String,
}

/// What an act came to.
pub(super) async fn answer(State(app): State<App>, visit: Visit) -> Response {
    // Who may only append reads what came of that, too; an answer is bound to the session that asked.
    let view = View { title: "Done", needs: Permission::Any, ..PLAN };
    let body = async {
        let asked: AnswerAsked = query(&visit.uri)?;
        let owner = visit.form_token(&app).unwrap_or_default();
        let kept = app.ui.as_ref().and_then(|ui| ui.sent_forms.said(owner, &asked.key));
        let Some(answer) = kept else {
            let text = "this answer isn't kept any more: the audit trail has what was done";
            return Err(Problem::new(Code::HTTP_NOT_FOUND, text));
        };
        let undo = answer.act.about().undo.filter(|undo| visit.may().has(undo.about().right));
        let form = undo.and_then(|_| form(&app, &visit));
        Ok::<Markup, Problem>(views::answer(&answer, form.as_ref(), visit.as_of))
    };
    visit.show(&app, view, body).await
}

/// Refuses an act whose id or number wasn't typed as it is.
fn check_typed(asked: &Asked, matched: Option<u64>, given: &Given) -> Result<(), Problem> {
    let Some(expected) = asked.act.typed(&asked.target, matched) else { return Ok(()) };
    let typed = given.text("typed").trim();
    let is_number = matched.is_some() && typed.replace(',', "") == expected;
    if typed == expected || is_number {
        return Ok(());
    }
    let text = format!("type {expected:?} to do it: this can't be taken back, or concerns many");
    Err(Problem::invalid(text).at("typed"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Role;

    fn read(address: &str) -> Result<Asked, u16> {
        Asked::read(&address.parse().unwrap()).map_err(|problem| problem.code.status())
    }

    #[test]
    fn the_roles_that_the_page_names_are_those_that_may() {
        for act in Act::ALL {
            let right = act.about().right;
            for role in Role::ALL {
                let is_named = right.roles().split([',', ' ']).any(|word| word == role.as_str());
                assert_eq!(is_named, role.grants(permission(right)), "{act:?} {role:?}");
            }
            assert_eq!(permission(right).needs_all_tenants(), right.roles().ends_with("all tenants"));
        }
    }

    #[test]
    fn an_address_says_one_some_or_all_as_its_act_takes_them() {
        for address in [
            "/ui/plan?act=dead-replay&id=1",
            "/ui/plan?act=dead-replay&filter=id%3D*",
            "/ui/plan?act=dead-replay&pick=id%3D1",
            "/ui/plan?act=configuration-reload",
            "/ui/plan?act=message-send",
            "/ui/plan?act=stream-append&tenant=acme&stream=task",
            "/ui/plan?act=dead-edit&id=1&kind=inbox",
            "/ui/plan?act=message-send&draft=a",
            "/ui/plan?act=message-send&draft=a&show=form",
        ] {
            assert!(read(address).is_ok(), "{address}");
        }
        for address in [
            "/ui/plan",
            "/ui/plan?act=dead-replay",
            "/ui/plan?act=dead-replay&id=1&filter=id%3D*",
            "/ui/plan?act=dead-purge&id=1",
            "/ui/plan?act=transport-pause&filter=id%3D*",
            "/ui/plan?act=saga-kill&pick=id%3D1",
            "/ui/plan?act=configuration-reload&id=1",
            "/ui/plan?act=message-send&id=1",
            "/ui/plan?act=message-send&show=form",
            "/ui/plan?act=message-send&draft=a&show=raw",
            "/ui/plan?act=dead-replay&id=1&draft=a",
            "/ui/plan?act=dead-edit",
            "/ui/plan?act=dead-edit&filter=id%3D*",
            "/ui/plan?act=dead-replay&filter=id%3D*&before=yesterday",
        ] {
            assert_eq!(read(address).err(), Some(400), "{address}");
        }
        let many = "&pick=id%3D1".repeat(PAGE_ROWS + 1);
        assert_eq!(read(&format!("/ui/plan?act=dead-replay{many}")).err(), Some(400));
    }
}
