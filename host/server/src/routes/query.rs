//! Query strings.

use axum::extract::Query;
use http::Uri;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use utoipa::IntoParams;
use waybill_core::audit::AuditQuery;
use waybill_core::glob::Glob;
use waybill_core::ids::Tenant;
use waybill_core::outbox::filter::{INSTANTS, instant};
use waybill_core::port::dead::DeadKind;
use waybill_core::port::service::ServiceError;
use waybill_core::time::UnixMillis;

use crate::cursor;
use crate::json::decode;
use crate::limits::{PAGE_DEFAULT, PAGE_MAX};
use crate::problem::Problem;

/// Query of routes about one object of a tenant.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct TenantQuery {
    /// Tenant; the credential's only one, else `default`, if absent.
    pub tenant: Option<String>,
}

/// Query of routes about one dead letter.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DeadQuery {
    /// Tenant; the credential's only one, else `default`, if absent.
    pub tenant: Option<String>,
    /// Kind; whichever there is if absent. Needed where a message and a saga have the same id. A received message that is named by
    /// its sender's id needs it too.
    pub kind: Option<DeadKind>,
}

/// Query of an edit, whose body is the fields of a message.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EditQuery {
    /// Tenant; the credential's only one, else `default`, if absent.
    pub tenant: Option<String>,
    /// Kind; whichever there is if absent. Needed where a message and a saga have the same id. A received message that is named by
    /// its sender's id needs it too.
    pub kind: Option<DeadKind>,
    /// Why, for the audit; up to 2,000 bytes.
    #[serde(default)]
    pub reason: String,
}

/// Which items of a list.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Only this tenant's; a credential of several names one, here or in `filter`.
    pub tenant: Option<String>,
    /// Conditions that all hold: `tenant=acme topic=bus:orders.* key=42 state=pending waits=retry code=NATS.* generation=3 replayed>0
    /// age>1h since=2026-12-01T14:00:00Z until=2026-12-02 correlation_id=c-1`; a value with spaces stands in quotes. Of dead letters also
    /// `kind=message`, `kind=saga`, `kind=inbox`, `kind=event`, of stuck sagas `definition=order step=charge`, of received messages
    /// `consumer=ship source=shop context=sales`, and of events `relay=bus`.
    #[serde(default)]
    pub filter: String,
    /// `next_cursor` of the page before.
    #[serde(alias = "resume_token")]
    pub cursor: Option<String>,
    /// Most items, 1 to 1,000; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<usize>,
    /// Also count what matches (dead letters only).
    #[serde(default)]
    pub count: bool,
}

/// Query of the route that shows one key or lists them.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct IdempotencyQuery {
    /// Shows this key alone; a list of keys if absent.
    pub key: Option<String>,
    /// Whose; of one key the credential's only tenant, else `default`, if absent.
    pub tenant: Option<String>,
    /// Conditions that all hold: `tenant=acme key=order-* state=in_flight age>1h`.
    #[serde(default)]
    pub filter: String,
    /// From `next_cursor` of the page before.
    pub cursor: Option<String>,
    /// Most items, 1 to 1,000; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<usize>,
}

/// Which rows in quarantine.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct QuarantineQuery {
    /// Only rows of this table.
    pub table: Option<String>,
    /// From `next_cursor` of the page before.
    pub cursor: Option<String>,
    /// Most items, 1 to 1,000; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<usize>,
}

/// Which stored messages.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct InboxQuery {
    /// Only this tenant's; a credential of several names one, here or in `filter`.
    pub tenant: Option<String>,
    /// Conditions that all hold: `consumer=ship context=sales code=HTTP.* waits=retry age>1h`.
    #[serde(default)]
    pub filter: String,
    /// From `next_cursor` of the page before.
    pub cursor: Option<String>,
    /// Most items, 1 to 1,000; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<usize>,
    /// The latest received first. Without it messages come by their places, each shard's oldest first.
    #[serde(default)]
    pub newest: bool,
}

/// How much of a list without conditions.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageQuery {
    /// From `next_cursor` of the page before.
    pub cursor: Option<String>,
    /// Most items, 1 to 1,000; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<usize>,
}

/// Which ranges to list.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RangesQuery {
    /// Only this tenant's; a credential of several has to name one.
    pub tenant: Option<String>,
    /// From `next_cursor` of the page before.
    pub cursor: Option<String>,
    /// Most items, 1 to 1,000; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<usize>,
}

/// Which dead letters to group.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct FilterQuery {
    /// Only this tenant's; a credential of several names one, here or in `filter`.
    pub tenant: Option<String>,
    /// Conditions that all hold.
    #[serde(default)]
    pub filter: String,
}

