//! Sign-in of people by OpenID Connect: the authorization code flow with PKCE (OpenID Connect Core 1.0, RFC 7636).
//!
//! A person is whoever the provider's ID token says, for one session of the page, and may what the claims of that token give
//! ([`mapping`]). No token of the provider is kept: neither its access token nor the ID token is used after the sign-in.
//!
//! | file | holds |
//! |---|---|
//! | `provider` | what is asked of the provider: its document, its keys, a code's ID token |
//! | `id_token` | which ID tokens count |
//! | `mapping` | who a person is and what they may do, by claims |
//! | `sign_ins` | sign-ins that were begun and aren't finished |

mod id_token;
mod mapping;
mod provider;
mod sign_ins;

use std::path::PathBuf;
use std::sync::Arc;

use http::Uri;
use serde_json::json;
use waybill_core::code::Code;
use waybill_core::port::transact::{AuditEvent, TransactStore};

use crate::caller::now;
use crate::error::ServerError;
use crate::listen::is_local_name;
use crate::problem::Problem;

pub(crate) use mapping::Person;
pub use mapping::{Mapping, RolesOf};
use provider::Provider;
pub(crate) use provider::{Begin, said};
pub(crate) use sign_ins::{Begun, SignIns};

/// `[auth.oidc]`, with the secret itself: nothing prints it.
#[derive(Clone)]
pub struct OidcConfig {
    /// Address of the provider, exactly as its ID tokens have it.
    pub issuer: String,
    pub client_id: String,
    pub secret: String,
    /// What the link on the page calls the provider.
    pub name: String,
    /// What is asked for; `openid` is among it.
    pub scopes: Vec<String>,
    pub mapping: Mapping,
    /// Under which browsers reach this host: scheme, name and port.
    pub public_url: String,
    /// File of certificates to trust besides the platform's, in PEM.
    pub ca: Option<PathBuf>,
}

/// Signs people in at one provider.
pub struct Oidc {
    pub(crate) name: String,
    pub(crate) public_url: String,
    pub(crate) sign_ins: SignIns,
    provider: Provider,
    mapping: Mapping,
    /// Where sign-ins are noted; none = in the log alone.
    trail: Option<Arc<dyn TransactStore>>,
}

impl Oidc {
    /// Asks nobody yet: a provider that is away at the start is asked when somebody signs in.
    ///
    /// # Errors
    /// The file of certificates can't be used, or no key for sign-ins could be made.
    pub fn new(config: OidcConfig) -> Result<Self, ServerError> {
        Ok(Self {
            provider: Provider::new(&config)?,
            name: config.name,
            public_url: config.public_url,
            sign_ins: SignIns::new().map_err(|error| ServerError::Oidc { cause: error.to_string() })?,
            mapping: config.mapping,
            trail: None,
        })
    }

    /// Notes each sign-in in the audit trail from now on.
    #[must_use]
    pub fn noted_in(self, trail: Arc<dyn TransactStore>) -> Self {
        Self { trail: Some(trail), ..self }
    }

    /// The provider's address for a sign-in that begins, from which it leads back to `redirect_uri`.
    pub(crate) async fn address(&self, begin: &Begin<'_>) -> Result<String, Problem> {
        self.provider.authorization(begin).await
    }

    /// Who the provider says has signed in.
    pub(crate) async fn person(&self, code: &str, begun: &Begun, redirect_uri: &str) -> Result<Person, Problem> {
        let claims = self.provider.claims(code, begun, redirect_uri).await?;
        self.mapping.person(&claims).map_err(|error| Problem::new(Code::AUTH_SIGN_IN, error.to_string()))
    }

    /// Refuses an answer that names another provider as its issuer (RFC 9207).
    pub(crate) fn check_issuer(&self, named: &str) -> Result<(), Problem> {
        if named.is_empty() || named == self.provider.issuer() {
            return Ok(());
        }
        Err(Problem::new(Code::AUTH_SIGN_IN, "the answer is of another provider than the one that was asked"))
    }

    /// Notes that a person signed in. What the trail can't take stands in the log: who mends a store has to get in.
    pub(crate) async fn note(&self, person: &Person) {
        let roles = person.principal.roles();
        tracing::info!(actor = person.principal.name.as_str(), ?roles, "a person signed in");
        let Some(trail) = &self.trail else { return };
        let event = AuditEvent {
            at: now(),
            kind: "SignedIn".to_owned(),
            actor: person.principal.name.clone(),
            tenant: None,
            object: "page".to_owned(),
            detail: json!({
                "issuer": self.provider.issuer(), "sub": person.sub, "email": person.email, "roles": roles,
                "tenants": person.tenants(),
            }),
        };
        if let Err(error) = trail.audit(&event).await {
            tracing::error!(code = error.code().as_str(), %error, ?event, "a sign-in could not be written to the audit trail");
        }
    }
}

/// Whether nobody reads what goes to an address on its way: it is encrypted, or it stays on this machine.
pub fn is_guarded(address: &str) -> bool {
    match address.parse::<Uri>().ok().as_ref().and_then(Uri::scheme_str) {
        Some("https") => true,
        Some("http") => is_local(address),
        _ => false,
    }
}

/// Whether an address is of this machine.
fn is_local(address: &str) -> bool {
    let uri: Option<Uri> = address.parse().ok();
    uri.as_ref().and_then(Uri::authority).is_some_and(|name| is_local_name(name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clear_text_stays_on_this_machine() {
        for good in
            ["https://login.example/realms/ops", "http://localhost:8080", "http://127.0.0.1:1/x", "http://[::1]:1"]
        {
            assert!(is_guarded(good), "{good}");
        }
        for bad in ["", "login.example", "http://login.example", "http://localhost.example", "ftp://localhost", "/x"] {
            assert!(!is_guarded(bad), "{bad}");
        }
    }
}
