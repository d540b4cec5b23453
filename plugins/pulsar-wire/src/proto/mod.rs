//! The messages of Pulsar's binary protocol that we send or read, with the fields that we use. Names and numbers are the protocol's;
//! fields that aren't here are skipped when they come.
//!
//! - `entry`: what lies in a topic; `session`: logging in and finding brokers; `endpoint`: producers and consumers
#![allow(missing_docs, reason = "the fields have the protocol's own names")]

mod endpoint;
mod entry;
mod session;

pub use endpoint::*;
pub use entry::*;
use prost::{Message, Oneof};
pub use session::*;

/// A command of either side. The number of its kind is that of its field.
#[derive(Clone, PartialEq, Message)]
pub struct BaseCommand {
    #[prost(int32, required, tag = "1")]
    pub kind: i32,
    #[prost(
        oneof = "Command",
        tags = "2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 31, 36, 37, 38"
    )]
    pub command: Option<Command>,
}

/// What a command says.
#[derive(Clone, PartialEq, Oneof)]
pub enum Command {
    #[prost(message, tag = "2")]
    Connect(Connect),
    #[prost(message, tag = "3")]
    Connected(Connected),
    #[prost(message, tag = "4")]
    Subscribe(Subscribe),
    #[prost(message, tag = "5")]
    Producer(Producer),
    #[prost(message, tag = "6")]
    Send(Send),
    #[prost(message, tag = "7")]
    SendReceipt(SendReceipt),
    #[prost(message, tag = "8")]
    SendError(SendError),
    #[prost(message, tag = "9")]
    Delivered(Delivered),
    #[prost(message, tag = "10")]
    Ack(Ack),
    #[prost(message, tag = "11")]
    Flow(Flow),
    #[prost(message, tag = "13")]
    Success(Success),
    #[prost(message, tag = "14")]
    Error(Error),
    #[prost(message, tag = "15")]
    CloseProducer(CloseProducer),
    #[prost(message, tag = "16")]
    CloseConsumer(CloseConsumer),
    #[prost(message, tag = "17")]
    ProducerSuccess(ProducerSuccess),
    #[prost(message, tag = "18")]
    Ping(Ping),
    #[prost(message, tag = "19")]
    Pong(Pong),
    #[prost(message, tag = "20")]
    Redeliver(Redeliver),
    #[prost(message, tag = "21")]
    PartitionMetadata(PartitionMetadata),
    #[prost(message, tag = "22")]
    PartitionMetadataResponse(PartitionMetadataResponse),
    #[prost(message, tag = "23")]
    Lookup(Lookup),
    #[prost(message, tag = "24")]
    LookupResponse(LookupResponse),
    #[prost(message, tag = "25")]
    ConsumerStats(ConsumerStats),
    #[prost(message, tag = "26")]
    ConsumerStatsResponse(ConsumerStatsResponse),
    #[prost(message, tag = "27")]
    ReachedEndOfTopic(ReachedEndOfTopic),
    #[prost(message, tag = "31")]
    ActiveConsumerChange(ActiveConsumerChange),
    #[prost(message, tag = "36")]
    AuthChallenge(AuthChallenge),
    #[prost(message, tag = "37")]
    AuthResponse(AuthResponse),
    #[prost(message, tag = "38")]
    AckResponse(AckResponse),
}
