//! A host that is killed while the browser looks at it, and started again. The driver asks for it by a file; another says where the host is
//! then.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use waybill_testkit::process::{Host, Launch};

use super::scene::host;

/// Between two looks for the driver's file.
const POLL: Duration = Duration::from_millis(20);

pub struct Mortal {
    host: Host,
    launch: Launch,
    kill: PathBuf,
    back: PathBuf,
    /// What the driver has to know of it.
    pub given: Value,
}

impl Mortal {
    pub async fn start(dir: &Path) -> Self {
        let (host, api, launch) = host(&dir.join("mortal"), "").await;
        let (kill, back) = (dir.join("kill"), dir.join("back"));
        let given = json!({ "base": api.base(), "kill": kill, "back": back });
        Self { host, launch, kill, back, given }
    }

    /// Waits until the driver asks for it, kills the host with `kill -9`, and starts it again. Who waits for this ends it.
    pub async fn die_when_asked(self) -> Host {
        while !self.kill.exists() {
            tokio::time::sleep(POLL).await;
        }
        assert!(self.host.kill().await.unwrap(), "it ran until then");
        let (host, api) = Host::ready(&self.launch).await.unwrap();
        // Whole as soon as it is there.
        let written = self.back.with_extension("new");
        std::fs::write(&written, api.base()).unwrap();
        std::fs::rename(written, &self.back).unwrap();
        host
    }
}
