//! Where a write comes from.

use std::net::IpAddr;
use std::sync::Arc;

use crate::leases::Heard;

/// Who caused a mutation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// An owner or reader of instances.
    Client {
        /// Wire it came by.
        surface: Surface,
        /// Authenticated name, when there is one.
        principal: Option<Arc<str>>,
        /// Address of the socket.
        address: Option<IpAddr>,
    },
    /// A Eureka server that passes on what it was told.
    Eureka,
    /// Another server of the cluster.
    Peer,
    /// Somebody who runs the cluster.
    Operator,
    /// The server itself, for example at the end of a lease.
    System,
}

impl Origin {
    /// By whom a sign of life that comes with this is told.
    pub(crate) fn heard(&self) -> Heard {
        match self {
            Self::Client { .. } | Self::Operator | Self::System => Heard::Owner,
            Self::Eureka => Heard::Eureka,
            Self::Peer => Heard::Peer,
        }
    }

    /// Whether the original's habits apply.
    pub(crate) fn is_rest(&self) -> bool {
        matches!(self, Self::Client { surface: Surface::Rest, .. })
    }
}

/// The wires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Surface {
    /// The native contract.
    Grpc,
    /// The Eureka surface.
    Rest,
}
