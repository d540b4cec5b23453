//! Who a person is and what they may do, by the claims of their ID token.
//!
//! Strict: a value that no setting names gives nothing, and who gets no role or no tenant isn't let in.

use serde_json::Value;
use thiserror::Error;
use waybill_core::ids::Tenant;
use waybill_core::streams::access::StreamRole;

use crate::auth::{Principal, Role, Tenants};
use crate::limits::{EMAIL_BYTES_MAX, PERSON_TENANTS_MAX, SUBJECT_BYTES_MAX};

/// Stands for all tenants.
const EVERY_TENANT: &str = "*";

/// What a value of the claim of roles gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolesOf {
    pub value: String,
    pub roles: Vec<Role>,
    /// Streams that may be appended to and read, besides what the roles give.
    pub streams: Vec<StreamRole>,
}

/// Which claims give what. A claim's name that begins with a slash is a JSON pointer (RFC 6901): `/realm_access/roles`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    pub roles_claim: String,
    pub roles: Vec<RolesOf>,
    /// Values of this claim are tenants, `*` is all of them; none = everybody has all.
    pub tenants_claim: Option<String>,
}

/// Somebody whom the provider knows and who may do something here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Person {
    pub principal: Principal,
    /// What the provider calls them, for ever.
    pub sub: String,
    /// None = there is none, or the provider says that it isn't theirs for certain.
    pub email: Option<String>,
}

impl Person {
    /// Their tenants by name; `*` is all.
    pub(crate) fn tenants(&self) -> Vec<&str> {
        match &self.principal.tenants {
            Tenants::All => vec![EVERY_TENANT],
            Tenants::Only(list) => list.iter().map(Tenant::as_str).collect(),
        }
    }
}

/// Why somebody whom the provider knows isn't let in.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum NotLetIn {
    #[error(
        "the provider names nobody that could stand in the audit trail: sub is missing, empty, too long, or can't be read"
    )]
    Subject,
    #[error(
        "{name} is signed in at the provider, but no value of the claim {claim:?} gives a role here: [auth.oidc.roles] has to name one of \
         their values; ask an operator"
    )]
    NoRole { name: String, claim: String },
    #[error(
        "{name} is signed in at the provider, but the claim {claim:?} names no tenant, or more than {PERSON_TENANTS_MAX}; ask an operator"
    )]
    NoTenant { name: String, claim: String },
}

impl Mapping {
    /// The person that verified claims are about.
    pub(crate) fn person(&self, claims: &Value) -> Result<Person, NotLetIn> {
        let sub = claims.get("sub").and_then(Value::as_str).filter(|sub| is_subject(sub)).ok_or(NotLetIn::Subject)?;
        let email = email(claims);
        // Acts are audited with this name: both stand in it, and no token's name looks like it by chance.
        let name = match email {
            Some(email) => format!("{email} (oidc:{sub})"),
            None => format!("oidc:{sub}"),
        };
        let (mut roles, mut streams) = (Vec::new(), Vec::new());
        let held = values(claims, &self.roles_claim);
        for given in self.roles.iter().filter(|given| held.contains(&given.value.as_str())) {
            roles.extend(given.roles.iter().copied());
            streams.extend(given.streams.iter().cloned());
        }
        // In the order of their rights, each once.
        let roles: Vec<Role> = Role::ALL.into_iter().filter(|role| roles.contains(role)).collect();
        let mut distinct: Vec<StreamRole> = Vec::new();
        for role in streams {
            if !distinct.contains(&role) {
                distinct.push(role);
            }
        }
        if roles.is_empty() && distinct.is_empty() {
            return Err(NotLetIn::NoRole { name, claim: self.roles_claim.clone() });
        }
        let tenants = match &self.tenants_claim {
            None => Tenants::All,
            Some(claim) => tenants(&values(claims, claim))
                .ok_or_else(|| NotLetIn::NoTenant { name: name.clone(), claim: claim.clone() })?,
        };
        let principal = Principal { name, tenants, roles, streams: distinct, token: None };
        Ok(Person { principal, sub: sub.to_owned(), email: email.map(str::to_owned) })
    }
}

fn is_subject(sub: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"()<>\"".contains(&byte);
    !sub.is_empty() && sub.len() <= SUBJECT_BYTES_MAX && sub.bytes().all(is_plain)
}

/// The e-mail address, if the provider says that it was proved, and it can't pass for something else in the trail.
fn email(claims: &Value) -> Option<&str> {
    let is_proved = match claims.get("email_verified") {
        Some(Value::Bool(verified)) => *verified,
        Some(Value::String(verified)) => verified == "true",
        _ => false,
    };
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"()<>\"".contains(&byte);
    let email = claims.get("email").and_then(Value::as_str).filter(|_| is_proved)?;
    (email.contains('@') && email.len() <= EMAIL_BYTES_MAX && email.bytes().all(is_plain)).then_some(email)
}

