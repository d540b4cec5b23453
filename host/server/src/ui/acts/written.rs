//! Acts that make something of what is written: their forms, what is checked before they are done, and the API's own routes that do them.
//!
//! A form that is sent without a draft is kept as one, and leads to the draft's plan; the form of that plan has nothing but the draft's name,
//! which is the key of its press. A plan gives what is made its id, so that it is made once: a draft is worked on once, and the store knows
//! the id.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::response::Response;
use ulid::Ulid;
use waybill_api::dead_letters::DeadLetterView;
use waybill_api::events::AppendBody;
use waybill_api::instant::Instant;
use waybill_core::code::Code;
use waybill_core::ids::Tenant;
use waybill_core::port::dead::{DeadId, DeadKind, EVENTS_STAY, NOTHING_TO_EDIT};
use waybill_core::port::missing::Missing;
use waybill_core::port::service::ServiceError;
use waybill_core::streams::access::StreamRight;
use waybill_core::streams::name::{StreamKey, StreamName};
use waybill_page::Markup;
use waybill_page::acts::{Act, FORM, Target};
use waybill_page::address;
use waybill_page::parts::Fault;
use waybill_page::views::{self, Answer, Given, Original, Write};

use super::super::visit::Visit;
use super::drafts::members;
use super::sent_forms::Done;
use super::{Asked, again, bodies, done, inner_address, keyed, permission, request, see_other, view};
use crate::app::App;
use crate::caller::{Caller, now};
use crate::edge;
use crate::json::message::MessageFields;
use crate::json::saga_requests::StartSagaJson;
use crate::json::{decode, post};
use crate::limits::{DRAFT_TIME, NOTE_BYTES_MAX, PAGE_ROWS};
use crate::problem::Problem;
use crate::routes::{dead_letters, messages, sagas, streams};

/// The form, with what was written before and why it came to nothing.
pub(super) async fn form(
    app: &App,
    visit: &Visit,
    asked: &Asked,
    given: Given,
    refusal: Option<Fault>,
) -> Result<Markup, Problem> {
    let original = match asked.act {
        Act::DeadEdit => Some(original(&letter(app, &visit.caller, &asked.target).await?)?),
        _ => None,
    };
    let offered = visit.part(offered(app, &visit.caller, asked)).await.unwrap_or_default();
    let shown = Write { offered, refusal, ..blank(app, visit, asked, given, original) };
    Ok(views::write(&shown))
}

fn blank(app: &App, visit: &Visit, asked: &Asked, given: Given, original: Option<Original>) -> Write {
    let may = visit.may();
    let is_allowed = may.has(asked.act.about().right);
    Write {
        act: asked.act,
        target: asked.target.clone(),
        given,
        original,
        offered: Vec::new(),
        plan: None,
        may,
        form: super::form(app, visit).filter(|_| is_allowed),
        refusal: None,
    }
}

/// What a form that was sent leads to: that of an act to its plan, that of a plan to what came of it.
pub(super) async fn sent(app: &App, visit: &Visit, asked: Asked, mut given: Given) -> Response {
    if !asked.target.draft.is_empty() {
        return press(app, visit, asked).await;
    }
    name(asked.act, &mut given);
    let kept = async {
        checked(app, visit, &asked, &mut given).await?;
        keep(app, visit, &asked, &given)
    };
    let kept = kept.await;
    match kept {
        Ok(plan) => see_other(&plan),
        Err(problem) => again(app, visit, asked, given, problem).await,
    }
}

/// Keeps what is written; the answer is the address of its plan.
fn keep(app: &App, visit: &Visit, asked: &Asked, given: &Given) -> Result<String, Problem> {
    let ui = app.ui.as_ref().ok_or_else(|| Problem::internal("there is no page"))?;
    let (session, sharers) = (session(app, visit), edge::shares(app, &visit.caller.0));
    let draft = ui.drafts.keep(session, sharers, asked.address(), members(asked.act, given));
    Ok(Target { draft, ..asked.target.clone() }.address(asked.act))
}

