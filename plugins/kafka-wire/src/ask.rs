//! Which requests are spoken here, and in which versions.

use kafka_protocol::messages::{self as m};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion};

/// A request and the answer to it.
pub trait Ask: Encodable + HeaderVersion {
    /// Number of the request.
    const KEY: i16;
    /// Its name, for what an operator reads.
    const NAME: &'static str;
    /// The oldest version that says what is needed here.
    const LEAST: i16;
    /// The newest version spoken here.
    const MOST: i16;
    /// What a server says to it.
    type Answer: Decodable + HeaderVersion;
}

macro_rules! asks {
    ($($key:literal $name:literal $request:ident => $answer:ident, $least:literal..=$most:literal;)*) => {
        $(impl Ask for m::$request {
            const KEY: i16 = $key;
            const NAME: &'static str = $name;
            const LEAST: i16 = $least;
            const MOST: i16 = $most;
            type Answer = m::$answer;
        })*
    };
}

// The upper ends stop before topics are named by their ids alone, but for Fetch, where that tells of a topic that was made anew
// (Produce 13, OffsetCommit 10, OffsetFetch 10).
asks! {
    0 "Produce" ProduceRequest => ProduceResponse, 3..=9;
    1 "Fetch" FetchRequest => FetchResponse, 4..=13;
    2 "ListOffsets" ListOffsetsRequest => ListOffsetsResponse, 2..=7;
    3 "Metadata" MetadataRequest => MetadataResponse, 4..=12;
    8 "OffsetCommit" OffsetCommitRequest => OffsetCommitResponse, 7..=8;
    9 "OffsetFetch" OffsetFetchRequest => OffsetFetchResponse, 5..=7;
    10 "FindCoordinator" FindCoordinatorRequest => FindCoordinatorResponse, 1..=3;
    11 "JoinGroup" JoinGroupRequest => JoinGroupResponse, 5..=9;
    12 "Heartbeat" HeartbeatRequest => HeartbeatResponse, 3..=4;
    13 "LeaveGroup" LeaveGroupRequest => LeaveGroupResponse, 3..=5;
    14 "SyncGroup" SyncGroupRequest => SyncGroupResponse, 3..=5;
    17 "SaslHandshake" SaslHandshakeRequest => SaslHandshakeResponse, 1..=1;
    18 "ApiVersions" ApiVersionsRequest => ApiVersionsResponse, 0..=0;
    19 "CreateTopics" CreateTopicsRequest => CreateTopicsResponse, 2..=7;
    22 "InitProducerId" InitProducerIdRequest => InitProducerIdResponse, 0..=4;
    36 "SaslAuthenticate" SaslAuthenticateRequest => SaslAuthenticateResponse, 0..=2;
}
