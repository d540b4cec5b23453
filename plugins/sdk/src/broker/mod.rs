//! What clients of brokers have in common, whether they send or bring in: the configuration that every broker has, its servers,
//! TLS by granted secrets, and a pool of sessions that finds another server when one is lost. What is said to a server is the
//! protocol's, which implements [`Session`] and [`Keys`].
//!
//! ```ignore
//! struct Mqtt { pool: Pool<Connection> }
//!
//! impl Transport for Mqtt {
//!     type Config = broker::Config<Keys>;
//!     async fn open(call: &CallInfo, args: &OpenArgs, config: Self::Config) -> Result<(Self, Opened), PluginError> {
//!         let deadline = Deadline::of_call(call.timeout);
//!         let pool = Pool::new(args, config)?;
//!         let connection: Connection = pool.connect(deadline).await?;
//!         let opened = Opened { max_concurrent_calls: pool.config().common.connections, ..Opened::new() };
//!         pool.put(connection, deadline).await;
//!         Ok((Self { pool }, opened))
//!     }
//!     async fn send_batch(&self, call: &CallInfo, batch: Vec<Message>) -> Result<Vec<Outcome>, PluginError> {
//!         let deadline = Deadline::of_call(call.timeout);
//!         let mut connection = self.pool.take(call, deadline).await?;
//!         let sent = publish(&mut connection, call, &batch, deadline).await;
//!         self.pool.give_back(connection, sent.lost.as_ref(), deadline).await;
//!         Ok(sent.outcomes)
//!     }
//! }
//! ```
//!
//! A source takes a session for as long as it listens there, and keeps it alive itself; it gives it back when it ends.
//!
//! | file | holds |
//! |---|---|
//! | `session` | what a protocol implements |
//! | `config` | the configuration document: the keys of every broker beside those of one |
//! | `servers` | addresses, and which server is tried next |
//! | `endpoint` | what all sessions of an instance share, and connecting with or without TLS |
//! | `link` | the stream below a session, whose failures have the broker's codes |
//! | `pool` | sessions that wait for a call, and how there come to be more |
//! | `envelope` | what a message says of itself, as headers that are the same at every broker, written and read |
//! | `outcomes` | what becomes of each message of a batch that is sent |

mod config;
mod endpoint;
mod envelope;
mod link;
mod outcomes;
mod pool;
mod servers;
mod session;

pub use config::{Common, Config, Keys, Order, Tls, positive};
pub use endpoint::Endpoint;
pub use envelope::{Part, envelope, is_envelope, is_envelope_name, push_header, read_envelope};
pub use link::{Codes, Link};
pub use outcomes::Outcomes;
pub use pool::Pool;
pub use servers::{Address, Scheme, Servers};
pub use session::Session;

#[cfg(test)]
mod tests;
