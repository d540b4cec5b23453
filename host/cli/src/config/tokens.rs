//! `[[auth.token]]`: who may use the API. Only hashes are kept.

use std::path::Path;

use sha2::{Digest, Sha256};
use waybill_server::auth::Role;

use super::kinds::{Set, beside};
use super::model::AuthToken;
use super::problem::{Origin, Problem};
use super::reader::{Key, Section, same};

/// Shortest token taken, in bytes: 16 random bytes in hexadecimal are 32.
pub const TOKEN_BYTES_MIN: usize = 16;

/// Reads one token's section.
pub fn read(mut section: Section<'_, '_>, file: &Path) -> Option<(Set<String>, AuthToken)> {
    let name = section.required_text("name", "a name for the audit", "\"orders-service\"");
    let hash = section.optional_text("sha256", "sha-256 of the token, 64 hexadecimal digits");
    let token_file = section
        .optional_text(Key::new("token_file").aliases(const { &[same("file")] }), "a file that holds only the token");
    let tenants = section.texts("tenants", "an array of tenants, [\"*\"] for all", &["*"]);
    let roles = section.texts(
        "roles",
        "an array of \"viewer\", \"sender\", \"transactor\", \"worker\", \"operator\", \"admin\"",
        &["sender"],
    );
    let sha256 = match (&hash, &token_file) {
        (Some(hash), None) => {
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
    let mut granted: Vec<Role> = Vec::new();
    for role in &roles {
        match Role::ALL.into_iter().find(|known| known.as_str() == role.value) {
            Some(role) if !granted.contains(&role) => granted.push(role),
            Some(_) => {}
            None => {
                section.refuse(
                    "roles",
                    role,
                    "it takes \"viewer\", \"sender\", \"transactor\", \"worker\", \"operator\" and \"admin\"",
                );
            }
        }
    }
    if granted.is_empty() && roles.is_empty() {
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
    let token = AuthToken { name: name.value.clone(), sha256: sha256?, tenants, roles: granted };
    Some((name, token))
}

fn digest_of(section: &mut Section<'_, '_>, written: &Set<String>, file: &Path) -> Option<[u8; 32]> {
    let path = match written.origin {
        Origin::File { .. } => beside(file, &written.value),
        _ => written.value.clone().into(),
    };
    let refuse = |cause: String| Problem::Secret {
        key: format!("{}.token_file", section.path),
        cause,
        fix: "name a readable file that holds only the token".into(),
    };
    let problem = match std::fs::read(&path) {
        Ok(bytes) => {
            let token = bytes.trim_ascii();
            if token.len() >= TOKEN_BYTES_MIN {
                return Some(Sha256::digest(token).into());
            }
            refuse(format!("{} holds {} bytes, a token has at least {TOKEN_BYTES_MIN}", path.display(), token.len()))
        }
        Err(error) => refuse(format!("{}: {error}", path.display())),
    };
    section.problem_at(problem, written.origin.clone());
    None
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
