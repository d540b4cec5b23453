//! The tokens that are known: those of the configuration, and those that were made while a host ran.
//!
//! A token is found by its SHA-256. Nobody chooses that, so the time that it takes tells nothing of the tokens there are. No token
//! is ever stored or logged; what rests in the configuration and in the store is its hash.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use arc_swap::ArcSwap;
use sha2::{Digest, Sha256};
use waybill_core::code::Code;
use waybill_core::ids::Tenant;
use waybill_core::port::tokens::StoredToken;
use waybill_core::streams::access::StreamRole;
use waybill_core::time::UnixMillis;

use super::{Principal, Role, Tenants};
use crate::caller::now;
use crate::error::ServerError;
use crate::problem::Problem;

/// Actors without a token: callers of a host that asks for none, who makes a token while no host runs, the host itself, and strangers.
const RESERVED: [&str; 4] = ["local", "offline", "host", "anonymous"];

/// A token of the configuration.
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

/// Tokens of the configuration and of the store. Cheap to clone; clones share what is in force.
#[derive(Clone)]
pub struct Tokens {
    in_force: Arc<ArcSwap<InForce>>,
}

#[derive(Default)]
struct InForce {
    configured: Vec<(TokenHash, Arc<Principal>)>,
    /// By name, also those whose name or token the configuration has.
    stored: BTreeMap<String, Arc<Stored>>,
    by_hash: HashMap<TokenHash, Known>,
}

/// Whose token it is.
struct Known {
    principal: Arc<Principal>,
    /// From when on it is good for nothing.
    expires_at: Option<UnixMillis>,
}

impl Known {
    fn is_over(&self) -> bool {
        self.expires_at.is_some_and(|end| end <= now())
    }
}

/// A stored token, and who has it.
pub(crate) struct Stored {
    pub record: StoredToken,
    /// None: this host can't make sense of it, so it lets nobody in.
    principal: Option<Arc<Principal>>,
}

impl Stored {
    fn of(record: StoredToken) -> Self {
        let principal = principal_of(&record).map(Arc::new);
        Self { record, principal }
    }

    pub fn is_usable(&self) -> bool {
        self.principal.is_some()
    }

    pub fn is_over(&self) -> bool {
        self.record.expires_at.is_some_and(|end| end <= now())
    }
}

impl InForce {
    /// What is known by them. What the configuration says of a name or a token counts, whatever is stored.
    fn of(configured: Vec<(TokenHash, Arc<Principal>)>, stored: BTreeMap<String, Arc<Stored>>) -> Self {
        let mut by_hash = HashMap::with_capacity(configured.len() + stored.len());
        let names: BTreeSet<&str> = configured.iter().map(|(_, principal)| principal.name.as_str()).collect();
        for token in stored.values().filter(|token| !names.contains(token.record.name.as_str())) {
            let Some(principal) = token.principal.clone() else { continue };
            let Some(hash) = principal.token else { continue };
            by_hash.insert(hash, Known { principal, expires_at: token.record.expires_at });
        }
        for (hash, principal) in &configured {
            by_hash.insert(*hash, Known { principal: Arc::clone(principal), expires_at: None });
        }
        Self { configured, stored, by_hash }
    }
}

