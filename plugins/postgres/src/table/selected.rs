//! What is read of a row, and the way from its columns to a message.

use std::collections::BTreeMap;

use super::Table;
use super::columns::{Kind, Role};
use super::event::{Event, Unsent, context, headers, is_json, is_valid_json};
use super::names::{millis, quoted};
use crate::template::Template;
use crate::wire::Row;

/// Longest id of a message.
const ID_BYTES_MAX: usize = 512;

/// What the size of a payload is called in a claim.
const SIZE_COLUMN: &str = "waybill_size";
/// Roles that are read as they are, if the table has them.
const READ: [Role; 12] = [
    Role::AggregateType,
    Role::AggregateId,
    Role::EventType,
    Role::EventVersion,
    Role::ContentType,
    Role::Headers,
    Role::Tenant,
    Role::CorrelationId,
    Role::CausationId,
    Role::EnvelopeId,
    Role::ReplyTo,
    Role::Attempts,
];

/// Which columns are read, and how a row becomes a message.
#[derive(Clone, Debug)]
pub(crate) struct Selected {
    /// Columns read as text, by name; their places in the answer.
    texts: BTreeMap<String, usize>,
    /// Where the columns of roles are among them.
    roles: BTreeMap<Role, String>,
    payload: (String, Kind),
    /// The column that says when it happened, and whether a stamp ahead breaks the rules.
    stamp: Option<(String, bool)>,
    topic: Template,
    key: Option<Template>,
    id: Template,
    content_type: String,
    context: Option<String>,
    /// Rows without a type break the rules of document 5.
    needs_type: bool,
}

/// What a claim has read of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    Event(Box<Event>),
    /// It is no message.
    Unsent(Unsent),
    /// The bytes of the claim were full.
    Unread,
}

/// Places behind the texts: the payload, its size, whether it is over the bytes of the claim, the stamp, how far it is ahead.
const PAYLOAD: usize = 0;
const SIZE: usize = 1;
const IS_FULL: usize = 2;
const STAMP: usize = 3;
const AHEAD: usize = 4;

impl Selected {
    pub(crate) fn new(table: &Table) -> Self {
        let mut names: Vec<String> = Vec::new();
        let mut roles = BTreeMap::new();
        for role in READ {
            if let Some(column) = table.columns.get(role) {
                roles.insert(role, column.name.clone());
                names.push(column.name.clone());
            }
        }
        let templates = [Some(&table.topic), table.key.as_ref(), Some(&table.id)];
        names.extend(templates.into_iter().flatten().flat_map(Template::columns).map(str::to_owned));
        names.sort();
        names.dedup();
        let payload = table.columns.get(Role::Payload);
        Self {
            texts: names.into_iter().enumerate().map(|(place, name)| (name, place)).collect(),
            roles,
            payload: payload
                .map_or_else(|| ("payload".to_owned(), Kind::Other), |column| (column.quoted(), column.kind)),
            stamp: stamp(table),
            topic: table.topic.clone(),
            key: table.key.clone(),
            id: table.id.clone(),
            content_type: table.content_type.clone(),
            context: table.context.clone(),
            needs_type: table.layout.needs(Role::EventType),
        }
    }

    /// How large a payload is, as it stands behind SELECT where rows are locked: calculated once, for it may have to be unpacked.
    pub(crate) fn size(&self) -> String {
        let (payload, kind) = &self.payload;
        match kind {
            Kind::Bytes => format!("octet_length({payload}) AS {SIZE_COLUMN}"),
            _ => format!("octet_length({payload}::text) AS {SIZE_COLUMN}"),
        }
    }