fn session<'v>(app: &'v App, visit: &'v Visit) -> &'v str {
    visit.form_token(app).unwrap_or_default()
}

/// A draft, as it is.
enum Draft {
    Kept(Given),
    /// It is done, and shown there.
    Done(String),
}

impl Draft {
    /// None = it isn't kept any more, or never was in this session.
    fn of(app: &App, visit: &Visit, asked: &Asked, written: &Asked) -> Option<Self> {
        let (ui, session, name) = (app.ui.as_ref()?, session(app, visit), &asked.target.draft);
        if let Some(done) = ui.sent_forms.came_to(session, name) {
            return Some(Self::Done(done.address(name)));
        }
        let given = ui.drafts.of(session, name, &written.address())?;
        Some(Self::Kept(Given::clone(&given)))
    }
}

/// The plan of a draft, or its form where it is written on.
pub(super) async fn kept(app: &App, visit: &Visit, asked: Asked) -> Response {
    let (shown, written) = (view(visit, &asked), asked.undrafted());
    let mut given = match Draft::of(app, visit, &asked, &written) {
        Some(Draft::Kept(given)) => given,
        Some(Draft::Done(to)) => {
            return visit.show(app, shown, async { Ok(views::carried_out(asked.act, &to)) }).await;
        }
        None => return gone(app, visit, &written).await,
    };
    if asked.target.show == FORM {
        return visit.show(app, shown, form(app, visit, &written, given, None)).await;
    }
    let found = checked(app, visit, &asked, &mut given).await;
    match found {
        Ok((known, original)) => {
            let plan = Write { plan: Some(known), ..blank(app, visit, &asked, given, original) };
            visit.show(app, shown, async { Ok(views::write(&plan)) }).await
        }
        Err(problem) => again(app, visit, written, given, problem).await,
    }
}

/// Does what a draft says, once however often it is pressed. What was refused is a form again, with what is written.
async fn press(app: &App, visit: &Visit, asked: Asked) -> Response {
    let written = asked.undrafted();
    let given = match Draft::of(app, visit, &asked, &written) {
        Some(Draft::Kept(given)) => given,
        Some(Draft::Done(to)) => return see_other(&to),
        None => return gone(app, visit, &written).await,
    };
    let name = asked.target.draft;
    match done(app, visit, written.clone(), given.clone(), name.clone()).await {
        Ok(to) => {
            if let Some(ui) = &app.ui {
                ui.drafts.forget(session(app, visit), &name);
            }
            see_other(&to)
        }
        Err(problem) => again(app, visit, written, given, problem).await,
    }
}

/// Says that nothing is kept, and where it is written anew.
async fn gone(app: &App, visit: &Visit, written: &Asked) -> Response {
    let text = format!(
        "what is written is kept for {} minutes, while the host runs and you are signed in, and until it is done: the audit trail \
         has whether it was",
        DRAFT_TIME.as_secs() / 60
    );
    let problem = Problem::new(Code::HTTP_NOT_FOUND, text);
    let page = views::not_kept(written.act, &written.target, &visit.fault(&problem));
    visit.refused(app, view(visit, written), &page, problem).await
}

/// What is known of it before it is done, or why it can't be.
async fn checked(
    app: &App,
    visit: &Visit,
    asked: &Asked,
    given: &mut Given,
) -> Result<(Known, Option<Original>), Problem> {
    edge::may(&visit.caller.0, permission(asked.act.about().right))?;
    let _place = edge::place(app, &visit.caller.0)?;
    check(app, &visit.caller, asked, given).await
}

/// Gives what is made an id where none is written.
fn name(act: Act, given: &mut Given) {
    let entry = act.id_entry();
    if given.text(entry).trim().is_empty() {
        given.set(entry, Ulid::new().to_string());
    }
}

