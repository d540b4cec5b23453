//! What lies in a topic: an entry, and the messages of one that is a batch.

use prost::Message;

/// A key and its value, both text.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct KeyValue {
    #[prost(string, required, tag = "1")]
    pub key: String,
    #[prost(string, required, tag = "2")]
    pub value: String,
}

/// Where a message lies.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct MessageIdData {
    #[prost(uint64, required, tag = "1")]
    pub ledger_id: u64,
    #[prost(uint64, required, tag = "2")]
    pub entry_id: u64,
    #[prost(int32, optional, tag = "3")]
    pub partition: Option<i32>,
    #[prost(int32, optional, tag = "4")]
    pub batch_index: Option<i32>,
    /// Bits of the messages of a batch that aren't acknowledged, 64 a word.
    #[prost(int64, repeated, packed = "false", tag = "5")]
    pub ack_set: Vec<i64>,
    #[prost(int32, optional, tag = "6")]
    pub batch_size: Option<i32>,
}

/// What an entry says of itself: of its one message, or of the batch that it is.
#[derive(Clone, PartialEq, Message)]
pub struct MessageMetadata {
    #[prost(string, required, tag = "1")]
    pub producer_name: String,
    #[prost(uint64, required, tag = "2")]
    pub sequence_id: u64,
    #[prost(uint64, required, tag = "3")]
    pub publish_time: u64,
    #[prost(message, repeated, tag = "4")]
    pub properties: Vec<KeyValue>,
    #[prost(string, optional, tag = "6")]
    pub partition_key: Option<String>,
    /// 0 none, 1 LZ4, 2 zlib, 3 Zstandard, 4 Snappy.
    #[prost(int32, optional, tag = "8")]
    pub compression: Option<i32>,
    #[prost(uint32, optional, tag = "9")]
    pub uncompressed_size: Option<u32>,
    /// None: the entry is no batch.
    #[prost(int32, optional, tag = "11")]
    pub num_messages_in_batch: Option<i32>,
    #[prost(uint64, optional, tag = "12")]
    pub event_time: Option<u64>,
    /// Only whether there is one counts: what is encrypted can't be read here.
    #[prost(bytes = "vec", repeated, tag = "13")]
    pub encryption_keys: Vec<Vec<u8>>,
    #[prost(bool, optional, tag = "17")]
    pub partition_key_b64_encoded: Option<bool>,
    #[prost(bytes = "vec", optional, tag = "18")]
    pub ordering_key: Option<Vec<u8>>,
    #[prost(int32, optional, tag = "20")]
    pub marker_type: Option<i32>,
    #[prost(uint64, optional, tag = "24")]
    pub highest_sequence_id: Option<u64>,
    #[prost(int32, optional, tag = "27")]
    pub num_chunks_from_msg: Option<i32>,
    #[prost(bool, optional, tag = "30")]
    pub null_partition_key: Option<bool>,
}

/// What one message of a batch says of itself.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct SingleMessageMetadata {
    #[prost(message, repeated, tag = "1")]
    pub properties: Vec<KeyValue>,
    #[prost(string, optional, tag = "2")]
    pub partition_key: Option<String>,
    #[prost(int32, required, tag = "3")]
    pub payload_size: i32,
    #[prost(bool, optional, tag = "4")]
    pub compacted_out: Option<bool>,
    #[prost(uint64, optional, tag = "5")]
    pub event_time: Option<u64>,
    #[prost(bool, optional, tag = "6")]
    pub partition_key_b64_encoded: Option<bool>,
    #[prost(bytes = "vec", optional, tag = "7")]
    pub ordering_key: Option<Vec<u8>>,
    #[prost(uint64, optional, tag = "8")]
    pub sequence_id: Option<u64>,
    #[prost(bool, optional, tag = "10")]
    pub null_partition_key: Option<bool>,
}
