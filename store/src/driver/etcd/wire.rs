//! The messages of etcd's protocol, as far as they are used here, with the numbers of etcd's own `.proto` files.
//!
//! They are written out by hand. A build of the `.proto` files would need `protoc`, and these are few. A field that is
//! not here is skipped where it comes in.

use http::uri::PathAndQuery;
use prost::{Enumeration, Message, Oneof};

/// One procedure, with what it takes and what it gives.
pub(super) trait Call: Message + Default + 'static {
    type Answer: Message + Default + 'static;
    const PATH: &'static str;

    fn path() -> PathAndQuery {
        PathAndQuery::from_static(Self::PATH)
    }
}

macro_rules! calls {
    ($($request:ident -> $answer:ident: $path:literal;)*) => {
        $(impl Call for $request {
            type Answer = $answer;
            const PATH: &'static str = $path;
        })*
    };
}

calls! {
    TxnRequest -> TxnResponse: "/etcdserverpb.KV/Txn";
    RangeRequest -> RangeResponse: "/etcdserverpb.KV/Range";
    AuthenticateRequest -> AuthenticateResponse: "/etcdserverpb.Auth/Authenticate";
    StatusRequest -> StatusResponse: "/etcdserverpb.Maintenance/Status";
    AlarmRequest -> AlarmResponse: "/etcdserverpb.Maintenance/Alarm";
    MemberListRequest -> MemberListResponse: "/etcdserverpb.Cluster/MemberList";
}

/// The one procedure that is a stream in both directions.
pub(super) const WATCH: &str = "/etcdserverpb.Watch/Watch";

