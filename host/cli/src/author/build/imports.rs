//! What a component imports: whether its world has it, and which rights that needs.

use serde_json::{Value, json};
use waybill_core::code::Code;
use waybill_sandbox::{Ask, Inspection, SandboxError, World};

use super::Project;
use crate::author::project::Language;
use crate::exit::{CliError, Exit};

/// Usual reasons for an import that no host offers, by the beginning of its name.
const CULPRITS: [(&str, &str); 9] = [
    ("wasi_snapshot_preview1", "it was built for wasm32-wasip1: build for wasm32-wasip2"),
    ("env", "code for another runtime (C, JavaScript glue) is linked in: leave out the crate that needs it"),
    (
        "wbg",
        "wasm-bindgen is linked in (often by `getrandom`, `chrono` or `reqwest` with feature `js`): switch that feature off",
    ),
    (
        "__wbindgen",
        "wasm-bindgen is linked in (often by `getrandom`, `chrono` or `reqwest` with feature `js`): switch that feature off",
    ),
    ("wasi:keyvalue", "a crate uses wasi-keyvalue: use `kv` of waybill:plugin"),
    ("wasi:config", "a crate uses wasi-config: settings come in `open-args.config`"),
    ("wasi:tls", "a crate speaks TLS by wasi-tls: `net` speaks TLS in the host"),
    ("wasi:logging", "a crate uses wasi-logging: use `log` of waybill:plugin"),
    (
        "wasi:",
        "a dependency needs a part of WASI that isn't offered, or WASI 0.3: build for wasm32-wasip2 and leave it out",
    ),
];

/// Refuses what the contract doesn't have, and what this world doesn't have.
pub(super) fn check(project: &Project, inspection: &Inspection) -> Result<(), CliError> {
    if let Err(error) = inspection.check_contract() {
        let hint = match &error {
            SandboxError::UnknownImport { import } => culprit(import).map(|why| format!("\n  usually {why}")),
            SandboxError::MissingExport { .. } => Some(format!("\n  {}", exported(inspection))),
            _ => None,
        };
        let what = format!("{}: {error}{}", project.manifest.name, hint.unwrap_or_default());
        return Err(CliError::Host { code: error.code(), what, exit: Exit::Failed });
    }
    let world = project.manifest.world;
    let foreign = |import: &str| EARLY.iter().find(|early| early.is(import) && !early.worlds.contains(&world));
    match inspection.imports.iter().find_map(|import| Some((import, foreign(import)?))) {
        None => Ok(()),
        Some((import, early)) => Err(CliError::Host {
            code: Code::PLUGIN_UNKNOWN_IMPORT,
            what: format!(
                "{}: it imports {import}, which world {} doesn't have\n  fix {}",
                project.manifest.name, project.world, early.fix
            ),
            exit: Exit::Failed,
        }),
    }
}

/// What a component of another world exports instead.
fn exported(inspection: &Inspection) -> String {
    match inspection.exports.as_slice() {
        [] => "it exports nothing".to_owned(),
        exports => format!("it exports {}", exports.join(", ")),
    }
}

/// An interface by which results of a batch are told early: only some worlds have such batches.
struct Early {
    /// With its package, without version.
    interface: &'static str,
    worlds: &'static [World],
    fix: &'static str,
}

impl Early {
    fn is(&self, import: &str) -> bool {
        import.split_once('@').is_some_and(|(name, _)| name == self.interface)
    }
}

const EARLY: [Early; 2] = [
    Early {
        interface: "waybill:plugin/progress",
        worlds: &[World::Transport, World::Broker],
        fix: "call `settled` in a transport only",
    },
    Early { interface: "waybill:inbound/handling", worlds: &[World::Handler], fix: "call `verdict` in a handler only" },
];

fn culprit(import: &str) -> Option<&'static str> {
    CULPRITS.iter().find(|(beginning, _)| import.starts_with(beginning)).map(|(_, why)| *why)
}

/// A right that imports need, and whether the manifest asks for it.
pub(super) struct Right {
    name: &'static str,
    /// Interfaces that need it.
    interfaces: Vec<String>,
    /// What the manifest asks for.
    asked: Vec<String>,
}

impl Right {
    pub(super) fn to_json(&self) -> Value {
        json!({ "right": self.name, "interfaces": self.interfaces, "asked": self.asked })
    }

    pub(super) fn line(&self) -> String {
        let asked = if self.asked.is_empty() { "not asked for".to_owned() } else { self.asked.join(", ") };
        format!("{}: {asked} (imports {})", self.name, self.interfaces.join(", "))
    }

    /// Whether it is used and nobody asked for it. Components of JavaScript and Python import their whole world, so that
    /// their imports tell nothing. None: another toolchain built it.
    pub(super) fn is_forgotten(&self, language: Option<Language>) -> bool {
        self.asked.is_empty() && !matches!(language, Some(Language::Js | Language::Python))
    }

    pub(super) fn warning(&self) -> String {
        format!(
            "warning: it uses {} and asks for no {}: every call will answer `denied`\n  fix add it to [ask] in waybill-plugin.toml",
            self.interfaces.join(" and "),
            self.name
        )
    }
}

/// Rights by the interfaces that need them.
pub(super) fn rights(project: &Project, inspection: &Inspection) -> Vec<Right> {
    let ask = &project.manifest.ask;
    let groups: [(&'static str, &[&str]); 6] = [
        ("net", &["waybill:plugin/net", "waybill:plugin/net-blocking"]),
        ("http", &["waybill:plugin/http", "waybill:plugin/http-blocking"]),
        ("secrets", &["waybill:plugin/secrets"]),
        ("kv", &["waybill:plugin/kv"]),
        ("wasi-http", &["wasi:http/outgoing-handler"]),
        ("wasi-sockets", &["wasi:sockets/tcp", "wasi:sockets/udp"]),
    ];
    let mut rights = Vec::new();
    for (name, wanted) in groups {
        let interfaces: Vec<String> = inspection
            .imports
            .iter()
            .filter_map(|import| import.split_once('@').map(|(path, _)| path))
            .filter(|path| wanted.contains(path))
            .map(str::to_owned)
            .collect();
        if !interfaces.is_empty() {
            rights.push(Right { name, interfaces, asked: asked(ask, name) });
        }
    }
    rights
}

fn asked(ask: &Ask, right: &str) -> Vec<String> {
    let when = |there: bool| if there { vec!["yes".to_owned()] } else { Vec::new() };
    match right {
        "net" => ask.net.iter().map(ToString::to_string).collect(),
        "http" => ask.http.iter().map(ToString::to_string).collect(),
        "secrets" => ask.secrets.clone(),
        "kv" => when(ask.kv),
        "wasi-http" => when(ask.wasi_http),
        _ => when(ask.wasi_sockets),
    }
}
