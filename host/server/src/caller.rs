//! The caller of a request, and which tenants it concerns.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::HeaderMap;
use http::request::Parts;
use waybill_core::annotation::Annotation;
use waybill_core::code::Code;
use waybill_core::ids::Tenant;
use waybill_core::inbox::filter::StoredFilter;
use waybill_core::new_message::{NewMessage, is_traceparent};
use waybill_core::outbox::filter::Filter;
use waybill_core::port::missing::Missing;
use waybill_core::port::service::ServiceError;
use waybill_core::saga::error::SagaError;
use waybill_core::saga::filter::SagaFilter;
use waybill_core::time::UnixMillis;

use crate::auth::{Principal, Tenants};
use crate::limits::FILTER_BYTES_MAX;
use crate::problem::Problem;

/// The caller; the edge puts it into the request after it checked the route's permission.
#[derive(Clone)]
pub(crate) struct Caller(pub Arc<Principal>);

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parts.extensions.get::<Self>().cloned().ok_or_else(|| Problem::internal("a route isn't behind the edge"))
    }
}

impl Caller {
    /// Name for the audit.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Whether what concerns all tenants is shown to it in full: what others configured, and what became of it.
    pub fn sees_all(&self) -> bool {
        self.0.tenants == Tenants::All
    }

    /// The tenant of one object. An object of another tenant doesn't exist for the caller (404, not 403).
    pub fn tenant_of(&self, asked: Option<&str>, what: Missing, id: &str) -> Result<Tenant, Problem> {
        let tenant = match (asked, self.only()) {
            (Some(name), _) => Tenant::new(name).map_err(|error| Problem::from(error).at("tenant"))?,
            (None, Some(only)) => only.clone(),
            (None, None) if self.0.tenants.include(&Tenant::unnamed()) => Tenant::unnamed(),
            (None, None) => return Err(self.which_tenant()),
        };
        if self.0.tenants.include(&tenant) { Ok(tenant) } else { Err(Problem::not_found(what, id)) }
    }

    /// Says where was looked when the caller named no tenant.
    pub fn missed(&self, error: ServiceError, asked: Option<&str>, tenant: &Tenant) -> Problem {
        let is_missing = matches!(error, ServiceError::NotFound { .. });
        let mut problem = Problem::from(error);
        if asked.is_none() && is_missing {
            problem.detail.push_str(&elsewhere(tenant));
        }
        problem
    }

    /// The tenant that a list or a bulk act is confined to; none = all.
    pub fn scope(&self, asked: Option<&str>, filter: &str) -> Result<Option<Tenant>, Problem> {
        bounded(filter)?;
        let parsed = Filter::parse(filter, now()).map_err(|error| Problem::invalid(error.to_string()).at("filter"))?;
        self.confined(asked, parsed.tenant.as_ref().and_then(|glob| glob.exact()))
    }

    /// A filter of sagas, confined to what the caller may see; none = it names a tenant that isn't within that, so nothing
    /// matches. With it the tenant it is confined to.
    pub fn sagas(&self, asked: Option<&str>, filter: &str) -> Result<(Option<SagaFilter>, Option<Tenant>), Problem> {
        bounded(filter)?;
        let mut parsed = SagaFilter::parse(filter, now()).map_err(SagaError::Filter)?;
        let tenant = self.confined(asked, parsed.tenant.as_ref().and_then(|glob| glob.exact()))?;
        let within = tenant.as_ref().is_none_or(|tenant| parsed.confine(tenant.as_str()));
        Ok((within.then_some(parsed), tenant))
    }

    /// A filter of stored messages, confined to what the caller may see. None and the tenant: as of [`Self::sagas`].
    pub fn stored(&self, asked: Option<&str>, filter: &str) -> Result<(Option<StoredFilter>, Option<Tenant>), Problem> {
        bounded(filter)?;
        let mut parsed = StoredFilter::parse(filter, now()).map_err(ServiceError::Filter)?;
        let tenant = self.confined(asked, parsed.tenant.as_ref().and_then(|glob| glob.exact()))?;
        let within = tenant.as_ref().is_none_or(|tenant| parsed.confine(tenant.as_str()));
        Ok((within.then_some(parsed), tenant))
    }

