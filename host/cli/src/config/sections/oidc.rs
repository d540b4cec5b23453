//! `[auth.oidc]`: where people sign in for the page.

use std::path::Path;

use url::Url;
use waybill_core::document::Value;
use waybill_server::listen::is_loopback;
use waybill_server::oidc::{Mapping, RolesOf, is_guarded};

use super::is_address;
use super::server::place;
use crate::config::kinds::Set;
use crate::config::model::{OidcSettings, ServerSettings};
use crate::config::problem::Problem;
use crate::config::reader::{Key, KeyInfo, Section};
use crate::config::scalar::kind_of;
use crate::config::tokens::read_roles;

/// Longest name of a provider, in letters: it stands in a button.
const NAME_LETTERS_MAX: usize = 40;
/// What makes a sign-in one of OpenID Connect.
const OPENID: &str = "openid";
const ROLES_FORM: &str = "a table: \"value of the claim\" = [\"viewer\", ...]";

/// Reads `[auth.oidc]`.
pub fn oidc(
    mut section: Section<'_, '_>,
    file: &Path,
    server: &ServerSettings,
    has_page: bool,
    warnings: &mut Vec<String>,
) -> Option<OidcSettings> {
    let issuer =
        section.required_text("issuer", "the provider's address, as it calls itself", "\"https://login.example.com\"");
    let client_id = section.required_text("client_id", "what the provider calls this host", "\"waybill\"");
    let secret = secret(&mut section);
    let name = section.text("name", "a word for the provider, e.g. \"Shop ID\"", "single sign-on");
    let scopes = section.texts("scopes", "an array of scopes", &[OPENID, "email"]);
    let claim = "a claim's name, or a JSON pointer, e.g. \"/realm_access/roles\"";
    let roles_claim = section.text("roles_claim", claim, "groups");
    let roles = roles(&mut section);
    let tenants_claim = section.optional_text("tenants_claim", claim);
    let public_url = section.optional_text("public_url", "an address, e.g. \"https://waybill.example.com\"");
    let ca = section.optional_text("ca", "a file of certificates to trust, in PEM");
    if let Some(written) = issuer.as_ref().filter(|written| !is_address(&written.value) || !is_guarded(&written.value))
    {
        let takes = "it takes an address that begins with https://, on this machine also http://, without a query";
        section.refuse("issuer", written, takes);
    }
    if name.value.chars().count() > NAME_LETTERS_MAX || name.value.chars().any(char::is_control) {
        section.refuse("name", &name, format!("it takes at most {NAME_LETTERS_MAX} letters on one line"));
    }
    let is_scope =
        |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic() && b != b'"' && b != b'\\');
    for scope in scopes.iter().filter(|scope| !is_scope(&scope.value)) {
        section.refuse("scopes", scope, "a scope is one word");
    }
    if !scopes.iter().any(|scope| scope.value == OPENID) {
        let written = scopes.iter().map(|scope| scope.value.as_str()).collect::<Vec<_>>().join(" ");
        let set = Set { value: written, origin: section.at.clone() };
        section.refuse("scopes", &set, "\"openid\" has to be among them: without it nobody is named");
    }
    check_public_url(&mut section, public_url.as_ref(), server);
    if !has_page {
        warnings.push("[auth.oidc] has no effect with ui.enabled = false: people sign in at the page".to_owned());
    }
    section.done();
    Some(OidcSettings {
        issuer: issuer?.value,
        client_id: client_id?.value,
        secret: secret?.value,
        name: name.value,
        scopes: scopes.into_iter().map(|scope| scope.value).collect(),
        mapping: Mapping {
            roles_claim: roles_claim.value,
            roles,
            tenants_claim: tenants_claim.map(|claim| claim.value),
        },
        public_url: public_url.map(|url| url.value),
        ca: ca.map(|ca| place(file, ca)),
    })
}

