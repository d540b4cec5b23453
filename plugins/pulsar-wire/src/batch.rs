//! The messages of an entry. An entry is one message, or a batch of them: each with its own metadata and its payload behind it. Pure.

use prost::Message as _;

use crate::compression::decompress;
use crate::frame::{Garbled, number, put_number};
use crate::proto::{KeyValue, MessageMetadata, SingleMessageMetadata};

/// Most messages of a batch: more are a mistake, or somebody's who means us harm.
pub const MESSAGES_MAX: u32 = 100_000;

/// One message of an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Its place in the batch; none: the entry is no batch.
    pub index: Option<u32>,
    /// Its properties.
    pub properties: Vec<KeyValue>,
    /// Its key as bytes: text, if it was one.
    pub key: Option<Vec<u8>>,
    /// Milliseconds since 1970 at which the sender says that it happened.
    pub event_time: Option<u64>,
    /// What was sent.
    pub payload: Vec<u8>,
}

/// Adds one message of a batch.
pub fn add(out: &mut Vec<u8>, metadata: &SingleMessageMetadata, payload: &[u8]) {
    put_number(out, metadata.encoded_len());
    // A Vec grows as needed.
    let _ = metadata.encode(out);
    out.extend_from_slice(payload);
}

/// The messages of an entry, in order; those that compaction has taken out of a batch are left out, and their places stay. At most `max`
/// bytes of payload.
///
/// # Errors
/// It can't be read.
pub fn messages(metadata: MessageMetadata, payload: &[u8], max: usize) -> Result<Vec<Message>, Garbled> {
    if !metadata.encryption_keys.is_empty() {
        return Err(Garbled("the message is encrypted, which this source can't read"));
    }
    if metadata.num_chunks_from_msg.is_some_and(|chunks| chunks > 1) {
        return Err(Garbled("the message is sent in chunks, which this source can't join"));
    }
    let size = usize::try_from(metadata.uncompressed_size.unwrap_or_default()).unwrap_or(usize::MAX);
    let plain = decompress(metadata.compression.unwrap_or_default(), payload, size, max).map_err(Garbled)?;
    let Some(count) = metadata.num_messages_in_batch else {
        return Ok(vec![Message {
            index: None,
            key: key(metadata.partition_key, metadata.partition_key_b64_encoded, metadata.null_partition_key)?,
            properties: metadata.properties,
            event_time: metadata.event_time.filter(|time| *time > 0),
            payload: plain,
        }]);
    };
    let count = u32::try_from(count).ok().filter(|count| *count <= MESSAGES_MAX);
    let count = count.ok_or(Garbled("a batch says that it has an impossible number of messages"))?;
    let (mut rest, mut found) = (plain.as_slice(), Vec::new());
    for index in 0..count {
        let size = number(rest).ok_or(Garbled("a batch ends before its last message"))?;
        let end = 4_usize.saturating_add(size);
        let head = rest.get(4..end).ok_or(Garbled("a batch ends in the metadata of a message"))?;
        let single =
            SingleMessageMetadata::decode(head).map_err(|_| Garbled("the metadata in a batch can't be read"))?;
        let size = usize::try_from(single.payload_size).map_err(|_| Garbled("a message has a size below zero"))?;
        let behind = rest.get(end..).unwrap_or_default();
        let payload = behind.get(..size).ok_or(Garbled("a batch ends in a message"))?;
        rest = behind.get(size..).unwrap_or_default();
        if single.compacted_out == Some(true) {
            continue;
        }
        found.push(Message {
            index: Some(index),
            key: key(single.partition_key, single.partition_key_b64_encoded, single.null_partition_key)?,
            properties: single.properties,
            event_time: single.event_time.filter(|time| *time > 0),
            payload: payload.to_vec(),
        });
    }
    Ok(found)
}

/// How many messages an entry has, whether they can be read or not; never more than [`MESSAGES_MAX`].
pub fn count(metadata: &MessageMetadata) -> u32 {
    let count = metadata.num_messages_in_batch.and_then(|count| u32::try_from(count).ok());
    count.unwrap_or(1).clamp(1, MESSAGES_MAX)
}

fn key(text: Option<String>, is_base64: Option<bool>, is_null: Option<bool>) -> Result<Option<Vec<u8>>, Garbled> {
    match text {
        Some(_) if is_null == Some(true) => Ok(None),
        Some(text) if is_base64 == Some(true) => {
            base64(&text).map(Some).ok_or(Garbled("a key isn't the Base64 it says"))
        }
        text => Ok(text.map(String::into_bytes)),
    }
}