    /// The only tenant of the caller, if it has no others: what names none is this one's.
    fn only(&self) -> Option<&Tenant> {
        match &self.0.tenants {
            Tenants::Only(list) => match list.as_slice() {
                [only] => Some(only),
                _ => None,
            },
            Tenants::All => None,
        }
    }

    /// The tenant that a saga is started for: as asked, else the caller's only one, else `default`.
    pub fn own(&self, asked: Option<&str>) -> Result<Tenant, Problem> {
        let tenant = match asked {
            Some(name) => Tenant::new(name).map_err(|error| Problem::from(error).at("tenant"))?,
            None => self.only().cloned().unwrap_or_else(Tenant::unnamed),
        };
        if self.0.tenants.include(&tenant) { Ok(tenant) } else { Err(self.not_yours(tenant.as_str())) }
    }

    /// The same for a list with a filter of its own; `named` is the tenant that it names.
    pub fn confined(&self, asked: Option<&str>, named: Option<&str>) -> Result<Option<Tenant>, Problem> {
        match (asked, &self.0.tenants) {
            (Some(name), tenants) => {
                let tenant = Tenant::new(name).map_err(|error| Problem::from(error).at("tenant"))?;
                if tenants.include(&tenant) { Ok(Some(tenant)) } else { Err(self.not_yours(name)) }
            }
            (None, Tenants::All) => Ok(None),
            (None, Tenants::Only(list)) => match (list.as_slice(), named) {
                ([only], _) => Ok(Some(only.clone())),
                (list, Some(name)) => match list.iter().find(|tenant| tenant.as_str() == name) {
                    Some(tenant) => Ok(Some(tenant.clone())),
                    None => Err(self.not_yours(name)),
                },
                (_, None) => Err(self.which_tenant()),
            },
        }
    }

    /// Checks that all messages are for tenants of the caller, whose only one those get that name none, and adds the request's trace
    /// context.
    pub fn admit(&self, messages: &mut [NewMessage], headers_trace: Option<&str>) -> Result<(), Problem> {
        let only = self.only();
        for (index, message) in messages.iter_mut().enumerate() {
            if message.tenant.is_none() {
                message.tenant = only.map(Tenant::to_string);
            }
            if let Tenants::Only(list) = &self.0.tenants {
                let name = message.tenant.as_deref().unwrap_or(Tenant::UNNAMED);
                if !list.iter().any(|tenant| tenant.as_str() == name) {
                    let mut problem = self.not_yours(name);
                    problem.at.index = Some(index);
                    return Err(problem);
                }
            }
            if message.annotations.get(Annotation::Traceparent).is_none() {
                message.annotations.set(Annotation::Traceparent, headers_trace);
            }
        }
        Ok(())
    }

    /// The tenants that an act concerns: the one asked for, else all of the caller; none = all there are.
    pub fn tenants(&self, asked: Option<&str>) -> Result<Option<Vec<Tenant>>, Problem> {
        match (asked, &self.0.tenants) {
            (Some(_), _) => Ok(self.scope(asked, "")?.map(|tenant| vec![tenant])),
            (None, Tenants::All) => Ok(None),
            (None, Tenants::Only(list)) => Ok(Some(list.clone())),
        }
    }

    /// Whether it may see something of a tenant; none = of all of them.
    pub fn sees(&self, tenant: Option<&str>) -> bool {
        match (&self.0.tenants, tenant) {
            (Tenants::All, _) => true,
            (Tenants::Only(list), Some(name)) => list.iter().any(|tenant| tenant.as_str() == name),
            (Tenants::Only(_), None) => false,
        }
    }

    fn not_yours(&self, tenant: &str) -> Problem {
        Problem::new(
            Code::AUTH_TENANT,
            format!("the token isn't for tenant {tenant:?}: name one of its tenants ({})", self.tenants_text()),
        )
        .at("tenant")
    }

    fn which_tenant(&self) -> Problem {
        Problem::invalid(format!("name one of the token's tenants ({}) with ?tenant=", self.tenants_text()))
            .at("tenant")
    }

    fn tenants_text(&self) -> String {
        match &self.0.tenants {
            Tenants::All => "all".to_owned(),
            Tenants::Only(list) => list.iter().map(Tenant::as_str).collect::<Vec<_>>().join(", "),
        }
    }
}

