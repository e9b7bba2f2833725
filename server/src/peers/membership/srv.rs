//! SRV records, asked of the system's name servers.
//!
//! Addresses of hosts are the system's own business; which ports a service has is a question that it cannot be
//! asked. One question and its answer are little enough to do without a resolver's worth of packages: UDP first,
//! TCP when the answer does not fit, the servers of `/etc/resolv.conf` one after the other.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use super::dns;

/// Where name servers answer.
const PORT: u16 = 53;
/// Where the system says which they are.
const RESOLV_CONF: &str = "/etc/resolv.conf";
/// Time for one server to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Times that each server is asked.
const ROUNDS: usize = 2;
/// Size of an answer over UDP that our question allows, and room for servers that do not care.
const DATAGRAM: usize = 4096;

/// A host and a port that an SRV record names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) host: String,
    pub(super) port: u16,
}

/// Hosts and ports of a service; none when the name has no such record.
/// # Errors
/// No server answered, or what it answered makes no sense.
pub(super) async fn look_up(name: &str) -> io::Result<Vec<Target>> {
    let conf = tokio::fs::read_to_string(RESOLV_CONF).await?;
    ask_all(name, &servers(&conf)).await
}

async fn ask_all(name: &str, servers: &[SocketAddr]) -> io::Result<Vec<Target>> {
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "no name server is configured");
    for server in servers.iter().cycle().take(servers.len() * ROUNDS) {
        match timeout(PATIENCE, ask(name, *server)).await {
            Ok(Ok(targets)) => return Ok(targets),
            Ok(Err(error)) => failed = error,
            Err(_) => failed = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(failed)
}

async fn ask(name: &str, server: SocketAddr) -> io::Result<Vec<Target>> {
    let id: u16 = rand::random();
    let question = dns::question(id, name)?;
    let any: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(server).await?;
    socket.send(&question).await?;
    let mut buffer = vec![0; DATAGRAM];
    loop {
        let length = socket.recv(&mut buffer).await?;
        match dns::answer(&buffer[..length], id, name) {
            Ok(dns::Answer::Whole(targets)) => return Ok(targets),
            Ok(dns::Answer::Truncated) => return ask_whole(&question, id, name, server).await,
            // Of another question, late or forged: the right one may still come.
            Ok(dns::Answer::Foreign) => {}
            Err(error) => return Err(error),
        }
    }
}

async fn ask_whole(question: &[u8], id: u16, name: &str, server: SocketAddr) -> io::Result<Vec<Target>> {
    let mut socket = TcpStream::connect(server).await?;
    let length = u16::try_from(question.len()).map_err(|_| dns::malformed())?;
    socket.write_all(&[&length.to_be_bytes(), question].concat()).await?;
    let mut buffer = vec![0; socket.read_u16().await?.into()];
    socket.read_exact(&mut buffer).await?;
    match dns::answer(&buffer, id, name)? {
        dns::Answer::Whole(targets) => Ok(targets),
        dns::Answer::Truncated | dns::Answer::Foreign => Err(dns::malformed()),
    }
}

fn servers(conf: &str) -> Vec<SocketAddr> {
    let lines = conf.lines().filter_map(|line| line.trim().strip_prefix("nameserver"));
    let addresses = lines.filter_map(|rest| rest.split_whitespace().next()?.parse::<IpAddr>().ok());
    addresses.map(|address| SocketAddr::new(address, PORT)).collect()
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    const NAME: &str = "_heureka._tcp.example.com";

    /// Answers one question over UDP, in the way that `answer` makes of it.
    async fn server(answer: impl Fn(&[u8]) -> Vec<Vec<u8>> + Send + 'static) -> SocketAddr {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        tokio::spawn(async move {
            let mut buffer = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
                for datagram in answer(&buffer[..length]) {
                    socket.send_to(&datagram, from).await.unwrap();
                }
            }
        });
        address
    }

    fn target(host: &str, port: u16) -> Target {
        Target { host: host.into(), port }
    }

    #[test]
    fn name_servers_are_read_from_the_systems_file() {
        let conf =
            "# made by hand\nsearch x\nnameserver 10.0.0.1\n nameserver ::1 # second\nnameserver nobody\n";
        assert_eq!(servers(conf), ["10.0.0.1:53".parse().unwrap(), "[::1]:53".parse().unwrap()]);
    }

    #[tokio::test]
    async fn records_are_asked_for_and_understood() {
        let address = server(|question| {
            let mut forged = dns::tests::answer(question, &[("evil.example.com", 1)]);
            forged[0] ^= 1;
            vec![forged, dns::tests::answer(question, &[("a.example.com", 8761), ("b.example.com", 8762)])]
        });
        let found = ask_all(NAME, &[address.await]).await.unwrap();
        assert_eq!(found, [target("a.example.com", 8761), target("b.example.com", 8762)]);
    }

    #[tokio::test]
    async fn an_answer_that_does_not_fit_is_asked_for_over_tcp() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let socket = UdpSocket::bind(address).await.unwrap();
        tokio::spawn(async move {
            let mut buffer = [0; 512];
            let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
            let mut short = dns::tests::answer(&buffer[..length], &[]);
            short[2] |= 2;
            socket.send_to(&short, from).await.unwrap();
            let (mut whole, _) = listener.accept().await.unwrap();
            let mut question = vec![0; whole.read_u16().await.unwrap().into()];
            whole.read_exact(&mut question).await.unwrap();
            let answer = dns::tests::answer(&question, &[("c.example.com", 3)]);
            whole.write_u16(answer.len() as u16).await.unwrap();
            whole.write_all(&answer).await.unwrap();
        });
        assert_eq!(ask_all(NAME, &[address]).await.unwrap(), [target("c.example.com", 3)]);
    }

    #[tokio::test]
    async fn the_next_server_is_asked_when_one_fails() {
        let broken = server(|question| {
            let mut failed = dns::tests::answer(question, &[]);
            failed[3] |= 2;
            vec![failed]
        });
        let good = server(|question| vec![dns::tests::answer(question, &[("d.example.com", 4)])]);
        let found = ask_all(NAME, &[broken.await, good.await]).await.unwrap();
        assert_eq!(found, [target("d.example.com", 4)]);
        let none: io::Result<_> = ask_all(NAME, &[]).await;
        assert_eq!(none.unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
