//! Errors of the server, by the code they begin with: what is at fault, and what follows.

use waybill_plugin::transport::{ErrorKind, Fault, Outcome, PluginError};

/// What is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// This message, for ever.
    Message,
    /// This message, this time.
    Attempt,
    /// Its stream: an operator has to act.
    Stream,
    /// The server, for a while: nothing can be sent.
    Server,
    /// The same, and another server may do it.
    Elsewhere,
    /// Our credentials, rights or settings: nothing can be sent.
    Denied,
    /// The server is too old.
    Unsupported,
}

/// A refusal of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What is at fault.
    pub class: Class,
    code: &'static str,
    reason: String,
    /// The server's own code.
    word: String,
}

/// By the first word of an error.
const WORDS: &[(&str, Class, &str, &str)] = &[
    ("ASK", Class::Stream, "REDIS.CLUSTER", CLUSTER),
    ("BUSY", Class::Server, "REDIS.BUSY", "a script of somebody's runs for too long there: `SCRIPT KILL` ends it"),
    ("CLUSTERDOWN", Class::Server, "REDIS.CLUSTER_DOWN", "its cluster lacks nodes"),
    (
        "CROSSSLOT",
        Class::Stream,
        "REDIS.CROSS_SLOT",
        "give the stream's name a part in braces, like {{orders}}: `dedup` needs two keys on one node",
    ),
    (
        "DENIED",
        Class::Denied,
        "REDIS.PROTECTED_MODE",
        "the server takes no clients from other machines without a password: set one there",
    ),
    ("LOADING", Class::Elsewhere, "REDIS.LOADING", "the server reads its data and is ready soon"),
    ("MASTERDOWN", Class::Elsewhere, "REDIS.MASTER_DOWN", "the server is a replica without its primary"),
    ("MISCONF", Class::Server, "REDIS.MISCONF", "the server can't save to its disk and takes no writes"),
    ("MOVED", Class::Stream, "REDIS.CLUSTER", CLUSTER),
    (
        "NOAUTH",
        Class::Denied,
        "REDIS.AUTH",
        "the server wants a password: grant the secret `password`, and `user` if it isn't the default one",
    ),
    (
        "NOGROUP",
        Class::Stream,
        "REDIS.NO_GROUP",
        "the stream or its consumer group isn't there: create it, e.g. by `provision`",
    ),
    ("NOREPLICAS", Class::Server, "REDIS.NO_REPLICAS", "the server has fewer replicas than `min-replicas-to-write`"),
    ("OOM", Class::Server, "REDIS.OOM", "the server has no memory left (`maxmemory`): trim streams or give it more"),
    (
        "READONLY",
        Class::Elsewhere,
        "REDIS.READONLY",
        "the server is a replica and takes no writes: name its primary in `servers`",
    ),
    ("TRYAGAIN", Class::Server, "REDIS.CLUSTER_DOWN", "its cluster moves the stream"),
    ("UNBLOCKED", Class::Stream, "REDIS.NO_GROUP", "the stream was deleted while it was waited for: create it again"),
    ("WRONGPASS", Class::Denied, "REDIS.AUTH", "user or password are wrong, or the user is off"),
    (
        "WRONGTYPE",
        Class::Stream,
        "REDIS.WRONG_TYPE",
        "the key holds something else than a stream: use another name, or delete it",
    ),
];

const CLUSTER: &str = "another node of a cluster has this stream, and no redirects are followed here: \
    name that node in `servers` of a section for its streams";

