//! One of the members, spoken to: what it is asked, and why it cannot be.

use std::{
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::Stream;
use http::uri::PathAndQuery;
use tokio::{sync::Notify, time::timeout};
use tonic::{
    Request, Status, Streaming,
    client::Grpc,
    metadata::{Ascii, MetadataValue},
    transport::Channel,
};
use tonic_prost::ProstCodec;

use super::{
    address::EtcdAddress,
    trouble::{self, Meaning, in_words},
    wire::{AuthenticateRequest, Call, WATCH, WatchRequest, WatchResponse},
};
use crate::{
    core::{in_full::in_full, transaction::Version},
    driver::{lock::lock, newest::Newest, supervision::Supervisor},
};

/// The largest answer that is taken: far more than a store of names has.
const MOST_ANSWER: usize = 256 << 20;
/// How long a member may take to show that it serves. Longer than a hiccup, and short: there are others.
pub(super) const PROBE: Duration = Duration::from_secs(1);

/// The store that was opened.
pub(super) struct EtcdPlace {
    pub(super) address: EtcdAddress,
    /// What its layout's row holds.
    pub(super) identity: Vec<u8>,
    pub(super) newest: Newest,
    /// Starts the store's tasks, and learns when one panics.
    pub(super) supervisor: Supervisor,
}

impl EtcdPlace {
    /// Call it inside the store's runtime.
    pub(super) fn new(address: EtcdAddress, identity: Vec<u8>) -> Self {
        let (newest, supervisor) = (Newest::default(), Supervisor::of("the store in etcd"));
        Self { address, identity, newest, supervisor }
    }
}

/// One member, spoken to with the user's token.
pub(super) struct MemberClient {
    pub(super) name: String,
    channel: Channel,
    token: Mutex<Option<MetadataValue<Ascii>>>,
    /// One renews the token, the others wait for it.
    renewing: tokio::sync::Mutex<()>,
}

impl MemberClient {
    /// Connects to a member. Nothing is asked of it but a token, where the URL has a user.
    pub(super) async fn connect(address: &EtcdAddress, name: &str) -> Result<Self, EtcdNotConnected> {
        let connecting = async {
            let endpoint = address.endpoint(name).map_err(|error| EtcdNotConnected::from_client(&error))?;
            endpoint.connect().await.map_err(|error| EtcdNotConnected::from_client(&error))
        };
        let channel = timeout(super::address::CONNECT * 2, connecting)
            .await
            .map_err(|_| EtcdNotConnected::Silent)??;
        let (token, renewing) = (Mutex::default(), tokio::sync::Mutex::default());
        let member = Self { name: name.to_owned(), channel, token, renewing };
        let asked = timeout(PROBE * 2, member.renew(address, None));
        asked.await.map_err(|_| EtcdNotConnected::Silent)?.map_err(EtcdNotConnected::Said)?;
        Ok(member)
    }

    fn token(&self) -> Option<MetadataValue<Ascii>> {
        lock(&self.token).clone()
    }

    /// Asks for a token, unless there is another one than the one that was of no use.
    async fn renew(&self, address: &EtcdAddress, spent: Option<&MetadataValue<Ascii>>) -> Result<(), Status> {
        let Some(user) = &address.user else { return Ok(()) };
        let _one_at_a_time = self.renewing.lock().await;
        let now = self.token();
        if now.is_some() && now.as_ref() != spent {
            return Ok(());
        }
        let asked = AuthenticateRequest { name: user.name.clone(), password: user.password.clone() };
        let answer = match self.send(asked, None).await {
            Ok(answer) => answer,
            // A cluster that asks nobody for a token needs none of a user that the URL names.
            Err(status) if status.message() == "etcdserver: authentication is not enabled" => return Ok(()),
            Err(status) => return Err(status),
        };
        let token = answer.token.parse().map_err(|_| Status::internal("the token is no text"))?;
        *lock(&self.token) = Some(token);
        Ok(())
    }

    /// Sends a request once.
    async fn send<C: Call>(
        &self,
        request: C,
        token: Option<MetadataValue<Ascii>>,
    ) -> Result<C::Answer, Status> {
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(MOST_ANSWER);
        grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
        let request = with_metadata(request, token);
        let answer = grpc.unary(request, C::path(), ProstCodec::<C, C::Answer>::default()).await;
        answer.map(tonic::Response::into_inner)
    }

    /// Sends a request. Once more, with another token, if etcd says that it did nothing for the token's sake; never otherwise.
    pub(super) async fn call<C: Call + Clone>(
        &self,
        address: &EtcdAddress,
        request: C,
    ) -> Result<C::Answer, Status> {
        let token = self.token();
        let status = match self.send(request.clone(), token.clone()).await {
            Err(status) if trouble::meaning(&status) == Meaning::Token => status,
            answered => return answered,
        };
        match self.renew(address, token.as_ref()).await {
            Ok(()) => self.send(request, self.token()).await,
            // Nothing was done for the first one, and that is what is said.
            Err(_) => Err(status),
        }
    }

    /// Opens a stream of watches. It is not there before the first wish was answered.
    pub(super) async fn watch(
        &self,
        wishes: impl Stream<Item = WatchRequest> + Send + 'static,
    ) -> Result<Streaming<WatchResponse>, Status> {
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(MOST_ANSWER);
        grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
        let request = with_metadata(wishes, self.token());
        let path = PathAndQuery::from_static(WATCH);
        let codec = ProstCodec::<WatchRequest, WatchResponse>::default();
        grpc.streaming(request, path, codec).await.map(tonic::Response::into_inner)
    }
}

/// A member without a leader is to say so at once, instead of letting everybody wait.
fn with_metadata<T>(body: T, token: Option<MetadataValue<Ascii>>) -> Request<T> {
    let mut request = Request::new(body);
    request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
    if let Some(token) = token {
        request.metadata_mut().insert("token", token);
    }
    request
}

/// A connection that works.
pub(super) struct EtcdSession {
    pub(super) member: MemberClient,
    pub(super) place: Arc<EtcdPlace>,
    /// The version of the store when it was made.
    pub(super) began_at: Version,
    broken: Notify,
}

impl EtcdSession {
    pub(super) fn of(member: MemberClient, place: Arc<EtcdPlace>, began_at: Version) -> Self {
        Self { member, place, began_at, broken: Notify::new() }
    }

    /// Gives the connection up: whatever it may still answer is for those who wait already.
    pub(super) fn give_up(&self) {
        self.broken.notify_one();
    }

    /// Waits until somebody has given it up.
    pub(super) async fn given_up(&self) {
        self.broken.notified().await;
    }

    pub(super) async fn call<C: Call + Clone>(&self, request: C) -> Result<C::Answer, Status> {
        self.member.call(&self.place.address, request).await
    }
}

/// Why there is no connection.
#[derive(Debug)]
pub(super) enum EtcdNotConnected {
    /// The member, or the client, said so.
    Said(Status),
    /// There is no way to the member.
    Client(String),
    /// It took too long.
    Silent,
    /// There was one, and it broke.
    Ended,
    /// The store at the address is not the one that was opened.
    Replaced,
}

impl EtcdNotConnected {
    fn from_client(error: &tonic::transport::Error) -> Self {
        Self::Client(in_full(error).to_string())
    }
}

impl fmt::Display for EtcdNotConnected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Said(status) => f.write_str(&in_words(status)),
            Self::Client(words) => f.write_str(words),
            Self::Silent => f.write_str("the member does not answer"),
            Self::Ended => f.write_str("the connection broke"),
            Self::Replaced => {
                f.write_str("the store is not the one that was opened: restart with the right one")
            }
        }
    }
}
