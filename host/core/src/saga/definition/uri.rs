//! What does or undoes a step, as a URI.

use std::fmt;
use std::sync::Arc;

use crate::saga::id::is_name;
use crate::saga::limits::URI_BYTES_MAX;
use crate::step_address::StepAddress;
use crate::suggest::nearest;

/// The signal of `wait:` that stands for a person's decision.
pub const APPROVAL: &str = "approval";

/// What does or undoes a step.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// POST to a URL; the answer's JSON is the output.
    Http(Arc<str>),
    /// A message to this subject through the outbox; a correlated reply completes it.
    Bus(Arc<str>),
    /// A step of a participant.
    Fn(StepAddress),
    /// A sub-saga: the definition, and its version if one is named.
    Saga {
        /// Name of the definition.
        definition: Arc<str>,
        /// Its version; none = the latest when the root begins.
        version: Option<u32>,
    },
    /// Waits for a signal.
    Signal(Arc<str>),
    /// Waits for a person who approves or rejects.
    Approval,
}

/// Forms that are taken, for messages.
pub const FORMS: &str = "http://... or https://..., bus:<subject>, fn:<participant>/<step> or fn:<step>, \
saga:<definition> or saga:<definition>@<version>, wait:<signal>, wait:approval";

/// A colon ends the scheme in this many forms.
const SCHEMES: [&str; 6] = ["http", "https", "bus", "fn", "saga", "wait"];

impl Action {
    /// Reads a URI. The error says what is wrong, without the URI itself.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > URI_BYTES_MAX {
            return Err(format!("it has {} bytes, at most {URI_BYTES_MAX} are taken", text.len()));
        }
        let scheme = text.split_once(':').map_or(text, |(scheme, _)| scheme);
        match text.split_once(':') {
            Some(("http" | "https", _)) => http(text),
            Some(("bus", subject)) => {
                crate::topic::Topic::parse(text).map_err(|error| error.to_string())?;
                Ok(Self::Bus(Arc::from(subject)))
            }
            Some(("fn", _)) => StepAddress::parse(text).map(Self::Fn).map_err(|error| error.to_string()),
            Some(("saga", name)) => saga(name),
            Some(("wait", APPROVAL)) => Ok(Self::Approval),
            Some(("wait", signal)) if is_name(signal) => Ok(Self::Signal(Arc::from(signal))),
            Some(("wait", signal)) => Err(format!("{signal:?} isn't a name for a signal (letters, digits, - _ .)")),
            _ => {
                let near = nearest(scheme, SCHEMES);
                let hint = near.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
                Err(format!("the scheme {scheme:?} isn't known{hint} Write {FORMS}"))
            }
        }
    }

    /// What it calls or waits for, in one word.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Http(_) => "http",
            Self::Bus(_) => "bus",
            Self::Fn(_) => "fn",
            Self::Saga { .. } => "saga",
            Self::Signal(_) => "signal",
            Self::Approval => "approval",
        }
    }
}

fn http(text: &str) -> Result<Action, String> {
    let bare = text.strip_prefix("http:").filter(|rest| rest.starts_with("http")).unwrap_or(text);
    // No route sees it, and definitions of earlier versions are read again.
    crate::topic::Topic::stored(bare).map_err(|error| error.to_string())?;
    Ok(Action::Http(Arc::from(bare)))
}

fn saga(name: &str) -> Result<Action, String> {
    let (name, version) = match name.split_once('@') {
        Some((name, version)) => {
            let version = version.parse().ok().filter(|version| *version > 0);
            (name, Some(version.ok_or("a version is a number from 1, as in saga:order@2")?))
        }
        None => (name, None),
    };
    if !is_name(name) {
        return Err(format!("{name:?} isn't a name of a definition (letters, digits, - _ .)"));
    }
    Ok(Action::Saga { definition: Arc::from(name), version })
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(url) => f.write_str(url),
            Self::Bus(subject) => write!(f, "bus:{subject}"),
            Self::Fn(address) => address.fmt(f),
            Self::Saga { definition, version: Some(version) } => write!(f, "saga:{definition}@{version}"),
            Self::Saga { definition, version: None } => write!(f, "saga:{definition}"),
            Self::Signal(name) => write!(f, "wait:{name}"),
            Self::Approval => write!(f, "wait:{APPROVAL}"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_form_is_read_and_written_the_same() {
        for text in [
            "https://pay.example/charge?x=1",
            "http://127.0.0.1:9/x",
            "bus:orders.reserve",
            "fn:orders/reserve",
            "fn:reserve",
            "saga:payment",
            "saga:payment@3",
            "wait:paid",
            "wait:approval",
        ] {
            assert_eq!(Action::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Action::parse("http:https://a/b"), Action::parse("https://a/b"));
    }

    #[test]
    fn other_texts_are_refused_with_what_may_be_written() {
        for bad in
            ["", "reserve", "http:", "http://u:p@h/", "bus:", "fn:A/b", "saga:", "saga:x@0", "saga:x@y", "wait:a b"]
        {
            assert!(Action::parse(bad).is_err(), "{bad}");
        }
        assert!(Action::parse("htpp://a").unwrap_err().contains("did you mean \"http\""));
    }
}
