//! The cursor of a reader of many streams, however many they are.
//!
//! It holds the reader's place: within a scan by name, with the feed positions between which it scans, or inside each shard's feed. As
//! text it has less than 600 bytes with 16 shards. It names the tenant, the selector and the store's incarnation, so that it isn't used
//! for something else.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::super::limits::{TOKEN_BYTES_MAX, TOKEN_SHARDS_MAX};
use super::super::name::StreamName;
use super::super::proto::{ProtoError, put_varint, take_bytes, take_varint};
use super::Selector;
use crate::ids::Tenant;

const VERSION: u8 = 1;

/// Where a scan stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScanAt {
    /// Behind all of this stream; none = before the first one.
    Behind(Option<StreamName>),
    /// After a number of a stream; `purged` is the mark of dropped tombstones when it began with that stream.
    Within { stream: StreamName, seq: u64, purged: u64 },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Scan {
        /// Feed positions up to which it had everything before this scan, by shard; empty = it had nothing.
        low: Vec<u64>,
        /// Feed positions that were taken before the scan: what is named later comes by the feed.
        feed: Vec<u64>,
        at: ScanAt,
    },
    Feed {
        /// The last feed record of each shard that it had all of.
        pos: Vec<u64>,
        /// How far it is in the next record of one shard: shard, part, number.
        part: Option<(u16, u64, u64)>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Of tenant and selector.
    pub scope: u32,
    /// Of the store: another one after a restore.
    pub incarnation: u64,
    pub place: Place,
}

/// Why a text isn't a token for what was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    #[error("it isn't a token of a subscription")]
    Malformed,
    #[error("it is the token of another selector or tenant")]
    OtherScope,
    #[error("it is the token of another store, or of this one before it was restored")]
    OtherStore,
    #[error("it was made with another number of shards")]
    OtherShards,
}

impl From<ProtoError> for TokenError {
    fn from(_: ProtoError) -> Self {
        Self::Malformed
    }
}

impl Token {
    /// What of tenant and selector a token names.
    pub fn scope(tenant: &Tenant, selector: &Selector) -> u32 {
        let mut hash = crc32fast::Hasher::new_with_initial(selector.hash());
        hash.update(tenant.as_str().as_bytes());
        hash.finalize()
    }

    pub fn text(&self) -> String {
        let mut out = vec![VERSION];
        put_varint(&mut out, u64::from(self.scope));
        put_varint(&mut out, self.incarnation);
        match &self.place {
            Place::Scan { low, feed, at } => {
                out.push(u8::from(!low.is_empty()));
                put_numbers(&mut out, feed);
                // The two are near each other.
                for (low, feed) in low.iter().zip(feed) {
                    put_varint(&mut out, feed.wrapping_sub(*low));
                }
                let (name, seq, purged) = match at {
                    ScanAt::Behind(None) => ("", 0, 0),
                    ScanAt::Behind(Some(name)) => (name.as_str(), 0, 0),
                    ScanAt::Within { stream, seq, purged } => (stream.as_str(), seq + 1, *purged),
                };
                put_varint(&mut out, seq);
                put_varint(&mut out, purged);
                out.extend_from_slice(name.as_bytes());
            }
            Place::Feed { pos, part } => {
                out.push(2 + u8::from(part.is_some()));
                put_numbers(&mut out, pos);
                if let Some((shard, part, seq)) = part {
                    [u64::from(*shard), *part, *seq].into_iter().for_each(|number| put_varint(&mut out, number));
                }
            }
        }
        URL_SAFE_NO_PAD.encode(out)
    }

    /// Reads a token and checks what it is for.
    pub fn parse(text: &str, scope: u32, incarnation: u64, shards: u16) -> Result<Self, TokenError> {
        // More shards than is usual make it longer; what is beyond all of them isn't looked at.
        if text.len() > TOKEN_BYTES_MAX.max(usize::from(shards) * 28 + 400) {
            return Err(TokenError::Malformed);
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| TokenError::Malformed)?;
        let token = Self::decode(&bytes)?;
        let count = match &token.place {
            Place::Scan { feed, .. } => feed.len(),
            Place::Feed { pos, .. } => pos.len(),
        };
        match token {
            _ if token.incarnation != incarnation => Err(TokenError::OtherStore),
            _ if token.scope != scope => Err(TokenError::OtherScope),
            _ if count != usize::from(shards) => Err(TokenError::OtherShards),
            token => Ok(token),
        }
    }

