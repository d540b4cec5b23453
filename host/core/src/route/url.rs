//! Patterns of URLs, e.g. `https://*.shop.example/hooks/**`.
//!
//! They are compared with the URL that is called, part by part: who sends a message chooses its text, and a text with `?`,
//! `#`, capitals, a port or dot segments in the right place would look like another host. The query plays no part.
//!
//! - Scheme: `http`, `https`, or with `*`.
//! - Host: a name or an address; `*` stands for any run of characters.
//! - Port: a number or with `*`. Where none is written: the scheme's own, or any if the host ends with `*`.
//! - Path: parts between `/`; `*` for one or inside one, `**` at the end for all that follow. Escapes of plain letters are
//!   read as the letters.
//! - `http:**` takes every URL, `https://**` every one of its scheme.

use std::borrow::Cow;

use url::{Host, Url};

use super::Parts;
use crate::glob::Glob;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UrlPattern {
    scheme: Glob,
    /// None = any host, port and path.
    place: Option<Place>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    host: Glob,
    port: Port,
    path: Parts,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Port {
    Any,
    Own,
    Written(Glob),
}

impl UrlPattern {
    /// Reads what follows `http:`.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        if text == "**" {
            return Ok(Self { scheme: Glob::new("*"), place: None });
        }
        if text.contains(['?', '#']) {
            return Err("a route goes by scheme, host, port and path: leave out ? or # and what follows");
        }
        if text.contains('\\') {
            return Err("write / instead of a backslash");
        }
        let (scheme, rest) = text
            .split_once("://")
            .ok_or("write a whole URL, e.g. \"https://*.shop.example/**\", or \"http:**\" for every one")?;
        let scheme = Glob::new(scheme.to_ascii_lowercase());
        if !["http", "https"].iter().any(|known| scheme.matches(known)) {
            return Err("the scheme of a URL is http or https, e.g. \"https://*.shop.example/**\"");
        }
        if rest == "**" {
            return Ok(Self { scheme, place: None });
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, Some(port)),
            _ => (authority, None),
        };
        let port = match port {
            None if host.ends_with('*') => Port::Any,
            None => Port::Own,
            Some(port) => written_port(port)?,
        };
        Ok(Self { scheme, place: Some(Place { host: host_glob(host)?, port, path: path_parts(path)? }) })
    }

    /// Whether it takes a URL in the form that [`crate::topic::Topic::subject`] has.
    pub(super) fn matches(&self, url: &str) -> bool {
        if self.place.is_none() && self.scheme.is_any() {
            return true;
        }
        let Some(found) = Split::of(url) else { return false };
        self.scheme.matches(found.scheme)
            && self.place.as_ref().is_none_or(|place| {
                place.host.matches(found.host)
                    && match &place.port {
                        Port::Any => true,
                        Port::Own => found.port.is_none(),
                        Port::Written(glob) => glob.matches(found.port.unwrap_or(match found.scheme {
                            "https" => "443",
                            _ => "80",
                        })),
                    }
                    && place.path.matches(plain(found.path).split('/'))
            })
    }
}

/// The parts of a URL in the form in which [`Url`] writes it.
#[derive(Debug, PartialEq, Eq)]
struct Split<'a> {
    scheme: &'a str,
    host: &'a str,
    /// None = the scheme's own.
    port: Option<&'a str>,
    /// Without the first `/`, and without the query.
    path: &'a str,
}

impl<'a> Split<'a> {
    fn of(url: &'a str) -> Option<Self> {
        let (scheme, rest) = url.split_once(':')?;
        let rest = rest.strip_prefix("//")?;
        let (authority, rest) = rest.split_once('/')?;
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, Some(port)),
            _ => (authority, None),
        };
        Some(Self { scheme, host, port, path: rest.split_once('?').map_or(rest, |(path, _)| path) })
    }
}

fn written_port(port: &str) -> Result<Port, &'static str> {
    let bad = "a port is a number from 1 to 65535, or has *";
    if port.contains('*') {
        let is_glob = port.bytes().all(|byte| byte.is_ascii_digit() || byte == b'*') && !port.contains("**");
        return if is_glob { Ok(Port::Written(Glob::new(port))) } else { Err(bad) };
    }
    let number: u16 = port.parse().map_err(|_| bad)?;
    if number == 0 { Err(bad) } else { Ok(Port::Written(Glob::new(number.to_string()))) }
}

fn host_glob(host: &str) -> Result<Glob, &'static str> {
    if host.contains('@') {
        return Err("credentials don't belong in a route: give the transport a secret");
    }
    if host.contains("**") {
        return Err("** may only stand alone at the end");
    }
    let name = host.trim_end_matches('.');
    if name.is_empty() {
        return Err("write a host, or * for any");
    }
    if !name.contains('*') {
        let host = Host::parse(name).map_err(|_| "the host is neither a name nor an address ([..] around IPv6)")?;
        return Ok(Glob::new(host.to_string()));
    }
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"*.-_:[]".contains(&byte);
    if !name.bytes().all(is_plain) {
        return Err("beside * a host has letters, digits, - and . only: write xn--... for others");
    }
    Ok(Glob::new(name.to_ascii_lowercase()))
}

fn path_parts(path: &str) -> Result<Parts, &'static str> {
    let url = Url::parse(&format!("http://host/{path}")).map_err(|_| "the path isn't one of a URL")?;
    Parts::parse(&plain(url.path().strip_prefix('/').unwrap_or_default()), '/')
}

/// A path in which `%61` is `a`: receivers read it so. Other escapes stay, in capitals.
fn plain(path: &str) -> Cow<'_, str> {
    if !path.contains('%') {
        return Cow::Borrowed(path);
    }
    let mut pieces = path.split('%');
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let escape = piece.get(..2).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let (digits, rest) = escape.map_or(("", piece), |digits| (digits, piece.get(2..).unwrap_or_default()));
        match u8::from_str_radix(digits, 16) {
            Ok(byte) if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => text.push(char::from(byte)),
            _ => {
                text.push('%');
                text.push_str(&digits.to_ascii_uppercase());
            }
        }
        text.push_str(rest);
    }
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::topic::Topic;

    #[test]
    fn the_parts_of_a_called_url_are_those_that_its_parser_finds() {
        for text in [
            "https://a.example",
            "http://[::1]:9000/a?b=/c://d",
            "http://[fe80::1]/",
            "http://a:1/@b:2/",
            "https://h/%2f?#",
            "http://h//a//",
        ] {
            let topic = Topic::parse(text).unwrap();
            let (split, url) = (Split::of(topic.subject()).unwrap(), Url::parse(topic.subject()).unwrap());
            assert_eq!((split.scheme, Some(split.host)), (url.scheme(), url.host_str()), "{text}");
            assert_eq!(split.port.map(|port| port.parse().unwrap()), url.port(), "{text}");
            assert_eq!(format!("/{}", split.path), url.path(), "{text}");
        }
    }

    #[test]
    fn escapes_of_plain_letters_are_letters() {
        assert_eq!(plain("%61/%2e%2F%2f%zz%"), "a/.%2F%2F%zz%");
        assert_eq!(plain("a/b"), "a/b");
    }
}
