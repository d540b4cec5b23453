//! The jars of Apache Kafka, from Maven's repository.

use std::io;
use std::path::PathBuf;
use std::process::Stdio;

use tokio::process::Command;
use tokio::sync::OnceCell;

use crate::process::find_program;

const VERSION: &str = "4.1.1";

/// What Maven is asked for: the server with all it needs, and a logger.
const POM: &str = "<project><modelVersion>4.0.0</modelVersion><groupId>test</groupId><artifactId>kafka</artifactId><version>1</version>\
    <packaging>pom</packaging><dependencies><dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId>\
    <version>VERSION</version></dependency><dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId>\
    <version>1.7.36</version></dependency></dependencies></project>";

/// The class path, fetched once.
///
/// # Errors
/// Java or Maven isn't installed, or the repository can't be reached; the text says what to do.
pub(super) async fn class_path() -> io::Result<String> {
    static FETCHED: OnceCell<PathBuf> = OnceCell::const_new();
    let folder = FETCHED.get_or_try_init(fetch).await?;
    Ok(format!("{}/*", folder.display()))
}

/// A program of Java or Maven.
pub(super) fn program(name: &str) -> io::Result<PathBuf> {
    find_program(name).ok_or_else(|| {
        io::Error::other(format!(
            "{name} is not installed: `apt-get install openjdk-17-jdk-headless maven` (Debian, Ubuntu)"
        ))
    })
}

async fn fetch() -> io::Result<PathBuf> {
    let folder = match std::env::var_os("KAFKA_JARS") {
        Some(folder) => PathBuf::from(folder),
        None => cache()?.join("waybill-brokers/kafka"),
    };
    let complete = folder.join(format!(".complete-{VERSION}"));
    if complete.exists() {
        return Ok(folder);
    }
    std::fs::create_dir_all(&folder)?;
    let work = tempfile::tempdir()?;
    let pom = work.path().join("pom.xml");
    std::fs::write(&pom, POM.replace("VERSION", VERSION))?;
    let copied = Command::new(program("mvn")?)
        .args(["-q", "-B", "-f"])
        .arg(&pom)
        .args(["dependency:copy-dependencies", "-DincludeScope=runtime"])
        .arg(format!("-DoutputDirectory={}", folder.display()))
        .stdin(Stdio::null())
        .output()
        .await?;
    if !copied.status.success() {
        let said = String::from_utf8_lossy(&copied.stdout).into_owned();
        return Err(io::Error::other(format!("Kafka's jars can't be had from Maven's repository:\n{said}")));
    }
    std::fs::write(complete, "")?;
    Ok(folder)
}

fn cache() -> io::Result<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
    cache.ok_or_else(|| io::Error::other("neither XDG_CACHE_HOME nor HOME is set"))
}