/// Which lines of the audit trail. What is given as parameters has to hold beside the filter.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AuditParameters {
    /// Conditions that all hold: `actor=ann kind=Message* object=order-17 since=2026-12-01T14:00:00Z until=2026-12-02 age<1h`.
    #[serde(default)]
    pub filter: String,
    /// What happened; `*` stands for anything: `TxDead`, `Saga*`. Not beside `kind=` in the filter.
    pub kind: Option<String>,
    /// What it happened to: the id of a message, a received message, a saga or an operation, or a name, as it is. Not beside `object=` in the filter.
    pub id: Option<String>,
    /// Whose received message or dead letter; `*` stands for anything. Not beside `consumer=` in the filter.
    pub consumer: Option<String>,
    /// Only this tenant's; a credential of several has to name one.
    pub tenant: Option<String>,
    /// Not before this instant, in RFC 3339 with its offset, or the beginning of this day (UTC); from 1970 on.
    pub since: Option<String>,
    /// Before this instant, in RFC 3339 with its offset, or the beginning of this day (UTC); from 1970 on.
    pub until: Option<String>,
    /// From `next_cursor` of the page before.
    pub cursor: Option<String>,
    /// Most items, 1 to 1,000; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<usize>,
}

impl AuditParameters {
    /// What they ask of the trail for a tenant; none = for all.
    pub fn wanted(&self, tenant: Option<Tenant>, now: UnixMillis) -> Result<AuditQuery, Problem> {
        let mut wanted = AuditQuery::parse(&self.filter, now).map_err(ServiceError::Filter)?;
        once(&mut wanted.kind, self.kind.as_deref().map(Glob::new), "kind", "kind")?;
        once(&mut wanted.object, self.id.as_deref().map(Glob::literal), "id", "object")?;
        once(&mut wanted.consumer, self.consumer.as_deref().map(Glob::new), "consumer", "consumer")?;
        // Of two the narrower one holds; nothing is before none.
        wanted.since = wanted.since.max(instant_of(self.since.as_deref(), "since")?);
        let until = instant_of(self.until.as_deref(), "until")?;
        wanted.until = wanted.until.into_iter().chain(until).min();
        wanted.tenant = tenant;
        Ok(wanted)
    }
}

/// Takes up a condition that the filter hasn't.
fn once(slot: &mut Option<Glob>, given: Option<Glob>, parameter: &str, field: &str) -> Result<(), Problem> {
    let Some(given) = given else { return Ok(()) };
    if given.exact() == Some("") {
        return Err(Problem::invalid(format!("query parameter {parameter}: it needs a value")).at(parameter));
    }
    if slot.replace(given).is_some() {
        let twice = format!("query parameter {parameter}: {field}= is in the filter, too; say it once");
        return Err(Problem::invalid(twice).at(parameter));
    }
    Ok(())
}

/// Reads an instant as filters do.
pub(crate) fn instant_of(text: Option<&str>, parameter: &str) -> Result<Option<UnixMillis>, Problem> {
    let wrong = || Problem::invalid(format!("query parameter {parameter}: it takes {INSTANTS}")).at(parameter);
    text.map(|text| instant(text).ok_or_else(wrong)).transpose()
}

/// The latest of something.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct TailQuery {
    /// Only this tenant's; a credential of several has to name one.
    pub tenant: Option<String>,
    /// Most items, 1 to 1,000; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<usize>,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct StreamsQuery {
    /// Whose; the credential's only tenant, else `default`, if absent.
    pub tenant: Option<String>,
    /// Only those whose names begin so. Sagas' histories are read by name.
    #[serde(default)]
    pub prefix: String,
    /// From `next_cursor` of the page before.
    pub cursor: Option<String>,
    /// Most items, 1 to 1,000; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<usize>,
}

/// Which events of a stream.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct StreamEventsQuery {
    /// Whose stream; the credential's only tenant, else `default`, if absent.
    pub tenant: Option<String>,
    /// Those behind this number, or behind `next_after` of the page before; from the earliest that is kept if absent.
    pub after: Option<String>,
    /// Most items, 1 to 1,000; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<usize>,
}

/// Which events of many streams: of those whose names begin with `prefix`, or of a resource.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventsQuery {
    /// Whose; the credential's only tenant, else `default`, if absent.
    pub tenant: Option<String>,
    /// Of all streams whose names begin so. Sagas' histories are read by name. Either this is given, or `resource_type`.
    pub prefix: Option<String>,
    /// Of resources of this type, in whatever stream. Not beside `prefix`.
    pub resource_type: Option<String>,
    /// Of this one alone; only with `resource_type`.
    pub resource_id: Option<String>,
    /// From `next_cursor` of the page before.
    pub cursor: Option<String>,
    /// Most events looked at for one page, 1 to 1,000; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<usize>,
}

