//! Data directories of earlier versions are opened by the binary of today: what they hold is there, is delivered, goes on, and
//! can be changed.

mod check;

use std::path::Path;

use check::check;
use waybill_testkit::golden::{ARCHIVE, ARCHIVE_BYTES_MAX};

#[tokio::test(flavor = "multi_thread")]
async fn what_earlier_versions_left_is_read_delivered_and_changed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden");
    let mut versions = 0;
    for version in std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
        let bytes = version.join(ARCHIVE).metadata().unwrap().len();
        assert!(bytes <= ARCHIVE_BYTES_MAX, "{} has {bytes} bytes", version.display());
        let steps = check(&version).await;
        println!("{}: {steps} steps", version.display());
        versions += 1;
    }
    assert!(versions > 0, "there is no data of any version in {}", folder.display());
}
