//! What an error code means, in the page's frame: the same text as at `/errors/{code}`.

use axum::extract::{Path, State};
use axum::response::Response;
use waybill_core::code::Code;
use waybill_page::Markup;
use waybill_page::frame::Place;
use waybill_page::views::{self, Help};

use super::visit::{View, Visit};
use crate::app::App;
use crate::auth::Permission;
use crate::codes::ErrorPage;
use crate::problem::Problem;
use crate::routes::query::{NoQuery, query};

pub(super) async fn help(State(app): State<App>, Path(code): Path<String>, visit: Visit) -> Response {
    let view = View { place: Place::None, title: "Help", needs: Permission::Any };
    let body = async {
        let NoQuery {} = query(&visit.uri)?;
        let known = ErrorPage::of(&code).ok_or_else(|| {
            let why = format!("there is no error code {code:?} of the host or of a bundled plugin");
            Problem::new(Code::HTTP_NOT_FOUND, why)
        })?;
        let ErrorPage { code, status, retryable, page, .. } = known;
        Ok::<Markup, Problem>(views::help(&Help { code, status, retryable, page }))
    };
    visit.show(&app, view, body).await
}
