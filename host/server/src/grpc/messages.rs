//! The requests of `events.proto`. A test holds them against the file.

use std::collections::BTreeMap;

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SubscribeEventsRequest {
    #[prost(message, optional, tag = "1")]
    pub selector: Option<Selector>,
    #[prost(oneof = "Resume", tags = "2, 3")]
    pub resume: Option<Resume>,
    #[prost(uint32, tag = "4")]
    pub max_batch_replay: u32,
    #[prost(bool, tag = "5")]
    pub from_latest: bool,
    #[prost(string, tag = "6")]
    pub tenant: String,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Resume {
    #[prost(message, tag = "2")]
    Cursor(StreamCursor),
    #[prost(string, tag = "3")]
    ResumeToken(String),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct StreamCursor {
    #[prost(btree_map = "string, uint64", tag = "1")]
    pub stream_seq: BTreeMap<String, u64>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Selector {
    #[prost(oneof = "By", tags = "1, 2, 3, 4")]
    pub by: Option<By>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum By {
    #[prost(message, tag = "1")]
    Streams(Streams),
    #[prost(string, tag = "2")]
    StreamPrefix(String),
    #[prost(string, tag = "3")]
    NodeUuid(String),
    #[prost(message, tag = "4")]
    ResourceType(ByResource),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Streams {
    #[prost(string, repeated, tag = "1")]
    pub names: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ByResource {
    #[prost(string, tag = "1")]
    pub resource_type: String,
    #[prost(string, tag = "2")]
    pub resource_id_prefix: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ListEventsRequest {
    #[prost(string, tag = "1")]
    pub stream: String,
    #[prost(oneof = "After", tags = "2, 5")]
    pub after: Option<After>,
    #[prost(uint32, tag = "3")]
    pub limit: u32,
    #[prost(string, tag = "4")]
    pub tenant: String,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum After {
    #[prost(uint64, tag = "2")]
    Seq(u64),
    #[prost(string, tag = "5")]
    ResumeToken(String),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SubscribeTaskEventsRequest {
    #[prost(string, tag = "1")]
    pub node_uuid: String,
    #[prost(uint64, tag = "2")]
    pub last_event_id: u64,
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use protox::prost_reflect::DynamicMessage;

    use super::*;
    use crate::grpc::reflection::compiled;

    /// Reads a message by the proto file, which has names for its fields.
    #[track_caller]
    fn check(name: &str, message: &impl Message, text: &str) {
        let pool = compiled().unwrap().descriptor_pool();
        let descriptor = pool.get_message_by_name(&format!("waybill.events.v1.{name}")).unwrap();
        let read = DynamicMessage::decode(descriptor.clone(), message.encode_to_vec().as_slice()).unwrap();
        assert_eq!(read, DynamicMessage::parse_text_format(descriptor, text).unwrap());
    }

    fn asked(by: By, resume: Option<Resume>) -> SubscribeEventsRequest {
        let (selector, tenant) = (Some(Selector { by: Some(by) }), "acme".to_owned());
        SubscribeEventsRequest { selector, resume, max_batch_replay: 7, from_latest: true, tenant }
    }

    #[test]
    fn requests_are_those_of_the_proto_file() {
        let cursor = StreamCursor { stream_seq: BTreeMap::from([("a".to_owned(), 4)]) };
        let streams = Streams { names: vec!["a".to_owned(), "b".to_owned()] };
        check(
            "SubscribeEventsRequest",
            &asked(By::Streams(streams), Some(Resume::Cursor(cursor))),
            r#"selector{by_streams{names:"a" names:"b"}} cursor{stream_seq{key:"a" value:4}} max_batch_replay:7 from_latest:true tenant:"acme""#,
        );
        let token = Some(Resume::ResumeToken("t".to_owned()));
        check(
            "SubscribeEventsRequest",
            &asked(By::StreamPrefix("p".to_owned()), token),
            r#"selector{by_stream_prefix:"p"} resume_token:"t" max_batch_replay:7 from_latest:true tenant:"acme""#,
        );
        check("Selector", &Selector { by: Some(By::NodeUuid("n".to_owned())) }, r#"by_node_uuid:"n""#);
        let resource = ByResource { resource_type: "TASK".to_owned(), resource_id_prefix: "t-".to_owned() };
        check(
            "Selector",
            &Selector { by: Some(By::ResourceType(resource)) },
            r#"by_resource_type{resource_type:"TASK" resource_id_prefix:"t-"}"#,
        );
        for (after, text) in
            [(After::Seq(0), "after_seq:0"), (After::ResumeToken("7~9".to_owned()), r#"resume_token:"7~9""#)]
        {
            let (stream, tenant) = ("a".to_owned(), "acme".to_owned());
            let list = ListEventsRequest { stream, after: Some(after), limit: 5, tenant };
            check("ListEventsRequest", &list, &format!(r#"stream:"a" {text} limit:5 tenant:"acme""#));
        }
        let tasks = SubscribeTaskEventsRequest { node_uuid: "n".to_owned(), last_event_id: 9 };
        check("SubscribeTaskEventsRequest", &tasks, r#"node_uuid:"n" last_event_id:9"#);
    }
}
