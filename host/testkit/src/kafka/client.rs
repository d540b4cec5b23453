//! The Java client, one process a command.

use std::io;
use std::path::PathBuf;
use std::process::Stdio;

use tokio::process::Command;

use super::JARS;
use crate::maven::java_program;

/// Its program, which Java compiles as it starts.
const SOURCE: &str = include_str!("Client.java");

/// A record as the Java client reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub partition: i32,
    pub offset: i64,
    /// Empty without one.
    pub key: String,
    pub value: String,
    /// In their order, names may come twice.
    pub headers: Vec<(String, String)>,
}

impl Record {
    /// The first header of a name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

pub struct Client {
    server: String,
    jars: PathBuf,
}

impl Client {
    pub(crate) async fn of(server: String) -> io::Result<Self> {
        Ok(Self { server, jars: JARS.folder().await? })
    }

    /// Runs a command and answers what it prints, line by line, parts between tabs.
    ///
    /// # Errors
    /// It failed; the text is what it says.
    pub async fn run(&self, command: &str, words: &[&str]) -> io::Result<Vec<Vec<String>>> {
        let folder = tempfile::tempdir()?;
        let source = folder.path().join("Client.java");
        std::fs::write(&source, SOURCE)?;
        let done = Command::new(java_program("java")?)
            .args([
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
                "-cp",
            ])
            .arg(self.jars.join("*"))
            .arg(&source)
            .args([command, &self.server])
            .args(words)
            .stdin(Stdio::null())
            .output()
            .await?;
        if !done.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&done.stderr).into_owned()));
        }
        let printed = String::from_utf8_lossy(&done.stdout).into_owned();
        Ok(printed.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect())
    }

    /// Creates a topic.
    ///
    /// # Errors
    /// The cluster refuses.
    pub async fn create(&self, topic: &str, partitions: u32) -> io::Result<()> {
        self.run("create", &[topic, &partitions.to_string(), "1"]).await.map(|_| ())
    }

    /// Reads so many records from the start of a topic, or what is there after ten seconds.
    ///
    /// # Errors
    /// The topic isn't there.
    pub async fn read(&self, topic: &str, count: usize) -> io::Result<Vec<Record>> {
        let lines = self.run("read", &[topic, &count.to_string()]).await?;
        lines
            .iter()
            .map(|parts| record(parts).ok_or_else(|| io::Error::other(format!("no record: {parts:?}"))))
            .collect()
    }
}

fn record(parts: &[String]) -> Option<Record> {
    let [partition, offset, key, value, headers @ ..] = parts else { return None };
    let header = |text: &String| text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    Some(Record {
        partition: partition.parse().ok()?,
        offset: offset.parse().ok()?,
        key: key.clone(),
        value: value.clone(),
        headers: headers.iter().filter_map(header).collect(),
    })
}
