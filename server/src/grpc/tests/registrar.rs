//! The write side.

use heureka_registry::Config;
use tonic_types::StatusExt as _;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_registered_instance_is_read_until_it_is_cancelled() {
    let server = Server::start().await;
    let response = server.register(instance("web", "n1")).await;
    assert!(response.created && response.applied);
    let header = response.header.unwrap();
    assert_eq!((header.cluster_id.as_str(), header.node_id.as_str()), ("blue", "n1"));
    assert_eq!((header.boot, header.mode()), (77, v1::ServerMode::Normal));
    let lease = response.lease.unwrap();
    assert_eq!((lease.renewal_interval, lease.duration), (Some(seconds(30)), Some(seconds(90))));

    let get = || server.reader().get_instance_owned(key("Web", "n1"));
    let found = get().await.unwrap().instance.unwrap();
    assert_eq!(found.key, Some(key("WEB", "n1")));
    assert_eq!((found.status(), found.reported_status()), (v1::InstanceStatus::Up, v1::InstanceStatus::Up));
    assert_eq!(found.version, response.version);

    assert!(server.cancel("web", "n1").await.existed);
    assert!(!server.cancel("web", "n1").await.existed);
    assert_refused(get().await, Code::NotFound, "INSTANCE_NOT_FOUND", "");
}

trait GetOwned {
    async fn get_instance_owned(self, key: v1::InstanceKey) -> Result<v1::GetInstanceResponse, Status>;
}

impl GetOwned for DiscoveryServiceClient<axum::Router> {
    async fn get_instance_owned(mut self, key: v1::InstanceKey) -> Result<v1::GetInstanceResponse, Status> {
        self.get_instance(v1::GetInstanceRequest { key: Some(key) }).await.map(tonic::Response::into_inner)
    }
}

