//! No doubles within a window: a script at the server that adds a message and remembers its id, or finds the id and adds nothing.

use std::fmt::Write as _;

use waybill_plugin::transport::Message;

/// What the server runs, as one step that nothing comes between.
pub(crate) const SCRIPT: &str = include_str!("dedup.lua");
/// By which a server knows it once it has run it.
pub(crate) const SHA1: &str = "942382ae5c7f833a051a9a0dbf7e35131b13688c";
/// How the keys begin that remember ids.
const PREFIX: &str = "waybill:sent:";

/// The key that remembers a message's id, into `out`, which is emptied first. Tenants choose their ids for themselves, and
/// streams, tenants and ids may hold any sign: each is told apart by its length.
pub(crate) fn write_key(message: &Message, stream: &str, out: &mut String) {
    // In a cluster both keys have to be on one node: what is in braces decides.
    let (open, close) = if stream.contains('{') { ("", "") } else { ("{", "}") };
    out.clear();
    // Writing to a String can't fail.
    let _ = write!(
        out,
        "{PREFIX}{}:{open}{stream}{close}:{}:{}:{}",
        stream.len(),
        message.tenant.len(),
        message.tenant,
        message.id
    );
}

#[cfg(test)]
mod tests {
    use sha1::Digest as _;

    use super::*;
    use crate::encode::tests::message;

    fn key(stream: &str, tenant: &str, id: &str) -> String {
        let mut out = String::new();
        write_key(&Message { tenant: tenant.to_owned(), id: id.to_owned(), ..message() }, stream, &mut out);
        out
    }

    #[test]
    fn a_key_names_stream_tenant_and_id_and_stays_with_its_stream() {
        assert_eq!(key("orders", "acme", "m1"), "waybill:sent:6:{orders}:4:acme:m1");
        assert_eq!(key("{shop}:orders", "acme", "m1"), "waybill:sent:13:{shop}:orders:4:acme:m1");
        assert_ne!(key("orders", "a", "b:c"), key("orders", "a:b", "c"));
        assert_ne!(key("orders", "a", "m1"), key("orders", "b", "m1"));
    }

    #[test]
    fn the_script_is_known_by_its_hash() {
        let hash = sha1::Sha1::digest(SCRIPT.as_bytes());
        assert_eq!(hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>(), SHA1);
    }
}
