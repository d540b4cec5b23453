//! The database as an instance reaches it: connections, the table's description, and one transaction a claim.

use std::cell::RefCell;
use std::rc::Rc;

use waybill_plugin::broker::Pool;
use waybill_plugin::deadline::Deadline;
use waybill_plugin::transport::{CallInfo, OpenArgs, PluginError};

use crate::config::Config;
use crate::table::Table;
use crate::table::catalog::Catalog;
use crate::table::claim::{Claim, ClaimedRow, Wanted};
use crate::table::statements::Statements;
use crate::wire::{Answer, Class, Connection, Failed, Pipeline, Row, Statement};

const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";
const COMMIT: &str = "COMMIT";
const ROLLBACK: &str = "ROLLBACK";

/// Connections and what is known of the table.
pub(crate) struct Database {
    pub(crate) pool: Pool<Connection>,
    statements: RefCell<Rc<Statements>>,
    /// Where the consumer sends rows, if the host told.
    topic: Option<String>,
    /// Rows are claimed by the word for it.
    by_word: bool,
}

/// What a claim came to.
pub(crate) enum Begun {
    /// Another session has the lane's lock.
    Refused,
    /// Nothing is locked and no transaction is open: rows that were looked at, and those of runs that others have.
    Nothing(u32, Vec<ClaimedRow>),
    /// A transaction is open, which has the rows.
    Open(Open),
}

/// A transaction that has rows.
pub(crate) struct Open {
    pub(crate) connection: Connection,
    pub(crate) statements: Rc<Statements>,
    /// Rows that were looked at.
    pub(crate) seen: u32,
    pub(crate) rows: Vec<ClaimedRow>,
}

/// How a transaction ended. Its locks are gone in any case.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ended {
    Committed,
    /// The table refused a mark: nothing is marked.
    Refused(PluginError),
    /// Nothing is marked, unless COMMIT still arrived (`maybe_delivered`).
    Lost(PluginError),
}

/// How a transaction is begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// Claims also while another session has the lane's lock.
    pub(crate) without_lock: bool,
    /// Milliseconds without a statement after which the server ends it.
    pub(crate) idle: u32,
}

impl Database {
    /// Connects, and reads what the table is like. Keeps so many connections.
    ///
    /// # Errors
    /// No server takes us, or the configuration doesn't fit the table.
    pub(crate) async fn open(
        call: &CallInfo,
        args: &OpenArgs,
        mut config: Config,
        connections: u32,
        topic: Option<String>,
        by_word: bool,
    ) -> Result<(Self, String), PluginError> {
        let deadline = Deadline::of_call(call.timeout);
        config.common.connections = connections;
        let pool = Pool::<Connection>::new(args, config)?;
        let mut connection = pool.connect(deadline).await?;
        let peer = connection.version().map_or("postgres".to_owned(), |version| format!("postgres {version}"));
        let statements = read_table(&mut connection, pool.config(), topic.as_deref(), by_word, deadline).await?;
        pool.put(connection, deadline).await;
        Ok((Self { pool, statements: RefCell::new(Rc::new(statements)), topic, by_word }, peer))
    }

    /// The table's statements, as it was read last.
    pub(crate) fn statements(&self) -> Rc<Statements> {
        self.statements.borrow().clone()
    }

    /// Reads what the table is like now: an index or a column may have come.
    ///
    /// # Errors
    /// The database can't be asked, or the configuration doesn't fit any more.
    pub(crate) async fn refresh(&self, call: &CallInfo) -> Result<(), PluginError> {
        let deadline = Deadline::of_call(call.timeout);
        let mut connection = self.pool.take(call, deadline).await?;
        let read = read_table(&mut connection, self.pool.config(), self.topic.as_deref(), self.by_word, deadline).await;
        // What was refused leaves the connection as it is; which it was isn't known here.
        self.pool.give_back(connection, read.as_ref().err(), deadline).await;
        self.statements.replace(Rc::new(read?));
        Ok(())
    }

