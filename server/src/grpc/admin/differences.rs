//! Where this server and a peer differ.

use std::pin::Pin;
use std::time::Duration;

use futures_util::Stream;
use futures_util::stream::iter;
use heureka_model::Invalid;
use heureka_proto::admin::v1;
use heureka_registry::replication::Difference;
use tokio::time::timeout;
use tonic::Status;

use super::Admin;
use crate::grpc::status::{Fault, Reason};

/// Time for the peer's answer.
const ANSWER: Duration = Duration::from_secs(4);

/// Keys, one message each.
pub(super) type Differences = Pin<Box<dyn Stream<Item = Result<v1::DiffPeerResponse, Status>> + Send>>;

impl Admin {
    pub(super) async fn differences(&self, request: &v1::DiffPeerRequest) -> Result<Differences, Fault> {
        let node = request.node_id.as_str();
        if node.is_empty() {
            return Err(Fault::request(Invalid::missing("node_id")));
        }
        let answer = (self.office.cluster.differences)(node).ok_or_else(|| self.unasked(node))?;
        match timeout(ANSWER, answer).await {
            Ok(Ok(differences)) => Ok(Box::pin(iter(differences.into_iter().map(told).map(Ok)))),
            Ok(Err(_)) => Err(missing(node)),
            Err(_) => Err(Fault::new(Reason::PeerBusy, "the peer did not answer in time")),
        }
    }

    /// Why a peer cannot be asked.
    fn unasked(&self, node: &str) -> Fault {
        let known = (self.office.cluster.known)(self.core.now());
        if known.iter().any(|peer| peer.connected && peer.node_id == node) {
            return Fault::new(Reason::PeerBusy, "somebody asks that peer already");
        }
        missing(node)
    }
}

fn missing(node: &str) -> Fault {
    Fault::new(Reason::PeerNotFound, format!("there is no stream to a server {node:?}"))
}

fn told(difference: Difference) -> v1::DiffPeerResponse {
    v1::DiffPeerResponse {
        key: Some(difference.key.into()),
        local: difference.local.map(Into::into),
        remote: difference.remote.map(Into::into),
    }
}
