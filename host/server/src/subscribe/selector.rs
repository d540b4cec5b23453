//! `selector=` of a subscription.

use std::collections::BTreeSet;

use waybill_core::port::service::streams::Subscribed;
use waybill_core::streams::limits::{NAME_BYTES_MAX, RESOURCE_BYTES_MAX};
use waybill_core::streams::name::{StreamName, names_histories};
use waybill_core::streams::reading::Selector;

use crate::limits::CURSOR_STREAMS_MAX;
use crate::problem::Problem;

const FORMS: &str = "write stream:NAME[,NAME...], prefix:BEGINNING, node:UUID or type:TYPE[/BEGINNING-OF-ID]";

/// Reads `stream:A[,B]`, `prefix:P`, `node:U` or `type:T[/IDPREFIX]`.
pub(crate) fn read(text: &str) -> Result<Subscribed, Problem> {
    let refuse = |detail: String| Problem::invalid(detail).at("selector");
    let (kind, rest) = text.split_once(':').ok_or_else(|| refuse(format!("selector {text:?} has no kind: {FORMS}")))?;
    match kind {
        "stream" => named(rest.split(','), CURSOR_STREAMS_MAX),
        "prefix" => prefix(rest).map(Subscribed::Many),
        "node" => node(rest).map(Subscribed::Many),
        "type" => {
            let (resource_type, id_prefix) = rest.split_once('/').unwrap_or((rest, ""));
            resource(resource_type, id_prefix).map(Subscribed::Many)
        }
        other => Err(refuse(format!("there is no selector {other:?}: {FORMS}"))),
    }
}

/// These streams, each once and at most so many.
pub(crate) fn named<'a>(list: impl Iterator<Item = &'a str>, streams_max: usize) -> Result<Subscribed, Problem> {
    let refuse = |detail: String| Problem::invalid(detail).at("selector");
    let mut names: Vec<StreamName> = Vec::new();
    let mut known = BTreeSet::new();
    for text in list {
        let name = StreamName::new(text).map_err(|error| Problem::from(error).at("selector"))?;
        if !known.insert(name.clone()) {
            return Err(refuse(format!("stream {name} is named twice")));
        }
        if names.len() >= streams_max {
            return Err(refuse(format!("at most {streams_max} streams are named at once: take a prefix instead")));
        }
        names.push(name);
    }
    Ok(Subscribed::Streams(names))
}

/// Events of a node, in whatever stream.
pub(crate) fn node(uuid: &str) -> Result<Selector, Problem> {
    Ok(Selector::Node(part("a node", uuid)?))
}

/// All streams whose names begin so; an empty one takes all there are, but for sagas' histories.
pub(crate) fn prefix(text: &str) -> Result<Selector, Problem> {
    if text.len() > NAME_BYTES_MAX {
        let detail = format!("the prefix has {} bytes, names have at most {NAME_BYTES_MAX}", text.len());
        return Err(Problem::invalid(detail).at("prefix"));
    }
    if names_histories(text) {
        let detail = "sagas' histories are read by name, not by prefix: stream:saga.ID, with an id from GET /v1/sagas";
        return Err(Problem::invalid(detail).at("prefix"));
    }
    Ok(Selector::Prefix(text.to_owned()))
}

/// Events of resources of a type whose ids begin so.
pub(crate) fn resource(resource_type: &str, id_prefix: &str) -> Result<Selector, Problem> {
    if id_prefix.len() > RESOURCE_BYTES_MAX {
        let detail = format!("the id has {} bytes, ids have at most {RESOURCE_BYTES_MAX}", id_prefix.len());
        return Err(Problem::invalid(detail).at("resource_id"));
    }
    Ok(Selector::Resource { resource_type: part("a resource type", resource_type)?, id_prefix: id_prefix.to_owned() })
}

/// Events of one resource, in whatever stream.
pub(crate) fn one_resource(resource_type: &str, resource_id: &str) -> Result<Selector, Problem> {
    let (resource_type, resource_id) = (part("a resource type", resource_type)?, part("a resource", resource_id)?);
    Ok(Selector::OneResource { resource_type, resource_id })
}

fn part(what: &str, text: &str) -> Result<String, Problem> {
    if text.is_empty() || text.len() > RESOURCE_BYTES_MAX {
        return Err(Problem::invalid(format!("{what} has 1 to {RESOURCE_BYTES_MAX} bytes: {FORMS}")).at("selector"));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_read() {
        let names =
            |list: &[&str]| Subscribed::Streams(list.iter().map(|name| StreamName::new(name).unwrap()).collect());
        let of_type = |resource_type: &str, id_prefix: &str| {
            let (resource_type, id_prefix) = (resource_type.to_owned(), id_prefix.to_owned());
            Subscribed::Many(Selector::Resource { resource_type, id_prefix })
        };
        for (text, expected) in [
            ("stream:a", names(&["a"])),
            ("stream:b/c,a:x", names(&["b/c", "a:x"])),
            ("prefix:task.", Subscribed::Many(Selector::Prefix("task.".into()))),
            ("prefix:", Subscribed::Many(Selector::Prefix(String::new()))),
            ("node:7f", Subscribed::Many(Selector::Node("7f".into()))),
            ("type:TASK", of_type("TASK", "")),
            ("type:TASK/a/b", of_type("TASK", "a/b")),
        ] {
            assert_eq!(read(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_selector_is_refused_with_the_forms() {
        for text in ["", "a", "streams:a", "node:", "type:", "type:/a"] {
            let problem = read(text).unwrap_err();
            assert!(problem.detail.contains("stream:NAME"), "{text}: {}", problem.detail);
            assert_eq!(problem.at.path.as_deref(), Some("selector"), "{text}");
        }
        let many = (0..=CURSOR_STREAMS_MAX).map(|at| format!("s{at}")).collect::<Vec<_>>().join(",");
        let long = format!("prefix:{}", "x".repeat(NAME_BYTES_MAX + 1));
        for text in ["stream:", "stream:a,,b", "stream:a,a", "stream:a b", &format!("stream:{many}"), &long] {
            assert_eq!(read(text).unwrap_err().code.status(), 400, "{text}");
        }
    }
}
