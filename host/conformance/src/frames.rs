//! What a case says of a binary peer: how frames are cut, and bytes as people write them.
//!
//! Bytes are pairs of hex digits with blanks where one likes, and texts in single quotes.

use serde::Deserialize;

use crate::case::PeerFault;

/// How long a frame is.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Frame {
    /// Bytes before the length.
    #[serde(default)]
    pub(crate) header: usize,
    /// How the length is written; none = the frame is its header.
    #[serde(default)]
    length: Length,
    /// What the length counts besides what follows it.
    #[serde(default)]
    includes: Includes,
    /// Bytes behind what the length counts.
    #[serde(default)]
    trailer: usize,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "Written")]
enum Length {
    /// Most significant byte first.
    Bytes(usize),
    /// Seven bits a byte, the least significant first, up to four bytes.
    Mqtt,
}

impl Default for Length {
    fn default() -> Self {
        Self::Bytes(0)
    }
}

/// A length as a case writes it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Bytes(usize),
    Named(String),
}

impl TryFrom<Written> for Length {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        match written {
            Written::Bytes(bytes @ 0..=4) => Ok(Self::Bytes(bytes)),
            Written::Named(name) if name == "mqtt" => Ok(Self::Mqtt),
            Written::Bytes(_) | Written::Named(_) => Err("length takes 1 to 4 bytes, or \"mqtt\"".to_owned()),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Includes {
    #[default]
    Nothing,
    /// Its own bytes too.
    Length,
    /// Itself and the header.
    All,
}

/// What is known of a frame from its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Where what follows the length begins.
    pub(crate) body: usize,
    /// All of the frame, in bytes.
    pub(crate) whole: usize,
}

impl Frame {
    /// Where the frame that these bytes begin ends; none = more of it has to come first.
    pub(crate) fn cut(&self, bytes: &[u8]) -> Option<Cut> {
        let behind = bytes.get(self.header..)?;
        let (value, taken) = match self.length {
            Length::Bytes(count) => {
                let length = behind.get(..count)?;
                (length.iter().fold(0_usize, |value, byte| (value << 8) | usize::from(*byte)), count)
            }
            Length::Mqtt => variable(behind)?,
        };
        let body = self.header + taken;
        let counted = match self.includes {
            Includes::Nothing => 0,
            Includes::Length => taken,
            Includes::All => body,
        };
        Some(Cut { body, whole: body + value.saturating_sub(counted) + self.trailer })
    }
}

fn variable(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0;
    for (place, byte) in bytes.iter().take(4).enumerate() {
        value |= usize::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 || place == 3 {
            return Some((value, place + 1));
        }
    }
    None
}

/// What a peer of bytes does when a frame begins with something.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BytesRule {
    /// What the frame begins with; empty = any frame.
    #[serde(default)]
    pub(crate) on: Literal,
    /// Bytes that the frame holds; none = any.
    pub(crate) when: Option<Literal>,
    /// What is written in answer.
    #[serde(default)]
    pub(crate) send: Reply,
    /// How often the rule holds; none = always.
    pub(crate) times: Option<u32>,
    /// What happens in place of an answer.
    #[serde(rename = "do")]
    pub(crate) fault: Option<PeerFault>,
}

impl BytesRule {
    pub(crate) fn fits(&self, frame: &[u8]) -> bool {
        let holds =
            |wanted: &Literal| wanted.0.is_empty() || frame.windows(wanted.0.len()).any(|window| window == wanted.0);
        frame.starts_with(&self.on.0) && self.when.as_ref().is_none_or(holds)
    }
}

/// Bytes without parts of a frame.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Literal(Vec<u8>);

impl TryFrom<String> for Literal {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let Reply(pieces) = Reply::try_from(text)?;
        pieces.into_iter().try_fold(Self::default(), |mut literal, piece| match piece {
            Piece::Bytes(bytes) => {
                literal.0.extend(bytes);
                Ok(literal)
            }
            _ => Err("a part of the frame, ${...}, is for `send` only".to_owned()),
        })
    }
}

/// Bytes with parts of the frame that they answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Reply(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Bytes(Vec<u8>),
    Frame,
    Slice {
        from: usize,
        count: usize,
    },
    /// Behind a text at the beginning of the body that has its own length before it.
    After {
        size: usize,
        count: usize,
    },
}

impl Reply {
    /// The bytes that answer a frame. What it doesn't have is left out.
    pub(crate) fn to(&self, frame: &[u8], body: usize) -> Vec<u8> {
        let mut written = Vec::new();
        for piece in &self.0 {
            let part = match piece {
                Piece::Bytes(bytes) => Some(bytes.as_slice()),
                Piece::Frame => Some(frame),
                Piece::Slice { from, count } => frame.get(*from..from.saturating_add(*count)),
                Piece::After { size, count } => after(frame.get(body..).unwrap_or_default(), *size, *count),
            };
            written.extend_from_slice(part.unwrap_or_default());
        }
        written
    }
}

