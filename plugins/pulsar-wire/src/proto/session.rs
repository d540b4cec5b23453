//! Logging in, signs of life, and finding the broker of a topic.

use prost::Message;

/// What a client can do beyond the oldest version.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct FeatureFlags {
    #[prost(bool, optional, tag = "1")]
    pub supports_auth_refresh: Option<bool>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct Connect {
    #[prost(string, required, tag = "1")]
    pub client_version: String,
    #[prost(bytes = "vec", optional, tag = "3")]
    pub auth_data: Option<Vec<u8>>,
    #[prost(int32, optional, tag = "4")]
    pub protocol_version: Option<i32>,
    #[prost(string, optional, tag = "5")]
    pub auth_method_name: Option<String>,
    #[prost(string, optional, tag = "6")]
    pub proxy_to_broker_url: Option<String>,
    #[prost(message, optional, tag = "10")]
    pub feature_flags: Option<FeatureFlags>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct Connected {
    #[prost(string, required, tag = "1")]
    pub server_version: String,
    #[prost(int32, optional, tag = "2")]
    pub protocol_version: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub max_message_size: Option<i32>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct AuthData {
    #[prost(string, optional, tag = "1")]
    pub auth_method_name: Option<String>,
    #[prost(bytes = "vec", optional, tag = "2")]
    pub auth_data: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct AuthResponse {
    #[prost(string, optional, tag = "1")]
    pub client_version: Option<String>,
    #[prost(message, optional, tag = "2")]
    pub response: Option<AuthData>,
    #[prost(int32, optional, tag = "3")]
    pub protocol_version: Option<i32>,
}

/// The broker wants to see newer credentials.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct AuthChallenge {}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct Success {
    #[prost(uint64, required, tag = "1")]
    pub request_id: u64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct Error {
    #[prost(uint64, required, tag = "1")]
    pub request_id: u64,
    #[prost(int32, required, tag = "2")]
    pub error: i32,
    #[prost(string, required, tag = "3")]
    pub message: String,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct Ping {}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct Pong {}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct PartitionMetadata {
    #[prost(string, required, tag = "1")]
    pub topic: String,
    #[prost(uint64, required, tag = "2")]
    pub request_id: u64,
    /// Whether the question may make the topic, where brokers do so by themselves. Brokers before 4.0 don't know it.
    #[prost(bool, optional, tag = "6")]
    pub metadata_auto_creation_enabled: Option<bool>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct PartitionMetadataResponse {
    #[prost(uint32, optional, tag = "1")]
    pub partitions: Option<u32>,
    #[prost(uint64, required, tag = "2")]
    pub request_id: u64,
    /// 1: it failed.
    #[prost(int32, optional, tag = "3")]
    pub response: Option<i32>,
    #[prost(int32, optional, tag = "4")]
    pub error: Option<i32>,
    #[prost(string, optional, tag = "5")]
    pub message: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct Lookup {
    #[prost(string, required, tag = "1")]
    pub topic: String,
    #[prost(uint64, required, tag = "2")]
    pub request_id: u64,
    #[prost(bool, optional, tag = "3")]
    pub authoritative: Option<bool>,
    #[prost(string, optional, tag = "7")]
    pub advertised_listener_name: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct LookupResponse {
    #[prost(string, optional, tag = "1")]
    pub broker_service_url: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub broker_service_url_tls: Option<String>,
    /// 0 ask there, 1 connect there, 2 it failed.
    #[prost(int32, optional, tag = "3")]
    pub response: Option<i32>,
    #[prost(uint64, required, tag = "4")]
    pub request_id: u64,
    #[prost(bool, optional, tag = "5")]
    pub authoritative: Option<bool>,
    #[prost(int32, optional, tag = "6")]
    pub error: Option<i32>,
    #[prost(string, optional, tag = "7")]
    pub message: Option<String>,
    #[prost(bool, optional, tag = "8")]
    pub proxy_through_service_url: Option<bool>,
}
