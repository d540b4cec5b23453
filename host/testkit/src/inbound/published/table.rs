//! The outbox tables of the documents, as a run writes them and reads them: when a row waits, what its mark has to be, and what comes
//! before what.

use crate::postgres;

/// An outbox table as a document describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Document 4's: a row waits by its status, and rows are in order by their key.
    ByStatus,
    /// Document 5's: a row waits until it has a stamp of its publication. Rows are in order by when they occurred, and those of one
    /// stamp by their ids, which are by chance.
    ByPublication,
}

impl Shape {
    /// The table as its document has it.
    pub(super) fn definition(self) -> &'static str {
        match self {
            Self::ByStatus => postgres::BY_STATUS,
            Self::ByPublication => postgres::BY_PUBLICATION,
        }
    }

    /// The column by which a row goes to its topic.
    pub(super) fn topic(self) -> &'static str {
        match self {
            Self::ByStatus => "routing_key",
            Self::ByPublication => "event_type",
        }
    }

    /// Whether the host may add what makes claims cheap. Document 5's table would have another order then.
    pub(super) fn is_provisioned(self) -> bool {
        self == Self::ByStatus
    }

    /// Rows of one transaction: they have one stamp.
    pub(super) fn together(self) -> u64 {
        match self {
            Self::ByStatus => 1,
            Self::ByPublication => 2,
        }
    }

    /// The id that a row has at the broker.
    pub(super) fn wire_id(self, id: &str) -> String {
        match self {
            Self::ByStatus => format!("outbox-{id}"),
            Self::ByPublication => id.to_owned(),
        }
    }

    /// A row waits, as a condition.
    pub(super) fn waits(self) -> &'static str {
        match self {
            Self::ByStatus => "status IN ('pending', 'processing')",
            Self::ByPublication => {
                "published_at IS NULL AND (publish_error IS NULL OR publish_error NOT LIKE 'DEAD %')"
            }
        }
    }

    /// A row is marked published, as a condition.
    pub(super) fn is_published(self) -> &'static str {
        match self {
            Self::ByStatus => "status = 'published'",
            Self::ByPublication => "published_at IS NOT NULL",
        }
    }

    /// What a row's columns say of it, in document 4's words. A mark that isn't whole is none of them.
    pub(super) fn state(self) -> &'static str {
        match self {
            Self::ByStatus => {
                "CASE WHEN status = 'published' AND (published_at IS NULL OR last_error IS NOT NULL) \
                 THEN 'marked in part' ELSE status END"
            }
            Self::ByPublication => {
                "CASE WHEN publish_error LIKE 'DEAD %' AND published_at IS NULL THEN 'failed' \
                 WHEN published_at IS NULL THEN 'pending' \
                 WHEN publish_error IS NULL AND publish_attempts > 0 THEN 'published' ELSE 'marked in part' END"
            }
        }
    }

    /// What comes before what in an aggregate, as it stands behind ORDER BY.
    pub(super) fn order(self) -> &'static str {
        match self {
            Self::ByStatus => "id",
            Self::ByPublication => "occurred_at, id",
        }
    }

    /// Inserts a row. The payload tells its aggregate and its number.
    pub(super) fn insert(self, subject: &str, aggregate: &str, number: u64) -> String {
        let payload = format!("{{\"a\":\"{aggregate}\",\"n\":{number}}}");
        match self {
            Self::ByStatus => format!(
                "INSERT INTO outbox_events (routing_key, aggregate_type, aggregate_id, payload) \
                 VALUES ('{subject}', 'account', '{aggregate}', '{payload}')"
            ),
            Self::ByPublication => format!(
                "INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload) \
                 VALUES (gen_random_uuid(), '{subject}', 'account', '{aggregate}', '{payload}')"
            ),
        }
    }

    /// Inserts so many rows, an equal share of each of so many aggregates `b0`, `b1` and so on. Of document 5's, four rows of an
    /// aggregate have one stamp.
    pub(super) fn backlog(self, subject: &str, rows: u64, aggregates: u64) -> String {
        let from = format!("FROM generate_series(0, {rows} - 1) n ORDER BY n");
        let (aggregate, number) = (format!("'b' || n % {aggregates}"), format!("n / {aggregates} + 1"));
        match self {
            Self::ByStatus => format!(
                "INSERT INTO outbox_events (routing_key, aggregate_type, aggregate_id, payload) \
                 SELECT '{subject}', 'account', {aggregate}, json_build_object('a', {aggregate}, 'n', {number}) {from}"
            ),
            Self::ByPublication => format!(
                "INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload, occurred_at) \
                 SELECT gen_random_uuid(), '{subject}', 'account', {aggregate}, jsonb_build_object('a', {aggregate}, 'n', {number}), \
                 now() - interval '1 hour' + n / (4 * {aggregates}) * interval '1 second' {from}"
            ),
        }
    }
}
