//! `[auth.oidc]` in the configuration.

use waybill_server::auth::Role;

use crate::configuration::{Case, case};

/// A section that is right, with lines in the place of its own.
fn oidc(other: &[(&str, &str)]) -> String {
    let mut keys = vec![
        ("issuer", "\"https://login.example/realms/shop\""),
        ("client_id", "\"waybill\""),
        ("secret", "\"env:CLIENT_SECRET\""),
        ("roles", "{ \"waybill.ops\" = [\"operator\", \"read:task.**\"], everybody = \"viewer\" }"),
    ];
    for &(name, value) in other {
        keys.retain(|(of, _)| *of != name);
        keys.push((name, value));
    }
    let lines = keys.iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| format!("{name} = {value}\n"));
    format!("[auth.oidc]\n{}", lines.collect::<String>())
}

fn with_secret(toml: &str) -> Case {
    case(toml).env("CLIENT_SECRET", "x")
}

#[test]
fn a_provider_is_read_with_the_roles_that_values_give() {
    let config = with_secret(&oidc(&[])).load().unwrap();
    let oidc_settings = config.auth.oidc.unwrap();
    assert_eq!(oidc_settings.issuer, "https://login.example/realms/shop");
    assert_eq!(oidc_settings.secret, "env:CLIENT_SECRET");
    assert_eq!((oidc_settings.name.as_str(), oidc_settings.scopes.len()), ("single sign-on", 2));
    let mapping = &oidc_settings.mapping;
    assert_eq!((mapping.roles_claim.as_str(), mapping.tenants_claim.as_deref()), ("groups", None));
    let [ops, everybody] = mapping.roles.as_slice() else { panic!("{mapping:?}") };
    assert_eq!(
        (ops.value.as_str(), ops.roles.as_slice(), ops.streams.len()),
        ("waybill.ops", &[Role::Operator][..], 1)
    );
    assert_eq!((everybody.value.as_str(), everybody.roles.as_slice()), ("everybody", &[Role::Viewer][..]));
    assert!(config.shown.iter().all(|shown| shown.value != "x"), "the secret is a reference");
    // Without it nothing of it is there.
    let without = case("").load().unwrap();
    assert!(without.auth.oidc.is_none() && without.shown.iter().all(|shown| !shown.path.starts_with("auth.oidc")));
}

#[test]
fn a_provider_is_what_keeps_others_out() {
    let beyond = "[server]\nlisten = \"0.0.0.0:7070\"\nbehind_tls_proxy = true\n";
    let url = ("public_url", "\"https://waybill.example\"");
    assert!(with_secret(&format!("{beyond}{}", oidc(&[url]))).load().is_ok());
    // The environment alone can't name roles, so it says what is missing.
    let error = case("").env("WAYBILL_AUTH_OIDC_ISSUER", "https://login.example").load().unwrap_err().to_string();
    assert!(error.contains("[auth.oidc] has no roles") && error.contains("[auth.oidc] has no secret"), "{error}");
    let from_env = with_secret(&oidc(&[])).env("WAYBILL_AUTH_OIDC_NAME", "Shop ID").load().unwrap();
    assert_eq!(from_env.auth.oidc.unwrap().name, "Shop ID");
}