fn after(body: &[u8], size: usize, count: usize) -> Option<&[u8]> {
    let length = body.get(..size)?.iter().fold(0_usize, |value, byte| (value << 8) | usize::from(*byte));
    let from = size.saturating_add(length);
    body.get(from..from.saturating_add(count))
}

impl TryFrom<String> for Reply {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let (piece, behind) = if let Some(quoted) = rest.strip_prefix('\'') {
                let (quoted, behind) = quoted.split_once('\'').ok_or("a text has no closing quote")?;
                (Piece::Bytes(quoted.as_bytes().to_vec()), behind)
            } else if let Some(part) = rest.strip_prefix("${") {
                let (part, behind) = part.split_once('}').ok_or("a part of the frame has no closing }")?;
                (of_frame(part)?, behind)
            } else {
                let byte = rest.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
                let byte = byte.ok_or_else(|| {
                    format!(
                        "{:?} isn't a byte: write two digits of hex each, or a 'text'",
                        rest.chars().take(2).collect::<String>()
                    )
                })?;
                (Piece::Bytes(vec![byte]), rest.get(2..).unwrap_or_default())
            };
            pieces.push(piece);
            rest = behind.trim_start();
        }
        Ok(Self(pieces))
    }
}

fn of_frame(part: &str) -> Result<Piece, String> {
    let wrong =
        || format!("${{{part}}} isn't a part of a frame: write ${{frame}}, ${{FROM:COUNT}} or ${{after:SIZE:COUNT}}");
    let number = |text: &str| text.parse::<usize>().map_err(|_| wrong());
    match part.split(':').collect::<Vec<_>>().as_slice() {
        ["frame"] => Ok(Piece::Frame),
        ["after", size, count] => Ok(Piece::After { size: number(size)?.min(4), count: number(count)? }),
        [from, count] => Ok(Piece::Slice { from: number(from)?, count: number(count)? }),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
    use super::*;

    fn frame(text: &str) -> Frame {
        toml::from_str(text).unwrap()
    }

    fn reply(text: &str) -> Reply {
        Reply::try_from(text.to_owned()).unwrap()
    }

    #[test]
    fn a_frame_ends_where_its_protocol_says() {
        for (text, bytes, body, whole) in [
            // MQTT: PUBLISH with 200 bytes.
            ("header = 1\nlength = \"mqtt\"", &[0x32_u8, 0xc8, 0x01, 0][..], 3, 203),
            // PostgreSQL: the length counts itself.
            ("header = 1\nlength = 4\nincludes = \"length\"", &[b'Q', 0, 0, 0, 9, b'x'], 5, 10),
            // Kafka.
            ("length = 4", &[0, 0, 1, 0], 4, 260),
            // AMQP 0-9-1: type and channel before, an end byte behind.
            ("header = 3\nlength = 4\ntrailer = 1", &[1, 0, 0, 0, 0, 0, 2], 7, 10),
            ("header = 8", b"AMQP0091", 8, 8),
            ("length = 2\nincludes = \"all\"\nheader = 2", &[0, 0, 0, 9], 4, 9),
        ] {
            assert_eq!(frame(text).cut(bytes), Some(Cut { body, whole }), "{text}");
            assert_eq!(frame(text).cut(&bytes[..body - 1]), None, "{text}: more has to come");
        }
        assert!(toml::from_str::<Frame>("length = 5").unwrap_err().to_string().contains("1 to 4"));
    }

    #[test]
    fn an_answer_repeats_parts_of_what_came() {
        // PUBLISH to topic `a/b` with the packet id 0x1234.
        let publish = [0x32, 7, 0, 3, b'a', b'/', b'b', 0x12, 0x34];
        assert_eq!(reply("40 02 ${after:2:2}").to(&publish, 2), [0x40, 2, 0x12, 0x34]);
        assert_eq!(reply("'ok' ${0:2}0A").to(&publish, 2), [b'o', b'k', 0x32, 7, 10]);
        assert_eq!(reply("${frame}").to(&publish, 2), publish);
        assert_eq!(reply("ff${90:2}").to(&publish, 2), [0xff], "what isn't there is left out");
    }

    #[test]
    fn a_rule_fits_by_beginning_and_content() {
        let rule: BytesRule = toml::from_str("on = '32'\nwhen = \"'no' 00\"").unwrap();
        assert!(rule.fits(b"\x32\x05-no\0-"));
        assert!(!rule.fits(b"\x30\x05-no\0-") && !rule.fits(b"\x32\x05-no-"));
    }

    #[test]
    fn a_mistake_says_how_bytes_are_written() {
        for (text, says) in [
            ("1", "two digits"),
            ("zz", "two digits"),
            ("'x", "closing quote"),
            ("${x:1}", "FROM:COUNT"),
            ("\u{e9}\u{e9}", "hex"),
        ] {
            let error = Reply::try_from(text.to_owned()).expect_err(text);
            assert!(error.contains(says), "{text}: {error}");
        }
        assert!(Literal::try_from("10 ${frame}".to_owned()).is_err());
    }
}
