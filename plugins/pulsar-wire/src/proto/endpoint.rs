//! Producers and consumers: what they say and what is said to them.

use prost::Message;

use super::MessageIdData;

#[derive(Clone, PartialEq, Eq, Message)]
pub struct KeySharedMeta {
    /// 0: the broker splits the hashes of keys among consumers by itself.
    #[prost(int32, required, tag = "1")]
    pub mode: i32,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct Subscribe {
    #[prost(string, required, tag = "1")]
    pub topic: String,
    #[prost(string, required, tag = "2")]
    pub subscription: String,
    /// 0 exclusive, 1 shared, 2 failover, 3 key-shared.
    #[prost(int32, required, tag = "3")]
    pub sub_type: i32,
    #[prost(uint64, required, tag = "4")]
    pub consumer_id: u64,
    #[prost(uint64, required, tag = "5")]
    pub request_id: u64,
    #[prost(string, optional, tag = "6")]
    pub consumer_name: Option<String>,
    #[prost(bool, optional, tag = "8")]
    pub durable: Option<bool>,
    /// 0 latest, 1 earliest.
    #[prost(int32, optional, tag = "13")]
    pub initial_position: Option<i32>,
    #[prost(bool, optional, tag = "15")]
    pub force_topic_creation: Option<bool>,
    #[prost(message, optional, tag = "17")]
    pub key_shared_meta: Option<KeySharedMeta>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct Producer {
    #[prost(string, required, tag = "1")]
    pub topic: String,
    #[prost(uint64, required, tag = "2")]
    pub producer_id: u64,
    #[prost(uint64, required, tag = "3")]
    pub request_id: u64,
    #[prost(bool, optional, tag = "9")]
    pub user_provided_producer_name: Option<bool>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct Send {
    #[prost(uint64, required, tag = "1")]
    pub producer_id: u64,
    #[prost(uint64, required, tag = "2")]
    pub sequence_id: u64,
    #[prost(int32, optional, tag = "3")]
    pub num_messages: Option<i32>,
    #[prost(uint64, optional, tag = "6")]
    pub highest_sequence_id: Option<u64>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct SendReceipt {
    #[prost(uint64, required, tag = "1")]
    pub producer_id: u64,
    #[prost(uint64, required, tag = "2")]
    pub sequence_id: u64,
    #[prost(message, optional, tag = "3")]
    pub message_id: Option<MessageIdData>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct SendError {
    #[prost(uint64, required, tag = "1")]
    pub producer_id: u64,
    #[prost(uint64, required, tag = "2")]
    pub sequence_id: u64,
    #[prost(int32, required, tag = "3")]
    pub error: i32,
    #[prost(string, required, tag = "4")]
    pub message: String,
}

/// Stands before an entry that is delivered.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Delivered {
    #[prost(uint64, required, tag = "1")]
    pub consumer_id: u64,
    #[prost(message, required, tag = "2")]
    pub message_id: MessageIdData,
    #[prost(uint32, optional, tag = "3")]
    pub redelivery_count: Option<u32>,
    #[prost(int64, repeated, packed = "false", tag = "4")]
    pub ack_set: Vec<i64>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct Ack {
    #[prost(uint64, required, tag = "1")]
    pub consumer_id: u64,
    /// 0: each of them by itself.
    #[prost(int32, required, tag = "2")]
    pub ack_type: i32,
    #[prost(message, repeated, tag = "3")]
    pub message_id: Vec<MessageIdData>,
    #[prost(uint64, optional, tag = "8")]
    pub request_id: Option<u64>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct AckResponse {
    #[prost(uint64, required, tag = "1")]
    pub consumer_id: u64,
    #[prost(int32, optional, tag = "4")]
    pub error: Option<i32>,
    #[prost(string, optional, tag = "5")]
    pub message: Option<String>,
    #[prost(uint64, optional, tag = "6")]
    pub request_id: Option<u64>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct ActiveConsumerChange {
    #[prost(uint64, required, tag = "1")]
    pub consumer_id: u64,
    #[prost(bool, optional, tag = "2")]
    pub is_active: Option<bool>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct Flow {
    #[prost(uint64, required, tag = "1")]
    pub consumer_id: u64,
    /// Messages that may come beside those allowed before.
    #[prost(uint32, required, tag = "2")]
    pub message_permits: u32,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct Redeliver {
    #[prost(uint64, required, tag = "1")]
    pub consumer_id: u64,
    #[prost(message, repeated, tag = "2")]
    pub message_ids: Vec<MessageIdData>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct CloseProducer {
    #[prost(uint64, required, tag = "1")]
    pub producer_id: u64,
    #[prost(uint64, required, tag = "2")]
    pub request_id: u64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct CloseConsumer {
    #[prost(uint64, required, tag = "1")]
    pub consumer_id: u64,
    #[prost(uint64, required, tag = "2")]
    pub request_id: u64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct ProducerSuccess {
    #[prost(uint64, required, tag = "1")]
    pub request_id: u64,
    #[prost(string, required, tag = "2")]
    pub producer_name: String,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct ConsumerStats {
    #[prost(uint64, required, tag = "1")]
    pub request_id: u64,
    #[prost(uint64, required, tag = "4")]
    pub consumer_id: u64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct ConsumerStatsResponse {
    #[prost(uint64, required, tag = "1")]
    pub request_id: u64,
    #[prost(int32, optional, tag = "2")]
    pub error_code: Option<i32>,
    #[prost(string, optional, tag = "3")]
    pub error_message: Option<String>,
    #[prost(uint64, optional, tag = "15")]
    pub msg_backlog: Option<u64>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct ReachedEndOfTopic {
    #[prost(uint64, required, tag = "1")]
    pub consumer_id: u64,
}
