//! What a protocol implements.

use super::{Address, Codes, Config, Endpoint, Keys};
use crate::deadline::Deadline;
use crate::host::net_types::TlsOptions;
use crate::transport::{OpenArgs, PluginError};

/// A connection to a broker that is logged in, as [`super::Pool`] makes and keeps it.
#[allow(async_fn_in_trait, reason = "an instance has one thread; nothing here can be `Send`")]
pub trait Session: Sized + 'static {
    /// The broker's own keys of the configuration.
    type Keys: Keys;
    /// What all sessions of an instance share beside the configuration: credentials, templates, a client's name.
    type Shared;
    /// Codes of what goes wrong below the protocol.
    const CODES: &'static Codes;

    /// Makes what is shared. `tls` names the granted secrets for TLS.
    ///
    /// # Errors
    /// A granted secret, or a text of the configuration, can't be used.
    fn share(args: &OpenArgs, config: &Config<Self::Keys>, tls: &TlsOptions) -> Result<Self::Shared, PluginError>;

    /// Connects to one server ([`Endpoint::connect`]) and logs in.
    ///
    /// # Errors
    /// Not reachable, of another protocol, or it refuses us. The pool puts the address before the reason.
    async fn open(endpoint: &Endpoint<Self>, address: &Address, deadline: Deadline) -> Result<Self, PluginError>;

    /// The server that it is connected to, as given to [`Self::open`].
    fn address(&self) -> &Address;

    /// Takes and answers what has come while nobody listened, without waiting for more. Called before each use.
    ///
    /// # Errors
    /// The session is of no more use.
    async fn catch_up(&mut self, deadline: Deadline) -> Result<(), PluginError>;

    /// Asks the server for a sign of life. What it complains of that ends no session is answered as text, for its health.
    ///
    /// # Errors
    /// The session is of no more use, or the server is silent.
    async fn ping(&mut self, endpoint: &Endpoint<Self>, deadline: Deadline) -> Result<Option<String>, PluginError>;

    /// Longest time for [`Self::ping`], in milliseconds.
    fn ping_timeout(config: &Config<Self::Keys>) -> u32 {
        config.common.connect_timeout
    }

    /// Says goodbye: nothing is unsent.
    async fn close(self, deadline: Deadline);

    /// Other servers, if this one told about them since it was asked last.
    fn take_discovered(&mut self, _endpoint: &Endpoint<Self>) -> Option<Vec<String>> {
        None
    }

    /// Whether its server is about to shut down: the pool goes elsewhere if another one takes us.
    fn is_leaving(&self) -> bool {
        false
    }

    /// Whether no other took us when they were asked, as [`Self::set_stays`] said last: then calls don't ask again.
    fn stays(&self) -> bool {
        false
    }

    /// Keeps it. For a protocol with [`Self::is_leaving`].
    fn set_stays(&mut self, _stays: bool) {}

    /// Whether a session that is of no more use ended by one message and not by its server, which then isn't tried last.
    fn is_server_well(&self) -> bool {
        false
    }

    /// Why no session of this instance may send now, if the broker asks to wait. `idle` are listened to meanwhile.
    fn asked_to_wait(_shared: &Self::Shared, _idle: &[Self]) -> Option<PluginError> {
        None
    }
}