#[tokio::test(start_paused = true)]
async fn each_fault_of_a_registration_is_named_and_changes_nothing() {
    let server = Server::start().await;
    let register = |request| {
        let mut client = server.writer();
        async move { client.register(request).await }
    };
    let with = |instance| v1::RegisterRequest { instance: Some(instance), ..Default::default() };
    let base = || instance("web", "n1");
    let lease = |duration| Some(v1::Lease { duration: Some(duration), ..Default::default() });
    let metadata = |length| [("big".to_owned(), "v".repeat(length))].into();
    let invalid = "INVALID_INSTANCE";
    let table = [
        (v1::RegisterRequest::default(), invalid, "instance"),
        (with(v1::Instance::default()), invalid, "instance.key"),
        (with(instance("", "n1")), invalid, "instance.key.app"),
        (with(instance("web", "")), invalid, "instance.key.id"),
        (with(instance("web", "a\nb")), invalid, "instance.key.id"),
        (with(v1::Instance { status: 9, ..base() }), invalid, "instance.status"),
        (with(v1::Instance { lease: lease(seconds(-1)), ..base() }), invalid, "instance.lease.duration"),
        (
            with(v1::Instance { port: Some(v1::Port { number: 65_536, enabled: true }), ..base() }),
            invalid,
            "instance.port.number",
        ),
        (
            with(v1::Instance { metadata: metadata(300 << 10), ..base() }),
            "METADATA_TOO_LARGE",
            "instance.metadata.big",
        ),
        (v1::RegisterRequest { mode: 3, ..with(base()) }, "INVALID_REQUEST", "mode"),
        (
            v1::RegisterRequest {
                writer: Some(v1::Writer { incarnation: vec![1; 15].into(), version: 1, first: true }),
                ..with(base())
            },
            "INVALID_REQUEST",
            "writer.incarnation",
        ),
    ];
    for (request, reason, field) in table {
        assert_refused(register(request).await, Code::InvalidArgument, reason, field);
    }
    assert_eq!(server.registry.head(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_unset_status_is_up_and_lease_terms_are_clamped_and_told_back() {
    let server = Server::start().await;
    let lease = v1::Lease {
        renewal_interval: Some(seconds(0)),
        duration: Some(seconds(1_000_000)),
        ..Default::default()
    };
    let response = server.register(v1::Instance { lease: Some(lease), ..instance("web", "n1") }).await;
    let lease = response.lease.unwrap();
    assert_eq!((lease.renewal_interval, lease.duration), (Some(seconds(1)), Some(seconds(86_400))));
}

fn claimed(id: &str, writer: Option<v1::Writer>) -> v1::RegisterRequest {
    v1::RegisterRequest { instance: Some(instance("web", id)), mode: 0, writer }
}

#[tokio::test(start_paused = true)]
async fn a_late_copy_is_told_the_stored_version_and_changes_nothing() {
    let server = Server::start().await;
    let mut client = server.writer();
    let first = client.register(claimed("n1", writer(1, 10, true))).await.unwrap().into_inner();
    let second = client.register(claimed("n1", writer(1, 20, false))).await.unwrap().into_inner();
    assert!(first.version.unwrap().owner < second.version.unwrap().owner);
    let late = client.register(claimed("n1", writer(1, 10, false))).await.unwrap().into_inner();
    assert!(!late.applied);
    assert_eq!(late.version, second.version);
}

#[tokio::test(start_paused = true)]
async fn another_incarnation_with_an_older_version_is_stale_and_told_the_stored_one() {
    let server = Server::start().await;
    let mut client = server.writer();
    let stored =
        client.register(claimed("n1", writer(1, 20, true))).await.unwrap().into_inner().version.unwrap();

    let status = client.register(claimed("n1", writer(2, 5, false))).await.unwrap_err();
    assert_eq!(refusal(&status), (Code::Aborted, "STALE_VERSION".into(), String::new()));
    let details = status.get_error_details();
    assert_eq!(details.error_info().unwrap().metadata["stored_owner"], stored.owner.to_string());

    let requests = vec![claimed("n1", writer(2, 5, false)), claimed("n2", writer(2, 6, true))];
    let batch = client.batch_register(v1::BatchRegisterRequest { requests }).await.unwrap().into_inner();
    let [stale, fine] = batch.results.as_slice() else { panic!("one result for each request") };
    let status = stale.status.as_ref().unwrap();
    assert_eq!((status.code, status.reason.as_str()), (Code::Aborted.into(), "STALE_VERSION"));
    assert_eq!(stale.response.as_ref().unwrap().version, Some(stored));
    assert_eq!(fine.status, Some(v1::ItemStatus::default()));
    assert!(fine.response.as_ref().unwrap().applied && batch.header.is_some());

    let cancel = v1::CancelRequest { key: Some(key("web", "n1")), writer: writer(2, 5, false) };
    assert_refused(client.cancel(cancel).await, Code::Aborted, "STALE_VERSION", "");
}

#[tokio::test(start_paused = true)]
async fn create_only_refuses_a_live_instance_unless_it_says_the_same() {
    let server = Server::start().await;
    let request = |host: &str| {
        let instance = Some(v1::Instance { host_name: host.into(), ..instance("web", "n1") });
        v1::RegisterRequest { instance, mode: 2, writer: None }
    };
    assert!(server.writer().register(request("one")).await.unwrap().into_inner().created);
    assert!(!server.writer().register(request("one")).await.unwrap().into_inner().created);
    let other = server.writer().register(request("two")).await;
    assert_refused(other, Code::AlreadyExists, "INSTANCE_EXISTS", "");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_keeps_an_instance_beyond_its_lease_and_changes_nothing() {
    let server = Server::start().await;
    server.register(instance("web", "n1")).await;
    let head = server.registry.head();
    let request = || v1::RenewRequest { key: Some(key("web", "n1")), ..Default::default() };
    for _ in 0..4 {
        server.pass(60).await;
        let renewed = server.writer().renew(request()).await.unwrap().into_inner();
        assert_eq!((renewed.status_override, renewed.next_renewal_in), (0, Some(seconds(30))));
    }
    assert_eq!(server.registry.head(), head);
}

#[tokio::test(start_paused = true)]
async fn renewals_that_ask_for_a_registration_say_so() {
    let server = Server::start().await;
    let mut client = server.writer();
    let renew = |id: &str, writer, status| v1::RenewRequest { key: Some(key("web", id)), writer, status };
    let unknown = client.renew(renew("none", None, 0)).await;
    assert_refused(unknown, Code::NotFound, "LEASE_NOT_FOUND", "");
    client.register(claimed("n1", writer(1, 10, true))).await.unwrap();
    let newer = client.renew(renew("n1", writer(1, u64::MAX, false), 0)).await;
    assert_refused(newer, Code::FailedPrecondition, "INSTANCE_OUTDATED", "");
    let odd = client.renew(renew("n1", None, 6)).await;
    assert_refused(odd, Code::InvalidArgument, "INVALID_REQUEST", "status");
    let keyless = client.renew(v1::RenewRequest::default()).await;
    assert_refused(keyless, Code::InvalidArgument, "INVALID_REQUEST", "key");
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_renewals_tells_failures_only() {
    let server = Server::start().await;
    server.register(instance("web", "n1")).await;
    let renew = |app: &str, id: &str| v1::RenewRequest { key: Some(key(app, id)), ..Default::default() };
    let requests = vec![renew("web", "n1"), renew("web", "none"), renew("", "n1")];
    let response =
        server.writer().batch_renew(v1::BatchRenewRequest { requests }).await.unwrap().into_inner();
    let failures: Vec<_> = response
        .failures
        .iter()
        .map(|failure| (failure.index, failure.status.as_ref().unwrap()))
        .map(|(index, status)| (index, status.reason.as_str(), status.field.as_str()))
        .collect();
    assert_eq!(failures, [(1, "LEASE_NOT_FOUND", ""), (2, "INVALID_REQUEST", "key.app")]);
    assert_eq!(response.next_renewal_in, Some(seconds(30)));
}

#[tokio::test(start_paused = true)]
async fn batches_have_a_number_of_items() {
    let server = Server::start().await;
    let requests = vec![v1::RegisterRequest::default(); 1001];
    let answer = server.writer().batch_register(v1::BatchRegisterRequest { requests }).await;
    assert_refused(answer, Code::InvalidArgument, "TOO_MANY_ITEMS", "requests");
    let requests = vec![v1::RenewRequest::default(); 10_001];
    let answer = server.writer().batch_renew(v1::BatchRenewRequest { requests }).await;
    assert_refused(answer, Code::InvalidArgument, "TOO_MANY_ITEMS", "requests");
    let requests = vec![v1::RenewRequest::default(); 10_000];
    let answer = server.writer().batch_renew(v1::BatchRenewRequest { requests }).await.unwrap();
    assert_eq!(answer.into_inner().failures.len(), 10_000);
}

#[tokio::test(start_paused = true)]
async fn an_override_is_delivered_until_it_is_cleared() {
    let server = Server::start().await;
    server.register(instance("web", "n1")).await;
    let drain = v1::DrainPlan {
        start_time: None,
        deadline: Some(prost_types::Timestamp { seconds: 1_764_000_600, nanos: 0 }),
    };
    let set = v1::SetStatusOverrideRequest {
        key: Some(key("web", "n1")),
        status: v1::InstanceStatus::OutOfService.into(),
        ttl: None,
        drain: Some(drain),
    };
    let stored = server.writer().set_status_override(set).await.unwrap().into_inner().instance.unwrap();
    assert_eq!(stored.status(), v1::InstanceStatus::OutOfService);
    assert_eq!(stored.reported_status(), v1::InstanceStatus::Up);
    assert_eq!(stored.status_override(), v1::InstanceStatus::OutOfService);
    assert_eq!(stored.drain.unwrap().deadline, drain.deadline);
    let renew = v1::RenewRequest { key: Some(key("web", "n1")), ..Default::default() };
    let renewed = server.writer().renew(renew).await.unwrap().into_inner();
    assert_eq!(renewed.status_override(), v1::InstanceStatus::OutOfService);

    let clear = v1::ClearStatusOverrideRequest { key: Some(key("web", "n1")), fallback_status: 0 };
    let cleared = server.writer().clear_status_override(clear).await.unwrap().into_inner().instance.unwrap();
    assert_eq!((cleared.status(), cleared.status_override), (v1::InstanceStatus::Up, 0));
    assert_eq!(cleared.drain, None);
}

#[tokio::test(start_paused = true)]
async fn an_override_ends_with_its_ttl() {
    let server = Server::start().await;
    server.register(instance("web", "n1")).await;
    let set = v1::SetStatusOverrideRequest {
        key: Some(key("web", "n1")),
        status: v1::InstanceStatus::OutOfService.into(),
        ttl: Some(seconds(5)),
        drain: None,
    };
    server.writer().set_status_override(set).await.unwrap();
    server.pass(6).await;
    let get = v1::GetInstanceRequest { key: Some(key("web", "n1")) };
    let found = server.reader().get_instance(get).await.unwrap().into_inner().instance.unwrap();
    assert_eq!((found.status(), found.status_override), (v1::InstanceStatus::Up, 0));
}

#[tokio::test(start_paused = true)]
async fn each_fault_of_an_override_is_named() {
    let server = Server::start().await;
    server.register(instance("web", "n1")).await;
    let base = || v1::SetStatusOverrideRequest {
        key: Some(key("web", "n1")),
        status: v1::InstanceStatus::OutOfService.into(),
        ttl: None,
        drain: None,
    };
    let at = |seconds| Some(prost_types::Timestamp { seconds, nanos: 0 });
    let up = v1::InstanceStatus::Up.into();
    let drain = Some(v1::DrainPlan::default());
    let backwards = Some(v1::DrainPlan { start_time: at(10), deadline: at(5) });
    let table = [
        ("key", v1::SetStatusOverrideRequest { key: None, ..base() }),
        ("status", v1::SetStatusOverrideRequest { status: 0, ..base() }),
        ("status", v1::SetStatusOverrideRequest { status: 5, ..base() }),
        ("status", v1::SetStatusOverrideRequest { status: 6, ..base() }),
        ("ttl", v1::SetStatusOverrideRequest { ttl: Some(seconds(0)), ..base() }),
        ("ttl", v1::SetStatusOverrideRequest { ttl: Some(seconds(-5)), ..base() }),
        ("drain", v1::SetStatusOverrideRequest { status: up, drain, ..base() }),
        ("drain.deadline", v1::SetStatusOverrideRequest { drain: backwards, ..base() }),
    ];
    for (field, request) in table {
        let answer = server.writer().set_status_override(request).await;
        assert_refused(answer, Code::InvalidArgument, "INVALID_REQUEST", field);
    }
    let unknown = v1::SetStatusOverrideRequest { key: Some(key("web", "none")), ..base() };
    assert_refused(server.writer().set_status_override(unknown).await, Code::NotFound, "LEASE_NOT_FOUND", "");
    let clear =
        |id, fallback_status| v1::ClearStatusOverrideRequest { key: Some(key("web", id)), fallback_status };
    let answer = server.writer().clear_status_override(clear("n1", 8)).await;
    assert_refused(answer, Code::InvalidArgument, "INVALID_REQUEST", "fallback_status");
    let answer = server.writer().clear_status_override(clear("none", 0)).await;
    assert_refused(answer, Code::NotFound, "LEASE_NOT_FOUND", "");
}

#[tokio::test(start_paused = true)]
async fn metadata_is_set_removed_and_replaced() {
    let server = Server::start().await;
    let pairs = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    let metadata = pairs(&[("a", "1"), ("b", "2")]);
    let before = server.register(v1::Instance { metadata, ..instance("web", "n1") }).await.version;
    let update = |set, remove, replace_all, if_version| {
        let request =
            v1::UpdateMetadataRequest { key: Some(key("web", "n1")), set, remove, replace_all, if_version };
        let mut client = server.writer();
        async move { client.update_metadata(request).await }
    };
    let changed = update(pairs(&[("c", "3")]), vec!["a".into()], false, before).await.unwrap().into_inner();
    let changed = changed.instance.unwrap();
    assert_eq!(changed.metadata, pairs(&[("b", "2"), ("c", "3")]));
    assert_ne!(changed.version, before);

    let stale = update(pairs(&[("d", "4")]), vec![], false, before).await.unwrap_err();
    assert_eq!(refusal(&stale), (Code::Aborted, "VERSION_MISMATCH".into(), String::new()));
    let stored = stale.get_error_details().error_info().unwrap().metadata["stored_owner"].clone();
    assert_eq!(stored, changed.version.unwrap().owner.to_string());

    let replaced = update(pairs(&[("d", "4")]), vec![], true, None).await.unwrap().into_inner();
    assert_eq!(replaced.instance.unwrap().metadata, pairs(&[("d", "4")]));

    let both = update(pairs(&[("d", "4")]), vec!["x".into(), "d".into()], false, None).await;
    assert_refused(both, Code::InvalidArgument, "INVALID_REQUEST", "remove[1]");
    let big = [("big".to_owned(), "v".repeat(300 << 10))].into();
    let refused = update(big, vec![], false, None).await.unwrap_err();
    let (code, reason, _) = refusal(&refused);
    assert_eq!((code, reason.as_str()), (Code::InvalidArgument, "METADATA_TOO_LARGE"));
    let unknown = v1::UpdateMetadataRequest { key: Some(key("web", "none")), ..Default::default() };
    assert_refused(server.writer().update_metadata(unknown).await, Code::NotFound, "LEASE_NOT_FOUND", "");
}

#[tokio::test(start_paused = true)]
async fn a_full_registry_refuses_what_is_new() {
    let config = Config { max_bytes: 1, ..Config::default() };
    let server = Server::with(config, Limits::default(), SEEDS, "blue").await;
    server.register(instance("web", "n1")).await;
    let answer = server.writer().register(claimed("n2", None)).await;
    assert_refused(answer, Code::ResourceExhausted, "TOO_MANY_INSTANCES", "");
}

#[tokio::test(start_paused = true)]
async fn cancel_checks_the_key_that_it_will_remember() {
    let server = Server::start().await;
    let cancel = |key| {
        let mut client = server.writer();
        async move { client.cancel(v1::CancelRequest { key: Some(key), writer: None }).await }
    };
    let invalid = (Code::InvalidArgument, "INVALID_REQUEST");
    assert_refused(cancel(key("web", "a\u{7}")).await, invalid.0, invalid.1, "key.id");
    assert_refused(cancel(key(&"w".repeat(257), "n1")).await, invalid.0, invalid.1, "key.app");
    let namespace = v1::InstanceKey { namespace: "\n".into(), ..key("web", "n1") };
    assert_refused(cancel(namespace).await, invalid.0, invalid.1, "key.namespace");
    assert_eq!(server.registry.head(), 0);
}
