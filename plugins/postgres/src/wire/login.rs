//! The login: what we say to each of the server's questions, until it takes us.

use bytes::BytesMut;
use fallible_iterator::FallibleIterator as _;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, ScramSha256};
use postgres_protocol::message::backend::{AuthenticationSaslBody, Message};
use postgres_protocol::message::frontend;
use waybill_plugin::transport::PluginError;

const CODE: &str = "POSTGRES.AUTH";

/// User, password and database that we log in with.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) user: String,
    pub(crate) password: Option<String>,
    /// none = the one that is called like the user.
    pub(crate) database: Option<String>,
}

/// What a connection is like on which we log in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Privacy {
    /// Nobody on the way reads: TLS, or this machine.
    pub(crate) is_private: bool,
    /// The hash of the server's certificate, if that is what TLS gave to bind to.
    pub(crate) end_point: Option<Vec<u8>>,
}

/// A login under way.
pub(crate) struct Login<'a> {
    credentials: &'a Credentials,
    privacy: Privacy,
    scram: Option<ScramSha256>,
    /// The server has proved that it knows the password, too; none = nobody asked for a proof.
    is_proved: Option<bool>,
}

/// The first message: who we are, and how texts and times are written. A pooler knows these settings, and no others.
pub(crate) fn startup(credentials: &Credentials, application: &str) -> std::io::Result<Vec<u8>> {
    let mut out = BytesMut::new();
    let database = credentials.database.as_deref().unwrap_or(&credentials.user);
    let settings = [
        ("user", credentials.user.as_str()),
        ("database", database),
        ("application_name", application),
        ("client_encoding", "UTF8"),
        ("DateStyle", "ISO"),
        ("TimeZone", "UTC"),
    ];
    frontend::startup_message(settings, &mut out)?;
    Ok(out.into())
}

impl<'a> Login<'a> {
    pub(crate) fn new(credentials: &'a Credentials, privacy: Privacy) -> Self {
        Self { credentials, privacy, scram: None, is_proved: None }
    }

    /// The answer to a question about who we are; empty if the server waits for none. Other messages are none of its concern.
    ///
    /// # Errors
    /// We can't or won't answer.
    pub(crate) fn answer(&mut self, message: &Message) -> Result<Vec<u8>, PluginError> {
        let mut out = BytesMut::new();
        let written = match message {
            Message::AuthenticationOk if self.is_proved == Some(false) => return Err(unproved()),
            Message::AuthenticationOk => Ok(()),
            Message::AuthenticationCleartextPassword if self.privacy.is_private => {
                frontend::password_message(self.password()?.as_bytes(), &mut out)
            }
            Message::AuthenticationCleartextPassword => {
                let reason = "the server asks for the password in clear text on a connection that others may read: \
                              add ?sslmode=require to `url`, or let it ask by scram-sha-256";
                return Err(PluginError::denied(CODE, reason));
            }
            Message::AuthenticationMd5Password(body) => {
                let hash = md5_hash(self.credentials.user.as_bytes(), self.password()?.as_bytes(), body.salt());
                frontend::password_message(hash.as_bytes(), &mut out)
            }
            Message::AuthenticationSasl(body) => self.begin(body, &mut out)?,
            Message::AuthenticationSaslContinue(body) => {
                let scram = self.scram.as_mut().ok_or_else(unproved)?;
                scram.update(body.data()).map_err(|_| unproved())?;
                frontend::sasl_response(scram.message(), &mut out)
            }
            Message::AuthenticationSaslFinal(body) => {
                // What was finished can't be asked again.
                let mut scram = self.scram.take().ok_or_else(unproved)?;
                scram.finish(body.data()).map_err(|_| unproved())?;
                self.is_proved = Some(true);
                Ok(())
            }
            Message::AuthenticationGss
            | Message::AuthenticationSspi
            | Message::AuthenticationKerberosV5
            | Message::AuthenticationScmCredential
            | Message::AuthenticationGssContinue(_) => {
                let reason = "the server asks for a login that isn't by password: let pg_hba.conf say scram-sha-256 for our user";
                return Err(PluginError::denied(CODE, reason));
            }
            _ => Ok(()),
        };
        written
            .map_err(|_| PluginError::denied(CODE, "the password can't be sent: it is too long or has a zero byte"))?;
        Ok(out.into())
    }

