//! Names of topics, and texts of others.

/// Longest name of a topic. The broker keeps it as a path; a longer one is a mistake.
const NAME_BYTES_MAX: usize = 1024;

/// A text as an operator may see it: short, on one line.
pub fn shown(text: &str) -> String {
    const CHARS: usize = 300;
    text.chars().take(CHARS).map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// The whole name of a topic, `persistent://TENANT/NAMESPACE/NAME`, by that name, by `TENANT/NAMESPACE/NAME`, or by `NAME` in this
/// namespace (`TENANT/NAMESPACE`).
///
/// # Errors
/// What is wrong with it.
pub fn full_name(name: &str, namespace: &str) -> Result<String, &'static str> {
    if name.len() > NAME_BYTES_MAX {
        return Err("is longer than 1024 bytes");
    }
    if name.chars().any(|letter| letter.is_control() || letter.is_whitespace()) {
        return Err("holds a blank or a control character");
    }
    let (kind, path) = name.split_once("://").unwrap_or(("persistent", name));
    if !matches!(kind, "persistent" | "non-persistent") {
        return Err("begins with another scheme than persistent:// or non-persistent://");
    }
    let parts = path.split('/').count();
    let path = match parts {
        1 if !name.contains("://") => format!("{namespace}/{path}"),
        3 => path.to_owned(),
        _ => return Err("is neither a name nor TENANT/NAMESPACE/NAME"),
    };
    if path.split('/').any(str::is_empty) {
        return Err("has an empty part");
    }
    Ok(format!("{kind}://{path}"))
}

/// Whether this is `TENANT/NAMESPACE`.
pub fn is_namespace(text: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty() && part.chars().all(|letter| letter.is_alphanumeric() || "-=:._".contains(letter))
    };
    text.split('/').count() == 2 && text.split('/').all(is_part)
}

/// The topic of a partition, by its name; the name itself where it is none of a partition.
pub fn topic_of(name: &str) -> &str {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    name.rsplit_once("-partition-").filter(|(_, number)| is_number(number)).map_or(name, |(topic, _)| topic)
}

/// The name of one partition; the topic's own where it has none.
pub fn partition_name(topic: &str, partitions: u32, partition: u32) -> String {
    if partitions == 0 { topic.to_owned() } else { format!("{topic}-partition-{partition}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_in_its_own_namespace_or_in_the_one_that_is_set() {
        for (name, expected) in [
            ("orders", "persistent://public/default/orders"),
            ("orders.created", "persistent://public/default/orders.created"),
            ("shop/eu/orders", "persistent://shop/eu/orders"),
            ("persistent://shop/eu/orders", "persistent://shop/eu/orders"),
            ("non-persistent://shop/eu/orders", "non-persistent://shop/eu/orders"),
        ] {
            assert_eq!(full_name(name, "public/default").as_deref(), Ok(expected));
        }
        let long = "a".repeat(1025);
        for name in ["", "a/b", "a//b", "/a/b", "kafka://a/b/c", "persistent://orders", "a b", "a\n", "a/b/c/d", &long]
        {
            assert!(full_name(name, "public/default").is_err(), "{name}");
        }
    }

    #[test]
    fn a_namespace_has_two_parts() {
        assert!(is_namespace("public/default"));
        assert!(!is_namespace("public") && !is_namespace("a/b/c") && !is_namespace("a/") && !is_namespace("a/b c"));
    }

    #[test]
    fn a_partition_is_a_topic_of_its_own() {
        assert_eq!(partition_name("persistent://a/b/c", 3, 2), "persistent://a/b/c-partition-2");
        assert_eq!(partition_name("persistent://a/b/c", 0, 0), "persistent://a/b/c");
        for (name, topic) in
            [("c-partition-12", "c"), ("c", "c"), ("c-partition-", "c-partition-"), ("c-partition-x", "c-partition-x")]
        {
            assert_eq!(topic_of(name), topic);
        }
    }
}
