//! Servers that are called over TLS.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use heureka_client::tokio_stream::StreamExt as _;
use heureka_client::{Client, Error, Event, Settings};
use heureka_server::clock::SystemClock;
use heureka_server::config::User;

use crate::authority::{Authority, Files, text};
use crate::support::{Node, bounded, config, instance, quick, synced};

async fn start(files: &Files, ip: impl Into<IpAddr>) -> Node {
    let mut secured = config();
    secured.tls.certificate = text(&files.certificate());
    secured.tls.key = text(&files.key());
    secured.auth.users = vec![User::read("admin:pass").unwrap()];
    Node::at((ip.into(), 0).into(), secured, Arc::new(SystemClock::new())).await
}

fn url(node: &Node) -> String {
    format!("https://admin:pass@{}", node.address())
}

#[tokio::test]
async fn a_client_that_believes_the_server_registers_and_watches() {
    bounded(async {
        let authority = Authority::new();
        let files = Files::new(&authority, &authority.issue());
        for ip in [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
            let node = start(&files, ip).await;
            let settings = Settings { ca: authority.pem(), ..quick() };
            let client = Client::connect_with(settings, [url(&node)]).unwrap();
            let mut watch = client.watch(Vec::new());
            synced(&mut watch).await;
            let lease = client.register(instance("web", "1")).await.unwrap();
            assert!(matches!(watch.next().await, Some(Ok(Event::Added(_)))));
            lease.cancel().await.unwrap();
            node.kill().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_server_that_is_not_vouched_for_is_never_told_anything() {
    bounded(async {
        let (ours, theirs) = (Authority::new(), Authority::new());
        let files = [Files::new(&ours, &ours.issue()), Files::new(&theirs, &theirs.issue())];
        let node = start(&files[0], Ipv4Addr::LOCALHOST).await;
        let stranger = start(&files[1], Ipv4Addr::LOCALHOST).await;
        // Each begins with either of them by chance.
        let mut leases = Vec::new();
        for number in 0..8 {
            let settings = Settings { ca: ours.pem(), ..quick() };
            let client = Client::connect_with(settings, [url(&stranger), url(&node)]).unwrap();
            leases.push(client.register(instance("web", &number.to_string())).await.unwrap());
        }
        assert_eq!((node.core().stats().instances, stranger.core().stats().instances), (8, 0));
        drop(leases);
        node.kill().await;
        stranger.kill().await;
    })
    .await;
}

#[tokio::test]
async fn whom_to_believe_has_to_be_said() {
    let nobody = Client::connect(["https://localhost:8761"]).err();
    assert_eq!(nobody, Some(Error::Authority("https://localhost:8761".into())));
}
