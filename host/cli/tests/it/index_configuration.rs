//! `[[index]]` in the configuration.

use crate::configuration::{case, refused};

fn index(tenant: &str, path: &str) -> String {
    format!("[[index]]\ntenant = \"{tenant}\"\npath = \"{path}\"\n")
}

#[test]
fn indexes_are_read_in_their_order_and_there_is_none_otherwise() {
    assert!(case("").load().unwrap().indexes.is_empty());
    let config = case(&(index("acme", "payload.order.id") + &index("*", "header.X-Shop"))).load().unwrap();
    let read: Vec<_> = config.indexes.iter().map(|index| (index.tenant.as_str(), index.field.name())).collect();
    assert_eq!(read, [("acme", "payload.order.id".to_owned()), ("*", "header.x-shop".to_owned())]);
}

#[test]
fn an_index_that_could_be_of_no_use_is_refused_with_its_place() {
    for (toml, code, at, words) in [
        (
            "[[index]]\ntenant = \"a\"\n".to_owned(),
            "CONFIG.MISSING",
            "waybill.toml:1:1",
            "write path = \"payload.order.id\"",
        ),
        (
            "[[index]]\npath = \"header.x\"\n".to_owned(),
            "CONFIG.MISSING",
            "waybill.toml:1:1",
            "write tenant = \"acme\"",
        ),
        (index("a\\nb", "header.x"), "CONFIG.BAD_VALUE", "waybill.toml:2:10", "control character"),
        (index("", "header.x"), "CONFIG.BAD_VALUE", "waybill.toml:2:10", "empty"),
        (index("a", "topic"), "CONFIG.BAD_VALUE", "waybill.toml:3:8", "only headers and fields of payloads"),
        (index("a", "payload.a..b"), "CONFIG.BAD_VALUE", "waybill.toml:3:8", "a name is missing"),
        (index("a", "payload.*"), "CONFIG.BAD_VALUE", "waybill.toml:3:8", "without *"),
        (index("a", "header.x") + "since = 5\n", "CONFIG.UNKNOWN_KEY", "waybill.toml:4:1", "since"),
        (
            index("a", "header.X") + &index("a", "header.x"),
            "CONFIG.DUPLICATE",
            "waybill.toml:4",
            "header.x of tenant \"a\" is indexed already",
        ),
    ] {
        let error = refused(&toml);
        assert!(error.contains(code) && error.contains(at) && error.contains(words), "{toml}\n{error}");
    }
}

#[test]
fn there_are_sixteen_indexes_at_most() {
    let some = |count: usize| (0..count).map(|n| index("a", &format!("header.x{n}"))).collect::<String>();
    assert_eq!(case(&some(16)).load().unwrap().indexes.len(), 16);
    let error = refused(&some(17));
    assert!(error.contains("CONFIG.BAD_VALUE") && error.contains("16 indexes at most"), "{error}");
}
