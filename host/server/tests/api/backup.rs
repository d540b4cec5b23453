//! `/v1/backup`. Making backups is the store's: here there are three texts.

use std::collections::VecDeque;

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::BodyExt;
use tower::ServiceExt;
use waybill_core::port::backup::{BackupError, BackupPieces, BackupStore, HeldFile};
use waybill_server::limits::Limits;
use waybill_server::server::{Parts, Server};

use crate::support::{Api, parts, post};

/// Each file that an earlier backup has is one text less. One named `broken` breaks it off, one named `elsewhere` refuses it, and `busy` does for now.
pub struct FixedBackup;

struct Texts(VecDeque<Result<Bytes, String>>);

#[async_trait]
impl BackupPieces for Texts {
    async fn next(&mut self) -> Option<Result<Bytes, String>> {
        self.0.pop_front()
    }
}

#[async_trait]
impl BackupStore for FixedBackup {
    async fn back_up(&self, earlier: Vec<HeldFile>, by: &str) -> Result<Box<dyn BackupPieces>, BackupError> {
        let mut texts: VecDeque<_> =
            ["one ", "two ", "three"].into_iter().skip(earlier.len()).map(|text| Ok(Bytes::from(text))).collect();
        assert!(!by.is_empty(), "the trail says who took it");
        match earlier.first().map(|file| file.name.as_str()) {
            Some("elsewhere") => return Err(BackupError::Elsewhere("it is on a server")),
            Some("busy") => return Err(BackupError::Busy),
            Some("broken") => texts.insert(1, Err("the disk is gone".to_owned())),
            _ => {}
        }
        Ok(Box::new(Texts(texts)))
    }
}

fn asking(name: &str) -> String {
    format!(r#"{{"earlier":[{{"name":"{name}","bytes":3,"sha256":"{}"}}]}}"#, "0a".repeat(32))
}

#[tokio::test]
async fn a_backup_is_answered_piece_by_piece_without_what_an_earlier_one_has() {
    let api = Api::open().await;
    let whole = api.post("/v1/backup", "{}").await;
    assert_eq!((whole.status.as_u16(), whole.text.as_str()), (200, "one two three"));
    assert_eq!(whole.header("content-type"), "application/octet-stream");
    assert_eq!(api.post("/v1/backup", asking("sstables/1.sst")).await.text, "two three");
    for wrong in [r#"{"since":1}"#, r#"{"earlier":[{"name":"sstables/1.sst","bytes":3,"sha256":"0a"}]}"#] {
        assert!(api.post("/v1/backup", wrong).await.status.is_client_error(), "{wrong}");
    }
}

#[tokio::test]
async fn a_backup_that_there_is_none_of_is_refused_and_one_that_breaks_off_has_no_end() {
    let api = Api::open().await;
    assert_eq!(api.post("/v1/backup", asking("elsewhere")).await.problem(), (409, "STORAGE.BACKUP_ELSEWHERE".into()));
    let busy = api.post("/v1/backup", asking("busy")).await;
    assert_eq!(busy.problem(), (409, "STORAGE.BACKUP_BUSY".into()));
    assert_eq!(busy.json()["retryable"], true, "{}", busy.text);
    let broken = api.router.clone().oneshot(post("/v1/backup", asking("broken"))).await.unwrap();
    assert_eq!(broken.status(), 200);
    assert!(broken.into_body().collect().await.is_err());

    let without = Parts { backup: None, ..parts(&api.host, &api.hindrance, None, Limits::default()) };
    let none = crate::support::send(&Server::new(without).router(), post("/v1/backup", "{}")).await;
    assert_eq!(none.problem(), (409, "STORAGE.BACKUP_ELSEWHERE".into()));
}