    /// The columns, as they stand behind SELECT, of rows with [`Selected::size`]. `most` is the parameter with the largest payload, `all` that of all together, by the
    /// order of `pos`: what is over them isn't sent by the server.
    pub(crate) fn columns(&self, alias: &str, most: &str, all: &str, pos: &str) -> String {
        let mut columns: Vec<String> = self.texts.keys().map(|name| format!("{alias}{}::text", quoted(name))).collect();
        let (payload, kind) = &self.payload;
        let value = match kind {
            Kind::Bytes => format!("{alias}{payload}"),
            _ => format!("{alias}{payload}::text"),
        };
        let size = format!("{alias}{SIZE_COLUMN}");
        // One that is too large by itself is never sent, and takes no room.
        let counted = format!("CASE WHEN {size} <= {most}::bigint THEN {size} ELSE 0 END");
        let total = format!("sum({counted}) OVER (ORDER BY {pos})");
        let is_full = format!("{total} > {all}::bigint AND {total} > {counted}");
        columns.push(format!("CASE WHEN {size} <= {most}::bigint AND NOT ({is_full}) THEN {value} END"));
        columns.push(size.clone());
        columns.push(is_full);
        let stamp = self.stamp.as_ref().map(|(stamp, is_judged)| (format!("{alias}{stamp}"), *is_judged));
        let (at, ahead) = match &stamp {
            Some((stamp, true)) => (millis(stamp, ""), millis(stamp, " - now()")),
            Some((stamp, false)) => (millis(stamp, ""), "NULL".to_owned()),
            None => ("NULL".to_owned(), "NULL".to_owned()),
        };
        columns.extend([at, ahead]);
        columns.join(", ")
    }

    /// Where the payload is among the columns: the one that the server sends as bytes.
    pub(crate) fn payload(&self) -> usize {
        self.texts.len() + PAYLOAD
    }

    /// Failed attempts so far, as the table counts them.
    pub(crate) fn attempts(&self, row: &Row, before: usize) -> u32 {
        self.role(row, before, Role::Attempts).and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// A row as a message; `before` columns of the answer aren't the row's.
    pub(crate) fn read(&self, row: &Row, before: usize) -> Read {
        let own = |place: usize| before + self.texts.len() + place;
        if row.text(own(IS_FULL)) == Some("t") {
            return Read::Unread;
        }
        if let Some(ahead) = row.text(own(AHEAD)).and_then(|text| text.parse::<i64>().ok()).filter(|ahead| *ahead > 0) {
            return Read::Unsent(Unsent::Future(u32::try_from(ahead).unwrap_or(u32::MAX)));
        }
        let stamp = row.text(own(STAMP)).and_then(|text| text.parse().ok());
        match self.event(row, before, row.bytes(own(PAYLOAD)), row.text(own(SIZE)), stamp) {
            Ok(event) => Read::Event(Box::new(event)),
            Err(why) => Read::Unsent(Unsent::Invalid(why)),
        }
    }

    /// What can be read of a row that is no message, for its dead letter; and the size of a payload that wasn't sent.
    pub(crate) fn remains(&self, row: &Row, before: usize) -> (Event, Option<u32>) {
        let own = |place: usize| before + self.texts.len() + place;
        let value = |name: &str| self.value(row, before, name);
        let is_plain = |text: &String| !text.chars().any(char::is_control);
        let payload = row.bytes(own(PAYLOAD));
        let size = row.text(own(SIZE)).and_then(|text| text.parse::<u64>().ok()).filter(|_| payload.is_none());
        let headers = self.role(row, before, Role::Headers).and_then(|text| headers(text).ok());
        let version = self.role(row, before, Role::EventVersion).and_then(|text| text.parse().ok());
        let stamp = row.text(own(STAMP)).and_then(|text| text.parse().ok());
        let event = Event {
            // A longer one is none: the row is then named by its place.
            id: self.id.filled(value).ok().filter(|id| is_plain(id) && id.len() <= ID_BYTES_MAX).unwrap_or_default(),
            topic: self.topic.filled(value).ok().filter(is_plain).unwrap_or_default(),
            headers: headers.unwrap_or_default(),
            payload: payload.unwrap_or_default().to_vec(),
            event_version: version,
            ..self.plain(row, before, stamp)
        };
        (event, size.map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX)))
    }

    /// What of a row is read as it stands, whatever is wrong with the rest.
    fn plain(&self, row: &Row, before: usize, occurred_at: Option<u64>) -> Event {
        let value = |name: &str| self.value(row, before, name);
        let role = |role: Role| self.role(row, before, role).map(str::to_owned);
        let attributes = [("aggregate-type", Role::AggregateType), ("aggregate-id", Role::AggregateId)];
        Event {
            // A row without the columns of its key has none; it is in order with nothing, either.
            key: self.key.as_ref().and_then(|key| key.filled(value).ok()),
            tenant: role(Role::Tenant),
            content_type: role(Role::ContentType).unwrap_or_else(|| self.content_type.clone()),
            event_type: role(Role::EventType),
            envelope_id: role(Role::EnvelopeId),
            correlation_id: role(Role::CorrelationId),
            causation_id: role(Role::CausationId),
            reply_to: role(Role::ReplyTo),
            occurred_at,
            attributes: attributes
                .into_iter()
                .filter_map(|(name, place)| role(place).map(|value| (name.to_owned(), value)))
                .collect(),
            ..Event::default()
        }
    }

    fn event(
        &self,
        row: &Row,
        before: usize,
        payload: Option<&[u8]>,
        size: Option<&str>,
        occurred_at: Option<u64>,
    ) -> Result<Event, String> {
        let value = |name: &str| self.value(row, before, name);
        let null = |what: &'static str| move |name: &str| format!("its column `{name}` is NULL, and {what} needs it");
        let id = self.id.filled(value).map_err(null("the id"))?;
        let topic = self.topic.filled(value).map_err(null("the topic"))?;
        if topic.chars().any(char::is_control) {
            return Err("its topic has a control character".to_owned());
        }
        let payload = payload.ok_or_else(|| match size {
            Some(size) => format!("its payload has {size} bytes: raise `max_payload_bytes`, or make it smaller"),
            None => "its payload is NULL".to_owned(),
        })?;
        let plain = self.plain(row, before, occurred_at);
        if self.needs_type && plain.event_type.as_deref().is_none_or(str::is_empty) {
            return Err("it has no event type".to_owned());
        }
        if self.payload.1 == Kind::Text && is_json(&plain.content_type) && !is_valid_json(payload) {
            return Err(format!("its payload can't be read as {}", plain.content_type));
        }
        let event_version = match self.role(row, before, Role::EventVersion) {
            Some(text) => Some(text.parse().map_err(|_| format!("its event version `{text}` is no number from 0"))?),
            None => None,
        };
        Ok(Event {
            context: Some(self.context.clone().unwrap_or_else(|| context(&topic).to_owned())),
            id,
            topic,
            headers: self.role(row, before, Role::Headers).map_or(Ok(Vec::new()), headers)?,
            payload: payload.to_vec(),
            event_version,
            ..plain
        })
    }

    fn value<'a>(&self, row: &'a Row, before: usize, name: &str) -> Option<&'a str> {
        self.texts.get(name).and_then(|place| row.text(before + place))
    }

    fn role<'a>(&self, row: &'a Row, before: usize, role: Role) -> Option<&'a str> {
        self.value(row, before, self.roles.get(&role)?)
    }
}

