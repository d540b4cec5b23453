//! One connection: login, statements and their answers, what the server says unasked.

use std::cell::Cell;
use std::collections::HashSet;
use std::rc::Rc;

use bytes::BytesMut;
use postgres_protocol::message::backend::Message;
use postgres_protocol::message::frontend;
use waybill_plugin::broker::{Address, Codes, Endpoint, Link, Session};
use waybill_plugin::deadline::Deadline;
use waybill_plugin::exchange::{Bounds, Broken, exchange};
use waybill_plugin::host::net_types::{NetError, TlsOptions};
use waybill_plugin::secret;
use waybill_plugin::transport::{OpenArgs, PluginError};

use super::answer::Answer;
use super::asking::Asking;
use super::frames::{Frames, Garbage};
use super::login::{Credentials, Login, Privacy, startup};
use super::refusal::Refusal;
use super::statement::Pipeline;
use super::upgrade::{is_here, upgrade};
use crate::config::{Config, Keys};

/// Longest attempt to stop a statement whose answer nobody waits for, in milliseconds.
const CANCEL_MS_MAX: u32 = 1_000;
/// What a server says of itself that decides whether it takes us. A standby takes no writes.
const TAKES_WRITES: &str = "SELECT current_setting('server_version'), pg_catalog.pg_is_in_recovery() \
    OR current_setting('default_transaction_read_only')::bool";

/// What every connection of an instance has in common.
pub(crate) struct Shared {
    credentials: Credentials,
    /// What the server shows for this client.
    application: String,
    /// Whether statements have names at the server: not behind a pooler that hands each transaction to another one.
    has_names: Cell<bool>,
}

/// Why statements have no answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Failed {
    /// The server refused one of them; the connection goes on.
    Refused(Refusal),
    /// The connection is of no more use.
    Lost(PluginError),
}

impl Failed {
    /// As the failure of a call.
    pub(crate) fn error(self) -> PluginError {
        match self {
            Self::Refused(refusal) => refusal.error(),
            Self::Lost(error) => error,
        }
    }
}

/// A connection that is logged in, to a server that takes writes.
pub(crate) struct Connection {
    link: Link,
    frames: Frames,
    /// Names of statements that the server knows.
    known: HashSet<Rc<str>>,
    /// Whether statements have names there.
    has_names: bool,
    /// By which a statement can be stopped.
    cancel_key: Option<(i32, i32)>,
    version: Option<String>,
    /// Somebody notified since this was asked last.
    is_notified: bool,
}

