//! What an edit begins with: the parts of a dead letter that a form can hold, and why it can't hold the others.

use waybill_api::dead_inbox::DeadInbox;
use waybill_api::headers::HeadersJson;
use waybill_api::messages::MessageView;

use super::super::{Given, is_secret};
use crate::payload::SHOWN_MAX;
use crate::text::{count, is_hidden};

/// What there is of a dead letter, as far as it can be edited in a form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Original {
    /// By the names of the entries.
    pub texts: Given,
    /// Entries that stay as they are, each with why.
    pub kept: Vec<(&'static str, String)>,
    /// Names of headers that hold credentials: they aren't shown, and stay.
    pub hidden_headers: Vec<String>,
    /// The payload is JSON, and so is what it is edited to.
    pub is_json: bool,
}

impl Original {
    pub fn of_message(message: &MessageView) -> Self {
        let mut made = Self::default();
        made.keep("topic", visible(&message.topic));
        made.keep("key", visible(message.key.as_deref().unwrap_or_default()));
        made.keep_headers(&message.headers);
        made.keep_payload(message.bytes.as_deref(), message.payload.is_some());
        made
    }

    /// Of a received message, which stays at its consumer.
    pub fn of_received(inbox: &DeadInbox) -> Self {
        let mut made = Self::default();
        made.keep("topic", Err("a received message stays with its consumer and its subject".to_owned()));
        made.keep("key", visible(inbox.key.as_deref().unwrap_or_default()));
        made.keep_headers(&inbox.headers);
        made.keep_payload(inbox.bytes.as_deref(), inbox.payload.is_some());
        made
    }

    /// Why an entry can't be edited here.
    pub fn why_kept(&self, name: &str) -> Option<&str> {
        self.kept.iter().find(|(of, _)| *of == name).map(|(_, why)| why.as_str())
    }

    /// Whether a form says something else than there is.
    pub fn is_changed(&self, name: &str, given: &Given) -> bool {
        given.has(name) && self.why_kept(name).is_none() && given.lines(name) != self.texts.text(name)
    }

    fn keep(&mut self, name: &'static str, text: Result<String, String>) {
        match text {
            Ok(text) => self.texts.set(name, text),
            Err(why) => self.kept.push((name, why)),
        }
    }

    fn keep_headers(&mut self, headers: &HeadersJson) {
        let (hidden, shown): (Vec<_>, Vec<_>) = headers.0.iter().partition(|(name, _)| is_secret(name));
        self.hidden_headers = hidden.iter().map(|(name, _)| name.clone()).collect();
        let lines: Result<Vec<String>, String> =
            shown.iter().map(|(name, value)| visible(&format!("{name}={value}"))).collect();
        self.keep("headers", lines.map(|lines| lines.join("\n")));
    }

    fn keep_payload(&mut self, bytes: Option<&[u8]>, is_json: bool) {
        self.is_json = is_json;
        let gone = || "it is gone, or was too large to carry".to_owned();
        self.keep("payload", bytes.ok_or_else(gone).and_then(|bytes| editable(bytes, is_json)));
    }
}

const INVISIBLE: &str = "it has characters that can’t be seen";

/// A text of one line that a form shows as it is.
fn visible(text: &str) -> Result<String, String> {
    if text.chars().any(is_hidden) { Err(INVISIBLE.to_owned()) } else { Ok(text.to_owned()) }
}

/// A payload that a form shows. In JSON, what can't be seen is escaped, which means the same.
fn editable(bytes: &[u8], is_json: bool) -> Result<String, String> {
    if bytes.len() > SHOWN_MAX {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        return Err(format!("it has {} bytes, which are too many for a form", count(length)));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| "it is no text".to_owned())?;
    if is_json {
        return Ok(escaped(text));
    }
    let is_lost = |letter: char| is_hidden(letter) && !matches!(letter, '\n' | '\t');
    if text.chars().any(is_lost) { Err(INVISIBLE.to_owned()) } else { Ok(text.to_owned()) }
}

fn escaped(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    let mut units = [0_u16; 2];
    for letter in json.replace("\r\n", "\n").chars() {
        match letter {
            // Outside of texts, where alone they may stand, all of them are blanks. A form has one kind of line end.
            '\r' => shown.push('\n'),
            '\n' | '\t' => shown.push(letter),
            _ if is_hidden(letter) => {
                letter.encode_utf16(&mut units).iter().for_each(|unit| shown.push_str(&format!("\\u{unit:04x}")));
            }
            _ => shown.push(letter),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_form_can_hold_is_edited_in_it() {
        assert_eq!(
            editable("{\"a\":\"\u{202e}\u{e0001}\"}\r\n".as_bytes(), true).as_deref(),
            Ok("{\"a\":\"\\u202e\\udb40\\udc01\"}\n")
        );
        assert_eq!(editable(b"a\n\tb", false).as_deref(), Ok("a\n\tb"));
        for bytes in [&b"\xff\xfe"[..], b"a\r\n", b"\0", &[b'x'; SHOWN_MAX + 1]] {
            assert!(editable(bytes, false).is_err(), "{:?}", bytes.get(..2));
        }
    }

    #[test]
    fn an_entry_is_changed_where_the_form_says_something_else() {
        let mut original = Original::default();
        original.keep("payload", Ok("{\n}".into()));
        original.keep("key", Err("it can’t be seen".into()));
        let given = |name: &str, text: &str| Given(vec![(name.to_owned(), text.to_owned())]);
        assert!(!original.is_changed("payload", &given("payload", "{\r\n}")));
        assert!(original.is_changed("payload", &given("payload", "{}")));
        assert!(original.is_changed("payload", &given("payload", "")));
        assert!(!original.is_changed("payload", &given("topic", "")), "a form without it says nothing");
        assert!(!original.is_changed("key", &given("key", "k")));
    }

    #[test]
    fn headers_with_credentials_stay_unseen() {
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut original = Original::default();
        original.keep_headers(&HeadersJson(vec![header("x-a", "1"), header("Authorization", "Bearer s")]));
        assert_eq!((original.texts.text("headers"), original.hidden_headers), ("x-a=1", vec!["Authorization".into()]));
    }
}
