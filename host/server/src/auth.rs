//! Who calls, and what they may do.
//!
//! Tokens are compared by their SHA-256, all of them each time and without an early exit, so that the time taken tells
//! nothing. No token is ever stored or logged; what rests in the configuration is its hash.

use std::sync::Arc;

use arc_swap::ArcSwap;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thiserror::Error;
use waybill_core::code::Code;
use waybill_core::ids::Tenant;
use waybill_core::streams::access::{self, StreamRight, StreamRole};
use waybill_core::streams::name::StreamName;

use crate::error::ServerError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// Name for the audit.
    pub name: String,
    pub tenants: Tenants,
    /// What they may do.
    pub roles: Vec<Role>,
    /// Streams that they may append to and read, besides what the roles give.
    pub streams: Vec<StreamRole>,
    /// Hash of the token that they showed; none = nobody was asked for one, or they signed in at the provider.
    pub(crate) token: Option<TokenHash>,
}

impl Principal {
    /// The caller of a host without `[[auth.token]]`, which listens on loopback only.
    pub fn local() -> Self {
        Self {
            name: "local".to_owned(),
            tenants: Tenants::All,
            roles: vec![Role::Admin],
            streams: Vec::new(),
            token: None,
        }
    }

    /// Whether it may do this; with streams, whether there may be one with which it may.
    pub fn may(&self, permission: Permission) -> bool {
        (!permission.needs_all_tenants() || self.tenants == Tenants::All)
            && (permission == Permission::Any
                || self.roles.iter().any(|role| role.grants(permission))
                || self.streams.iter().any(|role| of_right(role.right) == permission))
    }

    /// Whether it has a right to a stream of its tenants.
    pub fn has(&self, right: StreamRight, stream: &StreamName) -> bool {
        let permission = of_right(right);
        self.roles.iter().any(|role| role.grants(permission)) || access::give(&self.streams, right, stream)
    }

    /// The same for a request that names the stream.
    ///
    /// # Errors
    /// It hasn't that right to this stream.
    pub fn admit(&self, right: StreamRight, stream: &StreamName) -> Result<(), StreamDenied> {
        if self.has(right, stream) {
            return Ok(());
        }
        Err(StreamDenied { token: self.name.clone(), right, stream: stream.clone() })
    }

    /// Its roles as they are configured and shown.
    pub fn roles(&self) -> Vec<String> {
        let named = self.roles.iter().map(|role| role.as_str().to_owned());
        named.chain(self.streams.iter().map(StreamRole::to_string)).collect()
    }
}

/// What a route needs that goes by a right to streams.
fn of_right(right: StreamRight) -> Permission {
    match right {
        StreamRight::Append => Permission::Append,
        StreamRight::Read => Permission::Events,
    }
}

/// A right to a stream that a credential doesn't have.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("token {token:?} has no role {right}:PATTERN that matches stream {stream}")]
pub struct StreamDenied {
    pub token: String,
    pub right: StreamRight,
    pub stream: StreamName,
}

impl StreamDenied {
    pub fn code(&self) -> Code {
        Code::AUTH_STREAM
    }
}

/// Tenants of a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tenants {
    All,
    Only(Vec<Tenant>),
}

impl Tenants {
    /// Whether all of others are among them.
    fn include_all(&self, others: &Self) -> bool {
        match (self, others) {
            (Self::All, _) => true,
            (Self::Only(_), Self::All) => false,
            (Self::Only(_), Self::Only(others)) => others.iter().all(|tenant| self.include(tenant)),
        }
    }

    /// Whether a tenant is among them.
    pub fn include(&self, tenant: &Tenant) -> bool {
        match self {
            Self::All => true,
            Self::Only(list) => list.contains(tenant),
        }
    }
}

/// What a credential is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Looks at messages, dead letters and depths.
    Viewer,
    /// Enqueues messages, and looks at them.
    Sender,
    /// Enqueues messages with statements of its own in one transaction. The statements reach every table that isn't
    /// Waybill's, whatever the tenant.
    Transactor,
    /// Claims and settles messages of the transport `external`, and looks at messages.
    Worker,
    /// Cancels, replays, quarantines, edits; sees the audit trail.
    Operator,
    Admin,
}

