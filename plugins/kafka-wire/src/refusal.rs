//! Error codes of the servers: what is at fault, and what follows.

use waybill_plugin::transport::{ErrorKind, Fault, PluginError};

/// What is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// This message, for ever.
    Message,
    /// What was asked, this time.
    Attempt,
    /// The partition isn't where it was thought to be, or can't be written now. [`Refusal::may_be_there`] tells whether something
    /// was taken all the same.
    Elsewhere,
    /// It may have been taken all the same.
    Unknown,
    /// The number by which the cluster knows this producer: a new one is asked for.
    Producer,
    /// The topic or the group: an operator has to act.
    Topic,
    /// Our credentials, rights or settings: nothing can be done at all.
    Denied,
    /// The server is too old, or too new.
    Unsupported,
}

/// What one number means.
struct Meaning {
    number: i16,
    name: &'static str,
    class: Class,
    code: &'static str,
    advice: &'static str,
}

const fn means(number: i16, name: &'static str, class: Class, code: &'static str, advice: &'static str) -> Meaning {
    Meaning { number, name, class, code, advice }
}

const NO_LEADER: &str = "another server leads the partition, or none does: it is looked for";
const COORDINATOR: &str = "the server that keeps producers and groups is being found: it is asked again";
const RIGHTS: &str = "allow our user what this plugin's page lists";
const PRODUCER: &str =
    "the partition lost what it knew of this producer: a new number is asked for, and doubles may follow";
const REJOIN: &str = "the group is shared out anew: it is joined again";