/// The bytes of a text in Base64 (RFC 4648, section 4), padded or not.
fn base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for group in text.trim_end_matches('=').as_bytes().chunks(4) {
        let value = |letter: u8| match letter {
            b'A'..=b'Z' => Some(letter - b'A'),
            b'a'..=b'z' => Some(letter - b'a' + 26),
            b'0'..=b'9' => Some(letter - b'0' + 52),
            b'+' => Some(62),
            b'/' => Some(63),
            _ => None,
        };
        let bits = group.iter().try_fold(0_u32, |bits, letter| Some(bits << 6 | u32::from(value(*letter)?)))?;
        let bits = bits << (6 * (4 - group.len()));
        let whole = bits.to_be_bytes();
        bytes.extend_from_slice(whole.get(1..group.len())?);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    fn property(key: &str, value: &str) -> KeyValue {
        KeyValue { key: key.to_owned(), value: value.to_owned() }
    }

    fn batch() -> (MessageMetadata, Vec<u8>) {
        let mut payload = Vec::new();
        for (place, text) in ["one", "", "three"].into_iter().enumerate() {
            let single = SingleMessageMetadata {
                properties: vec![property("id", text)],
                partition_key: Some(format!("k{place}")),
                payload_size: text.len() as i32,
                compacted_out: Some(place == 1),
                event_time: Some(place as u64),
                ..SingleMessageMetadata::default()
            };
            add(&mut payload, &single, text.as_bytes());
        }
        (MessageMetadata { num_messages_in_batch: Some(3), ..MessageMetadata::default() }, payload)
    }

    #[test]
    fn a_batch_is_read_back_and_keeps_the_places_of_its_messages() {
        let (metadata, payload) = batch();
        assert_eq!(count(&metadata), 3);
        let found = messages(metadata, &payload, 1_000).unwrap();
        assert_eq!(found.iter().map(|message| message.index).collect::<Vec<_>>(), [Some(0), Some(2)]);
        assert_eq!(found[1].payload, b"three");
        assert_eq!((found[1].key.as_deref(), found[1].event_time), (Some(&b"k2"[..]), Some(2)));
        assert_eq!(found[0].event_time, None, "0 is none");
    }

    #[test]
    fn a_batch_that_is_cut_or_counts_wrong_is_told() {
        let (metadata, payload) = batch();
        for cut in 0..payload.len() {
            assert!(messages(metadata.clone(), &payload[..cut], 1_000).is_err(), "{cut}");
        }
        for count in [-1, 4, i32::MAX] {
            let wrong = MessageMetadata { num_messages_in_batch: Some(count), ..metadata.clone() };
            assert!(super::count(&wrong) <= MESSAGES_MAX, "{count}");
            assert!(messages(wrong, &payload, 1_000).is_err(), "{count}");
        }
    }

    #[test]
    fn an_entry_without_a_batch_is_one_message() {
        let metadata = MessageMetadata {
            partition_key: Some("b3JkZXItMQ==".to_owned()),
            partition_key_b64_encoded: Some(true),
            properties: vec![property("id", "m1")],
            ..MessageMetadata::default()
        };
        let [message] = messages(metadata, b"{}", 1_000).unwrap().try_into().unwrap();
        assert_eq!((message.index, message.key.as_deref()), (None, Some(&b"order-1"[..])));
        assert_eq!(message.payload, b"{}");
    }

    #[test]
    fn what_can_not_be_read_says_why() {
        let encrypted = MessageMetadata { encryption_keys: vec![vec![1]], ..MessageMetadata::default() };
        assert!(messages(encrypted, b"", 1_000).unwrap_err().0.contains("encrypted"));
        let chunk = MessageMetadata { num_chunks_from_msg: Some(2), ..MessageMetadata::default() };
        assert!(messages(chunk, b"", 1_000).unwrap_err().0.contains("chunks"));
    }

    #[test]
    fn base64_is_read_with_and_without_its_padding() {
        for (text, bytes) in
            [("", &b""[..]), ("YQ==", b"a"), ("YQ", b"a"), ("YWI=", b"ab"), ("YWJj", b"abc"), ("+/+/", b"\xfb\xff\xbf")]
        {
            assert_eq!(base64(text).as_deref(), Some(bytes), "{text}");
        }
        assert_eq!(base64("a*"), None);
    }
}
