//! TLS: what this server shows to those who call it, and whom it believes when it calls.
//!
//! Each certificate in force is one immutable configuration behind a lock that is held for a pointer's copy. Files are
//! looked at again once a second; new ones are for connections that begin from then on, and those that stand keep what
//! they began with.
//!
//! ```text
//! files ──> pem ──> acceptor   shown to whoever connects
//!             └───> connector  asked of servers that are called
//! ```

mod acceptor;
mod connector;
mod pem;
mod reload;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::Notify;

pub(crate) use acceptor::{Acceptor, Secure, reason};
pub(crate) use connector::{Alpn, Connector};
use pem::{CA, CERTIFICATE, KEY};
pub(crate) use reload::Figures;
use reload::{Reload, Watched};

use crate::config::TlsConfig;
use crate::files::Files;
use crate::life::Amiss;

/// Why the files of `[tls]` cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TlsError(String);

/// TLS of a server, in both directions.
pub(crate) struct Tls {
    acceptor: Option<Acceptor>,
    connector: Connector,
    figures: Arc<Figures>,
    reload: Reload,
}

impl Tls {
    /// What the configuration names; nothing when it names nothing.
    ///
    /// # Errors
    /// A file that cannot be read or understood.
    pub(crate) async fn open(config: &TlsConfig) -> Result<Self, TlsError> {
        let figures = Arc::<Figures>::default();
        let own = files(&[(CERTIFICATE, &config.certificate), (KEY, &config.key)]);
        let (acceptor, own) = first(own, pem::server, Acceptor::new, Acceptor::renew).await?;
        let ca = files(&[(CA, &config.ca)]);
        let (connector, ca) = first(ca, pem::client, Connector::new, Connector::renew).await?;
        let reload = Reload::new(own.into_iter().chain(ca).collect(), figures.clone());
        Ok(Self { acceptor, connector: connector.unwrap_or_default(), figures, reload })
    }

    /// What connections are taken with; nothing where they are plain.
    pub(crate) fn acceptor(&self) -> Option<Acceptor> {
        self.acceptor.clone()
    }

    /// What other servers are called with.
    pub(crate) fn connector(&self) -> Connector {
        self.connector.clone()
    }

    /// What is counted.
    pub(crate) fn figures(&self) -> Arc<Figures> {
        self.figures.clone()
    }

    /// Rung to have the files looked at now.
    pub(crate) fn bell(&self) -> Arc<Notify> {
        self.reload.bell()
    }

    /// What is amiss, files that cannot be used among it.
    pub(crate) fn among(&self, amiss: Amiss) -> Amiss {
        let figures = self.figures.clone();
        Arc::new(move || {
            let mut all = amiss();
            all.extend(figures.problems());
            all
        })
    }

    /// Looks at the files for as long as it is polled.
    pub(crate) async fn follow(self) {
        self.reload.run().await;
    }
}

/// The files that are named, when any is: half of a certificate is none, and never a reason to go without.
fn files(named: &[(&'static str, &String)]) -> Option<Files> {
    let any = named.iter().any(|(_, path)| !path.is_empty());
    any.then(|| Files::new(named.iter().map(|(setting, path)| (*setting, PathBuf::from(path))).collect()))
}

/// Takes files into force for the first time: what holds them, and how it learns of new ones.
async fn first<C: 'static, H: Clone + Send + Sync + 'static>(
    files: Option<Files>,
    read: fn(&[Vec<u8>]) -> Result<C, String>,
    begin: fn(C) -> H,
    renew: fn(&H, C),
) -> Result<(Option<H>, Option<Watched>), TlsError> {
    let Some(mut files) = files else { return Ok((None, None)) };
    let holder = begin(files.first(read).await.map_err(TlsError)?);
    let held = holder.clone();
    let take = move |contents: &[Vec<u8>]| read(contents).map(|config| renew(&held, config));
    Ok((Some(holder), Some(Watched::new(files, Box::new(take)))))
}
