//! Servers that want to know who calls.

use std::net::Ipv4Addr;
use std::sync::Arc;

use heureka_client::{Client, Error};
use heureka_server::clock::SystemClock;
use heureka_server::config::User;

use crate::support::{Node, bounded, config, instance};

const USER: &str = "admin:p%40ss%3Aw%25rd!%C3%A9";

#[tokio::test]
async fn a_client_says_who_it_is_by_its_address() {
    bounded(async {
        let mut guarded = config();
        guarded.auth.users = vec![User::read(USER).unwrap()];
        let node = Node::at((Ipv4Addr::LOCALHOST, 0).into(), guarded, Arc::new(SystemClock::new())).await;
        let stranger = Client::connect([node.url()]).unwrap();
        let refused = stranger.register(instance("web", "1")).await.err();
        let Some(Error::Refused { reason, .. }) = refused else {
            unreachable!("a stranger is refused: {refused:?}")
        };
        assert_eq!(reason, "UNAUTHENTICATED");
        let known = Client::connect([node.url().replacen("://", &format!("://{USER}@"), 1)]).unwrap();
        let lease = known.register(instance("web", "1")).await.unwrap();
        lease.cancel().await.unwrap();
        node.kill().await;
    })
    .await;
}
