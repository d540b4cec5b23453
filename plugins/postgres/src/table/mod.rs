//! An outbox table of an application: what its columns are for, when a row waits and when it is due, and the statements that
//! claim, mark, count, list and replay. Everything comes from one description, which is made of the configuration and of what the
//! catalog says is there.
//!
//! | file | holds |
//! |---|---|
//! | `names` | names and texts as they stand in a statement |
//! | `columns` | what columns are for, in the two layouts |
//! | `settings` | words, and what is done with rows that aren't due |
//! | `catalog` | what is there |
//! | `conditions` | waits, due, order, aggregate |
//! | `selected`, `event` | what is read of a row; the row as a message, and why one can't be |
//! | `claim`, `marks`, `dead`, `stats` | statements |
//! | `statements` | all of them, for one table |

pub(crate) mod catalog;
pub(crate) mod claim;
pub(crate) mod columns;
pub(crate) mod conditions;
pub(crate) mod dead;
pub(crate) mod event;
pub(crate) mod marks;
pub(crate) mod names;
pub(crate) mod selected;
pub(crate) mod settings;
pub(crate) mod statements;
pub(crate) mod stats;

use waybill_plugin::transport::PluginError;

use crate::config::Keys;
use crate::template::Template;
use catalog::Catalog;
use columns::{Columns, Layout, Role};
use conditions::Order;
use settings::{Undue, Words};

/// Where rows go unless `topic` says it, in tables whose rows name their routing key.
const TOPIC_BY_STATUS: &str = "bus:{routing_key}";
const ROUTING_KEY: &str = "routing_key";

/// A table as it is, described.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// As it stands in a statement, with its schema if it was written.
    pub(crate) name: String,
    /// Another one when the table is made anew.
    pub(crate) oid: String,
    pub(crate) layout: Layout,
    pub(crate) columns: Columns,
    pub(crate) words: Words,
    pub(crate) order: Order,
    pub(crate) topic: Template,
    pub(crate) key: Option<Template>,
    pub(crate) id: Template,
    /// What is in order with what; none = no order.
    pub(crate) aggregate: Option<Template>,
    pub(crate) undue: Undue,
    /// Whether what is published is deleted.
    pub(crate) delete: bool,
    /// Milliseconds after which another worker's claim counts as waiting.
    pub(crate) claim_ttl: u32,
    pub(crate) content_type: String,
    pub(crate) context: Option<String>,
}

impl Table {
    /// Describes what the catalog shows. `topic` is the consumer's, if the host told one.
    ///
    /// # Errors
    /// The configuration doesn't fit the table, with the place.
    pub(crate) fn describe(keys: &Keys, catalog: &Catalog, topic: Option<&str>) -> Result<Self, PluginError> {
        let wrong = |(place, why): (String, String)| PluginError::invalid_config(&place, &why);
        let layout = match keys.layout {
            Some(layout) => layout,
            None => catalog.layout().ok_or_else(|| {
                let why = "has neither `status` and `available_at` nor `published_at` and `publish_attempts`: \
                           say with `layout` and `columns` how its rows wait";
                PluginError::invalid_config("table", why)
            })?,
        };
        let columns = Columns::find(layout, &keys.columns, &catalog.columns).map_err(wrong)?;
        let order = Order::find(layout, &columns, &keys.order_by, catalog).map_err(wrong)?;
        let parsed = |place: &str, text: Option<&str>| {
            let Some(text) = text else { return Ok(None) };
            let template = Template::parse(text).map_err(|why| wrong((place.to_owned(), why)))?;
            match template.columns().find(|name| catalog.column(name).is_none()) {
                Some(name) => Err(wrong((place.to_owned(), format!("the table has no column `{name}`")))),
                None => Ok(Some(template.clone())),
            }
        };
        let by_status = (layout == Layout::Status && catalog.column(ROUTING_KEY).is_some()).then_some(TOPIC_BY_STATUS);
        let topic = parsed("topic", topic.or(keys.topic.as_deref()).or(by_status))?.ok_or_else(|| {
            let why = "is missing: say where rows go, e.g. \"bus:sea.event.{event_type}.v{event_version}\"";
            PluginError::invalid_config("topic", why)
        })?;
        let id = id_template(keys.id.as_deref(), layout, &columns).map_err(wrong)?;
        let own_key = columns.get(Role::AggregateId).map(|column| format!("{{{}}}", column.name));
        let key = parsed("key", keys.key.as_deref().or(own_key.as_deref()))?;
        let aggregate = match keys.aggregate.as_deref() {
            Some(text) => parsed("aggregate", Some(text))?,
            None => own_aggregate(&columns).and_then(|text| Template::parse(&text).ok()),
        };
        Ok(Self {
            name: keys.table()?,
            oid: catalog.oid.clone(),
            layout,
            columns,
            words: keys.words.clone(),
            order,
            topic,
            key,
            id,
            aggregate,
            undue: keys.undue,
            delete: keys.delete,
            claim_ttl: keys.claim_ttl,
            content_type: keys.content_type.clone(),
            context: keys.context.clone(),
        })
    }