#[test]
fn where_people_sign_in_everybody_is_asked_who_they_are() {
    for toml in [oidc(&[]), format!("[auth]\nrequired = true\n{}", oidc(&[]))] {
        let config = with_secret(&toml).load().unwrap();
        assert!(config.auth.required && config.auth.tokens.is_empty(), "{toml}");
        assert!(config.shown.iter().any(|shown| shown.path == "auth.required" && shown.value == true), "{toml}");
        // Others than programs of this machine send then.
        assert!(config.transports.is_empty(), "{toml}");
    }
    let beyond = "[server]\nlisten = \"0.0.0.0:7070\"\nbehind_tls_proxy = true\n";
    let url = ("public_url", "\"https://waybill.example\"");
    for toml in [
        format!("[auth]\nrequired = false\n{}", oidc(&[])),
        format!("{beyond}[auth]\nrequired = false\n{}", oidc(&[url])),
    ] {
        let error = with_secret(&toml).load().unwrap_err().to_string();
        assert!(error.contains("CONFIG.BAD_VALUE: auth.required can't be \"false\""), "{toml}\n{error}");
        assert!(error.contains("[auth.oidc]") && error.matches("CONFIG.").count() == 1, "{toml}\n{error}");
    }
    let from_env = with_secret(&oidc(&[])).env("WAYBILL_AUTH_REQUIRED", "false").load().unwrap_err().to_string();
    assert!(from_env.contains("auth.required") && from_env.contains("environment WAYBILL_AUTH_REQUIRED"), "{from_env}");
    // Nor does one that can't be read open anything.
    let unread = with_secret(&format!("[auth]\nrequired = false\n{}", oidc(&[("roles", "")]))).load();
    let error = unread.unwrap_err().to_string();
    assert!(error.contains("auth.required") && error.contains("[auth.oidc] has no roles"), "{error}");
}

#[test]
fn without_the_page_it_has_no_effect() {
    let config = with_secret(&format!("[ui]\nenabled = false\n{}", oidc(&[]))).load().unwrap();
    assert!(config.auth.required, "programs are asked all the same");
    assert!(
        config.warnings.iter().any(|warning| warning.contains("[auth.oidc] has no effect")),
        "{:?}",
        config.warnings
    );
}

#[test]
fn what_could_let_somebody_in_by_mistake_is_refused() {
    for (key, value, code, words) in [
        ("issuer", "", "CONFIG.MISSING", "issuer"),
        ("client_id", "", "CONFIG.MISSING", "client_id"),
        ("secret", "", "CONFIG.MISSING", "env:NAME"),
        ("secret", "\"written-down\"", "CONFIG.SECRET", "isn't written into the configuration"),
        ("roles", "", "CONFIG.MISSING", "nobody could do anything"),
        ("roles", "{}", "CONFIG.MISSING", "nobody could do anything"),
        ("roles", "[\"viewer\"]", "CONFIG.WRONG_TYPE", "a table"),
        ("roles", "{ ops = [] }", "CONFIG.WRONG_TYPE", "a role, or an array of roles"),
        ("roles", "{ ops = 7 }", "CONFIG.WRONG_TYPE", "a role, or an array of roles"),
        ("roles", "{ ops = \"root\" }", "CONFIG.BAD_VALUE", "\"operator\""),
        ("issuer", "\"http://login.example\"", "CONFIG.BAD_VALUE", "https://"),
        ("issuer", "\"https://login.example?realm=shop\"", "CONFIG.BAD_VALUE", "without a query"),
        ("scopes", "[\"email\"]", "CONFIG.BAD_VALUE", "openid"),
        ("scopes", "[\"openid\", \"a b\"]", "CONFIG.BAD_VALUE", "one word"),
        ("public_url", "\"http://waybill.example\"", "CONFIG.BAD_VALUE", "https:// beyond this machine"),
        ("public_url", "\"https://waybill.example/ops\"", "CONFIG.BAD_VALUE", "ui.base_path"),
        (
            "public_url",
            "\"https://waybill.example\"",
            "CONFIG.BAD_VALUE",
            "server.behind_tls_proxy, http:// with neither",
        ),
        ("role_claim", "\"groups\"", "CONFIG.UNKNOWN_KEY", "did you mean \"roles_claim\"?"),
    ] {
        let toml = oidc(&[(key, value)]);
        let error = with_secret(&toml).load().unwrap_err().to_string();
        assert!(error.contains(code) && error.contains(words), "{toml}\n{error}");
    }
    let beyond = format!("[server]\nlisten = \"0.0.0.0:7070\"\nbehind_tls_proxy = true\n{}", oidc(&[]));
    let error = with_secret(&beyond).load().unwrap_err().to_string();
    assert!(error.contains("CONFIG.MISSING") && error.contains("public_url"), "{error}");
}
