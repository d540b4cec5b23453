//! `[auth]`: whether callers are asked who they are, by `[[auth.token]]`, of which only hashes are kept, and by `[auth.oidc]`.

use std::path::Path;

use sha2::{Digest, Sha256};
use waybill_core::document::{Table, Value};
use waybill_core::streams::access::StreamRole;
use waybill_server::auth::Role;
use waybill_server::listen::is_loopback;

use super::kinds::{Set, beside};
use super::load::{table_of, tables_of};
use super::model::{AuthSettings, AuthToken, ServerSettings};
use super::problem::{Origin, Problem};
use super::reader::{ENV_PREFIX, Key, Reader, Section, same};
use super::sections;

/// Least strength of a token, in bits: nobody guesses 16 random bytes.
const TOKEN_BITS_MIN: f64 = 128.0;
/// Least different characters of a token. Random ones have more; `0000...` is long and no secret.
const TOKEN_CHARACTERS_MIN: usize = 8;
/// What roles may be.
const ROLES: &str = "it takes \"viewer\", \"sender\", \"transactor\", \"worker\", \"operator\", \"backup\" and \"admin\", and for streams \"append:PATTERN\" and \"read:PATTERN\", e.g. \"read:task.**\"";
/// What `[auth]` has besides its keys.
const TOKEN: &str = "token";
/// How to make a token.
const TOKEN_FIX: &str = "make one with `openssl rand -hex 32`, and name a readable file that holds only that";

/// Where `[auth.oidc]` is within `[auth]`.
const OIDC: &str = "oidc";
/// What the environment's names of the keys of `[auth.oidc]` begin with.
const OIDC_ENV: &str = "AUTH_OIDC_";

/// Reads `[auth]` and what is in it. Where nothing else is said, callers are asked who they are as soon as others than programs of this
/// machine reach the host, or a token or a provider says who may call.
pub fn auth<'d>(
    reader: &mut Reader<'d>,
    root: &'d Table,
    file: &Path,
    server: &ServerSettings,
    has_page: bool,
    warnings: &mut Vec<String>,
) -> AuthSettings {
    let table = root.entry("auth").and_then(|entry| table_of(reader, entry, "auth"));
    let written = table.map(|(auth, _)| auth);
    let has_provider = written.is_some_and(|auth| auth.get(OIDC).is_some()) || is_oidc_in_env(reader);
    let mut section = Section::new(reader, "auth", "auth", table, true);
    let said = section.optional_boolean("required");
    let is_said = said.is_some();
    let required = match said {
        Some(set) if !set.value && has_provider => {
            let cause =
                "people sign in at [auth.oidc], so everybody is asked who they are: leave required out, or [auth.oidc]";
            section.refuse("required", &set, cause);
            true
        }
        Some(set) => set.value,
        None => {
            let others_reach_it = server.behind_tls_proxy || !is_loopback(server.listen.ip());
            // What can't be read is a problem of its own: nothing is open because of it.
            let required = others_reach_it || has_provider || written.is_some_and(has_tokens);
            section.settle("required", required.into());
            required
        }
    };
    section.knows(TOKEN);
    let oidc = if has_provider {
        sections::oidc(section.sub(OIDC), file, server, has_page, warnings)
    } else {
        section.knows(OIDC);
        None
    };
    section.done();
    let tokens = tokens(reader, written, file);
    if !required && !tokens.is_empty() {
        let unused = "[[auth.token]]: nobody is asked for a token, because [auth] required = false: leave that out or set it to true, or take \
                      the tokens out";
        warnings.push(unused.to_owned());
    }
    AuthSettings { required, is_said, oidc, tokens }
}

fn tokens<'d>(reader: &mut Reader<'d>, auth: Option<&'d Table>, file: &Path) -> Vec<AuthToken> {
    let mut all: Vec<AuthToken> = Vec::new();
    for (index, table) in
        tables_of(reader, auth.and_then(|auth| auth.entry(TOKEN)), "auth.token").into_iter().enumerate()
    {
        let section = Section::new(reader, format!("auth.token[{index}]"), "auth.token", Some(table), false);
        let Some((name, token)) = read(section, file) else { continue };
        let twice = all.iter().find_map(|earlier| {
            (earlier.name == token.name).then(|| format!("token {:?} is there already", token.name)).or_else(|| {
                (earlier.sha256 == token.sha256)
                    .then(|| format!("tokens {:?} and {:?} are the same", earlier.name, token.name))
            })
        });
        if let Some(what) = twice {
            let problem = Problem::Duplicate { what, fix: "rename or remove one [[auth.token]]".into() };
            reader.problem(problem, name.origin);
        }
        all.push(token);
    }
    all
}

/// Whether there is a token in `[auth]`, be it right or not.
fn has_tokens(auth: &Table) -> bool {
    matches!(auth.get(TOKEN).map(|node| &node.value), Some(Value::List(tokens)) if !tokens.is_empty())
}

/// Whether the environment has anything of `[auth.oidc]`.
fn is_oidc_in_env(reader: &Reader<'_>) -> bool {
    reader.env.keys().any(|name| name.strip_prefix(ENV_PREFIX).is_some_and(|rest| rest.starts_with(OIDC_ENV)))
}

