//! Frames: a command with its length before it, and for messages an entry with its checksum behind it. Pure.

use prost::Message as _;

use crate::proto::{BaseCommand, Command, MessageMetadata, Send};

/// Stands before the checksum of an entry.
const CHECKSUM_MARK: [u8; 2] = [0x0e, 0x01];
/// Stands before what a broker adds to an entry. It is sent only to clients that ask for it.
const BROKER_MARK: [u8; 2] = [0x0e, 0x02];
/// Bytes around the payload and the metadata of the largest entry that a broker sends.
const FRAME_PADDING: usize = 64 * 1024;
/// Largest frame before the broker has told how large its messages may be.
const MESSAGE_BYTES: usize = 5 * 1024 * 1024;

/// A frame that came.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// What it says.
    pub command: Command,
    /// What is behind the command: an entry, not looked at yet.
    pub entry: Vec<u8>,
}

/// What came is no frame, or no entry, of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Garbled(pub &'static str);

/// Most bytes of a frame where a message may have so many; none: the broker hasn't told.
pub fn frame_max(message_max: Option<usize>) -> usize {
    message_max.unwrap_or(MESSAGE_BYTES).saturating_add(FRAME_PADDING)
}

/// The first frame in these bytes, and its length; none while it isn't whole. A command that this client doesn't know has no frame, only
/// a length.
///
/// # Errors
/// It is none, or larger than `max`.
pub fn next(bytes: &[u8], max: usize) -> Result<Option<(usize, Option<Frame>)>, Garbled> {
    let Some(total) = number(bytes) else { return Ok(None) };
    if total > max {
        return Err(Garbled("a frame is larger than the broker's messages may be"));
    }
    let Some(frame) = bytes.get(4..4 + total) else { return Ok(None) };
    let size = number(frame).ok_or(Garbled("a frame is shorter than the length of its command"))?;
    let command = frame.get(4..4_usize.saturating_add(size)).ok_or(Garbled("a command ends behind its frame"))?;
    let base = BaseCommand::decode(command).map_err(|_| Garbled("a command can't be read"))?;
    let entry = frame.get(4 + size..).unwrap_or_default().to_vec();
    Ok(Some((4 + total, base.command.map(|command| Frame { command, entry }))))
}

/// Adds a command.
pub fn command(out: &mut Vec<u8>, command: Command) {
    let base = base(command);
    let size = base.encoded_len();
    put_number(out, size + 4);
    put_number(out, size);
    // A Vec grows as needed.
    let _ = base.encode(out);
}

/// Adds an entry that is sent.
pub fn send(out: &mut Vec<u8>, send: Send, metadata: &MessageMetadata, payload: &[u8]) {
    let base = base(Command::Send(send));
    let (size, head) = (base.encoded_len(), metadata.encoded_len());
    put_number(out, 4 + size + 2 + 4 + 4 + head + payload.len());
    put_number(out, size);
    let _ = base.encode(out);
    out.extend_from_slice(&CHECKSUM_MARK);
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    put_number(out, head);
    let _ = metadata.encode(out);
    out.extend_from_slice(payload);
    let checksum = crc32c::crc32c(out.get(at + 4..).unwrap_or_default());
    if let Some(place) = out.get_mut(at..at + 4) {
        place.copy_from_slice(&checksum.to_be_bytes());
    }
}

/// An entry's metadata and its payload.
///
/// # Errors
/// It is none, or not what its checksum was made of.
pub fn entry(bytes: &[u8]) -> Result<(MessageMetadata, &[u8]), Garbled> {
    let rest = behind_mark(bytes)?;
    match rest.strip_prefix(&CHECKSUM_MARK) {
        Some(behind) => {
            let (checksum, covered) = behind.split_first_chunk::<4>().ok_or(Garbled("an entry has no checksum"))?;
            if crc32c::crc32c(covered) != u32::from_be_bytes(*checksum) {
                return Err(Garbled("an entry has another checksum than it says"));
            }
            parts(covered)
        }
        None => parts(rest),
    }
}