/// By a part of errors that begin with `ERR`.
const PARTS: &[(&str, Class, &str, &str)] = &[
    ("invalid bulk length", Class::Message, "REDIS.MAX_PAYLOAD", "the payload is larger than `proto-max-bulk-len`"),
    (
        "unknown command",
        Class::Unsupported,
        "REDIS.UNSUPPORTED",
        "use Redis 5 or newer, without that command renamed away",
    ),
    (
        "syntax error",
        Class::Unsupported,
        "REDIS.UNSUPPORTED",
        "`create_streams` and `trim.max_age` need Redis 6.2 or newer",
    ),
    (
        "exhausted the last possible id",
        Class::Stream,
        "REDIS.STREAM_FULL",
        "the stream has no ids left: use another name, or delete it",
    ),
    ("max number of clients", Class::Server, "REDIS.MAX_CLIENTS", "raise `maxclients` there, or close some"),
    ("invalid password", Class::Denied, "REDIS.AUTH", "the password is wrong"),
    (
        "without any password configured",
        Class::Denied,
        "REDIS.AUTH",
        "the server has no password: take `password` away, or set one there",
    ),
    (
        "no password is set",
        Class::Denied,
        "REDIS.AUTH",
        "the server has no password: take `password` away, or set one there",
    ),
    ("executing the script can't", Class::Denied, "REDIS.PERMISSIONS", DEDUP_RIGHTS),
];

const RIGHTS: &str = "allow our user the commands that this plugin's page lists";
const DEDUP_RIGHTS: &str = "allow our user `+get +set +xadd`, and keys `~waybill:sent:*` beside its streams";

/// Sorts out an error of the server.
pub fn sort(text: &[u8]) -> Refusal {
    // Older servers quote what they were told, which may be a password.
    let text = String::from_utf8_lossy(text);
    let text = text.split("with args beginning").next().unwrap_or_default().trim_end_matches([',', ' ']);
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    let lower = rest.to_lowercase();
    let (class, code, advice) = match word {
        // Commands that aren't allowed are so for every message, keys for some.
        "NOPERM" if lower.contains("keys") || lower.contains("a key") => (
            Class::Stream,
            "REDIS.PERMISSIONS",
            "allow our user the stream's key (with `dedup` also `~waybill:sent:*`)",
        ),
        "NOPERM" => (Class::Denied, "REDIS.PERMISSIONS", RIGHTS),
        _ => {
            let known = WORDS.iter().find(|(known, ..)| *known == word);
            let known = known.or_else(|| PARTS.iter().find(|(part, ..)| lower.contains(part)));
            known.map_or((Class::Attempt, "REDIS.ERROR", "see the server's log"), |(_, class, code, advice)| {
                (*class, *code, *advice)
            })
        }
    };
    Refusal { class, code, reason: format!("the server refused: {}; {advice}", shown(text)), word: shown(word) }
}

impl Refusal {
    fn fault(&self) -> Fault {
        Fault::new(self.code, self.reason.as_str()).with_attribute("broker-code", self.word.as_str())
    }

    /// Code for the operator.
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// As the fate of one message; none if nothing can be sent at all.
    pub fn outcome(&self) -> Option<Outcome> {
        match self.class {
            Class::Message => Some(Outcome::Permanent(self.fault())),
            Class::Attempt => Some(Outcome::Retryable(self.fault())),
            Class::Stream => Some(self.fault().blocking("")),
            Class::Server | Class::Elsewhere | Class::Denied | Class::Unsupported => None,
        }
    }

    /// As the failure of a call.
    pub fn error(&self) -> PluginError {
        let kind = match self.class {
            Class::Denied | Class::Stream => ErrorKind::Denied,
            Class::Unsupported => ErrorKind::Unsupported,
            Class::Message | Class::Attempt | Class::Server | Class::Elsewhere => ErrorKind::Unavailable,
        };
        PluginError::new(kind, self.fault())
    }
}