impl Session for Connection {
    type Keys = Keys;
    type Shared = Shared;
    const CODES: &'static Codes = &Codes {
        denied: "POSTGRES.DENIED",
        tls: "POSTGRES.TLS",
        unsupported: "POSTGRES.UNSUPPORTED",
        resolve: "POSTGRES.RESOLVE",
        refused: "POSTGRES.REFUSED",
        timeout: "POSTGRES.TIMEOUT",
        cancelled: "POSTGRES.CANCELLED",
        limit: "POSTGRES.LIMIT",
        lost: "POSTGRES.LOST",
    };

    fn share(args: &OpenArgs, config: &Config, _: &TlsOptions) -> Result<Shared, PluginError> {
        const CREDENTIALS: &str = "POSTGRES.CREDENTIALS";
        let place = config.own.place()?;
        let user = secret::text("user", CREDENTIALS)?.or(place.user).ok_or_else(|| {
            PluginError::invalid_config(
                "url",
                "names no user: write postgres://user@host/database, or grant the secret `user`",
            )
        })?;
        let password = secret::text("password", CREDENTIALS)?;
        let application =
            format!("waybill {}", args.name).replace(|letter: char| !letter.is_ascii_graphic() && letter != ' ', "-");
        let has_names = Cell::new(!config.own.pooler);
        Ok(Shared { credentials: Credentials { user, password, database: place.database }, application, has_names })
    }

    async fn open(endpoint: &Endpoint<Self>, address: &Address, deadline: Deadline) -> Result<Self, PluginError> {
        let shared = endpoint.shared();
        let link = endpoint.connect(address, false, deadline).await?;
        let privacy = match endpoint.wants_tls(address) {
            true => upgrade(endpoint, &link, deadline).await?,
            false => Privacy { is_private: is_here(&address.host), end_point: None },
        };
        let mut connection = Self {
            link,
            frames: Frames::default(),
            known: HashSet::new(),
            has_names: shared.has_names.get(),
            cancel_key: None,
            version: None,
            is_notified: false,
        };
        connection.log_in(shared, privacy, deadline).await?;
        connection.see_writes(deadline).await?;
        Ok(connection)
    }

    fn address(&self) -> &Address {
        self.link.address()
    }

    async fn catch_up(&mut self, _: Deadline) -> Result<(), PluginError> {
        let bytes = self.link.receive_ready().await?;
        self.frames.push(&bytes);
        self.read_unasked()
    }

    async fn ping(&mut self, _: &Endpoint<Self>, deadline: Deadline) -> Result<Option<String>, PluginError> {
        self.catch_up(deadline).await?;
        match self.run(&Pipeline::new(), deadline).await {
            Ok(_) => Ok(None),
            Err(Failed::Refused(refusal)) => Err(refusal.error()),
            Err(Failed::Lost(error)) => Err(error),
        }
    }

    async fn close(self, deadline: Deadline) {
        let mut goodbye = BytesMut::new();
        frontend::terminate(&mut goodbye);
        // A server that is gone needs none.
        let _ = self.link.write(goodbye.into(), deadline).await;
        self.link.finish().await;
    }
}

impl Connection {
    async fn log_in(&mut self, shared: &Shared, privacy: Privacy, deadline: Deadline) -> Result<(), PluginError> {
        let first = startup(&shared.credentials, &shared.application)
            .map_err(|_| PluginError::invalid_config("url", "user or database has a zero byte"))?;
        self.link.write(first, deadline).await?;
        let mut login = Login::new(&shared.credentials, privacy);
        loop {
            let Some(message) = self.frames.next().map_err(|Garbage(what)| no_postgres(what))? else {
                let bytes = self.link.receive(deadline).await?;
                self.frames.push(&bytes);
                continue;
            };
            match &message {
                Message::ErrorResponse(body) => return Err(Refusal::read(body.fields()).error()),
                Message::ReadyForQuery(_) => return Ok(()),
                Message::BackendKeyData(body) => self.cancel_key = Some((body.process_id(), body.secret_key())),
                message => {
                    let answer = login.answer(message)?;
                    if !answer.is_empty() {
                        self.link.write(answer, deadline).await?;
                    }
                }
            }
        }
    }

    /// A server that takes no writes doesn't take us: the next one is tried.
    async fn see_writes(&mut self, deadline: Deadline) -> Result<(), PluginError> {
        let answers = match self.run(&Pipeline::new().command(TAKES_WRITES), deadline).await {
            Ok(answers) => answers,
            Err(Failed::Refused(refusal)) => return Err(refusal.error()),
            Err(Failed::Lost(error)) => return Err(error),
        };
        let row = answers.first().and_then(|answer| answer.rows.first());
        if row.and_then(|row| row.text(1)) != Some("f") {
            return Err(Refusal::sort("25006", "it is a standby, or read-only").error());
        }
        self.version = row.and_then(|row| row.text(0)).map(str::to_owned);
        Ok(())
    }

