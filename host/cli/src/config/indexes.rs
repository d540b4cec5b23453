//! `[[index]]`: what can be looked up of messages.

use waybill_core::document::Table;
use waybill_core::outbox::index::{INDEXES_MAX, Index};

use super::load::tables_of;
use super::problem::Problem;
use super::reader::{Reader, Section};

pub fn indexes<'d>(reader: &mut Reader<'d>, root: &'d Table) -> Vec<Index> {
    let mut indexes: Vec<Index> = Vec::new();
    for (number, table) in tables_of(reader, root.entry("index"), "index").into_iter().enumerate() {
        let at = reader.in_file(table.1);
        let section = Section::new(reader, format!("index[{number}]"), "index", Some(table), false);
        let Some(index) = index(section) else { continue };
        if indexes.contains(&index) {
            let (tenant, path) = (index.tenant.as_str(), index.field.name());
            let problem = Problem::Duplicate {
                what: format!("{path} of tenant {tenant:?} is indexed already"),
                fix: "remove one [[index]]".into(),
            };
            reader.problem(problem, at);
        } else if indexes.len() == INDEXES_MAX {
            let problem = Problem::BadValue {
                key: format!("index[{number}]"),
                value: index.field.name(),
                cause: format!("there are {INDEXES_MAX} indexes at most: each is a record more for each message"),
            };
            reader.problem(problem, at);
        }
        indexes.push(index);
    }
    indexes
}

fn index(mut section: Section<'_, '_>) -> Option<Index> {
    let tenant = section.required_text("tenant", "a tenant, or a pattern with *", "\"acme\"");
    let path = section.required_text("path", "header.NAME or payload.PATH", "\"payload.order.id\"");
    let tenants = tenant.and_then(|tenant| match Index::tenants(&tenant.value) {
        Ok(tenants) => Some(tenants),
        Err(cause) => {
            section.refuse("tenant", &tenant, cause);
            None
        }
    });
    let field = path.and_then(|path| match Index::field(&path.value) {
        Ok(field) => Some(field),
        Err(cause) => {
            section.refuse("path", &path, cause);
            None
        }
    });
    section.done();
    Some(Index { tenant: tenants?, field: field? })
}