/// Values of a claim: of a list those that are texts, or one text alone.
fn values<'c>(claims: &'c Value, name: &str) -> Vec<&'c str> {
    let found = if name.starts_with('/') { claims.pointer(name) } else { claims.get(name) };
    match found {
        Some(Value::String(value)) => vec![value],
        Some(Value::Array(values)) => values.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Tenants by name; none = there is none among the values, or there are too many.
fn tenants(values: &[&str]) -> Option<Tenants> {
    if values.contains(&EVERY_TENANT) {
        return Some(Tenants::All);
    }
    let mut list: Vec<Tenant> = values.iter().filter_map(|name| Tenant::new(*name).ok()).collect();
    list.sort();
    list.dedup();
    (!list.is_empty() && list.len() <= PERSON_TENANTS_MAX).then_some(Tenants::Only(list))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mapping(roles_claim: &str, tenants_claim: Option<&str>) -> Mapping {
        let given = |value: &str, roles: &[Role], streams: &[&str]| RolesOf {
            value: value.to_owned(),
            roles: roles.to_vec(),
            streams: streams.iter().map(|text| StreamRole::parse(text).unwrap().unwrap()).collect(),
        };
        Mapping {
            roles_claim: roles_claim.to_owned(),
            roles: vec![
                given("waybill-ops", &[Role::Operator, Role::Viewer], &[]),
                given("audit", &[Role::Viewer], &["read:task.**"]),
                given("tasks", &[], &["read:task.**"]),
            ],
            tenants_claim: tenants_claim.map(str::to_owned),
        }
    }

    #[test]
    fn only_values_that_are_named_give_roles() {
        let of = |groups: Value| {
            let person = mapping("groups", None).person(&json!({ "sub": "7", "groups": groups }));
            person.map(|person| person.principal.roles())
        };
        assert_eq!(of(json!(["waybill-ops", "everybody"])).unwrap(), ["viewer", "operator"]);
        assert_eq!(of(json!(["waybill-ops", "audit", "tasks"])).unwrap(), ["viewer", "operator", "read:task.**"]);
        assert_eq!(of(json!("tasks")).unwrap(), ["read:task.**"], "one value alone");
        for nothing in
            [json!(["admin", "operator"]), json!(["WAYBILL-OPS"]), json!([]), json!(null), json!([["audit"]])]
        {
            let refused = of(nothing.clone()).unwrap_err();
            assert!(matches!(refused, NotLetIn::NoRole { .. }), "{nothing}: {refused}");
        }
        let missing = mapping("groups", None).person(&json!({ "sub": "7" }));
        assert!(matches!(missing, Err(NotLetIn::NoRole { .. })));
    }

    #[test]
    fn a_claim_may_lie_deep_or_have_an_address_as_its_name() {
        let deep = json!({ "sub": "7", "realm_access": { "roles": ["audit"] }, "https://x.example/roles": ["audit"] });
        for claim in ["/realm_access/roles", "https://x.example/roles"] {
            assert!(mapping(claim, None).person(&deep).is_ok(), "{claim}");
        }
        assert!(mapping("realm_access.roles", None).person(&deep).is_err());
    }

    #[test]
    fn tenants_are_those_that_the_claim_names() {
        let of = |claim: Option<&str>, teams: Value| {
            let claims = json!({ "sub": "7", "groups": "audit", "teams": teams });
            mapping("groups", claim).person(&claims).map(|person| person.principal.tenants)
        };
        let acme = Tenants::Only(vec![Tenant::new("acme").unwrap()]);
        assert_eq!(of(Some("teams"), json!(["acme", "acme", ""])), Ok(acme));
        assert_eq!(of(Some("teams"), json!(["acme", "*"])), Ok(Tenants::All));
        assert_eq!(of(None, json!(["acme"])), Ok(Tenants::All), "no claim is asked");
        let many: Vec<String> = (0..=PERSON_TENANTS_MAX).map(|number| format!("t{number}")).collect();
        for nothing in [json!([]), json!(null), json!(["", 7]), json!(many)] {
            assert!(matches!(of(Some("teams"), nothing), Err(NotLetIn::NoTenant { .. })));
        }
    }

    #[test]
    fn the_name_in_the_trail_holds_subject_and_proved_address() {
        let of = |more: Value| {
            let mut claims = json!({ "sub": "7", "groups": "audit" });
            claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            mapping("groups", None).person(&claims).map(|person| (person.principal.name, person.email))
        };
        let both = ("ada@shop.example (oidc:7)".to_owned(), Some("ada@shop.example".to_owned()));
        assert_eq!(of(json!({ "email": "ada@shop.example", "email_verified": "true" })), Ok(both.clone()));
        assert_eq!(of(json!({ "email": "ada@shop.example", "email_verified": true })), Ok(both));
        for unusable in [
            json!({ "email": "ada@shop.example" }),
            json!({ "email": "ada@shop.example", "email_verified": false }),
            json!({ "email": "ada@shop.example", "email_verified": "false" }),
            json!({ "email": "ops@shop.example (oidc:1)", "email_verified": true }),
            json!({ "email": "ops\n@shop.example", "email_verified": true }),
            json!({ "email": "\u{202e}ops@shop.example", "email_verified": true }),
            json!({ "email": "ops", "email_verified": true }),
            json!({ "email": 7, "email_verified": true }),
        ] {
            assert_eq!(of(unusable), Ok(("oidc:7".to_owned(), None)));
        }
        for sub in [json!(null), json!(""), json!(7), json!("a\nb"), json!("x (oidc:1)"), json!("x".repeat(256))] {
            assert_eq!(of(json!({ "sub": sub })), Err(NotLetIn::Subject));
        }
    }
}
