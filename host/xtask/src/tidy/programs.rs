//! How many test programs there are. Most link SurrealDB or wasmtime again, so a new test is a module of one that is there.

use crate::cargo::Package;

/// Programs in `tests/` folders of the workspace, at most.
const PROGRAMS_MAX: usize = 16;

/// The breach, if there are more.
pub fn check(packages: &[Package]) -> Vec<String> {
    let mut programs = Vec::new();
    for package in packages {
        let tests = package.targets.iter().filter(|target| target.kind.iter().any(|kind| kind == "test"));
        programs.extend(tests.map(|target| format!("{} {}", package.name, target.name)));
    }
    if programs.len() <= PROGRAMS_MAX {
        return Vec::new();
    }
    let (count, names) = (programs.len(), programs.join(", "));
    vec![format!("{count} test programs, at most {PROGRAMS_MAX} are linked: make one a module of another ({names})")]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cargo::Target;

    fn package(name: &str, tests: usize) -> Package {
        let target = |kind: &str, name: String| Target { name, kind: vec![kind.to_owned()] };
        let mut targets = vec![target("lib", name.to_owned()), target("bin", name.to_owned())];
        targets.extend((1..=tests).map(|number| target("test", format!("t{number}"))));
        Package { name: name.to_owned(), targets, dependencies: Vec::new() }
    }

    #[test]
    fn one_program_too_many_is_told_with_all_of_them() {
        assert_eq!(check(&[package("a", PROGRAMS_MAX - 1), package("b", 1)]), [""; 0]);
        let told = check(&[package("a", PROGRAMS_MAX - 1), package("b", 2)]);
        assert_eq!(told.len(), 1);
        assert!(told.iter().all(|breach| breach.starts_with("17 test programs, at most 16")), "{told:?}");
        assert!(told.iter().all(|breach| breach.ends_with("a t15, b t1, b t2)")), "{told:?}");
    }
}
