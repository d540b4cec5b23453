//! What can be wrong with a configuration: stable code, what, where and the fix.
//!
//! No message ever quotes a line of the file or the value of a secret.

use std::fmt;
use std::path::PathBuf;

use thiserror::Error;
use waybill_core::code::Code;
use waybill_core::document::Position;

/// Where a setting comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    Default,
    File {
        path: PathBuf,
        /// Where in it; none = the file as a whole.
        at: Option<Position>,
    },
    Env(String),
    /// A command line flag.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, at: Some(at) } => write!(f, "{}:{}:{}", path.display(), at.line, at.column),
            Self::File { path, at: None } => write!(f, "{}", path.display()),
            Self::Env(name) => write!(f, "environment {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    /// The file can't be read.
    #[error("can't read the configuration: {cause}")]
    File { cause: String },
    #[error("this isn't TOML: {message}")]
    Syntax {
        /// What the parser says.
        message: String,
    },
    /// A key that nobody knows.
    #[error("there is no key {key:?} in {section}")]
    UnknownKey {
        key: String,
        /// Section, e.g. `[outbox]`, or `the environment`.
        section: String,
        suggestion: Option<String>,
        /// What may stand there.
        known: String,
    },
    /// A section that nobody knows.
    #[error("there is no section [{section}]")]
    UnknownSection { section: String, suggestion: Option<String>, known: String },
    /// A value of another type.
    #[error("{key} must be {expected}, not {found}")]
    WrongType {
        /// Key with its section.
        key: String,
        expected: String,
        found: &'static str,
    },
    /// A value of the right type that can't be.
    #[error("{key} can't be {value}: {cause}")]
    BadValue {
        /// Key with its section.
        key: String,
        value: String,
        /// Why, and what may be written.
        cause: String,
    },
    /// A key that has to be there.
    #[error("{section} has no {key}")]
    Missing { section: String, key: String, fix: String },
    #[error("{what}")]
    Duplicate {
        /// What is there twice.
        what: String,
        fix: String,
    },
    /// A route to nowhere.
    #[error("route {pattern:?} names transport {transport:?}, which isn't configured")]
    UnknownTransport {
        /// Pattern of the route.
        pattern: String,
        transport: String,
        suggestion: Option<String>,
    },
    /// A plugin that isn't there.
    #[error("{endpoint} names plugin {plugin:?}, which {cause}")]
    PluginMissing {
        endpoint: String,
        plugin: String,
        /// `isn't bundled`, `isn't a file`, ...
        cause: String,
        fix: String,
    },
    /// A secret that can't be had. Never holds the secret.
    #[error("{key} can't be read: {cause}")]
    Secret {
        /// Key with its section.
        key: String,
        cause: String,
        fix: String,
    },
    /// Open to others without a lock.
    #[error(
        "server.listen = {listen} is reachable from other machines, and [auth] required = false asks nobody for a token"
    )]
    OpenListen { listen: String },
    /// Open to whoever reaches the proxy, without a lock.
    #[error(
        "server.behind_tls_proxy lets in whoever reaches the proxy, and [auth] required = false asks nobody for a token"
    )]
    OpenProxy,
    /// Readable on the way.
    #[error(
        "server.listen = {listen} is reachable from other machines, and tokens and messages would go in clear text"
    )]
    ClearText { listen: String },
    /// No place for the data.
    #[error("there is no home folder, so the data folder isn't known")]
    NoDataFolder,
}

impl Problem {
    /// Stable code; each has a page in `docs/errors/`.
    pub fn code(&self) -> Code {
        match self {
            Self::File { .. } => Code::CONFIG_FILE,
            Self::Syntax { .. } => Code::CONFIG_SYNTAX,
            Self::UnknownKey { .. } => Code::CONFIG_UNKNOWN_KEY,
            Self::UnknownSection { .. } => Code::CONFIG_UNKNOWN_SECTION,
            Self::WrongType { .. } => Code::CONFIG_WRONG_TYPE,
            Self::BadValue { .. } => Code::CONFIG_BAD_VALUE,
            Self::Missing { .. } => Code::CONFIG_MISSING,
            Self::Duplicate { .. } => Code::CONFIG_DUPLICATE,
            Self::UnknownTransport { .. } => Code::CONFIG_UNKNOWN_TRANSPORT,
            Self::PluginMissing { .. } => Code::CONFIG_PLUGIN_MISSING,
            Self::Secret { .. } => Code::CONFIG_SECRET,
            Self::OpenListen { .. } | Self::OpenProxy => Code::CONFIG_LISTEN,
            Self::ClearText { .. } => Code::CONFIG_CLEAR_TEXT,
            Self::NoDataFolder => Code::CONFIG_NO_DATA_FOLDER,
        }
    }

    pub fn fix(&self) -> String {
        let meant = |suggestion: &Option<String>, otherwise: String| match suggestion {
            Some(name) => format!("did you mean {name:?}?"),
            None => otherwise,
        };
        match self {
            Self::File { .. } => "check the path and its permissions, or leave --config out".into(),
            Self::Syntax { .. } => "correct the line; strings need quotes, tables are [name]".into(),
            Self::UnknownKey { suggestion, known, .. } => meant(suggestion, format!("known: {known}")),
            Self::UnknownSection { suggestion, known, .. } => meant(suggestion, format!("known: {known}")),
            Self::WrongType { expected, .. } => format!("write {expected}"),
            Self::BadValue { .. } => "correct the value; docs/configuration.md has an example".into(),
            Self::Missing { fix, .. }
            | Self::Duplicate { fix, .. }
            | Self::PluginMissing { fix, .. }
            | Self::Secret { fix, .. } => fix.clone(),
            Self::UnknownTransport { suggestion, transport, .. } => {
                meant(suggestion, format!("add [transport.{transport}], or name a configured one"))
            }
            Self::OpenListen { .. } => {
                "leave [auth] required out or set it to true (docs/configuration.md), or listen on 127.0.0.1".into()
            }
            Self::OpenProxy => {
                "leave [auth] required out or set it to true (docs/configuration.md), or leave server.behind_tls_proxy out \
                 and have no proxy in front"
                    .into()
            }
            Self::ClearText { .. } => {
                "give [server.tls] cert and key; or set server.behind_tls_proxy = true if a proxy in front \
                 speaks TLS and nobody else reaches this address; or listen on 127.0.0.1"
                    .into()
            }
            Self::NoDataFolder => "give --data DIR, or store.url in a waybill.toml".into(),
        }
    }
}

/// A problem and the setting it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    pub problem: Problem,
    pub origin: Origin,
}

impl fmt::Display for Diagnostic {
    /// Two or three lines: code and what, where, fix.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.problem.code(), self.problem)?;
        if self.origin != Origin::Default {
            writeln!(f, "  at  {}", self.origin)?;
        }
        write!(f, "  fix {}", self.problem.fix())
    }
}

/// Most problems printed; a file with more is another kind of file.
const PRINTED_MAX: usize = 20;

/// All that is wrong with a configuration. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError(pub Vec<Diagnostic>);

impl ConfigError {
    pub fn one(problem: Problem, origin: Origin) -> Self {
        Self(vec![Diagnostic { problem, origin }])
    }
    /// Code of the first problem.
    pub fn code(&self) -> Code {
        self.0.first().map_or(Code::CONFIG_FILE, |first| first.problem.code())
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, diagnostic) in self.0.iter().take(PRINTED_MAX).enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{diagnostic}")?;
        }
        if self.0.len() > PRINTED_MAX {
            write!(f, "\n(and {} more)", self.0.len() - PRINTED_MAX)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}
