//! A relay between a client and the server, such as proxies are: it cuts streams that bring no data, or swallows
//! everything.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

/// Length of the header of an HTTP/2 frame.
const HEADER: usize = 9;
/// Its type for data.
const DATA: u8 = 0;

/// A relay on a free port; it ends with its value.
#[derive(Debug)]
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    swallow: Arc<AtomicBool>,
    cut: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Relay {
    /// Relays to `server`. A connection on which the server sends no data frame for so long is reset; other frames,
    /// pings among them, do not count.
    ///
    /// # Errors
    /// There is no free port.
    pub(crate) async fn start(server: SocketAddr, quiet: Duration) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (swallow, cut) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let line = Line { server, quiet, swallow: Arc::clone(&swallow), cut: Arc::clone(&cut) };
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(line.clone().carry(client));
            }
        });
        Ok(Self { address, swallow, cut, task })
    }

    /// From now on nothing passes, and nobody is told.
    pub(crate) fn swallow(&self) {
        self.swallow.store(true, Ordering::SeqCst);
    }

    /// Connections that were reset for being quiet.
    pub(crate) fn cut(&self) -> u64 {
        self.cut.load(Ordering::SeqCst)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Clone)]
struct Line {
    server: SocketAddr,
    quiet: Duration,
    swallow: Arc<AtomicBool>,
    cut: Arc<AtomicU64>,
}

impl Line {
    /// Carries one connection until an end closes it or the quiet ends it.
    async fn carry(self, client: TcpStream) {
        let Ok(server) = TcpStream::connect(self.server).await else { return };
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = server.into_split();
        tokio::select! {
            _ = self.upwards(&mut from_client, &mut to_server) => {}
            _ = self.downwards(&mut from_server, &mut to_client) => {}
        }
    }

    async fn upwards(
        &self,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
    ) -> std::io::Result<()> {
        let mut buffer = vec![0; 16 << 10];
        loop {
            let read = from.read(&mut buffer).await?;
            if read == 0 {
                return Ok(());
            }
            self.pass(to, &buffer[..read]).await?;
        }
    }

    async fn downwards(
        &self,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
    ) -> std::io::Result<()> {
        let mut frames = Frames::default();
        let mut buffer = vec![0; 16 << 10];
        let mut deadline = Instant::now() + self.quiet;
        loop {
            let Ok(read) = timeout_at(deadline, from.read(&mut buffer)).await else {
                self.cut.fetch_add(1, Ordering::SeqCst);
                return Ok(());
            };
            let read = read?;
            if read == 0 {
                return Ok(());
            }
            if frames.hold_data(&buffer[..read]) {
                deadline = Instant::now() + self.quiet;
            }
            self.pass(to, &buffer[..read]).await?;
        }
    }

    async fn pass(&self, to: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> std::io::Result<()> {
        if self.swallow.load(Ordering::SeqCst) {
            return Ok(());
        }
        to.write_all(bytes).await
    }
}

/// Where one frame of HTTP/2 ends and the next begins.
#[derive(Debug, Default)]
struct Frames {
    header: Vec<u8>,
    /// Bytes of the present frame that are still to come.
    left: usize,
}

impl Frames {
    /// Whether a data frame with content begins in these bytes.
    fn hold_data(&mut self, mut bytes: &[u8]) -> bool {
        let mut found = false;
        while !bytes.is_empty() {
            if self.left > 0 {
                let skipped = self.left.min(bytes.len());
                self.left -= skipped;
                bytes = &bytes[skipped..];
                continue;
            }
            self.header.push(bytes[0]);
            bytes = &bytes[1..];
            if self.header.len() == HEADER {
                found |= self.begin();
            }
        }
        found
    }

    fn begin(&mut self) -> bool {
        let length = self.header[..3].iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        let data = self.header[3] == DATA && length > 0;
        self.left = length;
        self.header.clear();
        data
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_frames_are_told_from_others_however_they_are_cut() {
        let ping = [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
        let data = [0, 0, 2, 0, 0, 0, 0, 0, 1, 9, 9];
        let stream = [&ping[..], &data, &ping].concat();
        for size in 1..stream.len() {
            let mut frames = Frames::default();
            let found = stream.chunks(size).filter(|chunk| frames.hold_data(chunk)).count();
            assert_eq!(found, 1, "in pieces of {size}");
            assert_eq!(frames.left, 0);
        }
    }
}