impl Tokens {
    /// Checks the records: names and hashes are unique, every token has a role and a tenant.
    pub fn new(records: Vec<TokenRecord>) -> Result<Self, ServerError> {
        let mut tokens: Vec<(TokenHash, Arc<Principal>)> = Vec::with_capacity(records.len());
        for record in records {
            let refuse = |cause: &str| ServerError::Token { name: record.name.clone(), cause: cause.to_owned() };
            if record.name.is_empty() {
                return Err(refuse("it has no name: give it one, the audit trail shows it"));
            }
            if is_persons(&record.name) {
                return Err(refuse("its name looks like that of a person who signed in: leave out `oidc:`"));
            }
            if is_reserved(&record.name) {
                return Err(refuse("the audit trail calls those so who show no token: choose another name"));
            }
            let hash = parse_hash(&record.sha256).ok_or_else(|| {
                refuse("sha256 isn't 64 hex digits: write the output of `printf %s TOKEN | sha256sum`")
            })?;
            if record.roles.is_empty() && record.streams.is_empty() {
                return Err(refuse(
                    "it has no role: give it viewer, sender, transactor, worker, operator, backup or admin, or append:PATTERN or read:PATTERN",
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
        Ok(Self { in_force: Arc::new(ArcSwap::from_pointee(InForce::of(tokens, BTreeMap::new()))) })
    }

    /// No token at all.
    pub fn none() -> Self {
        Self { in_force: Arc::new(ArcSwap::from_pointee(InForce::default())) }
    }

    /// Goes by other tokens of the configuration from now on, here and in every clone. Stored ones stay.
    pub fn put_in_force(&self, next: &Self) {
        let next = next.in_force.load_full();
        self.in_force.rcu(|now| InForce::of(next.configured.clone(), now.stored.clone()));
    }

    /// Whether it knows no token.
    pub fn is_empty(&self) -> bool {
        self.in_force.load().by_hash.is_empty()
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

    /// What who was let in before may do now, and from when on no more (none = it doesn't end); none = their token was taken away, or has
    /// expired, since. Who was let in without a token stays who they were.
    pub(crate) fn now_of(&self, by: &Principal) -> Option<(Arc<Principal>, Option<UnixMillis>)> {
        let Some(hash) = &by.token else { return Some((Arc::new(by.clone()), None)) };
        let tokens = self.in_force.load();
        let known = tokens.by_hash.get(hash).filter(|known| !known.is_over())?;
        Some((Arc::clone(&known.principal), known.expires_at))
    }

    /// The principal of the token with this hash, as long as it is in force.
    pub(crate) fn of_hash(&self, hash: &TokenHash) -> Option<Arc<Principal>> {
        let tokens = self.in_force.load();
        tokens.by_hash.get(hash).filter(|known| !known.is_over()).map(|known| Arc::clone(&known.principal))
    }

    /// Why a token lets nobody in, or who shows none isn't let in.
    pub(crate) fn refusal(&self, token: Option<&str>) -> Problem {
        let tokens = self.in_force.load();
        let over = token.and_then(|token| tokens.by_hash.get(&hash_of(token))).filter(|known| known.is_over());
        if let Some((known, end)) = over.and_then(|known| Some((known, known.expires_at?))) {
            let text = format!("token {:?} expired at {end}: ask for another one", known.principal.name);
            return Problem::new(Code::AUTH_EXPIRED, text);
        }
        if tokens.by_hash.is_empty() {
            let text = "this host asks for a token and knows none: its operator makes one with `waybill token create`, or configures \
                        [[auth.token]]";
            return Problem::new(Code::AUTH_NO_TOKENS, text);
        }
        Problem::new(Code::AUTH_REQUIRED, "a valid token is needed: send `authorization: Bearer <token>`")
    }

    /// Goes by these stored tokens from now on.
    pub(crate) fn put_stored(&self, records: Vec<StoredToken>) {
        let stored: BTreeMap<String, Arc<Stored>> =
            records.into_iter().map(|record| (record.name.clone(), Arc::new(Stored::of(record)))).collect();
        self.in_force.rcu(|now| InForce::of(now.configured.clone(), stored.clone()));
    }

    /// Goes by one more stored token from now on.
    pub(crate) fn add(&self, record: StoredToken) {
        let (name, token) = (record.name.clone(), Arc::new(Stored::of(record)));
        self.in_force.rcu(|now| {
            let mut stored = now.stored.clone();
            stored.insert(name.clone(), Arc::clone(&token));
            InForce::of(now.configured.clone(), stored)
        });
    }

    /// Forgets a stored one; false = there was none.
    pub(crate) fn remove(&self, name: &str) -> bool {
        let before = self.in_force.rcu(|now| {
            let mut stored = now.stored.clone();
            stored.remove(name);
            InForce::of(now.configured.clone(), stored)
        });
        before.stored.contains_key(name)
    }

    /// The stored ones, by name.
    pub(crate) fn stored(&self) -> Vec<Arc<Stored>> {
        self.in_force.load().stored.values().cloned().collect()
    }

    /// Those of the configuration, in its order.
    pub(crate) fn configured(&self) -> Vec<Arc<Principal>> {
        self.in_force.load().configured.iter().map(|(_, principal)| Arc::clone(principal)).collect()
    }
}

pub(crate) fn hash_of(token: &str) -> TokenHash {
    Sha256::digest(token.as_bytes()).into()
}

/// Whether a name could pass for that of a person who signed in at the provider, whose subject stands behind this in the audit trail.
fn is_persons(name: &str) -> bool {
    name.contains("oidc:")
}

/// Whether the audit trail calls somebody so who shows no token: it would show one in the place of the other.
pub(crate) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

fn principal_of(record: &StoredToken) -> Option<Principal> {
    if is_persons(&record.name) || is_reserved(&record.name) {
        return None;
    }
    let hash = parse_hash(&record.sha256)?;
    let (roles, streams) = parse_roles(&record.roles).ok()?;
    let tenants = parse_tenants(record.tenants.as_deref()).ok()?;
    Some(Principal { name: record.name.clone(), tenants, roles, streams, token: Some(hash) })
}

/// Roles as they are configured and stored, at least one; else what is wrong with them.
pub(crate) fn parse_roles(texts: &[String]) -> Result<(Vec<Role>, Vec<StreamRole>), String> {
    let (mut roles, mut streams) = (Vec::new(), Vec::new());
    for text in texts {
        let named = Role::ALL.into_iter().find(|role| role.as_str() == text.as_str());
        match (named, StreamRole::parse(text)) {
            (Some(role), _) if !roles.contains(&role) => roles.push(role),
            (None, Some(Ok(role))) if !streams.contains(&role) => streams.push(role),
            (Some(_), _) | (None, Some(Ok(_))) => {}
            (None, Some(Err(error))) => return Err(error.to_string()),
            (None, None) => {
                let known = Role::ALL.map(Role::as_str).join(", ");
                return Err(format!("there is no role {text:?}: take {known}, append:PATTERN or read:PATTERN"));
            }
        }
    }
    if roles.is_empty() && streams.is_empty() {
        return Err("a token without a role can do nothing: name at least one".to_owned());
    }
    Ok((roles, streams))
}

/// Tenants as they are stored, none = all; else what is wrong with them.
pub(crate) fn parse_tenants(names: Option<&[String]>) -> Result<Tenants, String> {
    let Some(names) = names else { return Ok(Tenants::All) };
    if names.is_empty() {
        return Err("a token without a tenant is for nothing: name some, or \"*\" for all".to_owned());
    }
    let tenants: Result<Vec<Tenant>, _> = names.iter().map(Tenant::new).collect();
    tenants.map(Tenants::Only).map_err(|error| error.to_string())
}

fn parse_hash(text: &str) -> Option<TokenHash> {
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

    /// A stored one, whose token is its name.
    fn stored(name: &str) -> StoredToken {
        StoredToken {
            name: name.to_owned(),
            sha256: hash_of(name).iter().map(|byte| format!("{byte:02x}")).collect(),
            ends_with: String::new(),
            roles: vec!["operator".to_owned(), "read:task.**".to_owned()],
            tenants: Some(vec!["acme".to_owned()]),
            created_at: UnixMillis(1),
            created_by: "local".to_owned(),
            expires_at: None,
        }
    }

    #[test]
    fn a_stored_token_is_known_until_it_is_removed_and_a_reload_leaves_it() {
        let tokens = Tokens::none();
        assert!(tokens.is_empty() && tokens.refusal(Some("ops")).code == Code::AUTH_NO_TOKENS);
        tokens.put_stored(vec![stored("ops"), stored("dev")]);
        let let_in = tokens.authenticate("ops").unwrap();
        assert_eq!((let_in.roles(), let_in.tenants.names()), (stored("ops").roles, vec!["acme".to_owned()]));
        tokens.put_in_force(&Tokens::new(vec![record("ci", SESAME)]).unwrap());
        assert!(tokens.authenticate("ops").is_some() && tokens.authenticate("sesame").is_some());
        assert!(tokens.remove("ops") && !tokens.remove("ops"));
        assert!(tokens.authenticate("ops").is_none() && tokens.still(&let_in).is_none());
        assert_eq!(tokens.refusal(Some("ops")).code, Code::AUTH_REQUIRED);
        assert!(tokens.authenticate("dev").is_some());
        tokens.add(stored("ops"));
        assert!(tokens.authenticate("ops").is_some());
    }

    #[test]
    fn with_every_token_taken_away_nobody_is_let_in() {
        let tokens = Tokens::new(vec![record("ci", SESAME)]).unwrap();
        tokens.put_in_force(&Tokens::none());
        assert!(tokens.authenticate("sesame").is_none() && tokens.is_empty());
        let refused = tokens.refusal(Some("sesame"));
        assert_eq!(refused.code, Code::AUTH_NO_TOKENS);
        assert!(refused.detail.contains("waybill token create"), "{}", refused.detail);
    }

    #[test]
    fn an_expired_token_is_refused_with_its_code() {
        let tokens = Tokens::none();
        let ends = |at| StoredToken { expires_at: Some(at), ..stored("ops") };
        tokens.add(ends(UnixMillis(now().0 + 3_600_000)));
        assert!(tokens.authenticate("ops").is_some());
        let let_in = tokens.authenticate("ops").unwrap();
        tokens.add(ends(UnixMillis(1_700_000_000_000)));
        assert!(tokens.authenticate("ops").is_none() && tokens.still(&let_in).is_none());
        let refused = tokens.refusal(Some("ops"));
        assert_eq!(refused.code, Code::AUTH_EXPIRED);
        assert!(refused.detail.contains("2023-11-14T22:13:20.000Z"), "{}", refused.detail);
        assert_eq!(tokens.refusal(Some("guessed")).code, Code::AUTH_REQUIRED);
    }

    #[test]
    fn the_configuration_counts_before_what_is_stored() {
        let tokens = Tokens::new(vec![record("ops", SESAME)]).unwrap();
        let same = StoredToken { name: "other".to_owned(), sha256: SESAME.to_owned(), ..stored("x") };
        tokens.put_stored(vec![stored("ops"), same]);
        assert!(tokens.authenticate("ops").is_none(), "its name is another token's");
        assert_eq!(tokens.authenticate("sesame").unwrap().name, "ops");
        tokens.put_in_force(&Tokens::none());
        assert_eq!(tokens.authenticate("ops").unwrap().name, "ops");
        assert_eq!(tokens.authenticate("sesame").unwrap().name, "other");
    }

    #[test]
    fn what_this_host_cannot_make_sense_of_lets_nobody_in() {
        let tokens = Tokens::none();
        let of_newer = StoredToken { roles: vec!["king".to_owned()], ..stored("a") };
        let without = StoredToken { tenants: Some(Vec::new()), ..stored("b") };
        let others = ["oidc:7", "ada@shop.example (oidc:7)", "local", "offline", "host", "anonymous"];
        tokens.put_stored([vec![of_newer, without], others.map(stored).to_vec()].concat());
        assert!(["a", "b"].iter().chain(&others).all(|token| tokens.authenticate(token).is_none()));
        assert!(tokens.stored().iter().all(|token| !token.is_usable()));
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
        let of = |record: TokenRecord| Tokens::new(vec![record]).unwrap();
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
    fn who_acts_goes_by_the_tokens_of_now_and_until_their_end() {
        let tokens = Tokens::none();
        let end = UnixMillis(now().0 + 3_600_000);
        tokens.add(StoredToken { expires_at: Some(end), ..stored("ops") });
        let let_in = tokens.authenticate("ops").unwrap();
        assert_eq!(tokens.now_of(&let_in), Some((Arc::clone(&let_in), Some(end))));
        tokens.add(stored("ops"));
        assert_eq!(tokens.now_of(&let_in), Some((Arc::clone(&let_in), None)));
        tokens.add(StoredToken { expires_at: Some(UnixMillis(1_700_000_000_000)), ..stored("ops") });
        assert_eq!(tokens.now_of(&let_in), None);
        assert!(tokens.remove("ops"));
        assert_eq!(tokens.now_of(&let_in), None);
        let local = Principal::local();
        assert_eq!(tokens.now_of(&local), Some((Arc::new(local.clone()), None)));
    }

    #[test]
    fn a_token_is_known_by_its_hash() {
        let hash: [u8; 32] = Sha256::digest(b"sesame").into();
        assert_eq!(parse_hash(SESAME), Some(hash));
        let tokens = Tokens::new(vec![record("ci", SESAME)]).unwrap();
        assert_eq!(tokens.authenticate("sesame").unwrap().name, "ci");
        for wrong in ["", "sesam", "sesamee", SESAME] {
            assert!(tokens.authenticate(wrong).is_none());
        }
    }

    #[test]
    fn a_token_that_is_taken_away_is_unknown_at_once() {
        let tokens = Tokens::new(vec![record("ci", SESAME)]).unwrap();
        let shared = tokens.clone();
        shared.put_in_force(&Tokens::new(vec![record("ci", &"0".repeat(64))]).unwrap());
        assert!(tokens.authenticate("sesame").is_none());
    }

    #[test]
    fn unusable_records_are_refused_with_the_fix() {
        for (records, word) in [
            (vec![record("ci", "abc")], "sha256sum"),
            (vec![record("", SESAME)], "name"),
            (vec![record("ada@shop.example (oidc:7)", SESAME)], "leave out `oidc:`"),
            (vec![record("offline", SESAME)], "choose another name"),
            (vec![record("a", SESAME), record("b", &format!("sha256:{SESAME}"))], "same hash"),
            (vec![TokenRecord { roles: vec![], ..record("a", SESAME) }], "operator"),
            (vec![TokenRecord { tenants: Tenants::Only(vec![]), ..record("a", SESAME) }], "tenant"),
        ] {
            let error = Tokens::new(records).err().unwrap();
            assert!(error.to_string().contains(word) && error.code().as_str() == "CONFIG.TOKEN", "{error}");
        }
    }
}
