//! The Java client, one process a command.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use super::JARS;
use crate::maven::{Archive, java_program};

/// Source of what it runs.
pub(super) const SOURCE: &str = include_str!("Client.java");
/// The same compiled, in the folder of what is made of the jars.
const PROGRAM: &str = "client.jar";
/// Archive of the classes that it loads.
const ARCHIVE: &str = "client.jsa";

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

/// Compiles the program into a folder.
pub(super) async fn compile(into: &Path) -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let (source, classes) = (folder.path().join("Client.java"), folder.path().join("classes"));
    std::fs::write(&source, SOURCE)?;
    let mut compiler = Command::new(java_program("javac")?);
    compiler.arg("-cp").arg(JARS.folder().await?.join("*")).arg("-d").arg(&classes).arg(&source);
    done(compiler).await?;
    let mut packer = Command::new(java_program("jar")?);
    packer.args(["--create", "--file"]).arg(into.join(PROGRAM)).arg("-C").arg(&classes).arg(".");
    done(packer).await.map(|_| ())
}

/// Runs a program to its end and answers what it prints.
async fn done(mut command: Command) -> io::Result<String> {
    let done = command.stdin(Stdio::null()).output().await?;
    if !done.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&done.stderr).into_owned()));
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

pub struct Client {
    server: String,
    /// Where its program is.
    made: PathBuf,
    archive: Archive,
}

impl Client {
    /// A client of a server, with what [`compile`] made in a folder.
    pub(super) fn of(server: String, made: PathBuf) -> Self {
        let archive = Archive::Uses(made.join(ARCHIVE));
        Self { server, made, archive }
    }

    /// The same, whose next command writes down which classes it loads.
    pub(super) fn archiving(self) -> Self {
        Self { archive: Archive::Makes(self.made.join(ARCHIVE)), ..self }
    }

    /// Runs a command and answers what it prints, line by line, parts between tabs.
    ///
    /// # Errors
    /// It failed; the text is what it says.
    pub async fn run(&self, command: &str, words: &[&str]) -> io::Result<Vec<Vec<String>>> {
        let mut java = Command::new(java_program("java")?);
        java.args(self.archive.options()).args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
        java.args(["-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp"]);
        // Of all jars, the program's comes last: so their order is that of the archive.
        let mut classes = JARS.folder().await?.join("*").into_os_string();
        classes.push(":");
        classes.push(self.made.join(PROGRAM));
        java.arg(classes).args(["Client", command, &self.server]).args(words);
        let printed = done(java).await?;
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