    /// Asks statements outside of a transaction: all of them hold, or none.
    ///
    /// # Errors
    /// One was refused, or the database can't be asked.
    pub(crate) async fn ask(&self, call: &CallInfo, pipeline: &Pipeline) -> Result<Vec<Answer>, PluginError> {
        self.try_to_ask(call, pipeline).await.map_err(Failed::error)
    }

    /// The same, for who has to know what was refused.
    ///
    /// # Errors
    /// As [`Database::ask`].
    pub(crate) async fn try_to_ask(&self, call: &CallInfo, pipeline: &Pipeline) -> Result<Vec<Answer>, Failed> {
        let deadline = Deadline::of_call(call.timeout);
        let mut connection = self.pool.take(call, deadline).await.map_err(Failed::Lost)?;
        let answers = match connection.run(pipeline, deadline).await {
            Err(Failed::Refused(refusal)) if refusal.class == Class::Forgotten => {
                connection.forget_names(self.pool.endpoint().shared());
                connection.run(pipeline, deadline).await
            }
            answers => answers,
        };
        match &answers {
            Ok(_) | Err(Failed::Refused(_)) => self.pool.give_back(connection, None, deadline).await,
            Err(Failed::Lost(error)) => self.abandon(connection, error, deadline).await,
        }
        answers
    }

    /// Begins a transaction and claims a lane's rows in it. Without rows it is over at once.
    ///
    /// # Errors
    /// Nothing is locked.
    pub(crate) async fn claim(&self, call: &CallInfo, wanted: &Wanted, terms: Terms) -> Result<Begun, PluginError> {
        let deadline = Deadline::of_call(call.timeout);
        let mut connection = self.pool.take(call, deadline).await?;
        let statements = self.statements();
        let first = match self.begin(&mut connection, &statements, wanted, terms, deadline).await {
            // Nothing is in hand yet: a pooler is found out here, and never at a mark.
            Err(Failed::Refused(refusal)) if refusal.class == Class::Forgotten => {
                waybill_plugin::warn!(
                    "the server forgets statements between transactions: going on without names for them, as with `pooler = true`"
                );
                connection.forget_names(self.pool.endpoint().shared());
                match self.rollback(&mut connection, deadline).await {
                    Ok(()) => self.begin(&mut connection, &statements, wanted, terms, deadline).await,
                    Err(error) => Err(Failed::Lost(error)),
                }
            }
            first => first,
        };
        let rows = match first {
            Ok(Some(rows)) => rows,
            Ok(None) => {
                self.give_up(connection, deadline).await;
                return Ok(Begun::Refused);
            }
            Err(failed) => return Err(self.fail(connection, failed, deadline).await),
        };
        let (seen, rows) = Claim::read(rows);
        if rows.iter().all(|row| row.row.is_none()) {
            self.give_up(connection, deadline).await;
            return Ok(Begun::Nothing(seen, rows));
        }
        Ok(Begun::Open(Open { connection, statements, seen, rows }))
    }

    /// One round trip: the server looks up what is claimed after it has the lock, and nothing without it.
    async fn begin(
        &self,
        connection: &mut Connection,
        statements: &Statements,
        wanted: &Wanted,
        terms: Terms,
        deadline: Deadline,
    ) -> Result<Option<Vec<Row>>, Failed> {
        let own = &self.pool.config().own;
        let (opening, values) = statements.claim.opening(&statements.table, wanted, terms, own.statement_timeout);
        let mut pipeline = Pipeline::new().command(BEGIN).ask(opening, values);
        for mark in statements.marks.statements() {
            pipeline = pipeline.prepare(mark);
        }
        let pipeline = pipeline
            .prepare(&Statement::new(COMMIT))
            .prepare(&Statement::new(ROLLBACK))
            .ask(&statements.claim.statement(wanted.window), statements.claim.values(wanted));
        let mut answers = connection.run(&pipeline, deadline).await?.into_iter().skip(1);
        let opened = answers.next().unwrap_or_default();
        let is_ours = opened.rows.first().is_some_and(Claim::is_ours);
        Ok(answers.next().filter(|_| is_ours).map(|claimed| claimed.rows))
    }

