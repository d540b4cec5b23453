//! The style sheet, the script and the sign of the page, each under an address that holds its hash, so that browsers may keep it.

use std::sync::LazyLock;

use sha2::{Digest, Sha256};

/// Hex digits of the hash in an address.
const HASH_DIGITS: usize = 16;

/// A file that the page refers to.
#[derive(Debug)]
pub struct Asset {
    /// Its name in the address, with its hash.
    pub name: String,
    pub media: &'static str,
    pub text: &'static str,
}

impl Asset {
    fn new(stem: &str, ending: &str, media: &'static str, text: &'static str) -> Self {
        let mut hash: String = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
        hash.truncate(HASH_DIGITS);
        Self { name: format!("{stem}.{hash}.{ending}"), media, text }
    }

    /// Where it is served.
    pub fn address(&self) -> String {
        format!("/ui/assets/{}", self.name)
    }
}

pub static STYLE: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("page", "css", "text/css; charset=utf-8", include_str!("../assets/page.css")));
pub static SCRIPT: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("page", "js", "text/javascript; charset=utf-8", include_str!("../assets/page.js")));
pub static ICON: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("icon", "svg", "image/svg+xml", include_str!("../assets/icon.svg")));

/// The one with this name.
pub fn named(name: &str) -> Option<&'static Asset> {
    [&*STYLE, &*SCRIPT, &*ICON].into_iter().find(|asset| asset.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_content_has_another_address() {
        let (one, other) = (Asset::new("a", "css", "", "x"), Asset::new("a", "css", "", "y"));
        assert_ne!(one.name, other.name);
        assert_eq!(one.name.len(), "a..css".len() + HASH_DIGITS);
        assert!(named(&STYLE.name).is_some() && named("page.css").is_none());
    }

    #[test]
    fn no_asset_names_a_foreign_host() {
        for asset in [&*STYLE, &*SCRIPT, &*ICON] {
            let text = asset.text.replace("http://www.w3.org/2000/svg", "");
            assert!(!text.contains("http:") && !text.contains("https:") && !text.contains("@import"), "{}", asset.name);
        }
    }
}