/// The client's secret, which has to be there.
fn secret(section: &mut Section<'_, '_>) -> Option<Set<String>> {
    let before = section.reader.problems.len();
    let secret = section.secret("secret");
    if secret.is_none() && section.reader.problems.len() == before {
        missing(section, "secret", "write secret = \"env:NAME\" or \"file:/path\"");
    }
    secret
}

fn missing(section: &mut Section<'_, '_>, key: &str, fix: &str) {
    let problem = Problem::Missing { section: section.heading(), key: key.to_owned(), fix: fix.to_owned() };
    let at = section.at.clone();
    section.problem_at(problem, at);
}

/// Where browsers reach this host is known for one on their own machine only.
fn check_public_url(section: &mut Section<'_, '_>, written: Option<&Set<String>>, server: &ServerSettings) {
    let Some(written) = written else {
        if server.behind_tls_proxy || !is_loopback(server.listen.ip()) {
            missing(
                section,
                "public_url",
                "write public_url = \"https://...\": the provider leads browsers back there",
            );
        }
        return;
    };
    let is_bare = Url::parse(&written.value).is_ok_and(|url| url.path() == "/");
    if !is_address(&written.value) || !is_guarded(&written.value) || !is_bare {
        let takes = "it takes scheme, name and port as browsers have them, https:// beyond this machine, and no path: that is ui.base_path";
        section.refuse("public_url", written, takes);
        return;
    }
    // Cookies and forms go by what browsers have.
    let is_encrypted = server.tls.is_some() || server.behind_tls_proxy;
    if Url::parse(&written.value).is_ok_and(|url| (url.scheme() == "https") != is_encrypted) {
        let takes = "https:// goes with [server.tls] or server.behind_tls_proxy, http:// with neither";
        section.refuse("public_url", written, takes);
    }
}

/// A table of roles by the values of a claim that give them.
fn roles(section: &mut Section<'_, '_>) -> Vec<RolesOf> {
    let key = Key::new("roles");
    // A table: the environment has no form for it.
    let info = KeyInfo {
        section: section.documented.clone(),
        key,
        milliseconds: false,
        takes: ROLES_FORM.to_owned(),
        default: None,
        env: None,
    };
    section.reader.keys.push(info);
    let node = section.node(&key);
    let table = match node.map(|node| &node.value) {
        Some(Value::Table(table)) if !table.entries.is_empty() => table,
        None | Some(Value::Table(_)) => {
            missing(
                section,
                "roles",
                "write roles = { \"a group at the provider\" = [\"operator\"] }: nobody could do anything",
            );
            return Vec::new();
        }
        Some(other) => {
            let (key, expected) = (format!("{}.roles", section.path), ROLES_FORM.to_owned());
            let at = section.at.clone();
            section.problem_at(Problem::WrongType { key, expected, found: kind_of(other) }, at);
            return Vec::new();
        }
    };
    let mut all = Vec::new();
    for entry in &table.entries {
        let origin = section.reader.in_file(entry.node.at);
        let text = |value: &Value| match value {
            Value::Text(text) => Some(Set { value: text.clone(), origin: origin.clone() }),
            _ => None,
        };
        let written: Option<Vec<Set<String>>> = match &entry.node.value {
            Value::List(nodes) => nodes.iter().map(|node| text(&node.value)).collect(),
            value => text(value).map(|one| vec![one]),
        };
        let Some(written) = written.filter(|written| !written.is_empty()) else {
            let key = format!("{}.roles.{}", section.path, entry.name);
            let expected = "a role, or an array of roles".to_owned();
            section.problem_at(Problem::WrongType { key, expected, found: kind_of(&entry.node.value) }, origin.clone());
            continue;
        };
        let (roles, streams) = read_roles(section, &written);
        let shown: Vec<&str> = written.iter().map(|role| role.value.as_str()).collect();
        section.show(&format!("roles.{}", entry.name), shown.into(), origin.clone());
        all.push(RolesOf { value: entry.name.clone(), roles, streams });
    }
    all
}