/// Where was looked, when the caller named no tenant.
pub(crate) fn elsewhere(tenant: &Tenant) -> String {
    format!(" in tenant {:?}: name another with ?tenant=", tenant.as_str())
}

/// Refuses a filter that is too long to be read.
pub(crate) fn bounded(filter: &str) -> Result<(), Problem> {
    if filter.len() <= FILTER_BYTES_MAX {
        return Ok(());
    }
    let text = format!("the filter has {} bytes, at most {FILTER_BYTES_MAX} are taken", filter.len());
    Err(Problem::invalid(text).at("filter"))
}

/// The request's trace context, if it has a usable one. The W3C rule is to ignore any other.
pub(crate) fn traceparent(headers: &HeaderMap) -> Option<String> {
    let text = headers.get("traceparent")?.to_str().ok()?;
    is_traceparent(text).then(|| text.to_owned())
}

/// The wall clock, for ages in filters.
pub(crate) fn now() -> UnixMillis {
    UnixMillis(u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Role;

    fn caller(tenants: &[&str]) -> Caller {
        let tenants = match tenants {
            ["*"] => Tenants::All,
            list => Tenants::Only(list.iter().map(|name| Tenant::new(name).unwrap()).collect()),
        };
        Caller(Arc::new(Principal {
            name: "t".into(),
            tenants,
            roles: vec![Role::Admin],
            streams: Vec::new(),
            token: None,
        }))
    }

    #[test]
    fn an_object_of_another_tenant_does_not_exist() {
        let code = |caller: Caller, asked| {
            caller.tenant_of(asked, Missing::Message, "1").map(|t| t.to_string()).map_err(|p| p.code.status())
        };
        assert_eq!(code(caller(&["a"]), None), Ok("a".into()));
        assert_eq!(code(caller(&["a"]), Some("b")), Err(404));
        assert_eq!(code(caller(&["a", "b"]), None), Err(400));
        assert_eq!(code(caller(&["a", "default"]), None), Ok("default".into()));
        assert_eq!(code(caller(&["*"]), None), Ok("default".into()));
        assert_eq!(code(caller(&["*"]), Some("")), Err(400));
    }

    #[test]
    fn a_message_without_a_tenant_is_of_the_callers_only_one() {
        let admitted = |caller: Caller, asked: Option<&str>| {
            let mut messages = [NewMessage { tenant: asked.map(str::to_owned), ..NewMessage::default() }];
            let done = caller.admit(&mut messages, None).map_err(|problem| problem.code.status());
            let [message] = messages;
            done.map(|()| message.tenant)
        };
        assert_eq!(admitted(caller(&["a"]), None), Ok(Some("a".into())));
        assert_eq!(admitted(caller(&["a"]), Some("default")), Err(403));
        assert_eq!(admitted(caller(&["a", "b"]), None), Err(403));
        assert_eq!(admitted(caller(&["a", "default"]), None), Ok(None));
        assert_eq!(admitted(caller(&["*"]), None), Ok(None));
    }

    #[test]
    fn a_list_is_confined_to_what_the_credential_allows() {
        let scope = |caller: Caller, asked, filter| {
            caller
                .scope(asked, filter)
                .map(|tenant| tenant.map(|t| t.to_string()))
                .map_err(|problem| problem.code.status())
        };
        assert_eq!(scope(caller(&["*"]), None, ""), Ok(None));
        assert_eq!(scope(caller(&["*"]), Some("x"), ""), Ok(Some("x".into())));
        assert_eq!(scope(caller(&["a"]), None, "tenant=b"), Ok(Some("a".into())));
        assert_eq!(scope(caller(&["a"]), Some("b"), ""), Err(403));
        assert_eq!(scope(caller(&["a", "b"]), None, ""), Err(400));
        assert_eq!(scope(caller(&["a", "b"]), None, "tenant=b"), Ok(Some("b".into())));
        assert_eq!(scope(caller(&["a", "b"]), None, "tenant=c"), Err(403));
        assert_eq!(scope(caller(&["a", "b"]), None, "tenant=*"), Err(400));
        assert_eq!(scope(caller(&["*"]), None, "colour=red"), Err(400));
        assert_eq!(scope(caller(&["*"]), None, &"x".repeat(5000)), Err(400));
    }
}