const MEANINGS: &[Meaning] = &[
    means(1, "OFFSET_OUT_OF_RANGE", Class::Attempt, "KAFKA.OFFSET", "the offset isn't kept any more"),
    means(2, "CORRUPT_MESSAGE", Class::Message, "KAFKA.CORRUPT", "it was changed on its way, twice"),
    means(
        3,
        "UNKNOWN_TOPIC_OR_PARTITION",
        Class::Elsewhere,
        "KAFKA.NO_TOPIC",
        "the topic isn't there: create it, e.g. by `provision`",
    ),
    means(5, "LEADER_NOT_AVAILABLE", Class::Elsewhere, "KAFKA.NO_LEADER", NO_LEADER),
    means(6, "NOT_LEADER_OR_FOLLOWER", Class::Elsewhere, "KAFKA.NO_LEADER", NO_LEADER),
    means(7, "REQUEST_TIMED_OUT", Class::Unknown, "KAFKA.REQUEST_TIMEOUT", "its replicas didn't have it in time"),
    means(8, "BROKER_NOT_AVAILABLE", Class::Elsewhere, "KAFKA.NO_LEADER", NO_LEADER),
    means(9, "REPLICA_NOT_AVAILABLE", Class::Elsewhere, "KAFKA.NO_LEADER", NO_LEADER),
    means(
        10,
        "MESSAGE_TOO_LARGE",
        Class::Message,
        "KAFKA.MAX_MESSAGE",
        "the topic takes no message so large (`max.message.bytes`)",
    ),
    means(13, "NETWORK_EXCEPTION", Class::Unknown, "KAFKA.LOST", "the server lost a connection of its own"),
    means(14, "COORDINATOR_LOAD_IN_PROGRESS", Class::Elsewhere, "KAFKA.COORDINATOR", COORDINATOR),
    means(15, "COORDINATOR_NOT_AVAILABLE", Class::Elsewhere, "KAFKA.COORDINATOR", COORDINATOR),
    means(16, "NOT_COORDINATOR", Class::Elsewhere, "KAFKA.COORDINATOR", COORDINATOR),
    means(
        17,
        "INVALID_TOPIC_EXCEPTION",
        Class::Topic,
        "KAFKA.TOPIC",
        "the topic's name can't be one, or the topic is the cluster's own",
    ),
    means(
        18,
        "RECORD_LIST_TOO_LARGE",
        Class::Message,
        "KAFKA.MAX_MESSAGE",
        "the topic's segments are smaller than the message (`segment.bytes`)",
    ),
    means(
        19,
        "NOT_ENOUGH_REPLICAS",
        Class::Elsewhere,
        "KAFKA.TOO_FEW_REPLICAS",
        "fewer replicas are in sync than `min.insync.replicas`",
    ),
    means(
        20,
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        Class::Unknown,
        "KAFKA.TOO_FEW_REPLICAS",
        "replicas fell behind while it was written",
    ),
    means(22, "ILLEGAL_GENERATION", Class::Attempt, "KAFKA.REBALANCED", REJOIN),
    means(
        23,
        "INCONSISTENT_GROUP_PROTOCOL",
        Class::Topic,
        "KAFKA.GROUP_PROTOCOL",
        "the group's other members share out in no way that is known here: use `range` there, or another group",
    ),
    means(24, "INVALID_GROUP_ID", Class::Topic, "KAFKA.GROUP", "the group's name can't be one"),
    means(25, "UNKNOWN_MEMBER_ID", Class::Attempt, "KAFKA.REBALANCED", REJOIN),
    means(
        26,
        "INVALID_SESSION_TIMEOUT",
        Class::Topic,
        "KAFKA.SESSION_TIMEOUT",
        "the server takes no such `session_timeout` (`group.min.session.timeout.ms`, `group.max.session.timeout.ms`)",
    ),
    means(27, "REBALANCE_IN_PROGRESS", Class::Attempt, "KAFKA.REBALANCED", REJOIN),
    means(29, "TOPIC_AUTHORIZATION_FAILED", Class::Topic, "KAFKA.PERMISSIONS", RIGHTS),
    means(30, "GROUP_AUTHORIZATION_FAILED", Class::Topic, "KAFKA.PERMISSIONS", RIGHTS),
    means(31, "CLUSTER_AUTHORIZATION_FAILED", Class::Denied, "KAFKA.PERMISSIONS", RIGHTS),
    means(
        32,
        "INVALID_TIMESTAMP",
        Class::Message,
        "KAFKA.TIMESTAMP",
        "the topic takes no message so old, or so new (`message.timestamp.before.max.ms`, `message.timestamp.after.max.ms`)",
    ),
    means(
        33,
        "UNSUPPORTED_SASL_MECHANISM",
        Class::Denied,
        "KAFKA.SASL_MECHANISM",
        "set `sasl` to a mechanism that the server has",
    ),
    means(
        34,
        "ILLEGAL_SASL_STATE",
        Class::Denied,
        "KAFKA.SASL_MECHANISM",
        "the server asks for no login on this port: name another one in `servers`, or take the credentials away",
    ),
    means(35, "UNSUPPORTED_VERSION", Class::Unsupported, "KAFKA.UNSUPPORTED", "use Kafka 2.1 or newer"),
    means(36, "TOPIC_ALREADY_EXISTS", Class::Topic, "KAFKA.PROVISION", "somebody created it meanwhile"),
    means(37, "INVALID_PARTITIONS", Class::Topic, "KAFKA.PROVISION", "the number of partitions can't be had"),
    means(38, "INVALID_REPLICATION_FACTOR", Class::Topic, "KAFKA.PROVISION", "the cluster has fewer servers than that"),
    means(40, "INVALID_CONFIG", Class::Topic, "KAFKA.PROVISION", "one of the topic's settings is wrong"),
    means(
        41,
        "NOT_CONTROLLER",
        Class::Elsewhere,
        "KAFKA.COORDINATOR",
        "another server manages the cluster: it is asked",
    ),
    means(
        42,
        "INVALID_REQUEST",
        Class::Unsupported,
        "KAFKA.UNSUPPORTED",
        "the server doesn't understand what is asked",
    ),
    means(
        43,
        "UNSUPPORTED_FOR_MESSAGE_FORMAT",
        Class::Topic,
        "KAFKA.FORMAT",
        "the topic keeps a format before Kafka 0.11",
    ),
    means(44, "POLICY_VIOLATION", Class::Topic, "KAFKA.POLICY", "a policy of the cluster forbids it"),
    means(45, "OUT_OF_ORDER_SEQUENCE_NUMBER", Class::Producer, "KAFKA.PRODUCER", PRODUCER),
    means(47, "INVALID_PRODUCER_EPOCH", Class::Producer, "KAFKA.PRODUCER", PRODUCER),
    means(53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", Class::Denied, "KAFKA.PERMISSIONS", RIGHTS),
    means(54, "SECURITY_DISABLED", Class::Denied, "KAFKA.PERMISSIONS", RIGHTS),
    means(
        56,
        "KAFKA_STORAGE_ERROR",
        Class::Elsewhere,
        "KAFKA.STORAGE",
        "the partition's disk fails there: look at the server's log",
    ),
    means(58, "SASL_AUTHENTICATION_FAILED", Class::Denied, "KAFKA.AUTH", "user or password are wrong"),
    means(59, "UNKNOWN_PRODUCER_ID", Class::Producer, "KAFKA.PRODUCER", PRODUCER),
    means(74, "FENCED_LEADER_EPOCH", Class::Elsewhere, "KAFKA.NO_LEADER", NO_LEADER),
    means(75, "UNKNOWN_LEADER_EPOCH", Class::Elsewhere, "KAFKA.NO_LEADER", NO_LEADER),
    means(
        76,
        "UNSUPPORTED_COMPRESSION_TYPE",
        Class::Topic,
        "KAFKA.FORMAT",
        "the server doesn't know this `compression`",
    ),
    means(77, "STALE_BROKER_EPOCH", Class::Elsewhere, "KAFKA.NO_LEADER", NO_LEADER),
    means(78, "OFFSET_NOT_AVAILABLE", Class::Elsewhere, "KAFKA.NO_LEADER", NO_LEADER),
    means(
        81,
        "GROUP_MAX_SIZE_REACHED",
        Class::Topic,
        "KAFKA.GROUP_FULL",
        "the group has as many members as the server allows (`group.max.size`)",
    ),
    means(
        82,
        "FENCED_INSTANCE_ID",
        Class::Attempt,
        "KAFKA.FENCED",
        "another member goes by the same name: give each host a `member` of its own",
    ),
    means(
        87,
        "INVALID_RECORD",
        Class::Message,
        "KAFKA.INVALID_RECORD",
        "the topic doesn't take it: a compacted topic wants a key",
    ),
    means(89, "THROTTLING_QUOTA_EXCEEDED", Class::Elsewhere, "KAFKA.THROTTLED", "a quota of the cluster is used up"),
    means(90, "PRODUCER_FENCED", Class::Producer, "KAFKA.PRODUCER", PRODUCER),
    means(100, "UNKNOWN_TOPIC_ID", Class::Elsewhere, "KAFKA.NO_TOPIC", "the topic was made anew: it is looked for"),
    means(
        103,
        "INCONSISTENT_TOPIC_ID",
        Class::Elsewhere,
        "KAFKA.NO_TOPIC",
        "the topic was made anew: it is looked for",
    ),
];

/// Success.
pub const NONE: i16 = 0;
/// The sequence number was used already: the batch is there.
pub const DUPLICATE_SEQUENCE: i16 = 46;
/// Fewer replicas are in sync than have to be: this is said before anything is appended.
const NOT_ENOUGH_REPLICAS: i16 = 19;
/// The group gives us a name first.
pub const MEMBER_ID_REQUIRED: i16 = 79;

/// A refusal of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What is at fault.
    pub class: Class,
    /// The server's number.
    pub number: i16,
    /// Code for the operator.
    pub code: &'static str,
    reason: String,
}

