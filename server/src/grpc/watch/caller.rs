//! Who asks for a watch.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::{Spec, Watcher};
use crate::grpc::Connection;
use crate::grpc::core::{Core, leaving};
use crate::grpc::seats::{Figures, Seat, Sitter, Watches};
use crate::grpc::status::{Fault, Reason};

/// A connection that asks, and what it is answered from.
#[derive(Clone)]
pub(in crate::grpc) struct Caller {
    pub(super) core: Arc<Core>,
    watches: Arc<Watches>,
    connection: Option<Connection>,
}

impl Caller {
    /// # Errors
    /// The server is not ready, or it or the connection is about to end.
    pub(in crate::grpc) fn admitted(
        core: Arc<Core>,
        watches: Arc<Watches>,
        connection: Option<Connection>,
    ) -> Result<Self, Fault> {
        core.readable()?;
        let caller = Self { core, watches, connection };
        caller.stays()?;
        Ok(caller)
    }

    /// # Errors
    /// The server or the connection is about to end.
    pub(super) fn stays(&self) -> Result<(), Fault> {
        if self.leaving().is_cancelled() || self.core.drain.is_cancelled() {
            return Err(Fault::new(Reason::Draining, "the server is leaving"));
        }
        Ok(())
    }

    /// What ends its watches.
    pub(super) fn leaving(&self) -> &CancellationToken {
        leaving(self.connection.as_ref(), &self.core.drain)
    }

    /// What was told, as numbers.
    pub(super) fn figures(&self) -> &Figures {
        self.watches.figures()
    }

    /// A place for a stream on its connection.
    ///
    /// # Errors
    /// The connection has none left.
    pub(super) fn place(&self) -> Result<Option<OwnedSemaphorePermit>, Fault> {
        let places = self.connection.as_ref().map(|connection| &connection.0.watches);
        places.map(|places| self.watches.place(places)).transpose()
    }

    /// A place for a watch of this server.
    ///
    /// # Errors
    /// The server has none left.
    pub(super) fn seat(&self, client: Arc<str>) -> Result<Seat, Fault> {
        let address = self.connection.as_ref().map(Connection::address);
        self.watches.sit(client, address, self.core.now().wall)
    }

    /// The watcher that tells what was asked for.
    pub(super) fn watcher(&self, spec: Spec, sitter: Arc<Sitter>) -> Watcher {
        tracing::debug!(client = %sitter.client, mode = ?spec.opening.mode, "watch opened");
        Watcher::new(self.core.clone(), spec, self.leaving().clone(), self.watches.clone(), sitter)
    }
}
