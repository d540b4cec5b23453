//! Exit codes (`surface.md`) and what a command failed with.

use std::process::ExitCode;

use thiserror::Error;
use waybill_core::code::Code;

use crate::client::ClientError;
use crate::config::problem::ConfigError;
use crate::output::number;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    Done = 0,
    Failed = 1,
    /// Used wrongly, or configured wrongly.
    Usage = 2,
    /// There is no such thing.
    NotFound = 3,
    /// Its state or another write stands against it.
    Conflict = 4,
    /// Not allowed (401, 403).
    NotAllowed = 5,
    /// The host can't be reached, or doesn't serve now.
    Unreachable = 6,
    /// Some of it is done.
    Partly = 7,
    /// No answer in time.
    TimedOut = 8,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command ended without its result.
#[derive(Debug, Error)]
pub enum CliError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The host refused, or wasn't reached.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Arguments that can't be used together or read.
    #[error("{}: {what}\n  fix {fix}", Code::CLI_USAGE)]
    Usage { what: String, fix: String },
    /// A file or stream.
    #[error("{}: {act} failed: {cause}", Code::CLI_IO)]
    Io { act: String, cause: std::io::Error },
    /// Starting or running the host.
    #[error("{code}: {what}")]
    Host {
        code: Code,
        /// What and what to do.
        what: String,
        exit: Exit,
    },
    /// A list of messages broke off after some of them were committed.
    #[error("{cause}\n  but {committed} before this")]
    BrokeOff {
        cause: Box<Self>,
        /// How many were committed, and up to where.
        committed: String,
    },
    /// Some were done, some weren't; all told already.
    #[error("{done} done, {failed} failed")]
    Partly { done: u64, failed: u64 },
    /// Nothing of it could be done; each told already. Ends with the code of the last failure.
    #[error("none done, {failed} failed")]
    NoneDone {
        failed: u64,
        /// Exit code of the last failure.
        exit: Exit,
    },
    /// Things at a transport's peer that nobody but a person may change; told already.
    #[error("{conflicts} in conflict, left alone: change them by hand, or correct the transport's config")]
    Conflicts { conflicts: usize },
    /// A step that was called by hand didn't end well; its answer is told already.
    #[error("{code}: {what}\n  the step ended as {result}")]
    Step {
        /// Stable code, the plugin's or the host's.
        code: String,
        what: String,
        /// `retryable`, `permanent`, `blocked` or `release`.
        result: &'static str,
        exit: Exit,
    },
    /// Checks failed; told already.
    #[error("{failed} of {count} checks failed")]
    Checks { failed: usize, count: usize },
    /// The host is ready, and couldn't tell some of its status; told already.
    #[error("the host couldn't tell {}", number(*.parts as u64, "part of its status", "parts of its status"))]
    Untold { parts: usize },
    /// A host that was asked for its health isn't well, or nobody answers.
    #[error("{why}")]
    Unwell { why: String },
    /// The configuration in force isn't the one that would be read; told already.
    #[error("{}", number(*.settings as u64, "setting differs", "settings differ"))]
    Differs { settings: usize },
    /// Nothing is there for what was asked, and the exit code was to tell.
    #[error("nothing matches")]
    NothingMatches,
    /// A saga that was followed didn't complete; told already.
    #[error("saga {id} {how}")]
    SagaEnded {
        id: String,
        /// How it ended, or what stopped it.
        how: String,
    },
    /// The operator said no.
    #[error("nothing was done")]
    Declined,
}

impl CliError {
    /// An argument that can't be.
    pub fn usage(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::Usage { what: what.into(), fix: fix.into() }
    }

    /// Ends a command in which there was nothing to list or to do: well, unless it was asked to tell by its exit code.
    pub fn for_nothing(is_nothing: bool, is_asked: bool) -> Result<(), Self> {
        if is_nothing && is_asked { Err(Self::NothingMatches) } else { Ok(()) }
    }

    /// An act that somebody has to agree to.
    pub fn nobody_to_ask(act: &str, fix: &str) -> Self {
        Self::usage(format!("this would {act}, and there is no terminal to ask on"), fix)
    }

    /// For `map_err` on files and streams.
    pub fn io(act: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let act = act.into();
        move |cause| Self::Io { act, cause }
    }

    /// Stable code, where it is one of this host and not told already.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Config(error) => Some(error.code()),
            Self::Usage { .. } => Some(Code::CLI_USAGE),
            Self::Io { .. } => Some(Code::CLI_IO),
            Self::Host { code, .. } => Some(*code),
            _ => None,
        }
    }

    pub fn exit(&self) -> Exit {
        match self {
            Self::Config(_) | Self::Usage { .. } => Exit::Usage,
            Self::Client(error) => error.exit(),
            Self::Host { exit, .. } | Self::NoneDone { exit, .. } | Self::Step { exit, .. } => *exit,
            Self::Partly { .. } | Self::BrokeOff { .. } => Exit::Partly,
            Self::Conflicts { .. } => Exit::Conflict,
            Self::NothingMatches => Exit::NotFound,
            Self::Io { .. }
            | Self::Checks { .. }
            | Self::Untold { .. }
            | Self::Unwell { .. }
            | Self::Differs { .. }
            | Self::SagaEnded { .. }
            | Self::Declined => Exit::Failed,
        }
    }
}