type Known = Vec<(&'static str, String)>;

/// Checks what can be checked before it is done. What the host would choose when it is done is chosen here.
async fn check(
    app: &App,
    caller: &Caller,
    asked: &Asked,
    given: &mut Given,
) -> Result<(Known, Option<Original>), Problem> {
    match asked.act {
        Act::DeadEdit => {
            let letter = letter(app, caller, &asked.target).await?;
            let original = original(&letter)?;
            let reason = given.text("reason");
            if reason.len() > NOTE_BYTES_MAX {
                let text = format!("the reason has {} bytes, and {NOTE_BYTES_MAX} may be", reason.len());
                return Err(Problem::invalid(text).at("reason"));
            }
            let text = bodies::edit(given, &original, &letter)?;
            let fields: MessageFields = decode::value(&text)?;
            match letter {
                DeadLetterView::Message(message) => {
                    let copy = fields.over(*message).map_err(Problem::invalid)?;
                    // It happened when the original did, by the clock of whoever wrote that.
                    let at = copy.occurred_at.map_or(now(), |at| at.max(now()));
                    copy.check(at, usize::MAX)?;
                }
                DeadLetterView::Inbox(inbox) => drop(fields.over_received(*inbox).map_err(Problem::invalid)?),
                DeadLetterView::Saga(_) | DeadLetterView::Event(_) => {}
            }
            Ok((Vec::new(), Some(original)))
        }
        Act::SagaStart => {
            let start: StartSagaJson = decode::value(&bodies::saga(given)?)?;
            let tenant = caller.own(start.tenant.as_deref())?;
            let start = start.into_start(tenant.clone(), caller.name(), None)?;
            let found = sagas::service(app)?.definition(&start.definition, start.version).await?;
            given.set("version", found.version.to_string());
            let known = format!("{} {}", found.name, found.version);
            Ok((vec![("Definition", known), ("Of tenant", tenant.to_string())], None))
        }
        Act::StreamAppend => {
            let (body, stream) = event(caller, given)?;
            let tenant = stream.tenant.to_string();
            body.into_request(stream).map_err(ServiceError::from)?;
            Ok((vec![("Of tenant", tenant)], None))
        }
        _ => {
            let mut messages = post::json(&bodies::message(given)?)?;
            caller.admit(&mut messages, None)?;
            let mut tenant = Tenant::UNNAMED.to_owned();
            for message in messages {
                tenant = message.tenant.clone().unwrap_or(tenant);
                message.check(now(), usize::MAX)?;
            }
            Ok((vec![("Of tenant", tenant)], None))
        }
    }
}

/// An event that is to be appended, and its stream.
fn event(caller: &Caller, given: &Given) -> Result<(AppendBody, StreamKey), Problem> {
    let name = streams::named("stream", given.text("stream").trim())?;
    caller.0.admit(StreamRight::Append, &name)?;
    let body: AppendBody = decode::value(&bodies::event(given)?)?;
    let tenant = caller.own(body.tenant.as_deref())?;
    Ok((body, StreamKey { tenant, name }))
}

/// Makes it, and says where it is shown.
pub(super) async fn made(app: &App, caller: &Caller, asked: &Asked, mut given: Given) -> Result<Done, Problem> {
    name(asked.act, &mut given);
    let (state, by) = (State(Arc::clone(app)), caller.clone());
    let (tenant, id) = (given.text("tenant").trim(), given.text(asked.act.id_entry()).trim());
    match asked.act {
        Act::DeadEdit => {
            let Target { tenant, id: of, .. } = &asked.target;
            let letter = letter(app, caller, &asked.target).await?;
            let text = bodies::edit(&given, &original(&letter)?, &letter)?;
            let edit = because(request(caller, &asked.target, text)?, &asked.target, given.text("reason"))?;
            dead_letters::edit(state, by, Path(of.clone()), edit).await?;
            Ok(Done::Made(match letter {
                DeadLetterView::Inbox(inbox) => {
                    let query = [("tenant", tenant.as_str()), ("consumer", &*inbox.consumer), ("id", id)];
                    address::with(address::INBOX, &query)
                }
                _ => address::message(tenant, id),
            }))
        }
        Act::SagaStart => {
            sagas::start(state, by, keyed(app, request(caller, &Target::default(), bodies::saga(&given)?)?)?).await?;
            Ok(Done::Made(address::saga(tenant, id)))
        }
        Act::StreamAppend => {
            let (_, StreamKey { name, .. }) = event(caller, &given)?;
            let append = request(caller, &Target::default(), bodies::event(&given)?)?;
            streams::append(state, by, Path(name.to_string()), append).await?;
            Ok(appended(caller, tenant, &name))
        }
        _ => {
            messages::enqueue(state, by, keyed(app, request(caller, &Target::default(), bodies::message(&given)?)?)?)
                .await?;
            Ok(Done::Made(address::message(tenant, id)))
        }
    }
}

/// The stream, for those who may read it.
fn appended(caller: &Caller, tenant: &str, name: &StreamName) -> Done {
    if caller.0.has(StreamRight::Read, name) {
        return Done::Made(address::stream(tenant, name.as_str()));
    }
    let target = Target::one(tenant, name.as_str());
    let at = Instant(now());
    Done::Said(Arc::new(Answer { act: Act::StreamAppend, target, at, each: Vec::new(), is_unchanged: false }))
}

/// A request with a reason in its address.
fn because(mut request: Request, target: &Target, reason: &str) -> Result<Request, Problem> {
    *request.uri_mut() = inner_address(&[("tenant", &target.tenant), ("kind", &target.kind), ("reason", reason)])?;
    Ok(request)
}

/// The dead letter that is edited.
async fn letter(app: &App, caller: &Caller, target: &Target) -> Result<DeadLetterView, Problem> {
    let named = Some(target.tenant.as_str()).filter(|name| !name.is_empty());
    let tenant = caller.tenant_of(named, Missing::DeadLetter, &target.id)?;
    let kind = DeadKind::ALL.into_iter().find(|kind| kind.word() == target.kind);
    let found = app.service.dead_letter(&DeadId { kind, ..DeadId::new(&tenant, &target.id) }).await;
    found.map_err(|error| caller.missed(error, named, &tenant))
}

fn original(letter: &DeadLetterView) -> Result<Original, Problem> {
    match letter {
        DeadLetterView::Message(message) => Ok(Original::of_message(message)),
        DeadLetterView::Inbox(inbox) => Ok(Original::of_received(inbox)),
        DeadLetterView::Saga(_) => Err(Problem::new(Code::DEAD_KIND, NOTHING_TO_EDIT)),
        DeadLetterView::Event(_) => Err(Problem::new(Code::DEAD_KIND, EVENTS_STAY)),
    }
}

/// Names that may be meant: of definitions, of streams of the tenant.
async fn offered(app: &App, caller: &Caller, asked: &Asked) -> Result<Vec<String>, Problem> {
    match asked.act {
        Act::SagaStart => {
            let found = sagas::service(app)?.definitions(None, None, PAGE_ROWS).await?;
            let names: BTreeSet<String> =
                found.items.into_iter().map(|definition| definition.reference.name.to_string()).collect();
            Ok(names.into_iter().collect())
        }
        Act::StreamAppend => {
            let named = Some(asked.target.tenant.as_str()).filter(|name| !name.is_empty());
            let found = streams::service(app)?.streams(&caller.own(named)?, "", None, PAGE_ROWS).await?;
            let names = found.items.into_iter().map(|found| found.stream.name);
            let names = names.filter(|name| caller.0.has(StreamRight::Append, name));
            Ok(names.map(|name| name.to_string()).collect())
        }
        _ => Ok(Vec::new()),
    }
}