impl Role {
    pub const ALL: [Self; 6] =
        [Self::Viewer, Self::Sender, Self::Transactor, Self::Worker, Self::Operator, Self::Admin];

    /// Whether it grants a permission.
    pub fn grants(self, permission: Permission) -> bool {
        use Permission::{Any, Append, Events, Metrics, Operate, Public, Read, Send, Transact, Work};
        match self {
            Self::Viewer => matches!(permission, Public | Any | Read | Events | Metrics),
            Self::Sender => matches!(permission, Public | Any | Read | Events | Send | Append),
            Self::Transactor => matches!(permission, Public | Any | Read | Events | Send | Append | Transact),
            Self::Worker => matches!(permission, Public | Any | Read | Events | Work),
            Self::Operator => matches!(permission, Public | Any | Read | Events | Metrics | Operate),
            Self::Admin => true,
        }
    }

    /// As configured and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Sender => "sender",
            Self::Transactor => "transactor",
            Self::Worker => "worker",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

/// What a route needs. Written with every route as `x-waybill-permission` in the OpenAPI document, which is also what
/// the edge enforces; a route without one is closed to everybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Permission {
    /// Nothing: probes and documents.
    Public,
    Any,
    /// Looking at data of one's tenants.
    Read,
    /// Looking at metrics, which name tenants.
    Metrics,
    Send,
    /// Appending to streams; to which, is asked with each ([`Principal::admit`]).
    Append,
    /// Reading events of streams; of which, is asked with each.
    Events,
    Transact,
    /// Claiming and settling messages from outside.
    Work,
    /// Acting on messages and dead letters.
    Operate,
    /// Acting on transports, which serve all tenants.
    Manage,
}

impl Permission {
    /// Reads the word of the OpenAPI document.
    pub fn parse(word: &str) -> Option<Self> {
        serde_json::from_value(serde_json::Value::String(word.to_owned())).ok()
    }

    /// It concerns everybody, so a credential of some tenants isn't enough.
    pub fn needs_all_tenants(self) -> bool {
        matches!(self, Self::Metrics | Self::Manage)
    }