#[derive(Clone, PartialEq, Message)]
pub(super) struct Header {
    #[prost(uint64, tag = "1")]
    pub(super) cluster_id: u64,
    #[prost(int64, tag = "3")]
    pub(super) revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(super) mod_revision: i64,
    #[prost(bytes = "vec", tag = "5")]
    pub(super) value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    /// Empty: the one key.
    #[prost(bytes = "vec", tag = "2")]
    pub(super) range_end: Vec<u8>,
    /// 0: no limit.
    #[prost(int64, tag = "3")]
    pub(super) limit: i64,
    /// 0: the newest.
    #[prost(int64, tag = "4")]
    pub(super) revision: i64,
    #[prost(bool, tag = "8")]
    pub(super) keys_only: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RangeResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    #[prost(message, repeated, tag = "2")]
    pub(super) kvs: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DeleteRangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    /// Empty: the one key.
    #[prost(bytes = "vec", tag = "2")]
    pub(super) range_end: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RequestOp {
    #[prost(oneof = "Request", tags = "1, 2, 3")]
    pub(super) request: Option<Request>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Request {
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    #[prost(message, tag = "2")]
    Put(PutRequest),
    #[prost(message, tag = "3")]
    Delete(DeleteRangeRequest),
}

impl From<Request> for RequestOp {
    fn from(request: Request) -> Self {
        Self { request: Some(request) }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ResponseOp {
    #[prost(oneof = "Response", tags = "1")]
    pub(super) response: Option<Response>,
}

/// What came of a write is told by the whole transaction.
#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Response {
    #[prost(message, tag = "1")]
    Range(RangeResponse),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub(super) enum Target {
    Version = 0,
    Create = 1,
    Mod = 2,
    Value = 3,
}

/// A comparison; the result asked for is always "equal", which is 0.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Compare {
    #[prost(enumeration = "Target", tag = "2")]
    pub(super) target: i32,
    #[prost(bytes = "vec", tag = "3")]
    pub(super) key: Vec<u8>,
    #[prost(oneof = "Expected", tags = "5, 7")]
    pub(super) expected: Option<Expected>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Expected {
    #[prost(int64, tag = "5")]
    CreateRevision(i64),
    #[prost(bytes, tag = "7")]
    Value(Vec<u8>),
}

impl Compare {
    /// That the key has this value, or is absent.
    pub(super) fn is(key: Vec<u8>, expected: Option<&[u8]>) -> Self {
        let (target, expected) = match expected {
            Some(value) => (Target::Value, Expected::Value(value.to_vec())),
            // No key was ever made at revision 0.
            None => (Target::Create, Expected::CreateRevision(0)),
        };
        Self { target: target.into(), key, expected: Some(expected) }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    pub(super) compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub(super) success: Vec<RequestOp>,
    #[prost(message, repeated, tag = "3")]
    pub(super) failure: Vec<RequestOp>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TxnResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    #[prost(bool, tag = "2")]
    pub(super) succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub(super) responses: Vec<ResponseOp>,
}

impl TxnResponse {
    pub(super) fn revision(&self) -> i64 {
        self.header.as_ref().map_or(0, |header| header.revision)
    }

    /// What the `index`th operation, a range, has found.
    pub(super) fn found(&self, index: usize) -> &[KeyValue] {
        match self.responses.get(index).and_then(|answer| answer.response.as_ref()) {
            Some(Response::Range(range)) => &range.kvs,
            None => &[],
        }
    }

    /// The value that the `index`th operation, a range of one key, has found.
    pub(super) fn value(&self, index: usize) -> Option<&[u8]> {
        self.found(index).first().map(|found| found.value.as_slice())
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WatchRequest {
    #[prost(oneof = "WatchWish", tags = "1, 2")]
    pub(super) wish: Option<WatchWish>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum WatchWish {
    #[prost(message, tag = "1")]
    Create(WatchCreate),
    #[prost(message, tag = "2")]
    Cancel(WatchCancel),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WatchCreate {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(super) start_revision: i64,
    /// Chosen by us: etcd 3.4 is the first that lets a client choose.
    #[prost(int64, tag = "7")]
    pub(super) watch_id: i64,
    #[prost(bool, tag = "8")]
    pub(super) fragment: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WatchCancel {
    #[prost(int64, tag = "1")]
    pub(super) watch_id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WatchResponse {
    #[prost(int64, tag = "2")]
    pub(super) watch_id: i64,
    #[prost(bool, tag = "3")]
    pub(super) created: bool,
    #[prost(bool, tag = "4")]
    pub(super) canceled: bool,
    #[prost(int64, tag = "5")]
    pub(super) compact_revision: i64,
    #[prost(string, tag = "6")]
    pub(super) cancel_reason: String,
    #[prost(message, repeated, tag = "11")]
    pub(super) events: Vec<WatchEvent>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WatchEvent {
    /// 0: it was put. 1: it was deleted.
    #[prost(int32, tag = "1")]
    pub(super) kind: i32,
    #[prost(message, optional, tag = "2")]
    pub(super) kv: Option<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AuthenticateRequest {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) password: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AuthenticateResponse {
    #[prost(string, tag = "2")]
    pub(super) token: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct StatusRequest {}

#[derive(Clone, PartialEq, Message)]
pub(super) struct StatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    #[prost(string, tag = "2")]
    pub(super) version: String,
    #[prost(int64, tag = "3")]
    pub(super) db_size: i64,
    /// 0: none.
    #[prost(uint64, tag = "4")]
    pub(super) leader: u64,
    #[prost(int64, tag = "9")]
    pub(super) db_size_in_use: i64,
    #[prost(bool, tag = "10")]
    pub(super) is_learner: bool,
    /// 0 where it is not said: before etcd 3.6.
    #[prost(int64, tag = "12")]
    pub(super) db_size_quota: i64,
}

/// All fields at 0: which alarms are raised?
#[derive(Clone, PartialEq, Message)]
pub(super) struct AlarmRequest {}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AlarmResponse {
    #[prost(message, repeated, tag = "2")]
    pub(super) alarms: Vec<AlarmMember>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AlarmMember {
    #[prost(uint64, tag = "1")]
    pub(super) member: u64,
    /// 1: no space. 2: corrupt.
    #[prost(int32, tag = "2")]
    pub(super) alarm: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct MemberListRequest {}

#[derive(Clone, PartialEq, Message)]
pub(super) struct MemberListResponse {
    #[prost(message, repeated, tag = "2")]
    pub(super) members: Vec<Member>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Member {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(string, repeated, tag = "4")]
    pub(super) client_urls: Vec<String>,
    #[prost(bool, tag = "5")]
    pub(super) is_learner: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that etcd's own client sends and its server answers, spelled out by the rules of the format.
    #[test]
    fn what_is_absent_is_asked_for_and_told_from_what_is_empty() {
        let absent = Compare::is(b"k".to_vec(), None).encode_to_vec();
        assert_eq!(absent, [0x10, 1, 0x1a, 1, b'k', 0x28, 0], "target, key, and a zero that is said");
        let empty = Compare::is(b"k".to_vec(), Some(b"")).encode_to_vec();
        assert_eq!(empty, [0x10, 3, 0x1a, 1, b'k', 0x3a, 0], "target, key, and a value of no bytes");
    }

    #[test]
    fn an_answer_is_read_whatever_else_is_in_it() {
        // A header with four fields, "succeeded", the answer to a put, the answer to a range with a count.
        let bytes = [
            &[0x0a, 8, 0x08, 9, 0x10, 8, 0x18, 7, 0x20, 6, 0x10, 1, 0x1a, 2, 0x12, 0][..],
            &[0x1a, 14, 0x0a, 12, 0x12, 8, 0x0a, 1, b'k', 0x18, 5, 0x2a, 1, b'v', 0x20, 1],
        ]
        .concat();
        let answer = TxnResponse::decode(bytes.as_slice()).unwrap();
        assert_eq!((answer.revision(), answer.succeeded), (7, true));
        assert_eq!((answer.value(0), answer.value(1), answer.value(2)), (None, Some(b"v".as_slice()), None));
        assert_eq!(answer.found(1)[0].mod_revision, 5);
    }
}
