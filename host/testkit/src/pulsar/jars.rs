//! Pulsar's jars, and the packages of the foreign client: fetched once, kept in a folder of caches.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use tokio::process::Command;

use crate::process::find_program;

/// The version that the tests run on.
const VERSION: &str = "4.0.7";
/// Names another folder with the jars.
const JARS_VARIABLE: &str = "PULSAR_JARS";

/// The folder with the jars of the broker. Processes that fetch them at once wait for each other.
///
/// # Errors
/// Maven isn't installed, or they can't be had.
pub async fn jars() -> io::Result<PathBuf> {
    let folder = std::env::var_os(JARS_VARIABLE).map_or_else(|| caches().join("pulsar"), PathBuf::from);
    std::fs::create_dir_all(&folder)?;
    let lock = File::create(folder.join(".lock"))?;
    lock.lock()?;
    let complete = folder.join(format!(".complete-{VERSION}"));
    if complete.is_file() {
        return Ok(folder);
    }
    let project = tempfile::tempdir()?;
    let file = project.path().join("pom.xml");
    std::fs::write(&file, pom())?;
    let maven = find_program("mvn").ok_or_else(|| missing("mvn", "maven"))?;
    let mut command = Command::new(maven);
    command.args(["-q", "-B", "-f"]).arg(&file).arg("dependency:copy-dependencies").arg("-DincludeScope=runtime");
    command.arg(format!("-DoutputDirectory={}", folder.display()));
    let output = command.output().await?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stdout).into_owned();
        return Err(io::Error::other(format!("mvn can't fetch Pulsar {VERSION}: it needs the network once\n{words}")));
    }
    std::fs::write(complete, "")?;
    Ok(folder)
}

/// Where what is fetched once is kept.
pub fn caches() -> PathBuf {
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let folder = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
    folder.unwrap_or_else(std::env::temp_dir).join("waybill-brokers")
}

pub fn missing(program: &str, package: &str) -> io::Error {
    io::Error::other(format!("{program} is not installed: `apt-get install {package}` (Debian, Ubuntu)"))
}

fn pom() -> String {
    format!(
        "<project><modelVersion>4.0.0</modelVersion><groupId>waybill</groupId><artifactId>pulsar</artifactId>\
         <version>1</version><packaging>pom</packaging><dependencies><dependency><groupId>org.apache.pulsar</groupId>\
         <artifactId>pulsar-broker</artifactId><version>{VERSION}</version></dependency></dependencies></project>"
    )
}
