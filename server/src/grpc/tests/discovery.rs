//! Lists.

use heureka_model::{InstanceKey, SetDigest, Status as InstanceStatus, Version, instance_hash};

use super::*;

async fn list(server: &Server, request: v1::ListInstancesRequest) -> v1::ListInstancesResponse {
    server.reader().list_instances(request).await.unwrap().into_inner()
}

fn ids(response: &v1::ListInstancesResponse) -> Vec<String> {
    response.instances.iter().map(|instance| instance.key.as_ref().unwrap().id.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn pages_list_every_instance_once_in_key_order() {
    let server = Server::start().await;
    for (app, id) in [("web", "b"), ("api", "z"), ("web", "a"), ("web", "c"), ("api", "y")] {
        server.register(instance(app, id)).await;
    }
    let mut request = v1::ListInstancesRequest { page_size: 2, ..Default::default() };
    let mut seen = Vec::new();
    loop {
        let page = list(&server, request.clone()).await;
        assert!(page.instances.len() <= 2);
        seen.extend(ids(&page));
        assert_eq!(page.next_page_token.is_empty(), !page.resume_token.is_empty());
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    assert_eq!(seen, ["y", "z", "a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn a_page_ends_at_a_mebibyte() {
    let server = Server::start().await;
    for id in ["a", "b", "c"] {
        let metadata =
            [("k".to_owned(), "v".repeat(250 << 10)), ("l".to_owned(), "v".repeat(250 << 10))].into();
        server.register(v1::Instance { metadata, ..instance("web", id) }).await;
    }
    let first = list(&server, v1::ListInstancesRequest::default()).await;
    assert_eq!(ids(&first), ["a", "b"]);
    let request = v1::ListInstancesRequest { page_token: first.next_page_token, ..Default::default() };
    let second = list(&server, request).await;
    assert_eq!(ids(&second), ["c"]);
    assert!(second.next_page_token.is_empty());
}

fn by_app(app: &str) -> Vec<v1::InstanceSelector> {
    vec![v1::InstanceSelector { apps: vec![app.into()], ..Default::default() }]
}

#[tokio::test(start_paused = true)]
async fn page_tokens_are_bound_to_the_selectors_and_the_cluster() {
    let server = Server::start().await;
    for id in ["a", "b"] {
        server.register(instance("web", id)).await;
    }
    let request = |selectors, page_token| v1::ListInstancesRequest { selectors, page_size: 1, page_token };
    let token = list(&server, request(by_app("web"), String::new())).await.next_page_token;
    assert_eq!(ids(&list(&server, request(by_app("WEB"), token.clone())).await), ["b"]);

    let refused = |selectors, token: &str| {
        let request = request(selectors, token.to_owned());
        let mut client = server.reader();
        async move { client.list_instances(request).await }
    };
    let invalid = Code::InvalidArgument;
    for token in [token.as_str(), "x", "====", &token[1..], &token[..token.len() - 4], &"A".repeat(60)] {
        let answer = refused(by_app("api"), token).await;
        assert_refused(answer, invalid, "INVALID_PAGE_TOKEN", "page_token");
    }
    let other = Server::with(Config::default(), Limits::default(), SEEDS, "green").await;
    let answer = other.reader().list_instances(request(by_app("web"), token)).await;
    assert_refused(answer, invalid, "INVALID_PAGE_TOKEN", "page_token");
}

#[tokio::test(start_paused = true)]
async fn each_fault_of_a_list_is_named() {
    let server = Server::start().await;
    let answer = server
        .reader()
        .list_instances(v1::ListInstancesRequest { page_size: -1, ..Default::default() })
        .await;
    assert_refused(answer, Code::InvalidArgument, "INVALID_REQUEST", "page_size");
    let selectors = vec![v1::InstanceSelector { statuses: vec![42], ..Default::default() }];
    let answer =
        server.reader().list_instances(v1::ListInstancesRequest { selectors, ..Default::default() }).await;
    assert_refused(answer, Code::InvalidArgument, "INVALID_SELECTOR", "selectors[0].statuses[0]");
    let answer = server.reader().get_instance(v1::GetInstanceRequest { key: None }).await;
    assert_refused(answer, Code::InvalidArgument, "INVALID_REQUEST", "key");
}

#[tokio::test(start_paused = true)]
async fn applications_are_listed_by_name_with_counts_and_digests() {
    let server = Server::start().await;
    let version = server.register(instance("web", "a")).await.version.unwrap();
    let down = v1::InstanceStatus::Down.into();
    let other = server.register(v1::Instance { status: down, ..instance("web", "b") }).await.version.unwrap();
    for app in ["api", "web-admin", "zoo"] {
        server.register(instance(app, "x")).await;
    }
    let request = |prefix: &str, token: String| v1::ListApplicationsRequest {
        name_prefix: prefix.into(),
        page_size: 1,
        page_token: token,
        ..Default::default()
    };
    let first = server.reader().list_applications(request("we", String::new())).await.unwrap().into_inner();
    let [web] = first.applications.as_slice() else { panic!("pages have one application") };
    let mut digest = SetDigest::default();
    for (id, version, status) in [("a", version, InstanceStatus::Up), ("b", other, InstanceStatus::Down)] {
        let key = InstanceKey { namespace: String::new(), app: "WEB".into(), id: id.into() };
        digest.add(instance_hash(key.as_ref(), &Version::from(version)), status);
    }
    assert_eq!((web.app.as_str(), web.digest.clone()), ("WEB", Some(digest.into())));

    let token = first.next_page_token;
    let second = server.reader().list_applications(request("WE", token.clone())).await.unwrap().into_inner();
    assert_eq!(second.applications[0].app, "WEB-ADMIN");
    assert!(second.next_page_token.is_empty());
    let answer = server.reader().list_applications(request("z", token)).await;
    assert_refused(answer, Code::InvalidArgument, "INVALID_PAGE_TOKEN", "page_token");
}

#[test]
fn long_readings_leave_the_serving_threads_alone() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .max_blocking_threads(1)
        .build()
        .unwrap();
    runtime.block_on(async {
        let server = Server::start().await;
        server.fill("LARGE", 5001);
        server.fill("SMALL", 10);
        let (release, held) = std::sync::mpsc::channel::<()>();
        let occupied = tokio::task::spawn_blocking(move || held.recv());
        let of = |app: &str, zones: &[&str]| {
            let zones = zones.iter().map(|zone| (*zone).to_owned()).collect();
            vec![v1::InstanceSelector { apps: vec![app.into()], zones, ..Default::default() }]
        };
        let list = |app| {
            let mut reader = server.reader();
            let request = v1::ListInstancesRequest { selectors: of(app, &[]), ..Default::default() };
            async move { reader.list_instances(request).await.unwrap().into_inner().instances.len() }
        };
        let spec = v1::WatchSpec { selectors: of("LARGE", &["nowhere"]), ..Default::default() };
        let request = v1::WatchRequest { spec: Some(spec), ..Default::default() };
        let mut watch = server.reader().watch(request).await.unwrap().into_inner();
        let watched = tokio::spawn(async move {
            loop {
                let event = watch.message().await.unwrap().unwrap().event.unwrap().event.unwrap();
                if let v1::watch_event::Event::SnapshotEnd(end) = event {
                    break end.digest.unwrap().instance_count;
                }
            }
        });
        let long = tokio::spawn(list("LARGE"));
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        assert_eq!(list("SMALL").await, 10);
        assert!(!long.is_finished() && !watched.is_finished(), "the thread for them is occupied");
        release.send(()).unwrap();
        occupied.await.unwrap().unwrap();
        assert_eq!((long.await.unwrap(), watched.await.unwrap()), (500, 0));
    });
}

/// Statuses of the application `web`, from its first page and from pages of one, with the token of each.
async fn statuses(server: &Server) -> Vec<(String, InstanceStatus)> {
    let request = v1::ListInstancesRequest { selectors: by_app("web"), ..Default::default() };
    let whole = list(server, request.clone()).await;
    assert_eq!(whole.header.as_ref().unwrap().revision, server.registry.head());
    let narrow = list(server, v1::ListInstancesRequest { page_size: 1, ..request }).await;
    assert_eq!(narrow.instances.first(), whole.instances.first());
    let told = |instance: &v1::Instance| {
        let status = heureka_proto::convert::status("status", instance.status).unwrap().unwrap();
        (instance.key.clone().unwrap().id, status)
    };
    whole.instances.iter().map(told).collect()
}

#[tokio::test(start_paused = true)]
async fn an_application_read_over_and_over_is_always_as_it_is_now() {
    let server = Server::start().await;
    assert_eq!(statuses(&server).await, []);
    let up = |id: &str| (id.to_owned(), InstanceStatus::Up);
    for id in ["b", "a"] {
        server.register(instance("web", id)).await;
        server.register(instance("other", id)).await;
    }
    for _ in 0..2 {
        assert_eq!(statuses(&server).await, [up("a"), up("b")]);
    }
    let status = v1::InstanceStatus::Down.into();
    server.register(v1::Instance { status, ..instance("web", "b") }).await;
    assert_eq!(statuses(&server).await, [up("a"), ("b".to_owned(), InstanceStatus::Down)]);
    server.cancel("web", "b").await;
    assert_eq!(statuses(&server).await, [up("a")]);
    server.cancel("web", "a").await;
    assert_eq!(statuses(&server).await, []);
    server.register(instance("web", "c")).await;
    assert_eq!(statuses(&server).await, [up("c")]);
}

#[tokio::test(start_paused = true)]
async fn renewal_times_in_a_list_are_at_most_half_a_minute_old() {
    let server = Server::start().await;
    server.register(instance("web", "a")).await;
    let request = || v1::ListInstancesRequest { selectors: by_app("web"), ..Default::default() };
    let renewed = |page: &v1::ListInstancesResponse| page.instances[0].lease.unwrap().last_renewal_time;
    let first = renewed(&list(&server, request()).await);
    server.pass(20).await;
    server
        .writer()
        .renew(v1::RenewRequest { key: Some(key("web", "a")), ..Default::default() })
        .await
        .unwrap();
    assert_eq!(renewed(&list(&server, request()).await), first);
    server.pass(11).await;
    assert!(renewed(&list(&server, request()).await).unwrap().seconds >= first.unwrap().seconds + 20);
}

#[tokio::test(start_paused = true)]
async fn an_instance_whose_renewal_is_overdue_is_suspect_until_it_renews() {
    let server = Server::start().await;
    server.register(instance("web", "a")).await;
    let suspected = || async {
        let request = v1::GetInstanceRequest { key: Some(key("web", "a")) };
        let found = server.reader().get_instance(request).await.unwrap().into_inner().instance.unwrap();
        let page = list(&server, v1::ListInstancesRequest::default()).await;
        assert_eq!(page.instances, std::slice::from_ref(&found));
        found.suspect
    };
    server.pass(45).await;
    assert!(!suspected().await, "one and a half intervals");
    let version = server.registry.head();
    server.pass(1).await;
    assert!(suspected().await);
    assert_eq!(server.registry.head(), version, "nobody is told by itself");
    let renewal = v1::RenewRequest { key: Some(key("web", "a")), ..Default::default() };
    server.writer().renew(renewal).await.unwrap();
    assert!(!suspected().await);
}