    /// Marks and commits, in one round trip. A mark that changes another number of rows than it should is an error at the server, as one
    /// that the table refuses: what stands behind it isn't carried out, COMMIT neither.
    pub(crate) async fn commit(&self, mut connection: Connection, marks: Pipeline, deadline: Deadline) -> Ended {
        match connection.run(&marks.command(COMMIT), deadline).await {
            Ok(answers) if answers.last().is_some_and(|answer| answer.tag == COMMIT) => {
                self.pool.give_back(connection, None, deadline).await;
                Ended::Committed
            }
            Ok(_) => {
                self.pool.give_back(connection, None, deadline).await;
                Ended::Lost(PluginError::unavailable(
                    "POSTGRES.LOST",
                    "the transaction was ended by the server before COMMIT",
                ))
            }
            Err(Failed::Refused(refusal)) => {
                self.give_up(connection, deadline).await;
                let error = refusal.error();
                if refusal.is_of_the_table() { Ended::Refused(error) } else { Ended::Lost(error) }
            }
            Err(Failed::Lost(mut error)) => {
                self.abandon(connection, &error, deadline).await;
                error.fault.maybe_delivered = true;
                Ended::Lost(error)
            }
        }
    }

    /// Ends a transaction with nothing in hand, and gives its connection back.
    pub(crate) async fn give_up(&self, mut connection: Connection, deadline: Deadline) {
        match self.rollback(&mut connection, deadline).await {
            Ok(()) => self.pool.give_back(connection, None, deadline).await,
            Err(error) => self.abandon(connection, &error, deadline).await,
        }
    }

    async fn rollback(&self, connection: &mut Connection, deadline: Deadline) -> Result<(), PluginError> {
        match connection.run(&Pipeline::new().command(ROLLBACK), deadline).await {
            Ok(_) => Ok(()),
            Err(Failed::Refused(refusal)) => Err(refusal.error()),
            Err(Failed::Lost(error)) => Err(error),
        }
    }

    /// The end of a claim that failed, as the failure of the call.
    async fn fail(&self, connection: Connection, failed: Failed, deadline: Deadline) -> PluginError {
        match failed {
            Failed::Refused(refusal) => {
                self.give_up(connection, deadline).await;
                refusal.error()
            }
            Failed::Lost(error) => {
                self.abandon(connection, &error, deadline).await;
                error
            }
        }
    }

    /// Gives up a connection; what still runs for it at the server is stopped, and its locks with it.
    async fn abandon(&self, connection: Connection, error: &PluginError, deadline: Deadline) {
        connection.stop(self.pool.endpoint()).await;
        self.pool.give_back(connection, Some(error), deadline).await;
    }
}

async fn read_table(
    connection: &mut Connection,
    config: &Config,
    topic: Option<&str>,
    by_word: bool,
    deadline: Deadline,
) -> Result<Statements, PluginError> {
    let catalog = read_catalog(connection, config, deadline).await?;
    Ok(Statements::new(Table::describe(&config.own, &catalog, topic)?, by_word))
}

/// What there is of the table.
///
/// # Errors
/// There is none, or the database can't be asked.
pub(crate) async fn read_catalog(
    connection: &mut Connection,
    config: &Config,
    deadline: Deadline,
) -> Result<Catalog, PluginError> {
    let name = config.own.table()?;
    let mut pipeline = Pipeline::new();
    for (statement, values) in Catalog::questions(&name) {
        pipeline = pipeline.ask(&statement, values);
    }
    let answers = connection.run(&pipeline, deadline).await.map_err(Failed::error)?;
    Catalog::read(&name, &answers)
}
