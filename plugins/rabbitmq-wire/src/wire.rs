//! What is written: frames, methods, tables. Pure; a text that is too long for its place is the caller's to refuse.

use crate::codec::{END, HEARTBEAT, METHOD};

/// The first bytes of a connection: AMQP 0-9-1.
pub const HELLO: &[u8] = b"AMQP\x00\x00\x09\x01";

/// Longest text that fits where one byte tells its length.
pub const SHORT_BYTES_MAX: usize = 255;

/// Adds a frame whose payload `write` makes.
pub fn frame(out: &mut Vec<u8>, kind: u8, channel: u16, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(kind);
    out.extend_from_slice(&channel.to_be_bytes());
    counted(out, write);
    out.push(END);
}

/// Adds a method frame.
pub fn method(out: &mut Vec<u8>, channel: u16, id: (u16, u16), write: impl FnOnce(&mut Vec<u8>)) {
    frame(out, METHOD, channel, |out| {
        out.extend_from_slice(&id.0.to_be_bytes());
        out.extend_from_slice(&id.1.to_be_bytes());
        write(out);
    });
}

/// Adds a method frame without arguments.
pub fn bare(out: &mut Vec<u8>, channel: u16, id: (u16, u16)) {
    method(out, channel, id, |_| {});
}

/// Adds a sign of life.
pub fn heartbeat(out: &mut Vec<u8>) {
    frame(out, HEARTBEAT, 0, |_| {});
}

/// Adds a text whose length is one byte; what is longer is cut.
pub fn short(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    let bytes = bytes.get(..SHORT_BYTES_MAX).unwrap_or(bytes);
    // At most 255.
    out.push(bytes.len() as u8);
    out.extend_from_slice(bytes);
}

/// Adds bytes with four bytes of length before them.
pub fn long(out: &mut Vec<u8>, bytes: &[u8]) {
    counted(out, |out| out.extend_from_slice(bytes));
}

/// Adds a table whose entries `write` makes.
pub fn table(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    counted(out, write);
}

/// Adds an entry of a table: text.
pub fn text_entry(out: &mut Vec<u8>, name: &str, value: &str) {
    short(out, name);
    out.push(b'S');
    long(out, value.as_bytes());
}

/// Adds an entry of a table: a whole number.
pub fn number_entry(out: &mut Vec<u8>, name: &str, value: i64) {
    short(out, name);
    out.push(b'l');
    out.extend_from_slice(&value.to_be_bytes());
}

/// Adds an entry of a table: yes or no.
pub fn flag_entry(out: &mut Vec<u8>, name: &str, value: bool) {
    short(out, name);
    out.extend_from_slice(&[b't', u8::from(value)]);
}

/// What `write` adds, with four bytes of its length before it.
fn counted(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out);
    let length = u32::try_from(out.len() - at - 4).unwrap_or(u32::MAX);
    if let Some(place) = out.get_mut(at..at + 4) {
        place.copy_from_slice(&length.to_be_bytes());
    }
}
