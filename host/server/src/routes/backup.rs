//! `/v1/backup`: everything that is stored, as a stream.

use std::io;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderValue, header};
use waybill_api::backup::BackupRequest;
use waybill_core::port::backup::{BackupError, BackupPieces};

use crate::app::App;
use crate::body;
use crate::caller::Caller;
use crate::limits::{BACKUP_BODY_BYTES_MAX, RETRY_AFTER_BUSY};
use crate::openapi::Problems;
use crate::problem::Problem;
use crate::subscribe::feed::Ongoing;

/// Back up the store
///
/// All that was committed when it began, of every tenant, compressed and with checksums: `waybill restore` makes a data folder of it while no
/// host runs. It isn't encrypted. Files that an earlier backup has can be left out; that one is needed to restore, too. Callers wait for the
/// store as when its write buffer is full; then it is read beside them, for as long as the answer is taken. An answer that breaks off is no
/// backup. A store on a server or in memory is refused, and so is a second backup at the same time.
#[utoipa::path(post, path = "/v1/backup", tag = "system", operation_id = "backUp",
    request_body = BackupRequest,
    responses((status = 200, description = "The backup.", content_type = "application/octet-stream", body = Vec<u8>), Problems),
    extensions(("x-waybill-permission" = json!("backup"))))]
pub(crate) async fn back_up(State(app): State<App>, caller: Caller, request: Request) -> Result<Response, Problem> {
    let (asked, share): (BackupRequest, _) = body::large_json(&app, request, BACKUP_BODY_BYTES_MAX).await?;
    let is_sum = |sum: &str| sum.len() == 64 && sum.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !asked.earlier.iter().all(|file| is_sum(&file.sha256)) {
        return Err(Problem::invalid("the sha256 of a file is 64 hex digits").at("earlier"));
    }
    let Some(store) = &app.backup else {
        return Err(refused(&BackupError::Elsewhere("this host has nothing that could be backed up")));
    };
    let pieces = store.back_up(asked.earlier, caller.name()).await.map_err(|error| refused(&error))?;
    drop(share);
    let mut response = Response::new(Body::from_stream(futures::stream::unfold(Some(pieces), next)));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    response.extensions_mut().insert(Ongoing);
    Ok(response)
}

/// What is left to answer; none = nothing.
type Left = Option<Box<dyn BackupPieces>>;

async fn next(left: Left) -> Option<(Result<Bytes, io::Error>, Left)> {
    let mut pieces = left?;
    match pieces.next().await? {
        Ok(piece) => Some((Ok(piece), Some(pieces))),
        Err(cause) => {
            tracing::error!(%cause, "a backup broke off");
            Some((Err(io::Error::other(cause)), None))
        }
    }
}

fn refused(error: &BackupError) -> Problem {
    let code = error.code();
    let problem = if code.is_answer() {
        Problem::new(code, error.to_string())
    } else {
        Problem::internal(format!("{code}: {error}"))
    };
    if error.retryable() { problem.after(RETRY_AFTER_BUSY) } else { problem }
}
