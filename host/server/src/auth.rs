//! Who calls, and what they may do.

mod tokens;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use waybill_core::code::Code;
use waybill_core::ids::Tenant;
use waybill_core::streams::access::{self, StreamRight, StreamRole};
use waybill_core::streams::name::StreamName;

pub(crate) use tokens::{Stored, TokenHash, hash_of, is_reserved, parse_roles, parse_tenants};
pub use tokens::{TokenRecord, Tokens};

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
    /// The caller of a host that asks nobody for a token, which listens on loopback only.
    pub fn local() -> Self {
        Self {
            name: "local".to_owned(),
            tenants: Tenants::All,
            roles: vec![Role::Admin],
            streams: Vec::new(),
            token: None,
        }
    }

    /// Who makes a token while no host runs: whoever has the store may do everything.
    pub fn offline() -> Self {
        Self { name: "offline".to_owned(), ..Self::local() }
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

    /// Whether it has all of this itself: nobody grants more.
    pub fn covers(&self, roles: &[Role], streams: &[StreamRole], tenants: &Tenants) -> bool {
        let has = |permission: Permission| self.roles.iter().any(|own| own.grants(permission));
        let role =
            |role: &Role| Permission::ALL.into_iter().all(|permission| !role.grants(permission) || has(permission));
        let stream = |asked: &StreamRole| has(of_right(asked.right)) || self.streams.contains(asked);
        self.tenants.include_all(tenants) && roles.iter().all(role) && streams.iter().all(stream)
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

    /// As configured and shown.
    pub fn names(&self) -> Vec<String> {
        match self {
            Self::All => vec!["*".to_owned()],
            Self::Only(list) => list.iter().map(|tenant| tenant.as_str().to_owned()).collect(),
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
    /// Looks, and backs up the whole store: whoever has a backup has all that is in it, of every tenant.
    Backup,
    Admin,
}

impl Role {
    pub const ALL: [Self; 7] =
        [Self::Viewer, Self::Sender, Self::Transactor, Self::Worker, Self::Operator, Self::Backup, Self::Admin];

    /// Whether it grants a permission.
    pub fn grants(self, permission: Permission) -> bool {
        use Permission::{Any, Append, Events, Metrics, Operate, Public, Read, Send, Transact, Work};
        match self {
            Self::Viewer => matches!(permission, Public | Any | Read | Events | Metrics),
            Self::Sender => matches!(permission, Public | Any | Read | Events | Send | Append),
            Self::Transactor => matches!(permission, Public | Any | Read | Events | Send | Append | Transact),
            Self::Worker => matches!(permission, Public | Any | Read | Events | Work),
            Self::Operator => matches!(permission, Public | Any | Read | Events | Metrics | Operate),
            Self::Backup => matches!(permission, Public | Any | Read | Events | Permission::Backup),
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
            Self::Backup => "backup",
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
    /// Taking a backup of everything.
    Backup,
    /// Acting on transports, which serve all tenants.
    Manage,
}

impl Permission {
    pub const ALL: [Self; 12] = [
        Self::Public,
        Self::Any,
        Self::Read,
        Self::Metrics,
        Self::Send,
        Self::Append,
        Self::Events,
        Self::Transact,
        Self::Work,
        Self::Operate,
        Self::Backup,
        Self::Manage,
    ];

    /// Reads the word of the OpenAPI document.
    pub fn parse(word: &str) -> Option<Self> {
        serde_json::from_value(serde_json::Value::String(word.to_owned())).ok()
    }

    /// It concerns everybody, so a credential of some tenants isn't enough.
    pub fn needs_all_tenants(self) -> bool {
        matches!(self, Self::Metrics | Self::Backup | Self::Manage)
    }

    /// Roles that grant it, for the error text.
    pub fn granted_by(self) -> String {
        let roles = Role::ALL.into_iter().filter(|role| role.grants(self)).map(|role| role.as_str().to_owned());
        let rights = [StreamRight::Append, StreamRight::Read].into_iter().filter(|right| of_right(*right) == self);
        roles.chain(rights.map(|right| format!("{right}:PATTERN"))).collect::<Vec<_>>().join(", ")
    }
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
    fn what_concerns_everybody_needs_every_tenant() {
        let some = Tenants::Only(vec![Tenant::unnamed()]);
        let admin =
            Principal { tenants: some, roles: vec![Role::Admin], streams: Vec::new(), name: "a".into(), token: None };
        assert!(admin.may(Permission::Operate) && !admin.may(Permission::Manage) && !admin.may(Permission::Metrics));
        assert!(!admin.may(Permission::Backup));
        assert!(Principal::local().may(Permission::Manage));
    }

    #[test]
    fn roles_that_name_streams_open_these_alone() {
        let streams = ["append:task.**", "read:execution.*"].map(|text| StreamRole::parse(text).unwrap().unwrap());
        let records = vec![TokenRecord { roles: vec![], streams: streams.to_vec(), ..record("worker-7", SESAME) }];
        let worker = Tokens::new(records).unwrap().authenticate("sesame").unwrap();
        let name = |text: &str| StreamName::new(text).unwrap();
        assert!(worker.may(Permission::Append) && worker.may(Permission::Events) && !worker.may(Permission::Read));
        assert_eq!(worker.admit(StreamRight::Append, &name("task.node.1")), Ok(()));
        let denied = worker.admit(StreamRight::Append, &name("execution.1")).unwrap_err();
        assert!(denied.to_string().contains("append:PATTERN") && denied.code() == Code::AUTH_STREAM, "{denied}");
        assert!(worker.has(StreamRight::Read, &name("execution.1")) && !worker.has(StreamRight::Read, &name("task.a")));
        assert_eq!(worker.roles(), ["append:task.**", "read:execution.*"]);
    }

    #[test]
    fn nobody_covers_more_than_they_have() {
        let some = Tenants::Only(vec![Tenant::new("acme").unwrap()]);
        let stream = |text: &str| StreamRole::parse(text).unwrap().unwrap();
        let admin = Principal::local();
        assert!(admin.covers(&Role::ALL, &[stream("append:task.**")], &Tenants::All));
        let operator = Principal { tenants: some.clone(), roles: vec![Role::Operator], ..Principal::local() };
        assert!(operator.covers(&[Role::Operator, Role::Viewer], &[stream("read:task.**")], &some));
        for role in [Role::Sender, Role::Transactor, Role::Worker, Role::Admin] {
            assert!(!operator.covers(&[role], &[], &some), "{role:?}");
        }
        assert!(!operator.covers(&[Role::Viewer], &[], &Tenants::All));
        assert!(!operator.covers(&[], &[stream("append:task.**")], &some));
        let appender = Principal { roles: vec![], streams: vec![stream("append:task.**")], ..Principal::local() };
        assert!(appender.covers(&[], &[stream("append:task.**")], &some));
        assert!(!appender.covers(&[], &[stream("append:**")], &some));
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
