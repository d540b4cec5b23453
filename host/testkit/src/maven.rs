//! Programs of Java, and jars from Maven's repository: fetched once, kept in a folder of caches.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use crate::process::find_program;

/// What a server of Java needs of Maven's repository.
pub struct Jars {
    /// Name of its folder among the caches.
    pub name: &'static str,
    /// What the folder counts as complete by: the version that is asked for.
    pub version: &'static str,
    /// Names another folder that has them.
    pub variable: &'static str,
    /// Group, artifact and version of each; what these depend on comes with them.
    pub artifacts: &'static [(&'static str, &'static str, &'static str)],
}

impl Jars {
    /// The folder with all of them. Processes that fetch them at once wait for each other.
    ///
    /// # Errors
    /// Maven isn't installed, or its repository can't be reached; the text says what to do.
    pub async fn folder(&self) -> io::Result<PathBuf> {
        let folder = std::env::var_os(self.variable).map_or_else(|| caches().join(self.name), PathBuf::from);
        std::fs::create_dir_all(&folder)?;
        let complete = folder.join(format!(".complete-{}", self.version));
        let lock = File::create(folder.join(".lock"))?;
        let lock =
            tokio::task::spawn_blocking(move || lock.lock().map(|()| lock)).await.map_err(io::Error::other)??;
        if !complete.is_file() {
            self.fetch(&folder).await?;
            std::fs::write(complete, "")?;
        }
        drop(lock);
        Ok(folder)
    }

    async fn fetch(&self, folder: &Path) -> io::Result<()> {
        let project = tempfile::tempdir()?;
        let file = project.path().join("pom.xml");
        std::fs::write(&file, self.project())?;
        let mut command = Command::new(java_program("mvn")?);
        command.args(["-q", "-B", "-f"]).arg(&file).args(["dependency:copy-dependencies", "-DincludeScope=runtime"]);
        command.arg(format!("-DoutputDirectory={}", folder.display())).stdin(Stdio::null());
        let output = command.output().await?;
        if output.status.success() {
            return Ok(());
        }
        let words = String::from_utf8_lossy(&output.stdout).into_owned();
        Err(io::Error::other(format!(
            "mvn can't fetch {} {}: it needs the network once\n{words}",
            self.name, self.version
        )))
    }

    fn project(&self) -> String {
        let dependency = |(group, artifact, version): &(&str, &str, &str)| {
            format!(
                "<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version></dependency>"
            )
        };
        let dependencies: String = self.artifacts.iter().map(dependency).collect();
        format!(
            "<project><modelVersion>4.0.0</modelVersion><groupId>waybill</groupId><artifactId>{}</artifactId>\
             <version>1</version><packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>",
            self.name
        )
    }
}

/// Programs of Java's and Maven's, with the Debian package of each.
pub const PROGRAMS: &[(&str, &str)] = &[("javac", "openjdk-17-jdk-headless"), ("mvn", "maven")];

/// A program of Java's (`java`) or Maven's (`mvn`).
///
/// # Errors
/// It isn't installed; the text says what to do.
pub fn java_program(name: &str) -> io::Result<PathBuf> {
    find_program(name).ok_or_else(|| {
        io::Error::other(format!(
            "{name} is not installed: `apt-get install openjdk-17-jdk-headless maven` (Debian, Ubuntu)"
        ))
    })
}

/// Where what is fetched once for brokers is kept.
pub fn caches() -> PathBuf {
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let folder = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
    folder.unwrap_or_else(std::env::temp_dir).join("waybill-brokers")
}