/// What an entry says of itself, whether its checksum is right or not: the broker counts its messages by that.
pub fn metadata(bytes: &[u8]) -> Option<MessageMetadata> {
    let rest = behind_mark(bytes).ok()?;
    let covered = match rest.strip_prefix(&CHECKSUM_MARK) {
        Some(behind) => behind.get(4..)?,
        None => rest,
    };
    parts(covered).ok().map(|(metadata, _)| metadata)
}

/// An entry without what its broker put before it.
fn behind_mark(bytes: &[u8]) -> Result<&[u8], Garbled> {
    let Some(behind) = bytes.strip_prefix(&BROKER_MARK) else { return Ok(bytes) };
    let cut = Garbled("what the broker added ends too soon");
    let size = number(behind).ok_or(cut)?;
    behind.get(4_usize.saturating_add(size)..).ok_or(cut)
}

fn parts(bytes: &[u8]) -> Result<(MessageMetadata, &[u8]), Garbled> {
    let size = number(bytes).ok_or(Garbled("an entry has no metadata"))?;
    let end = 4_usize.saturating_add(size);
    let head = bytes.get(4..end).ok_or(Garbled("an entry's metadata end behind it"))?;
    let metadata = MessageMetadata::decode(head).map_err(|_| Garbled("an entry's metadata can't be read"))?;
    Ok((metadata, bytes.get(end..).unwrap_or_default()))
}

/// The number in the first four bytes.
pub(crate) fn number(bytes: &[u8]) -> Option<usize> {
    let (number, _) = bytes.split_first_chunk::<4>()?;
    usize::try_from(u32::from_be_bytes(*number)).ok()
}

/// Adds a length. Nothing here comes near four gigabytes: a sandbox has less memory.
pub(crate) fn put_number(out: &mut Vec<u8>, number: usize) {
    out.extend_from_slice(&u32::try_from(number).unwrap_or(u32::MAX).to_be_bytes());
}

fn base(command: Command) -> BaseCommand {
    BaseCommand { kind: command.number(), command: Some(command) }
}

impl Command {
    /// The number of its kind.
    fn number(&self) -> i32 {
        match self {
            Self::Connect(_) => 2,
            Self::Connected(_) => 3,
            Self::Subscribe(_) => 4,
            Self::Producer(_) => 5,
            Self::Send(_) => 6,
            Self::SendReceipt(_) => 7,
            Self::SendError(_) => 8,
            Self::Delivered(_) => 9,
            Self::Ack(_) => 10,
            Self::Flow(_) => 11,
            Self::Success(_) => 13,
            Self::Error(_) => 14,
            Self::CloseProducer(_) => 15,
            Self::CloseConsumer(_) => 16,
            Self::ProducerSuccess(_) => 17,
            Self::Ping(_) => 18,
            Self::Pong(_) => 19,
            Self::Redeliver(_) => 20,
            Self::PartitionMetadata(_) => 21,
            Self::PartitionMetadataResponse(_) => 22,
            Self::Lookup(_) => 23,
            Self::LookupResponse(_) => 24,
            Self::ConsumerStats(_) => 25,
            Self::ConsumerStatsResponse(_) => 26,
            Self::ReachedEndOfTopic(_) => 27,
            Self::ActiveConsumerChange(_) => 31,
            Self::AuthChallenge(_) => 36,
            Self::AuthResponse(_) => 37,
            Self::AckResponse(_) => 38,
        }
    }

    /// The request that it answers.
    pub(crate) fn request(&self) -> Option<u64> {
        match self {
            Self::Success(answer) => Some(answer.request_id),
            Self::Error(answer) => Some(answer.request_id),
            Self::ProducerSuccess(answer) => Some(answer.request_id),
            Self::PartitionMetadataResponse(answer) => Some(answer.request_id),
            Self::LookupResponse(answer) => Some(answer.request_id),
            Self::ConsumerStatsResponse(answer) => Some(answer.request_id),
            Self::AckResponse(answer) => answer.request_id,
            _ => None,
        }
    }
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
