//! gRPC (`events.proto`): the event streams, reflection and health checks, behind the same edge as every other route.
//!
//! tonic does the framing of a call; connections, credentials, places and times are the host's own, as with HTTP. Requests are read into
//! the few messages of [`messages`]; events are written as they are stored, without a message in between.
//!
//! | file | holds |
//! |---|---|
//! | `messages` | requests |
//! | `call` | one call: a request in, answers out, a problem to the edge |
//! | `events` | the calls of `EventsService` and `TaskService` |
//! | `health` | `grpc.health.v1.Health` |
//! | `reflection` | the proto file, compiled, and who may ask for it |
//! | `status` | how a problem is told |

mod call;
mod events;
mod health;
pub(crate) mod messages;
mod reflection;
pub(crate) mod status;

use axum::Router;
use axum::routing::post;
use http::{HeaderMap, header};

use crate::app::App;
use crate::auth::Permission;

const SUBSCRIBE: &str = "/waybill.events.v1.EventsService/SubscribeEvents";
const LIST: &str = "/waybill.events.v1.EventsService/ListEvents";
const SUBSCRIBE_TASKS: &str = "/waybill.events.v1.TaskService/SubscribeTaskEvents";
const HEALTH_CHECK: &str = "/grpc.health.v1.Health/Check";
const HEALTH_WATCH: &str = "/grpc.health.v1.Health/Watch";
const REFLECTION: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
/// What clients ask that are older than the other.
const REFLECTION_ALPHA: &str = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

/// Every call and what it needs.
pub(crate) const CALLS: [(&str, Permission); 7] = [
    (SUBSCRIBE, Permission::Events),
    (LIST, Permission::Events),
    (SUBSCRIBE_TASKS, Permission::Events),
    (HEALTH_CHECK, Permission::Public),
    (HEALTH_WATCH, Permission::Public),
    (REFLECTION, Permission::Any),
    (REFLECTION_ALPHA, Permission::Any),
];

/// The routes of [`CALLS`].
pub(crate) fn routes(app: &App) -> Router<App> {
    Router::new()
        .route(SUBSCRIBE, post(events::subscribe))
        .route(LIST, post(events::list))
        .route(SUBSCRIBE_TASKS, post(events::subscribe_tasks))
        .merge(health::routes(app))
        .merge(reflection::routes(app))
}

/// Whether a request is one of gRPC, by what it says of its body.
pub(crate) fn is_asked(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|media| media.as_bytes().starts_with(b"application/grpc"))
}
