//! A session of `psql`: statements one after the other, their rows as text. It keeps its transaction until it ends it.

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

/// Longest wait for one answer: a table may have to be filled.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(120);
/// Between two columns.
const COLUMN: char = '\u{1f}';
/// Behind the last row of an answer.
const END: &str = "waybill-end-of-answer";

pub struct Client {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Client {
    /// Connects to a database on loopback.
    ///
    /// # Errors
    /// `psql` isn't installed, or the server refuses.
    pub async fn connect(psql: &Path, port: u16, user: &str, password: &str) -> io::Result<Self> {
        let mut command = Command::new(psql);
        command.args([
            "-X",
            "-q",
            "-A",
            "-t",
            "-h",
            "127.0.0.1",
            "-U",
            user,
            "-d",
            super::USER,
            "-v",
            "ON_ERROR_STOP=1",
        ]);
        command.args(["-p", &port.to_string(), "-F", &COLUMN.to_string()]);
        command.env("PGPASSWORD", password).env("PGCONNECT_TIMEOUT", "10").env("PGCLIENTENCODING", "UTF8");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (Some(input), Some(output)) = (input, output) else { return Err(io::Error::other("psql has no pipes")) };
        let mut client = Self { child, input, output: BufReader::new(output) };
        client.query("SELECT 1").await?;
        Ok(client)
    }

    /// Runs statements and answers the rows of all of them; NULL is an empty text.
    ///
    /// # Errors
    /// The server refuses one, which also ends this client.
    pub async fn query(&mut self, sql: &str) -> io::Result<Vec<Vec<String>>> {
        let sent = format!("{sql};\n\\echo {END}\n");
        let answer = async {
            self.input.write_all(sent.as_bytes()).await?;
            self.input.flush().await?;
            let mut rows = Vec::new();
            loop {
                let mut line = String::new();
                if self.output.read_line(&mut line).await? == 0 {
                    return Err(io::Error::other(self.last_words().await));
                }
                match line.trim_end_matches('\n') {
                    END => return Ok(rows),
                    line => rows.push(line.split(COLUMN).map(str::to_owned).collect()),
                }
            }
        };
        timeout(ANSWER_TIME_MAX, answer)
            .await
            .map_err(|_| io::Error::other(format!("PostgreSQL didn't answer {sql:?} in time")))?
    }

    /// The first column of the first row; empty if there is none.
    ///
    /// # Errors
    /// As [`Client::query`].
    pub async fn value(&mut self, sql: &str) -> io::Result<String> {
        let rows = self.query(sql).await?;
        Ok(rows.into_iter().next().and_then(|row| row.into_iter().next()).unwrap_or_default())
    }

    /// The first column of every row.
    ///
    /// # Errors
    /// As [`Client::query`].
    pub async fn column(&mut self, sql: &str) -> io::Result<Vec<String>> {
        let rows = self.query(sql).await?;
        Ok(rows.into_iter().filter_map(|row| row.into_iter().next()).collect())
    }

    async fn last_words(&mut self) -> String {
        let mut words = String::new();
        if let Some(errors) = &mut self.child.stderr {
            // Whatever is there says more than nothing.
            let _ = errors.read_to_string(&mut words).await;
        }
        format!("psql ended: {words}")
    }
}
