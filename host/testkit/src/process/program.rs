//! Programs of the system that tests run: servers of brokers and their tools.

use std::path::PathBuf;

/// Where a program is: in the search path, or where Debian puts servers, which the path of a normal user lacks.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let servers = ["/usr/local/sbin", "/usr/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(servers).map(|folder| folder.join(name)).find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_in_the_search_path_and_nowhere_if_it_is_not_there() {
        assert!(find_program("sh").is_some_and(|program| program.is_absolute() && program.ends_with("sh")));
        assert_eq!(find_program("waybill-no-such-program"), None);
    }
}
