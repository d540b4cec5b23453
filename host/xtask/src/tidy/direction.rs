//! Who may know whom (`ARCHITECTURE.md`, Direction), read from what cargo says of each package.

use crate::cargo::{Dependency, Package};

/// What a package may depend on among ours, in its product code.
const KNOWS: [(&str, &[&str]); 18] = [
    ("waybill-core", &[]),
    ("waybill-api", &["waybill-core"]),
    ("waybill-bindings", &[]),
    ("waybill-bundled", &[]),
    ("waybill-engine", &["waybill-core", "waybill-api"]),
    // Lies inside the store and is compiled apart from it.
    ("waybill-surreal", &[]),
    ("waybill-store", &["waybill-core", "waybill-surreal"]),
    ("waybill-sandbox", &["waybill-core", "waybill-api", "waybill-bindings"]),
    ("waybill-page", &["waybill-core", "waybill-api"]),
    ("waybill-server", &["waybill-core", "waybill-api", "waybill-page"]),
    ("waybill-conformance", &["waybill-core", "waybill-sandbox"]),
    ("waybill-telemetry", &["waybill-core"]),
    (
        "waybill",
        &[
            "waybill-core",
            "waybill-api",
            "waybill-engine",
            "waybill-store",
            "waybill-sandbox",
            "waybill-server",
            "waybill-bundled",
            "waybill-conformance",
            "waybill-telemetry",
        ],
    ),
    // Development only.
    ("waybill-testkit", &["waybill-core", "waybill-api", "waybill-engine"]),
    ("xtask", &[]),
    ("waybill-trials", &["waybill-testkit", "xtask"]),
    (
        "waybill-fuzz",
        &["waybill-core", "waybill-api", "waybill-sandbox", "waybill-server", "waybill-store", "waybill-testkit"],
    ),
    (
        "waybill-tests",
        &[
            "waybill-core",
            "waybill-api",
            "waybill-engine",
            "waybill-store",
            "waybill-sandbox",
            "waybill-server",
            "waybill-bundled",
            "waybill-conformance",
            "waybill-testkit",
        ],
    ),
];

/// Families of crates, by the beginning of their names, that only some may name.
const RESERVED: [(&str, &[&str]); 3] = [
    ("surrealdb", &["waybill-store", "waybill-surreal"]),
    ("wasmtime", &["waybill-sandbox", "waybill-bindings"]),
    // The kit's collector decodes what is exported.
    ("opentelemetry", &["waybill-telemetry", "waybill-testkit"]),
];

/// Packages that tests of anything but the core may use: help, and real plugins.
const FOR_TESTS: [&str; 2] = ["waybill-testkit", "waybill-bundled"];

/// Every breach, one sentence each.
pub fn check(packages: &[Package]) -> Vec<String> {
    let mut breaches = Vec::new();
    for package in packages {
        let Some((_, allowed)) = KNOWS.iter().find(|(name, _)| *name == package.name) else {
            breaches.push(format!("{}: say in host/xtask/src/tidy/direction.rs whom it may know", package.name));
            continue;
        };
        for dependency in &package.dependencies {
            let name = dependency.name.as_str();
            let ours = packages.iter().any(|other| other.name == name);
            if ours && !allowed.contains(&name) && !is_test_help(package, dependency) {
                breaches.push(format!("{} must not know {name}", package.name));
            }
            if let Some((_, may)) = RESERVED.iter().find(|(family, _)| name.starts_with(family))
                && !may.contains(&package.name.as_str())
            {
                breaches.push(format!("only {} may name {name}, and {} does", may.join(" and "), package.name));
            }
        }
    }
    breaches
}

fn is_test_help(package: &Package, dependency: &Dependency) -> bool {
    let of_tests = dependency.kind.as_deref() == Some("dev");
    of_tests && FOR_TESTS.contains(&dependency.name.as_str()) && package.name != "waybill-core"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, dependencies: &[(&str, Option<&str>)]) -> Package {
        let dependencies = dependencies
            .iter()
            .map(|(name, kind)| Dependency { name: (*name).to_owned(), kind: kind.map(str::to_owned) })
            .collect();
        Package { name: name.to_owned(), targets: Vec::new(), dependencies }
    }

    #[test]
    fn a_wrong_direction_is_named() {
        let packages = [
            package("waybill-core", &[("waybill-testkit", Some("dev")), ("serde", None)]),
            package("waybill-server", &[("waybill-core", None), ("waybill-store", None), ("wasmtime", None)]),
            package("waybill-store", &[("waybill-core", None), ("surrealdb", None), ("waybill-testkit", Some("dev"))]),
            package("waybill-testkit", &[("waybill-core", None)]),
            package("waybill-new", &[]),
        ];
        assert_eq!(
            check(&packages),
            [
                "waybill-core must not know waybill-testkit",
                "waybill-server must not know waybill-store",
                "only waybill-sandbox and waybill-bindings may name wasmtime, and waybill-server does",
                "waybill-new: say in host/xtask/src/tidy/direction.rs whom it may know",
            ]
        );
    }
}