impl Refusal {
    /// Sorts out an error code; `said` is what the server says beside it, `of` what it refused.
    pub fn of(number: i16, of: &str, said: Option<&str>) -> Self {
        let known = MEANINGS.iter().find(|meaning| meaning.number == number);
        let (name, class, code, advice) = known.map_or(
            ("an error that isn't known here", Class::Attempt, "KAFKA.ERROR", "see the server's log"),
            |meaning| (meaning.name, meaning.class, meaning.code, meaning.advice),
        );
        let said = said.filter(|said| !said.is_empty()).map(|said| format!(", {}", shown(said))).unwrap_or_default();
        let reason = format!("the server refused {}: {name} ({number}){said}; {advice}", shown(of));
        Self { class, number, code, reason }
    }

    /// As a fault.
    pub fn fault(&self) -> Fault {
        Fault::new(self.code, self.reason.as_str()).with_attribute("broker-code", self.number.to_string())
    }

    /// Whether what was refused may be in the partition all the same. A server that lost the partition, or its disk, while it waited
    /// for the replicas says so with the same numbers as one that appended nothing.
    pub fn may_be_there(&self) -> bool {
        match self.class {
            Class::Unknown => true,
            Class::Elsewhere => self.number != NOT_ENOUGH_REPLICAS,
            _ => false,
        }
    }

    /// As the failure of a call.
    pub fn error(&self) -> PluginError {
        let kind = match self.class {
            Class::Denied | Class::Topic => ErrorKind::Denied,
            Class::Unsupported => ErrorKind::Unsupported,
            Class::Message | Class::Attempt | Class::Elsewhere | Class::Unknown | Class::Producer => {
                ErrorKind::Unavailable
            }
        };
        PluginError::new(kind, self.fault())
    }
}

/// Fails where there is a code.
///
/// # Errors
/// The refusal as the failure of the call.
pub fn check(number: i16, of: &str, said: Option<&str>) -> Result<(), PluginError> {
    if number == NONE { Ok(()) } else { Err(Refusal::of(number, of, said).error()) }
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
    fn numbers_are_in_order_and_say_who_is_at_fault() {
        assert!(MEANINGS.is_sorted_by_key(|meaning| meaning.number));
        for (number, class, code) in [
            (10, Class::Message, "KAFKA.MAX_MESSAGE"),
            (3, Class::Elsewhere, "KAFKA.NO_TOPIC"),
            (6, Class::Elsewhere, "KAFKA.NO_LEADER"),
            (7, Class::Unknown, "KAFKA.REQUEST_TIMEOUT"),
            (29, Class::Topic, "KAFKA.PERMISSIONS"),
            (31, Class::Denied, "KAFKA.PERMISSIONS"),
            (45, Class::Producer, "KAFKA.PRODUCER"),
            (58, Class::Denied, "KAFKA.AUTH"),
            (-1, Class::Attempt, "KAFKA.ERROR"),
        ] {
            let refusal = Refusal::of(number, "a", None);
            assert_eq!((refusal.class, refusal.code), (class, code), "{number}");
        }
    }

    #[test]
    fn a_refusal_says_what_was_refused_and_why() {
        let error = check(58, "the login", Some("Authentication\nfailed")).unwrap_err();
        let reason = "the server refused the login: SASL_AUTHENTICATION_FAILED (58), Authentication?failed; user or password are wrong";
        assert_eq!((error.kind, error.fault.reason.as_str()), (ErrorKind::Denied, reason));
        assert_eq!(error.fault.attributes, [("broker-code".to_owned(), "58".to_owned())]);
        assert_eq!(check(0, "a", None), Ok(()));
    }
}
