//! Where the database is, as `postgres://user@host:port/database?sslmode=require` says it.

use waybill_plugin::broker::{Address, Scheme};

/// Port where none is written.
const PORT: u16 = 5432;
/// How one host of the URL is read, once it stands alone.
pub(crate) const SCHEME: Scheme = Scheme { plain: "postgres", tls: "postgres+tls", port: PORT, tls_port: PORT };
/// Both are in use, and mean the same.
const PREFIXES: [&str; 2] = ["postgres://", "postgresql://"];

/// What a URL says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Hosts in the order in which they are tried; one that takes no writes is passed over.
    pub(crate) addresses: Vec<Address>,
    /// Who we are, if it says so.
    pub(crate) user: Option<String>,
    pub(crate) database: Option<String>,
    /// `sslmode=disable`: then `tls = "required"` contradicts it.
    pub(crate) is_plain: bool,
}

/// Whether TLS is wanted, by `sslmode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ssl {
    Off,
    /// Where the setting `tls` or a granted certificate asks for it.
    Open,
    /// The host verifies always: there is no TLS without a known peer.
    Verified,
}

impl Place {
    /// Reads a URL of one host or several, with commas between them.
    ///
    /// # Errors
    /// What is wrong with it; never with the text itself, which may hold a password.
    pub(crate) fn parse(url: &str) -> Result<Self, String> {
        let rest = PREFIXES.iter().find_map(|prefix| url.strip_prefix(prefix));
        let rest = rest.ok_or("has no postgres:// at its beginning: write postgres://user@host:5432/database")?;
        let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (hosts, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, hosts) = match hosts.rsplit_once('@') {
            Some((user, _)) if user.contains(':') => {
                return Err("holds a password: grant it as the secret `password`, this document is shown".to_owned());
            }
            Some((user, hosts)) => (Some(decoded(user)?), hosts),
            None => (None, hosts),
        };
        let ssl = ssl(options)?;
        let mut addresses = Vec::new();
        for host in hosts.split(',') {
            let mut address = Address::parse(host, &SCHEME)?;
            address.tls = ssl == Ssl::Verified;
            addresses.push(address);
        }
        let database = Some(decoded(database)?).filter(|name| !name.is_empty());
        let user = user.filter(|name| !name.is_empty());
        Ok(Self { addresses, user, database, is_plain: ssl == Ssl::Off })
    }
}

fn ssl(options: &str) -> Result<Ssl, String> {
    let mut ssl = Ssl::Open;
    for option in options.split('&').filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        if name != "sslmode" {
            return Err(format!("has the option `{name}`: only sslmode may stand there"));
        }
        ssl = match value {
            "disable" => Ssl::Off,
            "allow" | "prefer" => Ssl::Open,
            "require" | "verify-ca" | "verify-full" => Ssl::Verified,
            _ => return Err("has an unknown sslmode: write disable, prefer, require or verify-full".to_owned()),
        };
    }
    Ok(ssl)
}

/// Takes back what `%41` stands for.
fn decoded(text: &str) -> Result<String, String> {
    let wrong = || "has a % that isn't followed by two hexadecimal digits of UTF-8 text".to_owned();
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((first, behind)) = rest.split_first() {
        rest = if *first == b'%' {
            let (digits, behind) = behind.split_at_checked(2).ok_or_else(wrong)?;
            let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
            bytes.push(u8::from_str_radix(digits, 16).map_err(|_| wrong())?);
            behind
        } else {
            bytes.push(*first);
            behind
        };
    }
    String::from_utf8(bytes).map_err(|_| wrong()).and_then(|text| match text.contains('\0') {
        true => Err("has a zero byte".to_owned()),
        false => Ok(text),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_url_says_who_where_and_what() {
        let place = Place::parse("postgres://app@127.0.0.1:5433/shop").unwrap();
        assert_eq!((place.user.as_deref(), place.database.as_deref()), (Some("app"), Some("shop")));
        assert_eq!(place.addresses.first().unwrap().uri(), "tcp://127.0.0.1:5433");
        let bare = Place::parse("postgresql://db.example").unwrap();
        assert_eq!((bare.user, bare.database), (None, None));
        assert_eq!(bare.addresses.first().unwrap().uri(), "tcp://db.example:5432");
        let odd = Place::parse("postgres://o%27brien@[::1]/sh%C3%B6p").unwrap();
        assert_eq!((odd.user.as_deref(), odd.database.as_deref()), (Some("o'brien"), Some("shöp")));
    }

    #[test]
    fn hosts_stand_in_the_order_in_which_they_are_tried() {
        let place = Place::parse("postgres://app@a.example,b.example:5433/shop?sslmode=verify-full").unwrap();
        let shown: Vec<String> = place.addresses.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["a.example:5432", "b.example:5433"]);
        assert!(place.addresses.iter().all(|address| address.tls));
    }

    #[test]
    fn sslmode_says_whether_tls_is_wanted() {
        for (mode, tls, plain) in [
            ("disable", false, true),
            ("prefer", false, false),
            ("require", true, false),
            ("verify-ca", true, false),
            ("verify-full", true, false),
        ] {
            let place = Place::parse(&format!("postgres://a/b?sslmode={mode}")).unwrap();
            assert_eq!((place.addresses.first().unwrap().tls, place.is_plain), (tls, plain), "{mode}");
        }
    }

    #[test]
    fn what_can_not_be_read_is_refused_without_being_shown() {
        for url in [
            "",
            "nats://a",
            "postgres://",
            "postgres://app:s3cret@a/b",
            "postgres://a/b?sslmode=maybe",
            "postgres://a/b?options=-c",
            "postgres://a%zz@b/c",
            "postgres://a@b/%00",
            "postgres://a:b:c/d",
        ] {
            let why = Place::parse(url).unwrap_err();
            assert!(!why.contains("s3cret"), "{url}: {why}");
        }
    }
}
