//! What a table's columns are for, and what they are called in the two layouts.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::names;

/// What a column is for. The names are those of the key `columns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    Id,
    AggregateType,
    AggregateId,
    EventType,
    EventVersion,
    Payload,
    ContentType,
    Headers,
    Tenant,
    OccurredAt,
    CreatedAt,
    CorrelationId,
    CausationId,
    EnvelopeId,
    ReplyTo,
    Status,
    Attempts,
    AvailableAt,
    PublishedAt,
    UpdatedAt,
    LastError,
    Seq,
}

impl Role {
    /// What it is called in the key `columns`.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::AggregateType => "aggregate_type",
            Self::AggregateId => "aggregate_id",
            Self::EventType => "event_type",
            Self::EventVersion => "event_version",
            Self::Payload => "payload",
            Self::ContentType => "content_type",
            Self::Headers => "headers",
            Self::Tenant => "tenant",
            Self::OccurredAt => "occurred_at",
            Self::CreatedAt => "created_at",
            Self::CorrelationId => "correlation_id",
            Self::CausationId => "causation_id",
            Self::EnvelopeId => "envelope_id",
            Self::ReplyTo => "reply_to",
            Self::Status => "status",
            Self::Attempts => "attempts",
            Self::AvailableAt => "available_at",
            Self::PublishedAt => "published_at",
            Self::UpdatedAt => "updated_at",
            Self::LastError => "last_error",
            Self::Seq => "seq",
        }
    }

    /// All of them, as far as a layout has them.
    pub(crate) const ALL: [Self; 22] = [
        Self::Id,
        Self::AggregateType,
        Self::AggregateId,
        Self::EventType,
        Self::EventVersion,
        Self::Payload,
        Self::ContentType,
        Self::Headers,
        Self::Tenant,
        Self::OccurredAt,
        Self::CreatedAt,
        Self::CorrelationId,
        Self::CausationId,
        Self::EnvelopeId,
        Self::ReplyTo,
        Self::Status,
        Self::Attempts,
        Self::AvailableAt,
        Self::PublishedAt,
        Self::UpdatedAt,
        Self::LastError,
        Self::Seq,
    ];

    /// Whether marks write it: what is ordered by such a column would change its place.
    pub(crate) fn is_marked(self) -> bool {
        matches!(
            self,
            Self::Status | Self::Attempts | Self::AvailableAt | Self::PublishedAt | Self::UpdatedAt | Self::LastError
        )
    }
}

/// How a table says that a row waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Layout {
    /// By a column of words: pending, processing, published, failed. Retries have a due time.
    Status,
    /// By the stamp of the publication, which is NULL until then. Retries have none.
    Published,
}

impl Layout {
    /// What a role's column is called unless it is mapped; none if the layout has no such column.
    pub(crate) fn column(self, role: Role) -> Option<&'static str> {
        match (self, role) {
            (Self::Published, Role::Status | Role::AvailableAt | Role::UpdatedAt) => None,
            (Self::Published, Role::Attempts) => Some("publish_attempts"),
            (Self::Published, Role::LastError) => Some("publish_error"),
            _ => Some(role.key()),
        }
    }

    /// Without which there is no publishing.
    pub(crate) fn needs(self, role: Role) -> bool {
        match role {
            Role::Id | Role::Payload | Role::Attempts | Role::PublishedAt | Role::LastError => true,
            Role::Status | Role::AvailableAt | Role::UpdatedAt => self == Self::Status,
            Role::OccurredAt | Role::EventType => self == Self::Published,
            _ => false,
        }
    }
}

/// What a value is, as far as it is treated differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Json,
    Bytes,
    Integer,
    Time,
    Other,
}

impl Kind {
    /// By the name of the type in the catalog.
    pub(crate) fn of(type_name: &str) -> Self {
        match type_name {
            "text" | "varchar" | "bpchar" | "name" | "citext" => Self::Text,
            "json" | "jsonb" => Self::Json,
            "bytea" => Self::Bytes,
            "int2" | "int4" | "int8" => Self::Integer,
            "timestamp" | "timestamptz" => Self::Time,
            _ => Self::Other,
        }
    }
}

/// A column that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    /// As the catalog has it.
    pub(crate) name: String,
    /// Its type as it stands behind `::`.
    pub(crate) cast: String,
    pub(crate) kind: Kind,
    /// Whether it may be NULL.
    pub(crate) is_nullable: bool,
}

impl Column {
    /// As it stands in a statement.
    pub(crate) fn quoted(&self) -> String {
        names::quoted(&self.name)
    }
}

