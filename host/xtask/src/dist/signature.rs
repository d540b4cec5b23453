//! The signature of the checksums, by OpenSSH: whoever has the public key can tell that nobody changed them on the way.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::cargo::run as run_command;

/// Names the private key.
pub const VARIABLE: &str = "WAYBILL_SIGN_KEY";
/// What the signature is for: one that was made for something else, such as a login or a commit, isn't taken.
const NAMESPACE: &str = "file";

/// Signs a file, if there is a key; answers the signature's file.
pub fn make(file: &Path, key: Option<&Path>) -> Result<Option<PathBuf>> {
    let mut name = file.as_os_str().to_owned();
    name.push(".sig");
    let signature = PathBuf::from(name);
    // One of an earlier run is for other checksums, and ssh-keygen would ask before it writes over it.
    if signature.exists() {
        std::fs::remove_file(&signature).with_context(|| format!("removing {}", signature.display()))?;
    }
    let Some(key) = key else { return Ok(None) };
    let mut sign = Command::new("ssh-keygen");
    sign.args(["-q", "-Y", "sign", "-n", NAMESPACE, "-f"]).arg(key).arg(file).stdout(Stdio::null());
    run_command(&mut sign).with_context(|| format!("the key of {VARIABLE} signs by OpenSSH's ssh-keygen"))?;
    Ok(Some(signature))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_signed_is_told_from_what_was_changed_and_a_signature_is_never_of_an_earlier_run() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        run_command(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path("key"))).unwrap();
        let public = std::fs::read_to_string(path("key.pub")).unwrap();
        std::fs::write(path("signers"), format!("releases@waybill {public}")).unwrap();
        let verified = |signature: &Path| {
            let mut verify = Command::new("ssh-keygen");
            verify.args(["-q", "-Y", "verify", "-n", "file", "-I", "releases@waybill", "-f"]).arg(path("signers"));
            let sums = std::fs::File::open(path("SHA256SUMS")).unwrap();
            let ended =
                verify.arg("-s").arg(signature).stdin(sums).stdout(Stdio::null()).stderr(Stdio::null()).status();
            ended.unwrap().success()
        };
        for sums in ["one\n", "two\n"] {
            std::fs::write(path("SHA256SUMS"), sums).unwrap();
            let signature = make(&path("SHA256SUMS"), Some(&path("key"))).unwrap().unwrap();
            assert_eq!(signature, path("SHA256SUMS.sig"));
            assert!(verified(&signature));
            std::fs::write(path("SHA256SUMS"), "other\n").unwrap();
            assert!(!verified(&signature));
        }
        assert_eq!(make(&path("SHA256SUMS"), None).unwrap(), None);
        assert!(!path("SHA256SUMS.sig").exists());
        assert!(make(&path("SHA256SUMS"), Some(&path("none"))).is_err());
    }
}
