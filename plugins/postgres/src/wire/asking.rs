//! Statements under way, each with an answer.

use std::rc::Rc;

use postgres_protocol::message::backend::Message;
use waybill_plugin::exchange::Side;
use waybill_plugin::transport::PluginError;

use super::answer::{Answer, Row};
use super::connection::no_postgres;
use super::frames::{Frames, Garbage};
use super::refusal::Refusal;
use super::statement::Encoded;

/// What was heard by the end.
#[derive(Debug, Default)]
pub(super) struct Heard {
    pub(super) answers: Vec<Answer>,
    /// The first refusal; what stood behind it was passed over.
    pub(super) refused: Option<Refusal>,
    /// Names that the server knows now.
    pub(super) parsed: Vec<Rc<str>>,
    /// Somebody notified meanwhile.
    pub(super) is_notified: bool,
}

/// Our side of asking.
pub(super) struct Asking<'a> {
    frames: &'a mut Frames,
    bytes: Vec<u8>,
    /// Names in the order in which the server gets to know them.
    parsing: std::vec::IntoIter<Rc<str>>,
    /// The answer that comes in.
    current: Answer,
    is_over: bool,
    heard: Heard,
}

impl<'a> Asking<'a> {
    pub(super) fn new(frames: &'a mut Frames, encoded: Encoded) -> Self {
        let Encoded { bytes, parsed, .. } = encoded;
        let parsing = parsed.into_iter();
        Self { frames, bytes, parsing, current: Answer::default(), is_over: false, heard: Heard::default() }
    }

    pub(super) fn end(self) -> Heard {
        self.heard
    }

    fn hear(&mut self, message: &Message) -> Result<(), PluginError> {
        match message {
            // Without names there are none to be known.
            Message::ParseComplete => self.heard.parsed.extend(self.parsing.next()),
            Message::DataRow(body) => {
                self.current.rows.push(Row::new(body).map_err(|Garbage(what)| no_postgres(what))?);
            }
            Message::CommandComplete(body) => {
                self.current.tag = body.tag().unwrap_or_default().to_owned();
                self.heard.answers.push(std::mem::take(&mut self.current));
            }
            Message::EmptyQueryResponse => self.heard.answers.push(Answer::default()),
            Message::ErrorResponse(body) => {
                let refusal = Refusal::read(body.fields());
                if refusal.is_fatal {
                    return Err(refusal.error());
                }
                self.heard.refused.get_or_insert(refusal);
            }
            Message::ReadyForQuery(_) => self.is_over = true,
            Message::NotificationResponse(_) => self.heard.is_notified = true,
            Message::BindComplete | Message::NoData | Message::NoticeResponse(_) | Message::ParameterStatus(_) => {}
            _ => return Err(no_postgres("an answer to nothing we asked")),
        }
        Ok(())
    }
}

impl Side for Asking<'_> {
    fn outgoing(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    fn waits(&self) -> bool {
        !self.is_over
    }

    fn incoming(&mut self, bytes: Vec<u8>) -> Result<(), PluginError> {
        self.frames.push(&bytes);
        while let Some(message) = self.frames.next().map_err(|Garbage(what)| no_postgres(what))? {
            self.hear(&message)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::HashSet;

    use super::super::statement::{Pipeline, Statement};
    use super::*;

    /// A message of the server.
    fn frame(tag: u8, body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![tag];
        bytes.extend(u32::try_from(body.len() + 4).unwrap().to_be_bytes());
        bytes.extend(body);
        bytes
    }

    fn heard(frames: &[Vec<u8>]) -> Result<Heard, PluginError> {
        let (one, two) = (Statement::new("SELECT 1"), Statement::new("UPDATE a SET b = 1"));
        let pipeline = Pipeline::new().ask(&one, vec![]).ask(&two, vec![]);
        let mut buffer = Frames::default();
        let mut asking = Asking::new(&mut buffer, pipeline.encode(Some(&HashSet::new())).unwrap());
        assert!(!asking.outgoing().is_empty() && asking.outgoing().is_empty());
        // Cut anywhere.
        for byte in frames.concat() {
            asking.incoming(vec![byte])?;
        }
        assert!(!asking.waits());
        Ok(asking.end())
    }

    fn ready() -> Vec<u8> {
        frame(b'Z', b"I")
    }

    fn error(severity: &str, state: &str) -> Vec<u8> {
        frame(b'E', format!("S{severity}\0V{severity}\0C{state}\0Mno\0\0").as_bytes())
    }

    #[test]
    fn each_question_has_its_answer() {
        let row = frame(b'D', b"\0\x02\0\0\0\x017\xff\xff\xff\xff");
        let notified = frame(b'A', b"\0\0\0\x01waits\0\0");
        let heard = heard(&[
            frame(b'1', b""),
            frame(b'2', b""),
            row.clone(),
            notified,
            row,
            frame(b'C', b"SELECT 2\0"),
            frame(b'1', b""),
            frame(b'2', b""),
            frame(b'C', b"UPDATE 3\0"),
            ready(),
        ])
        .unwrap();
        let [first, second] = heard.answers.as_slice() else { unreachable!() };
        assert_eq!((first.rows.len(), first.rows.first().unwrap().number(0)), (2, Some(7)));
        assert_eq!(second.tag, "UPDATE 3");
        assert_eq!((heard.parsed.len(), heard.is_notified, heard.refused), (2, true, None));
    }

    #[test]
    fn a_refusal_leaves_the_connection_and_a_fatal_one_ends_it() {
        let heard_refusal = heard(&[frame(b'1', b""), error("ERROR", "23514"), ready()]).unwrap();
        assert_eq!((heard_refusal.parsed.len(), heard_refusal.answers.len()), (1, 0));
        assert!(heard_refusal.refused.is_some());
        let ended = heard(&[error("FATAL", "57P01")]).unwrap_err();
        assert_eq!(ended.fault.code, "POSTGRES.SHUTDOWN");
    }

    #[test]
    fn what_nobody_asked_for_is_not_the_protocol() {
        for strange in [frame(b'G', b"\0\0\0"), frame(b'R', b"\0\0\0\0"), frame(b'?', b"")] {
            assert_eq!(heard(&[strange]).unwrap_err().fault.code, "POSTGRES.PROTOCOL");
        }
    }
}
