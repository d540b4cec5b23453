//! How a session makes its connections.

use waybill_plugin::broker::Endpoint;
use waybill_plugin::deadline::Deadline;
use waybill_plugin::transport::PluginError;
use waybill_pulsar_wire::{Connection, Dial, Login, Place};

use crate::client::Client;

/// Connects and logs in as the configuration wants it.
pub(crate) struct Dialer<'a> {
    pub(crate) endpoint: &'a Endpoint<Client>,
    pub(crate) is_secure: bool,
}

impl Dial for Dialer<'_> {
    async fn dial(&self, place: &Place, deadline: Deadline) -> Result<Connection, PluginError> {
        let deadline = deadline.at_most(self.endpoint.config().common.connect_timeout);
        let link = self.endpoint.connect(&place.address, self.is_secure, deadline).await?;
        let login =
            Login { credentials: self.endpoint.shared().credentials, behind_proxy: place.behind_proxy.as_deref() };
        Connection::open(link, login, deadline).await
    }

    fn listener(&self) -> Option<&str> {
        self.endpoint.config().own.listener.as_deref()
    }

    fn is_secure(&self) -> bool {
        self.is_secure
    }

    fn is_single(&self) -> bool {
        self.endpoint.config().own.single_broker
    }
}
