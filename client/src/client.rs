//! The client.

use std::sync::Arc;

use heureka_model::Instance;

use crate::calls::Calls;
use crate::servers::Servers;
use crate::{
    Cache, Error, InstanceSelector, Lease, Line, Settings, Transport, Watch, WatchMany, WatchOptions,
};

/// A client of one registry, whichever of its servers answers.
///
/// All calls and streams go to one server until it fails: it cannot be reached, does not answer in time, or says
/// that it is leaving. Then they go to the next, and stay there. A server that failed is left alone for a random
/// time that doubles with each failure in a row from 0.1 s to 30 s. The first one is drawn at random, so that a
/// fleet with one list spreads over it. A refusal, such as `INVALID_INSTANCE`, is an answer and moves nothing.
///
/// Clones are cheap and share everything: connections, the choice of the server, and the order of writes.
#[derive(Debug)]
pub struct Client<T = Line> {
    calls: Arc<Calls<T>>,
}

impl Client {
    /// A client of the servers at `addresses`, for example `["http://a:8761", "http://b:8761"]`, or
    /// `http://user:password@a:8761` where servers want to know who calls: both escaped with `%`. Nothing is sent
    /// before the first call. To be called within a tokio runtime.
    ///
    /// Over TLS, `https://a:8761`, take the feature `tls` and [`Self::connect_with`] settings that say whom to believe.
    ///
    /// # Errors
    /// [`Error::Address`] for whatever is not `http://[user:password@]host[:port]`, [`Error::NoServer`],
    /// [`Error::Authority`].
    pub fn connect<A: AsRef<str>>(addresses: impl IntoIterator<Item = A>) -> Result<Self, Error> {
        Self::connect_with(Settings::default(), addresses)
    }

    /// The same with settings of the application's own.
    ///
    /// # Errors
    /// [`Error::Address`], [`Error::NoServer`]; [`Error::Authority`] for an address with `https` where `settings.ca`
    /// holds no certificate.
    pub fn connect_with<A: AsRef<str>>(
        settings: Settings,
        addresses: impl IntoIterator<Item = A>,
    ) -> Result<Self, Error> {
        let lines: Result<Vec<_>, Error> =
            addresses.into_iter().map(|address| Line::to(address.as_ref(), &settings.ca)).collect();
        Self::over(settings, lines?)
    }
}

impl<T: Transport> Client<T> {
    /// A client over transports of the caller's own, one for each server: with TLS of another kind, with a layer around, or within
    /// the process. To be called within a tokio runtime.
    ///
    /// # Errors
    /// [`Error::NoServer`].
    pub fn over(settings: Settings, transports: Vec<T>) -> Result<Self, Error> {
        if transports.is_empty() {
            return Err(Error::NoServer);
        }
        Ok(Self::of(Calls::new(settings, Servers::new(transports))))
    }

    pub(crate) fn of(calls: Calls<T>) -> Self {
        Self { calls: Arc::new(calls) }
    }

    /// Registers an instance, or replaces its record, and keeps it registered until the lease is cancelled or
    /// dropped.
    ///
    /// Waits until a server has taken it, however long that is: bound it by `tokio::time::timeout` where that is
    /// too long. A registration that was given up may have reached a server all the same; it lapses there.
    ///
    /// Writes are ordered, so that a copy that arrives late never undoes a later one. When another process holds
    /// a newer version of the same id, this one raises its own and wins once; two processes that share an id
    /// are a fault of their configuration.
    ///
    /// # Errors
    /// What no waiting mends, as `docs/errors.md` says: above all `INVALID_INSTANCE`, with the field at fault; and
    /// [`Error::Version`].
    pub async fn register(&self, instance: Instance) -> Result<Lease, Error> {
        Lease::begin(self.calls.clone(), instance).await
    }

    /// Every change of the instances that one of `selectors` matches; without any, of the whole default namespace.
    pub fn watch(&self, selectors: Vec<InstanceSelector>) -> Watch {
        self.watch_with(selectors.into())
    }

    /// The same with readings beside the changes, or of a choice of the instances that the server makes.
    pub fn watch_with(&self, options: WatchOptions) -> Watch {
        Watch::new(self.calls.clone(), options)
    }

    /// Every change of many sets of instances on one stream, which begins with none.
    pub fn watch_many(&self) -> WatchMany {
        WatchMany::new(self.calls.clone())
    }

    /// A copy of the same instances in memory that follows the registry until it is dropped.
    #[must_use]
    pub fn cache(&self, selectors: Vec<InstanceSelector>) -> Cache {
        Cache::new(self.calls.clone(), selectors)
    }
}

impl<T> Clone for Client<T> {
    fn clone(&self) -> Self {
        Self { calls: self.calls.clone() }
    }
}