/// The columns of a table by what they are for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Columns(BTreeMap<Role, Column>);

impl Columns {
    /// Finds each role's column: the mapped one, else the layout's.
    ///
    /// # Errors
    /// One that is mapped or can't be done without isn't there; its place in the configuration, and why.
    pub(crate) fn find(
        layout: Layout,
        mapped: &BTreeMap<Role, String>,
        there: &[Column],
    ) -> Result<Self, (String, String)> {
        let mut found = BTreeMap::new();
        for role in Role::ALL {
            let is_mapped = mapped.get(&role);
            let Some(name) = is_mapped.map(String::as_str).or(layout.column(role)) else { continue };
            let place = || format!("columns.{}", role.key());
            match there.iter().find(|column| column.name == name) {
                Some(column) => {
                    found.insert(role, column.clone());
                }
                None if is_mapped.is_some() => {
                    return Err((place(), format!("the table has no column `{name}`")));
                }
                None if layout.needs(role) => {
                    let why = format!("the table has no column `{name}`: name the one that is meant");
                    return Err((place(), why));
                }
                None => {}
            }
        }
        Ok(Self(found))
    }

    pub(crate) fn get(&self, role: Role) -> Option<&Column> {
        self.0.get(&role)
    }

    /// As it stands in a statement; `NULL` where the table has none, which [`Columns::find`] lets happen only to what a layout
    /// can do without.
    pub(crate) fn sql(&self, role: Role) -> String {
        self.get(role).map_or_else(|| "NULL".to_owned(), Column::quoted)
    }

    /// What a column of the table is for, if anything.
    pub(crate) fn role(&self, name: &str) -> Option<Role> {
        self.0.iter().find(|(_, column)| column.name == name).map(|(role, _)| *role)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    pub(crate) fn column(name: &str, type_name: &str, is_nullable: bool) -> Column {
        Column { name: name.to_owned(), cast: type_name.to_owned(), kind: Kind::of(type_name), is_nullable }
    }

    /// Document 4's table.
    pub(crate) fn by_status() -> Vec<Column> {
        vec![
            column("id", "int8", false),
            column("routing_key", "text", false),
            column("aggregate_type", "text", true),
            column("aggregate_id", "text", true),
            column("payload", "json", false),
            column("status", "text", false),
            column("attempts", "int4", false),
            column("available_at", "timestamptz", false),
            column("published_at", "timestamptz", true),
            column("last_error", "text", true),
            column("created_at", "timestamptz", false),
            column("updated_at", "timestamptz", false),
        ]
    }

    /// Document 5's table.
    pub(crate) fn by_publication() -> Vec<Column> {
        vec![
            column("id", "uuid", false),
            column("aggregate_type", "text", false),
            column("aggregate_id", "text", false),
            column("event_type", "text", false),
            column("event_version", "int4", false),
            column("payload", "jsonb", false),
            column("occurred_at", "timestamptz", false),
            column("correlation_id", "uuid", true),
            column("causation_id", "uuid", true),
            column("published_at", "timestamptz", true),
            column("publish_attempts", "int4", false),
            column("publish_error", "text", true),
        ]
    }

    #[test]
    fn the_documents_tables_need_no_mapping() {
        let none = BTreeMap::new();
        let status = Columns::find(Layout::Status, &none, &by_status()).unwrap();
        assert_eq!((status.sql(Role::Attempts), status.sql(Role::EventType)), ("\"attempts\"".into(), "NULL".into()));
        let published = Columns::find(Layout::Published, &none, &by_publication()).unwrap();
        assert_eq!(published.sql(Role::LastError), "\"publish_error\"");
        assert_eq!(published.role("publish_attempts"), Some(Role::Attempts));
    }

    #[test]
    fn a_column_that_is_mapped_or_needed_has_to_be_there() {
        let mapped = BTreeMap::from([(Role::Tenant, "org".to_owned())]);
        let (place, why) = Columns::find(Layout::Status, &mapped, &by_status()).unwrap_err();
        assert_eq!((place.as_str(), why.contains("`org`")), ("columns.tenant", true));
        let (place, _) = Columns::find(Layout::Status, &BTreeMap::new(), &by_publication()).unwrap_err();
        assert_eq!(place, "columns.status");
        let mapped = BTreeMap::from([(Role::Status, "state".to_owned())]);
        let mut renamed = by_status();
        renamed.iter_mut().find(|column| column.name == "status").unwrap().name = "state".to_owned();
        assert_eq!(Columns::find(Layout::Status, &mapped, &renamed).unwrap().sql(Role::Status), "\"state\"");
    }
}