    /// Roles that grant it, for the error text.
    pub fn granted_by(self) -> String {
        let roles = Role::ALL.into_iter().filter(|role| role.grants(self)).map(|role| role.as_str().to_owned());
        let rights = [StreamRight::Append, StreamRight::Read].into_iter().filter(|right| of_right(*right) == self);
        roles.chain(rights.map(|right| format!("{right}:PATTERN"))).collect::<Vec<_>>().join(", ")
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRecord {
    /// Name for the audit.
    pub name: String,
    /// SHA-256 of the token, 64 hex digits, with or without `sha256:` before it.
    pub sha256: String,
    pub tenants: Tenants,
    /// What it may do.
    pub roles: Vec<Role>,
    /// Streams that it may append to and read, besides what the roles give.
    pub streams: Vec<StreamRole>,
}

/// SHA-256 of a token.
pub(crate) type TokenHash = [u8; 32];

/// Whose token has which hash.
type Known = Vec<(TokenHash, Arc<Principal>)>;

/// Tokens from the configuration. Cheap to clone; clones share what is in force.
#[derive(Clone)]
pub struct StaticTokens {
    tokens: Arc<ArcSwap<Known>>,
}

impl StaticTokens {
    /// Checks the records: names and hashes are unique, every token has a role and a tenant.
    pub fn new(records: Vec<TokenRecord>) -> Result<Self, ServerError> {
        let mut tokens: Known = Vec::with_capacity(records.len());
        for record in records {
            let refuse = |cause: &str| ServerError::Token { name: record.name.clone(), cause: cause.to_owned() };
            if record.name.is_empty() {
                return Err(refuse("it has no name: give it one, the audit trail shows it"));
            }
            if record.name.contains("oidc:") {
                return Err(refuse("its name looks like that of a person who signed in: leave out `oidc:`"));
            }
            let hash = parse_hash(&record.sha256).ok_or_else(|| {
                refuse("sha256 isn't 64 hex digits: write the output of `printf %s TOKEN | sha256sum`")
            })?;
            if record.roles.is_empty() && record.streams.is_empty() {
                return Err(refuse(
                    "it has no role: give it viewer, sender, transactor, worker, operator or admin, or append:PATTERN or read:PATTERN",
                ));
            }
            if record.tenants == Tenants::Only(Vec::new()) {
                return Err(refuse("it has no tenant: name some, or \"*\" for all"));
            }
            if tokens.iter().any(|(other, principal)| *other == hash || principal.name == record.name) {
                return Err(refuse("another token has the same name or the same hash"));
            }
            let TokenRecord { name, tenants, roles, streams, .. } = record;
            tokens.push((hash, Arc::new(Principal { name, tenants, roles, streams, token: Some(hash) })));
        }
        Ok(Self { tokens: Arc::new(ArcSwap::from_pointee(tokens)) })
    }

    /// Whether no token is in force, so that nobody gets in by one.
    pub fn is_empty(&self) -> bool {
        self.tokens.load().is_empty()
    }

    /// Goes by other tokens from now on, here and in every clone.
    pub fn put_in_force(&self, next: &Self) {
        self.tokens.store(next.tokens.load_full());
    }

    /// The principal of a bearer token; none when it isn't valid. Called with every request: it doesn't block.
    pub fn authenticate(&self, token: &str) -> Option<Arc<Principal>> {
        self.of_hash(&hash_of(token))
    }

    /// What a principal who was let in before may do now; none = their token, or one of their tenants, was taken away since.
    pub(crate) fn still(&self, principal: &Principal) -> Option<Arc<Principal>> {
        let now = self.of_hash(principal.token.as_ref()?)?;
        now.tenants.include_all(&principal.tenants).then_some(now)
    }

    /// The principal of the token with this hash, as long as it is in force.
    pub(crate) fn of_hash(&self, hash: &TokenHash) -> Option<Arc<Principal>> {
        let tokens = self.tokens.load();
        let mut found = None;
        for (stored, principal) in tokens.iter() {
            let differs = stored.iter().zip(hash).fold(0_u8, |acc, (a, b)| acc | (a ^ b));
            if std::hint::black_box(differs) == 0 {
                found = Some(Arc::clone(principal));
            }
        }
        found
    }
}

pub(crate) fn hash_of(token: &str) -> TokenHash {
    Sha256::digest(token.as_bytes()).into()
}

fn parse_hash(text: &str) -> Option<[u8; 32]> {
    let hex = text.strip_prefix("sha256:").unwrap_or(text).as_bytes();
    if hex.len() != 64 {
        return None;
    }
    let mut hash = [0_u8; 32];
    for (byte, pair) in hash.iter_mut().zip(hex.chunks_exact(2)) {
        let [high, low] = pair else { return None };
        let digit = |c: &u8| char::from(*c).to_digit(16);
        *byte = u8::try_from(digit(high)? * 16 + digit(low)?).ok()?;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    // printf %s sesame | sha256sum
    const SESAME: &str = "d0c04f4b1951e4aeaaec8223ed2039e542f3aae805a6fa7f6d794e5afff5d272";

    fn record(name: &str, sha256: &str) -> TokenRecord {
        let (sha256, roles) = (sha256.into(), vec![Role::Viewer]);
        TokenRecord { name: name.into(), sha256, tenants: Tenants::All, roles, streams: Vec::new() }
    }

    #[test]
    fn who_was_let_in_goes_by_the_tokens_of_now() {
        let record = |sha256: &str, tenants: &[&str], roles: &[Role]| TokenRecord {
            name: "reader".into(),
            sha256: sha256.into(),
            tenants: Tenants::Only(tenants.iter().map(|tenant| Tenant::new(*tenant).unwrap()).collect()),
            roles: roles.to_vec(),
            streams: Vec::new(),
        };
        let [token, other] = ["aa", "bb"].map(|byte| byte.repeat(32));
        let of = |record: TokenRecord| StaticTokens::new(vec![record]).unwrap();
        let tokens = of(record(&token, &["acme"], &[Role::Viewer]));
        let let_in = tokens.of_hash(&[0xaa; 32]).unwrap();
        tokens.put_in_force(&of(record(&token, &["acme", "beta"], &[Role::Operator])));
        assert_eq!(tokens.still(&let_in).unwrap().roles, [Role::Operator]);
        for gone in [record(&token, &["beta"], &[Role::Viewer]), record(&other, &["acme"], &[Role::Viewer])] {
            tokens.put_in_force(&of(gone));
            assert!(tokens.still(&let_in).is_none());
        }
        assert!(tokens.still(&Principal::local()).is_none());
    }

    #[test]
    fn a_token_is_known_by_its_hash() {
        let hash: [u8; 32] = Sha256::digest(b"sesame").into();
        assert_eq!(parse_hash(SESAME), Some(hash));
        let tokens = StaticTokens::new(vec![record("ci", SESAME)]).unwrap();
        assert_eq!(tokens.authenticate("sesame").unwrap().name, "ci");
        for wrong in ["", "sesam", "sesamee", SESAME] {
            assert!(tokens.authenticate(wrong).is_none());
        }
    }

    #[test]
    fn a_token_that_is_taken_away_is_unknown_at_once() {
        let tokens = StaticTokens::new(vec![record("ci", SESAME)]).unwrap();
        let shared = tokens.clone();
        shared.put_in_force(&StaticTokens::new(vec![record("ci", &"0".repeat(64))]).unwrap());
        assert!(tokens.authenticate("sesame").is_none());
    }

    #[test]
    fn unusable_records_are_refused_with_the_fix() {
        for (records, word) in [
            (vec![record("ci", "abc")], "sha256sum"),
            (vec![record("", SESAME)], "name"),
            (vec![record("a", SESAME), record("b", &format!("sha256:{SESAME}"))], "same hash"),
            (vec![TokenRecord { roles: vec![], ..record("a", SESAME) }], "operator"),
            (vec![TokenRecord { tenants: Tenants::Only(vec![]), ..record("a", SESAME) }], "tenant"),
        ] {
            let error = StaticTokens::new(records).err().unwrap();
            assert!(error.to_string().contains(word) && error.code().as_str() == "CONFIG.TOKEN", "{error}");
        }
    }

    #[test]
    fn what_concerns_everybody_needs_every_tenant() {
        let some = Tenants::Only(vec![Tenant::unnamed()]);
        let admin =
            Principal { tenants: some, roles: vec![Role::Admin], streams: Vec::new(), name: "a".into(), token: None };
        assert!(admin.may(Permission::Operate) && !admin.may(Permission::Manage) && !admin.may(Permission::Metrics));
        assert!(Principal::local().may(Permission::Manage));
    }

    #[test]
    fn roles_that_name_streams_open_these_alone() {
        let streams = ["append:task.**", "read:execution.*"].map(|text| StreamRole::parse(text).unwrap().unwrap());
        let records = vec![TokenRecord { roles: vec![], streams: streams.to_vec(), ..record("worker-7", SESAME) }];
        let worker = StaticTokens::new(records).unwrap().authenticate("sesame").unwrap();
        let name = |text: &str| StreamName::new(text).unwrap();
        assert!(worker.may(Permission::Append) && worker.may(Permission::Events) && !worker.may(Permission::Read));
        assert_eq!(worker.admit(StreamRight::Append, &name("task.node.1")), Ok(()));
        let denied = worker.admit(StreamRight::Append, &name("execution.1")).unwrap_err();
        assert!(denied.to_string().contains("append:PATTERN") && denied.code() == Code::AUTH_STREAM, "{denied}");
        assert!(worker.has(StreamRight::Read, &name("execution.1")) && !worker.has(StreamRight::Read, &name("task.a")));
        assert_eq!(worker.roles(), ["append:task.**", "read:execution.*"]);
    }

    #[test]
    fn other_roles_go_for_every_stream() {
        let of = |role| Principal { roles: vec![role], ..Principal::local() };
        let name = StreamName::new("task.node.1").unwrap();
        for role in Role::ALL {
            assert!(of(role).has(StreamRight::Read, &name), "{role:?}");
            let appends = matches!(role, Role::Sender | Role::Transactor | Role::Admin);
            assert_eq!(of(role).has(StreamRight::Append, &name), appends, "{role:?}");
        }
        assert_eq!(Permission::Append.granted_by(), "sender, transactor, admin, append:PATTERN");
    }
}
