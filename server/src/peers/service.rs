//! The side that accepts.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt as _, stream};
use heureka_proto::peer::v1 as pb;
use pb::replication_service_server::ReplicationService;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::{Request, Response, Status, Streaming};

use super::Peers;
use super::refusal::Refusal;
use super::session::{Incoming, Outgoing, Session};
use crate::drain::{Counted, Ending};
use crate::grpc::Connection;

/// Time for a refused peer to take in why.
const FAREWELL: Duration = Duration::from_secs(1);

/// Takes the streams of other servers.
pub(super) struct Accepting {
    pub(super) peers: Arc<Peers>,
    pub(super) ending: Ending,
}

type Replies = Pin<Box<dyn Stream<Item = Result<pb::ReplicateResponse, Status>> + Send>>;

#[tonic::async_trait]
impl ReplicationService for Accepting {
    type ReplicateStream = Replies;

    async fn replicate(
        &self,
        request: Request<Streaming<pb::ReplicateRequest>>,
    ) -> Result<Response<Replies>, Status> {
        let remote = self.admitted(&request)?;
        let frames =
            request.into_inner().map(|message| message.map(|message| message.frame.unwrap_or_default()));
        let (outgoing, mut sent) = mpsc::channel(1);
        tokio::spawn(serve(self.peers.clone(), self.ending.no_client(), remote, Box::pin(frames), outgoing));
        let replies = stream::poll_fn(move |context| sent.poll_recv(context));
        let replies = replies.map(|reply| reply.map(|frame| pb::ReplicateResponse { frame: Some(frame) }));
        Ok(Response::new(Box::pin(replies)))
    }
}

impl Accepting {
    /// The address of a caller that is a peer.
    fn admitted<M>(&self, request: &Request<M>) -> Result<IpAddr, Status> {
        let connection = request.extensions().get::<Connection>();
        let remote = connection.map(Connection::address);
        if let Some((connection, remote)) = connection.zip(remote)
            && self.peers.trust.admits(remote, request.metadata())
        {
            connection.keep();
            return Ok(remote);
        }
        // It may be a peer that has a new address.
        self.peers.out_of_turn.notify_one();
        self.peers.counts.refused(Refusal::Untrusted);
        self.peers.notices.once(Refusal::Untrusted.word(), || {
            tracing::warn!(address = ?remote, "a stranger called as a peer; see peer.trusted");
        });
        Err(Refusal::Untrusted.status(&stranger(remote)))
    }
}

async fn serve(
    peers: Arc<Peers>,
    _no_client: Counted,
    remote: IpAddr,
    incoming: Incoming,
    outgoing: Outgoing,
) {
    let session = Session { peers: &peers, remote, dialed: None, close: peers.closing.child_token() };
    let ended = session.run(incoming, &outgoing).await;
    let Some(refusal) = ended.end.refusal() else { return };
    peers.counts.refused(refusal);
    if refusal.needs_people() {
        let node = ended.hello.map(|hello| hello.node).unwrap_or_default();
        peers.notices.once(refusal.word(), || {
            tracing::warn!(%remote, node, reason = %ended.end, "a peer is refused");
        });
    }
    // Whoever does not listen learns it from the end of the stream.
    let _ = timeout(FAREWELL, outgoing.send(Err(refusal.status(&ended.end.to_string())))).await;
}

fn stranger(address: Option<IpAddr>) -> String {
    match address {
        Some(address) => format!("{address} is no peer of this server"),
        None => "a caller without an address is no peer of this server".to_owned(),
    }
}