/// What to subscribe to.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SubscribeQuery {
    /// `stream:NAME[,NAME...]` (at most 64), `prefix:BEGINNING`, `node:UUID` or `type:TYPE[/BEGINNING-OF-ID]`.
    pub selector: String,
    /// The `id:` of the last event that was received, or `latest`; from the earliest that is kept if absent. A `Last-Event-ID` header
    /// wins.
    pub cursor: Option<String>,
    /// Whose; the credential's only tenant, else `default`, if absent.
    pub tenant: Option<String>,
    /// In place of a token: from `POST /v1/subscribe/tickets`, for this selector.
    #[expect(dead_code, reason = "the edge has used it; here it is only no unknown parameter")]
    pub ticket: Option<String>,
}

/// An act on a stream without a body.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DeleteStreamQuery {
    /// Whose stream; the credential's only tenant, else `default`, if absent.
    pub tenant: Option<String>,
    /// Tells what would go, and takes nothing.
    #[serde(default)]
    pub dry_run: bool,
    /// Why, for the audit; up to 2,000 bytes.
    #[serde(default)]
    pub reason: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoQuery {}

/// Reads the query string.
pub(crate) fn query<T: DeserializeOwned>(uri: &Uri) -> Result<T, Problem> {
    Query::<T>::try_from_uri(uri).map(|query| query.0).map_err(|rejection| {
        let text = rejection.body_text();
        let cause = text.rsplit_once("query string: ").map_or(text.as_str(), |(_, cause)| cause);
        match cause.split_once(": ") {
            // The reader names the parameter first: `limit: invalid digit found in string`.
            Some((parameter, cause)) if !parameter.contains(' ') => {
                Problem::invalid(format!("query parameter {parameter}: {}", decode::remedy(cause))).at(parameter)
            }
            _ => Problem::invalid(format!("query string: {}", decode::remedy(cause))),
        }
    })
}

/// The size of a page.
pub(crate) fn page(limit: Option<usize>) -> Result<usize, Problem> {
    match limit {
        None => Ok(PAGE_DEFAULT),
        Some(limit) if (1..=PAGE_MAX).contains(&limit) => Ok(limit),
        Some(limit) => {
            Err(Problem::invalid(format!("limit is {limit}: take 1 to {PAGE_MAX}, and go on with next_cursor"))
                .at("limit"))
        }
    }
}

/// A list's cursors, bound to route, tenant and filter.
pub(crate) struct Cursors<'a>([&'a str; 3]);

impl<'a> Cursors<'a> {
    pub fn of(route: &'static str, tenant: Option<&'a str>, filter: &'a str) -> Self {
        Self([route, tenant.unwrap_or("*"), filter])
    }

    /// The store's cursor in the caller's.
    pub fn read(&self, cursor: Option<&str>) -> Result<Option<String>, Problem> {
        cursor.map(|cursor| cursor::unwrap(&self.0, cursor)).transpose()
    }

    /// The caller's cursor around the store's.
    pub fn write(&self, inner: Option<String>) -> Option<String> {
        inner.map(|inner| cursor::wrap(&self.0, &inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_and_unknown_ones_refused() {
        let read = |text: &'static str| query::<ListQuery>(&Uri::from_static(text));
        let list = read("/v1/messages?filter=key%3Da%20b&limit=5&resume_token=x&tenant=t").unwrap();
        assert_eq!((list.filter.as_str(), list.limit, list.cursor.as_deref()), ("key=a b", Some(5), Some("x")));
        let problem = read("/v1/messages?limt=5").unwrap_err();
        assert!(problem.detail.contains("did you mean \"limit\""), "{}", problem.detail);
        let problem = read("/v1/messages?limit=many").unwrap_err();
        assert_eq!(problem.code.status(), 400);
        assert!(problem.detail.contains("limit"), "{}", problem.detail);
        assert!(read("/v1/messages?limit=1&limit=2").is_err());
    }

    #[test]
    fn a_page_is_bounded() {
        assert_eq!(page(None), Ok(PAGE_DEFAULT));
        assert_eq!(page(Some(1000)), Ok(1000));
        for wrong in [0, 1001, usize::MAX] {
            assert_eq!(page(Some(wrong)).unwrap_err().at.path.as_deref(), Some("limit"));
        }
    }
}
