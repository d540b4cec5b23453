//! TLS before the first message: PostgreSQL is asked for it by a request of its own.

use bytes::BytesMut;
use postgres_protocol::message::frontend;
use waybill_plugin::broker::{Endpoint, Link};
use waybill_plugin::deadline::Deadline;
use waybill_plugin::transport::PluginError;

use super::connection::Connection;
use super::login::Privacy;

const CODE: &str = "POSTGRES.TLS";

/// Asks the server for TLS, and goes on in it.
///
/// # Errors
/// It has none, somebody has put something in before it, or the handshake failed.
pub(super) async fn upgrade(
    endpoint: &Endpoint<Connection>,
    link: &Link,
    deadline: Deadline,
) -> Result<Privacy, PluginError> {
    let mut request = BytesMut::new();
    frontend::ssl_request(&mut request);
    link.write(request.into(), deadline).await?;
    match link.receive(deadline).await?.as_slice() {
        b"S" => endpoint.start_tls(link, deadline).await?,
        [b'S', ..] => {
            // It would be taken for the server's word, which nobody has proved to be one yet.
            let reason = "there is more than the answer before TLS: somebody on the way may have put it in";
            return Err(PluginError::denied(CODE, reason));
        }
        [b'N', ..] => {
            let reason = "TLS is wanted and the server offers none: nothing was sent to it";
            return Err(PluginError::denied(CODE, reason));
        }
        _ => return Err(super::connection::no_postgres("no answer to the request for TLS")),
    }
    let info = link.stream().info();
    // What TLS 1.3 gives is another kind of binding, which PostgreSQL doesn't know.
    let is_end_point = info.tls_version.as_deref() == Some("1.2");
    Ok(Privacy { is_private: true, end_point: info.channel_binding.filter(|_| is_end_point) })
}

/// Whether a server is on this machine, so that nobody reads on the way.
pub(super) fn is_here(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}