    /// A column as it stands in a statement.
    pub(crate) fn column(&self, role: Role) -> String {
        self.columns.sql(role)
    }

    /// Whether it keeps the time of a row's next try.
    pub(crate) fn keeps_due(&self) -> bool {
        self.layout == Layout::Status
    }

    /// The type of the row's key, behind `::`.
    pub(crate) fn id_cast(&self) -> &str {
        self.columns.get(Role::Id).map_or("text", |column| column.cast.as_str())
    }
}

/// `{aggregate_type}/{aggregate_id}`, as far as the columns are there.
fn own_aggregate(columns: &Columns) -> Option<String> {
    let id = columns.get(Role::AggregateId)?;
    let kind = columns.get(Role::AggregateType).map(|column| format!("{{{}}}/", column.name));
    Some(format!("{}{{{}}}", kind.unwrap_or_default(), id.name))
}

/// The template of the wire id, which names the row's key only: another column could change between two sends.
fn id_template(text: Option<&str>, layout: Layout, columns: &Columns) -> Result<Template, (String, String)> {
    let place = || "id".to_owned();
    let id = columns.get(Role::Id).map_or("id", |column| column.name.as_str());
    let own = match layout {
        Layout::Status => format!("outbox-{{{id}}}"),
        Layout::Published => format!("{{{id}}}"),
    };
    let template = Template::parse(text.unwrap_or(&own)).map_err(|why| (place(), why))?;
    if template.columns().next().is_none() {
        return Err((place(), format!("is the same for every row: let it hold {{{id}}}")));
    }
    if let Some(name) = template.columns().find(|name| *name != id) {
        let why = format!("holds {{{name}}}: only {{{id}}} may stand there, so that it is the same at each send");
        return Err((place(), why));
    }
    Ok(template)
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]
    use super::columns::Column;
    use super::columns::tests::{by_publication, by_status, column};
    use super::*;

    /// Describes a table with these columns, by this configuration.
    pub(crate) fn described(json: &str, there: Vec<Column>) -> Result<Table, String> {
        let keys: Keys = waybill_plugin::config::parse(json).map_err(|wrong| wrong.path)?;
        let catalog = Catalog { columns: there, ..Catalog::default() };
        Table::describe(&keys, &catalog, None)
            .map_err(|error| error.fault.attributes.into_iter().map(|(_, place)| place).collect())
    }

    /// Document 4's table, without an index of ours.
    pub(crate) fn table4() -> Table {
        described("{}", by_status()).unwrap()
    }

    /// Document 5's table, without a column of ours.
    pub(crate) fn table5() -> Table {
        described(r#"{"topic":"bus:sea.event.{event_type}.v{event_version}"}"#, by_publication()).unwrap()
    }

    #[test]
    fn the_layout_is_seen_by_the_columns() {
        assert_eq!(table4().layout, Layout::Status);
        assert_eq!(table5().layout, Layout::Published);
        assert_eq!(described("{}", vec![column("id", "int8", false)]).unwrap_err(), "table");
    }

    #[test]
    fn templates_come_from_the_documents_unless_they_are_named() {
        let table = table4();
        assert_eq!(table.topic, Template::parse("bus:{routing_key}").unwrap());
        assert_eq!(table.id, Template::parse("outbox-{id}").unwrap());
        assert_eq!(table.key, Some(Template::parse("{aggregate_id}").unwrap()));
        assert_eq!(table.aggregate, Some(Template::parse("{aggregate_type}/{aggregate_id}").unwrap()));
        assert_eq!(table5().id, Template::parse("{id}").unwrap());
    }

    #[test]
    fn what_does_not_fit_the_table_is_refused_with_its_place() {
        for (json, place) in [
            (r#"{"topic":"bus:{event_type}"}"#, "topic"),
            (r#"{"key":"{customer"}"#, "key"),
            (r#"{"aggregate":"{customer}"}"#, "aggregate"),
            (r#"{"id":"outbox-{status}"}"#, "id"),
            (r#"{"id":"outbox"}"#, "id"),
            (r#"{"columns":{"payload":"body"}}"#, "columns.payload"),
            (r#"{"order_by":["updated_at"]}"#, "order_by"),
            (r#"{"order_by":["ctid"]}"#, "order_by"),
            (r#"{"layout":"published"}"#, "columns.event_type"),
            (r#"{"table":"a b"}"#, "table"),
        ] {
            assert_eq!(described(json, by_status()).unwrap_err(), place, "{json}");
        }
        assert_eq!(described("{}", by_publication()).unwrap_err(), "topic");
    }
}