/// A text as an operator may see it: short, on one line.
pub fn shown(text: &str) -> String {
    const CHARS: usize = 160;
    text.chars().take(CHARS).map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_sorted_by_their_words() {
        for (text, class, code) in [
            ("NOAUTH Authentication required.", Class::Denied, "REDIS.AUTH"),
            ("WRONGPASS invalid username-password pair or user is disabled.", Class::Denied, "REDIS.AUTH"),
            ("ERR invalid password", Class::Denied, "REDIS.AUTH"),
            (
                "ERR AUTH <password> called without any password configured for the default user.",
                Class::Denied,
                "REDIS.AUTH",
            ),
            ("NOPERM this user has no permissions to run the 'xadd' command", Class::Denied, "REDIS.PERMISSIONS"),
            (
                "NOPERM this user has no permissions to access one of the keys used as arguments",
                Class::Stream,
                "REDIS.PERMISSIONS",
            ),
            ("NOPERM No permissions to access a key", Class::Stream, "REDIS.PERMISSIONS"),
            ("WRONGTYPE Operation against a key holding the wrong kind of value", Class::Stream, "REDIS.WRONG_TYPE"),
            ("OOM command not allowed when used memory > 'maxmemory'.", Class::Server, "REDIS.OOM"),
            ("LOADING Redis is loading the dataset in memory", Class::Elsewhere, "REDIS.LOADING"),
            ("READONLY You can't write against a read only replica.", Class::Elsewhere, "REDIS.READONLY"),
            ("MASTERDOWN Link with MASTER is down", Class::Elsewhere, "REDIS.MASTER_DOWN"),
            ("MISCONF Redis is configured to save RDB snapshots", Class::Server, "REDIS.MISCONF"),
            ("BUSY Redis is busy running a script.", Class::Server, "REDIS.BUSY"),
            ("CLUSTERDOWN Hash slot not served", Class::Server, "REDIS.CLUSTER_DOWN"),
            ("MOVED 3999 127.0.0.1:6381", Class::Stream, "REDIS.CLUSTER"),
            ("CROSSSLOT Keys in request don't hash to the same slot", Class::Stream, "REDIS.CROSS_SLOT"),
            ("NOREPLICAS Not enough good replicas to write.", Class::Server, "REDIS.NO_REPLICAS"),
            ("NOGROUP No such key 'a' or consumer group 'b'", Class::Stream, "REDIS.NO_GROUP"),
            ("UNBLOCKED the stream key no longer exists", Class::Stream, "REDIS.NO_GROUP"),
            ("DENIED Redis is running in protected mode", Class::Denied, "REDIS.PROTECTED_MODE"),
            ("ERR Protocol error: invalid bulk length", Class::Message, "REDIS.MAX_PAYLOAD"),
            ("ERR unknown command `XADD`, with args beginning with: `a`", Class::Unsupported, "REDIS.UNSUPPORTED"),
            ("ERR max number of clients reached", Class::Server, "REDIS.MAX_CLIENTS"),
            (
                "ERR The stream has exhausted the last possible ID, unable to add more items",
                Class::Stream,
                "REDIS.STREAM_FULL",
            ),
            ("ERR something new", Class::Attempt, "REDIS.ERROR"),
            ("", Class::Attempt, "REDIS.ERROR"),
        ] {
            let refusal = sort(text.as_bytes());
            assert_eq!((refusal.class, refusal.code), (class, code), "{text}");
        }
    }

    #[test]
    fn what_a_server_quotes_is_never_shown() {
        let refusal =
            sort(b"ERR unknown command `HELLO`, with args beginning with: `3`, `AUTH`, `default`, `s3cret`, ");
        assert!(refusal.reason.contains("unknown command `HELLO`;"), "{}", refusal.reason);
        assert!(!refusal.reason.contains("s3cret"));
    }

    #[test]
    fn only_what_concerns_one_message_is_the_fate_of_one() {
        for (text, has_fate) in [("WRONGTYPE x", true), ("ERR x", true), ("OOM x", false), ("NOAUTH x", false)] {
            assert_eq!(sort(text.as_bytes()).outcome().is_some(), has_fate, "{text}");
        }
        assert_eq!(sort(b"OOM x").error().kind, ErrorKind::Unavailable);
        assert_eq!(sort(b"NOAUTH x").error().kind, ErrorKind::Denied);
        assert_eq!(sort(b"WRONGTYPE x").error().fault.attributes, [("broker-code".to_owned(), "WRONGTYPE".to_owned())]);
    }
}