    fn decode(bytes: &[u8]) -> Result<Self, TokenError> {
        let Some((&VERSION, mut rest)) = bytes.split_first() else { return Err(TokenError::Malformed) };
        let scope = u32::try_from(take_varint(&mut rest)?).map_err(|_| TokenError::Malformed)?;
        let incarnation = take_varint(&mut rest)?;
        let kind = take_bytes(&mut rest, 1)?.first().copied();
        let numbers = take_numbers(&mut rest)?;
        let place = match kind {
            Some(kind @ (0 | 1)) => {
                let mut low = Vec::new();
                for feed in numbers.iter().filter(|_| kind == 1) {
                    low.push(feed.wrapping_sub(take_varint(&mut rest)?));
                }
                let (seq, purged) = (take_varint(&mut rest)?, take_varint(&mut rest)?);
                let name = std::str::from_utf8(rest).map_err(|_| TokenError::Malformed)?;
                rest = &[];
                let name = match name {
                    "" => None,
                    name => Some(StreamName::new(name).map_err(|_| TokenError::Malformed)?),
                };
                let at = match (name, seq.checked_sub(1)) {
                    (Some(stream), Some(seq)) => ScanAt::Within { stream, seq, purged },
                    (name, _) => ScanAt::Behind(name),
                };
                Place::Scan { low, feed: numbers, at }
            }
            Some(kind @ (2 | 3)) => {
                let mut part = None;
                if kind == 3 {
                    let shard = u16::try_from(take_varint(&mut rest)?).map_err(|_| TokenError::Malformed)?;
                    part = Some((shard, take_varint(&mut rest)?, take_varint(&mut rest)?));
                }
                Place::Feed { pos: numbers, part }
            }
            _ => return Err(TokenError::Malformed),
        };
        if rest.is_empty() { Ok(Self { scope, incarnation, place }) } else { Err(TokenError::Malformed) }
    }
}

fn put_numbers(out: &mut Vec<u8>, numbers: &[u64]) {
    put_varint(out, numbers.len() as u64);
    numbers.iter().for_each(|number| put_varint(out, *number));
}

fn take_numbers(from: &mut &[u8]) -> Result<Vec<u64>, TokenError> {
    let count = usize::try_from(take_varint(from)?).unwrap_or(usize::MAX);
    if count > TOKEN_SHARDS_MAX {
        return Err(TokenError::Malformed);
    }
    Ok((0..count).map(|_| take_varint(from)).collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> Vec<Place> {
        let stream = || StreamName::new("x".repeat(255)).unwrap();
        let feed: Vec<u64> = (0..16).map(|shard| 4_000_000_000 + shard).collect();
        let low: Vec<u64> = feed.iter().map(|feed| feed - 1_000_000).collect();
        let within = ScanAt::Within { stream: stream(), seq: 0, purged: 7_000_000_000 };
        vec![
            Place::Scan { low: Vec::new(), feed: feed.clone(), at: ScanAt::Behind(None) },
            Place::Scan { low: low.clone(), feed: feed.clone(), at: ScanAt::Behind(Some(stream())) },
            Place::Scan { low, feed: feed.clone(), at: within },
            Place::Feed { pos: feed.clone(), part: None },
            Place::Feed { pos: feed, part: Some((15, 3, 1 << 40)) },
        ]
    }

    #[test]
    fn a_token_comes_back_and_is_short() {
        for place in places() {
            let token = Token { scope: u32::MAX, incarnation: u64::MAX, place };
            let text = token.text();
            assert!(text.len() < TOKEN_BYTES_MAX, "{} bytes of {token:?}", text.len());
            assert_eq!(Token::parse(&text, u32::MAX, u64::MAX, 16), Ok(token));
        }
    }

    #[test]
    fn a_token_is_for_one_selector_and_one_store() {
        let token = Token { scope: 1, incarnation: 2, place: places().remove(3) };
        let text = token.text();
        assert_eq!(Token::parse(&text, 9, 2, 16), Err(TokenError::OtherScope));
        assert_eq!(Token::parse(&text, 1, 9, 16), Err(TokenError::OtherStore));
        assert_eq!(Token::parse(&text, 1, 2, 8), Err(TokenError::OtherShards));
        let scope =
            |tenant: &str, prefix: &str| Token::scope(&Tenant::new(tenant).unwrap(), &Selector::Prefix(prefix.into()));
        assert_ne!(scope("a", "task."), scope("b", "task."));
        assert_ne!(scope("a", "task."), scope("a", "node."));
        let node = Token::scope(&Tenant::new("a").unwrap(), &Selector::Node("task.".into()));
        assert_ne!(node, scope("a", "task."));
    }

    #[test]
    fn a_text_that_was_cut_or_made_up_is_refused() {
        for place in places() {
            let text = Token { scope: 1, incarnation: 2, place }.text();
            for cut in 0..text.len() {
                // A name that is cut is a name, so it is the scan that goes on elsewhere; nothing panics.
                let _either = Token::parse(&text[..cut], 1, 2, 16);
            }
        }
        for text in ["", "x", "AQ", "!!", &"A".repeat(9_000)] {
            assert!(Token::parse(text, 1, 2, 16).is_err(), "{text}");
        }
    }
}
