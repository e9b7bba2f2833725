//! Leases: a fleet whose server restarts, and the last call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use heureka_client::model::Status;
use tokio::task::JoinSet;
use tokio_stream::StreamExt as _;

use crate::support::*;

const OK: i32 = 0;
const NOT_FOUND: i32 = 5;

/// Clients of the fleet.
const FLEET: usize = 200;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_comes_back_to_a_server_that_restarted_with_one_miss_and_one_registration_each() {
    bounded(async {
        let node = Node::start().await;
        let recorders: Vec<Recorder> = (0..FLEET).map(|_| Recorder::new(&node)).collect();
        let mut leases = Vec::new();
        for (number, recorder) in recorders.iter().enumerate() {
            let lease = recorder.client().register(instance("FLEET", &number.to_string())).await.unwrap();
            leases.push(lease);
        }
        let node = node.restart().await;
        // Back is who registered a second time, and was renewed after that.
        for (lease, recorder) in leases.iter().zip(&recorders) {
            let mut states = lease.states();
            while recorder.count("Register", OK) < 2
                || recorder.calls.lock().unwrap().last().unwrap().method != "Renew"
            {
                states.next().await.unwrap();
            }
        }
        for recorder in &recorders {
            let counts = [recorder.count("Register", OK), recorder.count("Renew", NOT_FOUND)];
            assert_eq!(counts, [2, 1], "{:?}", recorder.calls.lock().unwrap());
            assert_eq!(recorder.together.load(Ordering::SeqCst), 1);
        }
        assert_eq!(node.core().stats().instances, FLEET as u64);
        node.kill().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancel_is_the_last_call_of_a_registration_whatever_its_status_does() {
    bounded(async {
        let node = Node::start().await;
        for round in 0..500 {
            let recorder = Recorder::new(&node);
            let id = format!("l{round}");
            let lease = Arc::new(recorder.client().register(instance("LATE", &id)).await.unwrap());
            let (flipping, ended) = (lease.clone(), Arc::new(AtomicBool::new(false)));
            let mut tasks = JoinSet::new();
            let over = ended.clone();
            tasks.spawn(async move {
                while !over.load(Ordering::SeqCst) {
                    flipping.set_status(Status::Down);
                    tokio::task::yield_now().await;
                    flipping.set_status(Status::Up);
                    tokio::task::yield_now().await;
                }
            });
            // Cancel once some flips were registered, so that one is under way as a rule.
            let mut states = lease.states();
            for _ in 0..round % 4 {
                states.next().await.unwrap();
            }
            assert_eq!(lease.cancel().await, Ok(true));
            ended.store(true, Ordering::SeqCst);
            tasks.join_all().await;
            let methods = recorder.methods();
            let (last, before) = methods.split_last().unwrap();
            assert_eq!(last, "Cancel");
            assert!(before.iter().all(|method| method == "Register" || method == "Renew"), "{methods:?}");
            assert_eq!(
                recorder.together.load(Ordering::SeqCst),
                1,
                "two calls were under way in round {round}"
            );
        }
        assert_eq!(node.core().stats().instances, 0);
        node.kill().await;
    })
    .await;
}