/// The column that says when it happened. That of the application's insert may come from another clock, and judges nothing.
fn stamp(table: &Table) -> Option<(String, bool)> {
    [Role::OccurredAt, Role::CreatedAt].into_iter().find_map(|role| {
        let column = table.columns.get(role).filter(|column| column.kind == Kind::Time)?;
        Some((column.quoted(), role == Role::OccurredAt))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::super::columns::tests::{by_publication, column};
    use super::super::tests::{described, table4, table5};
    use super::*;

    /// A row of these values by name, with a payload; nothing stands before it.
    fn row(selected: &Selected, values: &[(&str, &str)], payload: Option<&str>, more: [Option<&str>; 4]) -> Row {
        let mut all: Vec<Option<&str>> = vec![None; selected.texts.len()];
        for (name, value) in values {
            *all.get_mut(*selected.texts.get(*name).unwrap()).unwrap() = Some(value);
        }
        all.push(payload);
        all.extend(more);
        Row::of(&all)
    }

    const MORE: [Option<&str>; 4] = [Some("2"), Some("f"), Some("1700000000000"), Some("-5")];

    fn event(table: &Table, values: &[(&str, &str)], payload: Option<&str>) -> Result<Event, String> {
        let selected = Selected::new(table);
        match selected.read(&row(&selected, values, payload, MORE), 0) {
            Read::Event(event) => Ok(*event),
            Read::Unsent(unsent) => Err(format!("{}: {}", unsent.code(), unsent.reason())),
            Read::Unread => panic!(),
        }
    }

    #[test]
    fn a_row_of_document_4_is_a_message_for_its_routing_key() {
        let values =
            [("id", "17"), ("routing_key", "orders.created"), ("aggregate_type", "order"), ("aggregate_id", "9")];
        let event = event(&table4(), &values, Some("{}")).unwrap();
        assert_eq!(
            (event.id.as_str(), event.topic.as_str(), event.key.as_deref()),
            ("outbox-17", "bus:orders.created", Some("9"))
        );
        assert_eq!((event.context.as_deref(), event.occurred_at), (Some("orders"), Some(1_700_000_000_000)));
        assert_eq!(event.attributes.first().unwrap(), &("aggregate-type".to_owned(), "order".to_owned()));
        assert_eq!((event.content_type.as_str(), event.payload.as_slice()), ("application/json", b"{}".as_slice()));
    }

    #[test]
    fn a_row_of_document_5_is_a_message_for_its_type() {
        let values = [("id", "u"), ("event_type", "vibe_created"), ("event_version", "2"), ("aggregate_id", "9")];
        let event = event(&table5(), &values, Some("{}")).unwrap();
        assert_eq!((event.id.as_str(), event.topic.as_str()), ("u", "bus:sea.event.vibe_created.v2"));
        assert_eq!((event.event_type.as_deref(), event.event_version), (Some("vibe_created"), Some(2)));
    }

    #[test]
    fn a_row_that_breaks_the_rules_is_told_with_its_code() {
        let good = [("id", "u"), ("event_type", "a"), ("event_version", "2")];
        for (values, payload, part) in [
            (&good[..1], Some("{}"), "`event_type` is NULL"),
            (&good[..], None, "bytes"),
            (&[("id", "u"), ("event_type", "a\nb"), ("event_version", "1")][..], Some("{}"), "control"),
            (&[("id", "u"), ("event_type", "a"), ("event_version", "-1")][..], Some("{}"), "version"),
        ] {
            let why = event(&table5(), values, payload).unwrap_err();
            assert!(why.starts_with("INVALID_OUTBOX: ") && why.contains(part), "{why}");
        }
        let fixed = described(r#"{"topic":"bus:all"}"#, by_publication()).unwrap();
        assert!(event(&fixed, &[("id", "u")], Some("{}")).unwrap_err().contains("no event type"));
    }

    #[test]
    fn of_a_row_that_is_no_message_all_is_read_that_can_be() {
        let selected = Selected::new(&table5());
        let values = [("id", "u"), ("event_type", "a"), ("event_version", "-1"), ("aggregate_id", "9")];
        let (event, omitted) = selected.remains(&row(&selected, &values, Some("{"), MORE), 0);
        assert_eq!(
            (event.id.as_str(), event.topic.as_str(), event.key.as_deref()),
            ("u", "bus:sea.event.a.v-1", Some("9"))
        );
        assert_eq!((event.event_type.as_deref(), event.event_version), (Some("a"), None));
        assert_eq!((event.payload.as_slice(), omitted), (b"{".as_slice(), None));
        let (event, omitted) = selected.remains(&row(&selected, &[], None, MORE), 0);
        assert_eq!((event.id.as_str(), event.topic.as_str(), event.payload.len(), omitted), ("", "", 0, Some(2)));
        let null = [None, Some("f"), None, None];
        assert_eq!(selected.remains(&row(&selected, &[("id", "u")], None, null), 0).1, None, "it is NULL");
    }

    #[test]
    fn a_text_that_is_no_json_is_told_unless_it_is_meant_to_be_none() {
        let mut columns = by_publication();
        columns.retain(|column| column.name != "payload");
        columns.push(column("payload", "text", false));
        let good = [("id", "u"), ("event_type", "a")];
        let json = described(r#"{"topic":"bus:all"}"#, columns.clone()).unwrap();
        assert!(event(&json, &good, Some("{")).unwrap_err().contains("application/json"));
        let plain = described(r#"{"topic":"bus:all","content_type":"text/plain"}"#, columns).unwrap();
        assert_eq!(event(&plain, &good, Some("{")).unwrap().payload, b"{");
    }

    #[test]
    fn a_stamp_ahead_waits_and_what_did_not_fit_is_unread() {
        let table = table4();
        let selected = Selected::new(&table);
        let ahead = row(&selected, &[("id", "1")], Some("{}"), [Some("2"), Some("f"), Some("1"), Some("1500")]);
        assert_eq!(selected.read(&ahead, 0), Read::Unsent(Unsent::Future(1_500)));
        let full = row(&selected, &[("id", "1")], None, [Some("2"), Some("t"), None, None]);
        assert_eq!(selected.read(&full, 0), Read::Unread);
    }
}
