//! What `docs/operations.md` says of metrics, and what a page of `/metrics` has, in one form.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A row of the tables under "Every metric".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Documented {
    pub labels: BTreeSet<String>,
    /// `counter`, `gauge` or `histogram`.
    pub kind: String,
    /// As the page writes it: `s`, `ms`, `bytes`; empty for numbers of things.
    pub unit: String,
    pub meaning: String,
    pub what_to_do: String,
}

/// Every metric of the page by its name. Reading it fails the test: the page is in the repository.
pub fn documented() -> Result<BTreeMap<String, Documented>, String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations.md");
    let page = std::fs::read_to_string(&page).map_err(|error| format!("{}: {error}", page.display()))?;
    let (_, tables) = page.split_once("\n## Every metric\n").ok_or("there is no \"Every metric\"")?;
    let mut all = BTreeMap::new();
    for line in tables.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [name, labels, is, meaning, what_to_do] = cells.as_slice() else {
            return Err(format!("{line}: five cells"));
        };
        let (kind, unit) = is.split_once(", ").unwrap_or((*is, ""));
        let row = Documented {
            labels: labels
                .split(", ")
                .map(|label| label.trim_matches('`').to_owned())
                .filter(|label| !label.is_empty())
                .collect(),
            kind: kind.to_owned(),
            unit: unit.to_owned(),
            meaning: (*meaning).to_owned(),
            what_to_do: (*what_to_do).to_owned(),
        };
        let name = name.trim_matches('`').to_owned();
        if all.insert(name.clone(), row).is_some() {
            return Err(format!("{name} is there twice"));
        }
    }
    Ok(all)
}

/// A family of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Family {
    pub kind: String,
    pub help: String,
    /// Names of the labels of all its series, `le` and `quantile` left out.
    pub labels: BTreeSet<String>,
    pub series: usize,
}

/// Families of a page of Prometheus text by name.
pub fn families(page: &str) -> BTreeMap<String, Family> {
    let mut all: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    for line in page.lines().filter(|line| !line.is_empty()) {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            help.clone_into(&mut all.entry(name.to_owned()).or_default().help);
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            name.clone_into(&mut current);
            kind.clone_into(&mut all.entry(current.clone()).or_default().kind);
        } else if !line.starts_with('#') {
            let family = all.entry(current.clone()).or_default();
            family.series += 1;
            family.labels.extend(label_names(line).into_iter().filter(|name| name != "le" && name != "quantile"));
        }
    }
    all
}

/// Names of the labels of one series. What stands in their values counts for nothing.
fn label_names(line: &str) -> Vec<String> {
    let Some((_, mut rest)) = line.split_once('{') else { return Vec::new() };
    let mut names = Vec::new();
    while let Some((name, value)) = rest.split_once("=\"") {
        names.push(name.trim_start_matches(',').to_owned());
        let mut escaped = false;
        let end = value.find(|c: char| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        rest = end.and_then(|end| value.get(end + 1..)).unwrap_or_default();
        if rest.starts_with('}') {
            break;
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_have_their_kind_help_and_labels() {
        let page = "# HELP a_total Things.\n# TYPE a_total counter\na_total{x=\"1\",y=\"b\\\"},z=\\\"\"} 3\na_total 4\n\n\
                    # TYPE b histogram\nb_bucket{le=\"1\"} 1\n";
        let all = families(page);
        let a = &all["a_total"];
        assert_eq!((a.kind.as_str(), a.help.as_str(), a.series), ("counter", "Things.", 2));
        assert_eq!(a.labels, ["x", "y"].map(str::to_owned).into());
        assert_eq!((all["b"].kind.as_str(), all["b"].help.as_str(), all["b"].labels.len()), ("histogram", "", 0));
    }

    #[test]
    fn the_page_has_rows() {
        let all = documented().unwrap();
        let latency = &all["tx_outbox_latency_seconds"];
        assert_eq!((latency.kind.as_str(), latency.unit.as_str()), ("histogram", "s"));
        assert_eq!(latency.labels, ["tenant".to_owned()].into());
        assert!(all["waybill_ready"].labels.is_empty());
    }
}
