//! An address of the page as a browser loads it, and what the browser then asks for by itself.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use reqwest::redirect::Policy;

/// One connection that is kept. It follows nobody elsewhere: what is loaded is what was asked for.
pub fn client() -> Result<reqwest::Client> {
    reqwest::Client::builder().no_proxy().redirect(Policy::none()).build().context("making a client of the page")
}

/// What came of one address.
pub struct Loaded {
    /// From the request to the head of its answer.
    pub first_byte: Duration,
    pub text: String,
    /// The browser keeps it, and doesn't ask again.
    pub is_immutable: bool,
}

/// Loads all of an address; any other status than 2xx is none of the page's views.
pub async fn load(client: &reqwest::Client, url: &str) -> Result<Loaded> {
    let began = Instant::now();
    let response = client.get(url).send().await.with_context(|| format!("GET {url}"))?;
    let first_byte = began.elapsed();
    let status = response.status();
    let kept = response.headers().get("cache-control").and_then(|kept| kept.to_str().ok());
    let is_immutable = kept.is_some_and(|kept| kept.contains("immutable"));
    let text = response.text().await.with_context(|| format!("reading what GET {url} answers"))?;
    if !status.is_success() {
        bail!("GET {url} answered {status}: {text}");
    }
    Ok(Loaded { first_byte, text, is_immutable })
}

/// An address that a browser asks for when it has a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Referred {
    pub address: String,
    /// The sign beside the title, which browsers keep for themselves.
    pub is_icon: bool,
}

/// Elements that make a browser ask for something, with the attribute that names it.
const REFERRING: [(&str, &str); 7] = [
    ("<link ", "href"),
    ("<script ", "src"),
    ("<img ", "src"),
    ("<image ", "href"),
    ("<iframe ", "src"),
    ("<embed ", "src"),
    ("<source ", "src"),
];

/// What the elements of a page refer to, each address once.
pub fn referred(html: &str) -> Vec<Referred> {
    let mut all: Vec<Referred> = Vec::new();
    for (element, name) in REFERRING {
        for rest in html.split(element).skip(1) {
            // Within an attribute this letter is escaped.
            let tag = rest.split('>').next().unwrap_or_default();
            let Some(address) = attribute(tag, name) else { continue };
            let is_within = address.starts_with('#') || address.starts_with("data:");
            if !is_within && all.iter().all(|other| other.address != address) {
                all.push(Referred { address, is_icon: attribute(tag, "rel").as_deref() == Some("icon") });
            }
        }
    }
    all
}

/// Value of the first attribute with this name.
pub fn attribute(html: &str, name: &str) -> Option<String> {
    let mark = format!("{name}=\"");
    // `data-src` isn't `src`.
    let (at, _) = html.match_indices(&mark).find(|(at, _)| {
        html.get(..*at).is_some_and(|before| before.is_empty() || before.ends_with(char::is_whitespace))
    })?;
    let (value, _) = html.get(at + mark.len()..)?.split_once('"')?;
    Some(value.replace("&amp;", "&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_browser_asks_for_is_found_and_links_that_one_follows_are_not() {
        let html = r##"<!DOCTYPE html><head><link rel="icon" href="/ui/assets/icon.1.svg"><link rel="stylesheet" href="/a.css">
            <script src="/a.js" defer></script></head><body data-source="/ui/live?view=a&amp;since=b"><a href="/ui/messages">x</a>
            <svg><use href="#done"/></svg><img src="data:,"><img alt="" data-src="/c.png"><img src="/a.css"></body>"##;
        let found = referred(html);
        let shown: Vec<_> = found.iter().map(|one| (one.address.as_str(), one.is_icon)).collect();
        assert_eq!(shown, [("/ui/assets/icon.1.svg", true), ("/a.css", false), ("/a.js", false)]);
        assert_eq!(attribute(html, "data-source").as_deref(), Some("/ui/live?view=a&since=b"));
        assert_eq!(attribute(html, "srcdoc"), None);
    }
}
