//! Bytes received, and packets out of them.

use waybill_plugin::net::Input;
use waybill_plugin::transport::PluginError;

use crate::Version;
use crate::connection::no_mqtt;
use crate::packet::{self, Garbage, Packet};

/// What has come and wasn't taken.
pub struct Incoming {
    input: Input,
    version: Version,
    /// Bytes that are left out: of a body that is too large.
    skip: usize,
}

impl Incoming {
    /// Nothing yet, from a server that speaks this version.
    pub fn new(version: Version) -> Self {
        Self { input: Input::new(), version, skip: 0 }
    }

    /// Adds what was received.
    pub fn push(&mut self, mut bytes: Vec<u8>) {
        if self.skip > 0 {
            let left_out = self.skip.min(bytes.len());
            self.skip -= left_out;
            bytes.drain(..left_out);
        }
        self.input.push(bytes);
    }

    /// Whether something is here, a whole packet or not.
    pub fn is_empty(&self) -> bool {
        self.input.unread().is_empty()
    }

    /// Bytes that are here.
    pub fn len(&self) -> usize {
        self.input.unread().len()
    }

    /// Hands over the next packet that is here; none if it isn't whole.
    ///
    /// # Errors
    /// The server speaks no MQTT: the connection is of no more use.
    pub fn next<T>(&mut self, on: impl FnOnce(Packet<'_>) -> T) -> Result<Option<T>, PluginError> {
        self.next_if(|_| true, on)
    }

    /// The same for one that is wanted; another stays, with what is behind it.
    ///
    /// # Errors
    /// As [`Incoming::next`].
    pub fn next_if<T>(
        &mut self,
        is_wanted: impl FnOnce(&Packet<'_>) -> bool,
        on: impl FnOnce(Packet<'_>) -> T,
    ) -> Result<Option<T>, PluginError> {
        let frame = packet::next(self.input.unread(), self.version).map_err(|Garbage(what)| no_mqtt(what))?;
        let Some(frame) = frame.filter(|frame| is_wanted(&frame.packet)) else { return Ok(None) };
        let (here, beyond) = (frame.here, frame.beyond);
        let answer = on(frame.packet);
        self.input.consume(here);
        self.skip = beyond;
        Ok(Some(answer))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::packet::PACKET_BYTES_MAX;
    use crate::property::push_length;

    #[test]
    fn of_a_message_that_is_too_large_the_size_is_told_and_what_follows_is_read() {
        let size = PACKET_BYTES_MAX + 10;
        let mut bytes = vec![0x32];
        push_length(&mut bytes, size);
        bytes.extend_from_slice(b"\0\x01a\0\x07\0");
        let mut incoming = Incoming::new(Version::V5);
        incoming.push(bytes);
        let omitted = incoming.next(|packet| match packet {
            Packet::Message(message) => (message.id, message.omitted),
            other => panic!("{other:?}"),
        });
        assert_eq!(omitted.unwrap(), Some((7, Some(size - 6))));
        for _ in 0..2 {
            incoming.push(vec![1; (size - 6) / 2]);
            assert!(incoming.is_empty());
        }
        incoming.push(b"\xd0\0".to_vec());
        assert_eq!(incoming.next(|packet| packet == Packet::Alive).unwrap(), Some(true));
    }

    #[test]
    fn what_is_not_wanted_stays() {
        let mut incoming = Incoming::new(Version::V5);
        incoming.push(b"\xd0\0".to_vec());
        assert_eq!(incoming.next_if(|packet| *packet != Packet::Alive, |_| ()).unwrap(), None);
        assert_eq!(incoming.len(), 2);
        assert_eq!(incoming.next(|packet| packet == Packet::Alive).unwrap(), Some(true));
        assert!(incoming.is_empty());
    }

    #[test]
    fn garbage_ends_it() {
        let mut incoming = Incoming::new(Version::V5);
        incoming.push(b"HTTP/1.1 400 Bad Request\r\n".to_vec());
        assert_eq!(incoming.next(|_| ()).unwrap_err().fault.code, "MQTT.PROTOCOL");
    }
}