    fn password(&self) -> Result<&'a str, PluginError> {
        let password = self.credentials.password.as_deref();
        password.ok_or_else(|| PluginError::denied(CODE, "the server asks for a password: grant the secret `password`"))
    }

    fn begin(&mut self, body: &AuthenticationSaslBody, out: &mut BytesMut) -> Result<std::io::Result<()>, PluginError> {
        let (mut has_plain, mut has_plus, mut mechanisms) = (false, false, body.mechanisms());
        while let Ok(Some(mechanism)) = mechanisms.next() {
            has_plain |= mechanism == SCRAM_SHA_256;
            has_plus |= mechanism == SCRAM_SHA_256_PLUS;
        }
        let (binding, mechanism) = match self.privacy.end_point.take() {
            Some(end_point) if has_plus => (ChannelBinding::tls_server_end_point(end_point), SCRAM_SHA_256_PLUS),
            // The server would take it for an attack if we said that we could.
            Some(_) if has_plain => (ChannelBinding::unrequested(), SCRAM_SHA_256),
            None if has_plain => (ChannelBinding::unsupported(), SCRAM_SHA_256),
            _ => {
                return Err(PluginError::denied(
                    CODE,
                    "the server knows no way to log in that we know: allow scram-sha-256",
                ));
            }
        };
        let scram = ScramSha256::new(self.password()?.as_bytes(), binding);
        let written = frontend::sasl_initial_response(mechanism, scram.message(), out);
        self.scram = Some(scram);
        self.is_proved = Some(false);
        Ok(written)
    }
}

fn unproved() -> PluginError {
    PluginError::denied(CODE, "the server didn't prove that it knows our password: it may be another's")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::frames::Frames;
    use super::*;

    fn message(bytes: &[u8]) -> Message {
        let mut frames = Frames::default();
        frames.push(bytes);
        frames.next().unwrap().unwrap()
    }

    fn asked(kind: u32, more: &[u8]) -> Message {
        let mut bytes = vec![b'R'];
        bytes.extend(u32::try_from(8 + more.len()).unwrap().to_be_bytes());
        bytes.extend(kind.to_be_bytes());
        bytes.extend(more);
        message(&bytes)
    }

    fn credentials(password: Option<&str>) -> Credentials {
        Credentials { user: "app".to_owned(), password: password.map(str::to_owned), database: None }
    }

    fn private() -> Privacy {
        Privacy { is_private: true, end_point: None }
    }

    #[test]
    fn a_clear_password_goes_only_where_nobody_reads() {
        let credentials = credentials(Some("s3cret"));
        let mut login = Login::new(&credentials, private());
        assert_eq!(login.answer(&asked(3, b"")).unwrap(), b"p\0\0\0\x0bs3cret\0");
        let error = Login::new(&credentials, Privacy::default()).answer(&asked(3, b"")).unwrap_err();
        assert!(error.fault.reason.contains("sslmode=require"), "{error:?}");
    }

    #[test]
    fn without_a_password_the_secret_is_named() {
        let credentials = credentials(None);
        for question in [asked(3, b""), asked(5, b"salt"), asked(10, b"SCRAM-SHA-256\0\0")] {
            let error = Login::new(&credentials, private()).answer(&question).unwrap_err();
            assert!(error.fault.reason.contains("secret `password`"), "{error:?}");
        }
    }

    #[test]
    fn a_binding_is_used_where_the_server_and_tls_have_one() {
        let credentials = credentials(Some("s3cret"));
        let both = asked(10, b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0");
        let bound = Privacy { is_private: true, end_point: Some(vec![1; 32]) };
        for (privacy, question, mechanism, header) in [
            (bound.clone(), &both, "SCRAM-SHA-256-PLUS\0", "p=tls-server-end-point,,"),
            (private(), &both, "SCRAM-SHA-256\0", "n,,n="),
            (bound, &asked(10, b"SCRAM-SHA-256\0\0"), "SCRAM-SHA-256\0", "y,,n="),
        ] {
            let sent = Login::new(&credentials, privacy).answer(question).unwrap();
            let text = String::from_utf8_lossy(&sent);
            assert!(text.contains(mechanism) && text.contains(header), "{text}");
        }
        assert!(Login::new(&credentials, private()).answer(&asked(10, b"OTHER\0\0")).is_err());
    }

    #[test]
    fn a_server_that_proves_nothing_is_not_trusted() {
        let credentials = credentials(Some("s3cret"));
        let mut login = Login::new(&credentials, private());
        login.answer(&asked(10, b"SCRAM-SHA-256\0\0")).unwrap();
        assert!(login.answer(&asked(0, b"")).is_err(), "taken without the last word");
        let mut login = Login::new(&credentials, private());
        login.answer(&asked(10, b"SCRAM-SHA-256\0\0")).unwrap();
        assert!(login.answer(&asked(11, b"r=another,s=c2FsdA==,i=4096")).is_err(), "not our nonce");
        assert!(Login::new(&credentials, private()).answer(&asked(12, b"v=")).is_err(), "out of turn");
        assert!(Login::new(&credentials, private()).answer(&asked(0, b"")).unwrap().is_empty(), "it trusts us");
    }
}
