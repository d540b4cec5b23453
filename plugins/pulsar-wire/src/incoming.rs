//! What is said on a connection. Signs of life and questions for credentials are answered here, and go no further.

use std::time::Instant;

use waybill_plugin::net::Input;
use waybill_plugin::transport::PluginError;

use crate::connection::{CLIENT_VERSION, PROTOCOL_VERSION};
use crate::credentials::Credentials;
use crate::frame::{self, Frame, Garbled};
use crate::proto::{AuthData, AuthResponse, Command, Pong};

/// Bytes that came, and the answers that are due.
pub struct Incoming {
    input: Input,
    /// Most bytes of a frame.
    frame_max: usize,
    credentials: Credentials,
    due: Vec<u8>,
    heard: Instant,
}

impl Incoming {
    /// Of a connection that nothing was said on yet. Where the broker asks for newer credentials, these are shown.
    pub fn new(credentials: Credentials) -> Self {
        Self {
            input: Input::new(),
            frame_max: frame::frame_max(None),
            credentials,
            due: Vec::new(),
            heard: Instant::now(),
        }
    }

    pub(crate) fn allow(&mut self, message_max: usize) {
        self.frame_max = frame::frame_max(Some(message_max));
    }

    /// Takes what has come.
    pub fn push(&mut self, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.heard = Instant::now();
            self.input.push(bytes);
        }
    }

    /// The next frame that isn't about the connection itself; none while there isn't a whole one.
    ///
    /// # Errors
    /// It can't be read, or a secret can't: the connection is of no more use.
    pub fn take(&mut self) -> Result<Option<Frame>, PluginError> {
        while let Some((length, frame)) =
            frame::next(self.input.unread(), self.frame_max).map_err(|why| garbled(&why))?
        {
            self.input.consume(length);
            match frame {
                Some(Frame { command: Command::Ping(_), .. }) => frame::command(&mut self.due, Command::Pong(Pong {})),
                Some(Frame { command: Command::AuthChallenge(_), .. }) => self.show_again()?,
                // A pong, or a command that this client doesn't know.
                Some(Frame { command: Command::Pong(_), .. }) | None => {}
                Some(frame) => return Ok(Some(frame)),
            }
        }
        Ok(None)
    }

    fn show_again(&mut self) -> Result<(), PluginError> {
        let shown = self.credentials.show()?;
        let data = shown
            .map(|shown| AuthData { auth_method_name: Some(shown.method.to_owned()), auth_data: Some(shown.data) });
        let answer = AuthResponse {
            client_version: Some(CLIENT_VERSION.to_owned()),
            response: Some(data.unwrap_or_default()),
            protocol_version: Some(PROTOCOL_VERSION),
        };
        frame::command(&mut self.due, Command::AuthResponse(answer));
        Ok(())
    }

    /// Answers that are due: to be written before anything else.
    pub fn due(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.due)
    }

    /// Whether nothing has been heard since then.
    pub fn is_silent_since(&self, instant: Instant) -> bool {
        self.heard < instant
    }
}

pub(crate) fn garbled(why: &Garbled) -> PluginError {
    PluginError::unavailable(
        "PULSAR.PROTOCOL",
        format!("the broker speaks otherwise than Pulsar's protocol: {}", why.0),
    )
}
