//! Programs of Java, and jars from Maven's repository: fetched once, kept in a folder of caches. Beside them lies what is made of them
//! once: Java's own archives of loaded classes, by which a start takes half of the CPU time or less.

use std::ffi::OsString;
use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
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
        let lock = locked(folder.join(".lock")).await?;
        if !complete.is_file() {
            self.fetch(&folder).await?;
            std::fs::write(complete, "")?;
        }
        drop(lock);
        Ok(folder)
    }

    /// A folder with what `make` makes of the jars and a source, once for the Java that is installed. Processes that make it at once wait
    /// for each other.
    ///
    /// # Errors
    /// As [`Self::folder`], or those of `make`.
    pub async fn made<F>(&self, source: &str, make: impl FnOnce(PathBuf) -> F) -> io::Result<PathBuf>
    where
        F: Future<Output = io::Result<()>>,
    {
        let jars = self.folder().await?;
        let made = jars.join(format!("made-{:016x}", fingerprint(self.version, source)?));
        let complete = made.join("complete");
        let lock = locked(jars.join(".made.lock")).await?;
        if !complete.is_file() {
            // An archive counts for jars in the place that they had when it was made, so nothing is made elsewhere and moved here.
            std::fs::create_dir_all(&made)?;
            make(made.clone()).await?;
            std::fs::write(complete, "")?;
        }
        drop(lock);
        Ok(made)
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

/// An archive of the classes that a program of Java loads.
#[derive(Clone, Debug)]
pub enum Archive {
    /// Written when the program ends in good order.
    Makes(PathBuf),
    Uses(PathBuf),
}

impl Archive {
    /// Options of Java for it. It says nothing of an archive that doesn't fit any more, and loads its classes the long way.
    pub fn options(&self) -> [OsString; 2] {
        let (option, file) = match self {
            Self::Makes(file) => ("-XX:ArchiveClassesAtExit=", file),
            Self::Uses(file) => ("-XX:SharedArchiveFile=", file),
        };
        let mut option = OsString::from(option);
        option.push(file);
        ["-Xlog:disable".into(), option]
    }
}

/// What tells one Java with these jars from another: an archive is good for the Java that made it alone.
fn fingerprint(version: &str, source: &str) -> io::Result<u64> {
    let java = java_program("java")?.canonicalize()?;
    // Java says in a file beside its programs which build it is; without that file, its place and size have to do.
    let release = java.ancestors().nth(2).map(|home| home.join("release"));
    let release = release.and_then(|file| std::fs::read_to_string(file).ok());
    let mut hasher = DefaultHasher::new();
    (version, source, &java, java.metadata()?.len(), release).hash(&mut hasher);
    Ok(hasher.finish())
}

/// Holds a lock file, when all others have let go of it.
async fn locked(file: PathBuf) -> io::Result<File> {
    let lock = File::create(file)?;
    tokio::task::spawn_blocking(move || lock.lock().map(|()| lock)).await.map_err(io::Error::other)?
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_archive_is_another_one_for_another_version_or_source() {
        let one = fingerprint("1", "a").unwrap();
        assert_eq!(fingerprint("1", "a").unwrap(), one);
        assert!([fingerprint("2", "a").unwrap(), fingerprint("1", "b").unwrap()].iter().all(|other| *other != one));
    }
}