    /// The server's version, as it says.
    pub(crate) fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Asks statements and takes their answers, one for each that was asked.
    ///
    /// # Errors
    /// One of them was refused, and with it those behind it; or the connection is gone. What was asked may still run then:
    /// [`Connection::stop`] ends it.
    pub(crate) async fn run(&mut self, pipeline: &Pipeline, deadline: Deadline) -> Result<Vec<Answer>, Failed> {
        let silence = deadline.left().ok_or_else(|| Failed::Lost(Self::CODES.lost(&NetError::Timeout)))?;
        let encoded = pipeline
            .encode(self.has_names.then_some(&self.known))
            .map_err(|_| Failed::Lost(PluginError::internal("a statement is too long for PostgreSQL's protocol")))?;
        let asked = encoded.asked;
        let mut asking = Asking::new(&mut self.frames, encoded);
        let ended = exchange(self.link.stream(), &mut asking, Bounds { silence, deadline }).await;
        let heard = asking.end();
        self.known.extend(heard.parsed);
        self.is_notified |= heard.is_notified;
        ended.map_err(|error| Failed::Lost(broken(error)))?;
        match heard.refused {
            Some(refusal) => Err(Failed::Refused(refusal)),
            None if heard.answers.len() == asked => Ok(heard.answers),
            None => Err(Failed::Lost(no_postgres("another number of answers than of questions"))),
        }
    }

    /// Goes on without names at the server, when it turned out that it forgets them.
    pub(crate) fn forget_names(&mut self, shared: &Shared) {
        self.known.clear();
        self.has_names = false;
        shared.has_names.set(false);
    }

    /// Stops what runs for this connection at the server, as far as that can be done.
    pub(crate) async fn stop(&self, endpoint: &Endpoint<Self>) {
        let (Some((process, secret)), deadline) = (self.cancel_key, Deadline::after(CANCEL_MS_MAX)) else { return };
        let Ok(link) = endpoint.connect(self.address(), false, deadline).await else { return };
        if endpoint.wants_tls(self.address()) && upgrade(endpoint, &link, deadline).await.is_err() {
            return;
        }
        let mut request = BytesMut::new();
        frontend::cancel_request(process, secret, &mut request);
        // The server answers nothing, and closes.
        let _ = link.write(request.into(), deadline).await;
        link.finish().await;
    }

    /// Waits for a notification, at most so many milliseconds; whether one came. Nothing else runs on this connection meanwhile.
    ///
    /// # Errors
    /// The connection is gone.
    pub(crate) async fn wait(&mut self, millis: u32) -> Result<bool, PluginError> {
        let until = Deadline::after(millis);
        loop {
            if std::mem::take(&mut self.is_notified) {
                return Ok(true);
            }
            let Some(left) = until.left() else { return Ok(false) };
            match self.link.stream().receive(left).await {
                Ok(bytes) => self.frames.push(&bytes),
                Err(NetError::Timeout) => return Ok(false),
                Err(error) => return Err(Self::CODES.lost(&error)),
            }
            self.read_unasked()?;
        }
    }

    /// Whether somebody notified since this was asked last.
    pub(crate) fn take_notified(&mut self) -> bool {
        std::mem::take(&mut self.is_notified)
    }

    /// What the server says while it is asked nothing: notices, notifications, or that it ends.
    fn read_unasked(&mut self) -> Result<(), PluginError> {
        while let Some(message) = self.frames.next().map_err(|Garbage(what)| no_postgres(what))? {
            match message {
                Message::NotificationResponse(_) => self.is_notified = true,
                Message::ErrorResponse(body) => return Err(Refusal::read(body.fields()).error()),
                Message::NoticeResponse(_) | Message::ParameterStatus(_) => {}
                _ => return Err(no_postgres("an answer that nobody asked for")),
            }
        }
        Ok(())
    }
}

/// The end of an exchange as the failure of the call.
fn broken(broken: Broken) -> PluginError {
    let silent = || PluginError::unavailable("POSTGRES.TIMEOUT", "the server didn't answer in time");
    Connection::CODES.broken(broken, silent)
}

pub(super) fn no_postgres(what: &str) -> PluginError {
    PluginError::unavailable("POSTGRES.PROTOCOL", format!("who answers there isn't a PostgreSQL server: {what}"))
}
