//! A backup of a host's store, as it comes.

use std::time::Duration;

use bytes::Bytes;
use reqwest::{Method, Response};
use serde_json::Value;

use super::{Client, ClientError, problem};

/// A host that reads through a large table which an earlier backup has says nothing meanwhile.
const SILENCE_MAX: Duration = Duration::from_secs(600);
/// Longest time of one backup.
const BACKUP_TIME_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// A backup under way.
pub struct BackupStream<'c> {
    client: &'c Client,
    response: Response,
}

impl Client {
    /// Begins one, and waits until the host has taken it.
    pub async fn back_up(&self, asked: &Value) -> Result<BackupStream<'_>, ClientError> {
        let request = self.request(Method::POST, &["v1", "backup"], &[])?.json(asked).timeout(BACKUP_TIME_MAX);
        let url = || self.url().to_owned();
        let response = match tokio::time::timeout(self.timeout, self.begin(request)).await {
            Ok(answered) => answered?,
            Err(_) => return Err(ClientError::TimedOut { url: url(), after: self.timeout }),
        };
        let status = response.status();
        if !status.is_success() {
            let bytes = self.read(response).await?;
            return Err(problem::refusal(status.as_u16(), url(), &bytes));
        }
        Ok(BackupStream { client: self, response })
    }
}

impl BackupStream<'_> {
    /// The next piece; none = that was all. An answer that breaks off is an error.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        match tokio::time::timeout(SILENCE_MAX, self.response.chunk()).await {
            Ok(piece) => piece.map_err(|error| self.client.failed(&error)),
            Err(_) => Err(ClientError::TimedOut { url: self.client.url().to_owned(), after: SILENCE_MAX }),
        }
    }
}