/// Reads one token's section.
fn read(mut section: Section<'_, '_>, file: &Path) -> Option<(Set<String>, AuthToken)> {
    let name = section.required_text("name", "a name for the audit", "\"orders-service\"");
    let hash = section.optional_text("sha256", "sha-256 of the token, 64 hexadecimal digits");
    let token_file = section
        .optional_text(Key::new("token_file").aliases(const { &[same("file")] }), "a file that holds only the token");
    let tenants = section.texts("tenants", "an array of tenants, [\"*\"] for all", &["*"]);
    let roles = section.texts(
        "roles",
        "an array of \"viewer\", \"sender\", \"transactor\", \"worker\", \"operator\", \"backup\", \"admin\", \"append:PATTERN\", \"read:PATTERN\"",
        &["sender"],
    );
    let sha256 = match (&hash, &token_file) {
        (Some(hash), None) => {
            if let Origin::File { path, .. } = &hash.origin {
                // Hashes of strong tokens are no use to anybody, and nobody can tell from them whether they are of strong ones.
                let path = path.clone();
                section.reader.warn_if_open("auth.token.sha256", &path);
            }
            let digest = decode_hex(&hash.value);
            if digest.is_none() {
                section.refuse("sha256", hash, "it takes 64 hexadecimal digits: printf %s \"$TOKEN\" | sha256sum");
            }
            digest
        }
        (None, Some(path)) => digest_of(&mut section, path, file),
        (Some(_), Some(second)) => {
            let problem = Problem::Duplicate {
                what: format!("{} has both sha256 and token_file", section.heading()),
                fix: "keep one of them".into(),
            };
            section.problem_at(problem, second.origin.clone());
            None
        }
        (None, None) => {
            let problem = Problem::Missing {
                section: section.heading(),
                key: "sha256".into(),
                fix: "write sha256 = \"<hash>\" or token_file = \"<path>\"".into(),
            };
            let at = section.at.clone();
            section.problem_at(problem, at);
            None
        }
    };
    let (granted, streams) = read_roles(&mut section, &roles);
    if roles.is_empty() {
        let set = Set { value: "[]".to_owned(), origin: section.at.clone() };
        section.refuse("roles", &set, "a token without a role can do nothing: name at least one");
    }
    let tenants = if tenants.iter().any(|tenant| tenant.value == "*") {
        None
    } else {
        Some(tenants.into_iter().map(|tenant| tenant.value).collect())
    };
    section.done();
    let name = name?;
    let token = AuthToken { name: name.value.clone(), sha256: sha256?, tenants, roles: granted, streams };
    Some((name, token))
}

/// The roles, and those that name streams.
pub(super) fn read_roles(section: &mut Section<'_, '_>, written: &[Set<String>]) -> (Vec<Role>, Vec<StreamRole>) {
    let (mut roles, mut streams) = (Vec::new(), Vec::new());
    for role in written {
        let named = Role::ALL.into_iter().find(|known| known.as_str() == role.value);
        match (named, StreamRole::parse(&role.value)) {
            (Some(named), _) if !roles.contains(&named) => roles.push(named),
            (None, Some(Ok(named))) if !streams.contains(&named) => streams.push(named),
            (Some(_), _) | (None, Some(Ok(_))) => {}
            (None, Some(Err(error))) => section.refuse("roles", role, error.to_string()),
            (None, None) => section.refuse("roles", role, ROLES),
        }
    }
    (roles, streams)
}

fn digest_of(section: &mut Section<'_, '_>, written: &Set<String>, file: &Path) -> Option<[u8; 32]> {
    let path = match written.origin {
        Origin::File { .. } => beside(file, &written.value),
        _ => written.value.clone().into(),
    };
    let refuse =
        |cause: String| Problem::Secret { key: format!("{}.token_file", section.path), cause, fix: TOKEN_FIX.into() };
    let problem = match std::fs::read(&path) {
        Ok(bytes) => match weakness(bytes.trim_ascii()) {
            None => {
                section.warn_if_open("token_file", &path);
                return Some(Sha256::digest(bytes.trim_ascii()).into());
            }
            Some(weakness) => refuse(format!("the token in {} is weak: {weakness}", path.display())),
        },
        Err(error) => refuse(format!("{}: {error}", path.display())),
    };
    section.problem_at(problem, written.origin.clone());
    None
}

/// Why a token could be guessed. It knows the length and the alphabet, not where the token is from: what passes may still be weak.
fn weakness(token: &[u8]) -> Option<String> {
    let all = |belongs: fn(&u8) -> bool| token.iter().all(belongs);
    let alphabet: f64 = if all(u8::is_ascii_digit) {
        10.0
    } else if all(u8::is_ascii_hexdigit) {
        16.0
    } else if all(|byte| byte.is_ascii_alphanumeric() || b"-_+/=.".contains(byte)) {
        64.0
    } else {
        94.0
    };
    #[expect(clippy::cast_precision_loss, reason = "a token is short")]
    let bits = token.len() as f64 * alphabet.log2();
    let mut different = token.to_vec();
    different.sort_unstable();
    different.dedup();
    if bits < TOKEN_BITS_MIN {
        return Some(format!(
            "its {} bytes are at most {} bits of chance, at least {TOKEN_BITS_MIN} are needed",
            token.len(),
            bits.floor()
        ));
    }
    (different.len() < TOKEN_CHARACTERS_MIN).then(|| format!("it has only {} different characters", different.len()))
}

fn decode_hex(text: &str) -> Option<[u8; 32]> {
    let text = text.strip_prefix("sha256:").unwrap_or(text);
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    let mut bytes = [0; 32];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(index * 2..index * 2 + 2)?, 16).ok()?;
    }
    Some(bytes)
}
