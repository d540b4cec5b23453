//! Which C library a binary needs.

use anyhow::{Context, Result};

const NAME: &[u8] = b"GLIBC_2.";

/// The lowest glibc that has all that this binary asks for, as `2.34`: its names of versions stand in the binary as they are.
pub fn lowest(binary: &[u8]) -> Result<String> {
    let mut highest = None;
    let places = binary.windows(NAME.len()).enumerate().filter(|(_, bytes)| *bytes == NAME);
    for (place, _) in places {
        let rest = binary.get(place + NAME.len()..).unwrap_or_default();
        let digits: Vec<u8> = rest.iter().copied().take_while(u8::is_ascii_digit).collect();
        if let Ok(minor) = String::from_utf8_lossy(&digits).parse::<u32>() {
            highest = highest.max(Some(minor));
        }
    }
    let minor = highest.context("the binary names no version of glibc: is it static, or for another system?")?;
    Ok(format!("2.{minor}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_highest_version_that_is_named_is_the_lowest_that_serves() {
        assert_eq!(lowest(b"\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.9\0GLIBC_PRIVATE\0").unwrap(), "2.34");
        assert!(lowest(b"nothing").is_err());
    }
}
