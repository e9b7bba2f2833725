//! A cache fed by servers that follow a script.

use heureka_proto::v1;
use tokio::time::timeout;
use tokio_stream::StreamExt as _;
use tonic::Code;

use super::*;
use crate::testing::{Script, begin, end, item, key, put, refusal, told_by};
use crate::{Client, Settings};

fn cache(script: &Script) -> Cache {
    Client::over(Settings::default(), vec![script.server()]).unwrap().cache(Vec::new())
}

#[tokio::test(start_paused = true)]
async fn look_ups_answer_and_the_age_grows_while_no_server_does() {
    let script = Script::new(vec![Ok((vec![begin(v1::SnapshotMode::Full), put("a"), end("one")], true))]);
    let cache = cache(&script);
    assert!(!cache.is_ready() && cache.is_empty());
    cache.ready().await.unwrap();
    assert!(cache.age() < Duration::from_secs(1));
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert!(cache.age() >= Duration::from_mins(5));
    assert!(cache.is_ready());
    assert_eq!(cache.instance(&key("a")).unwrap().instance.key, key("a"));
    assert_eq!((cache.up("WEB").len(), cache.all("web").len(), cache.len()), (1, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_that_empties_the_cache_is_held_and_counted_until_the_end_of_the_hold() {
    let empty = || Ok((vec![item(told_by(2)), end("empty")], true));
    let full = Ok((vec![item(told_by(1)), put("a"), put("b"), end("one")], false));
    // The digests are missing, so only time can prove it. After each silence the same is told again.
    let script = Script::new([full].into_iter().chain((0..40).map(|_| empty())).collect());
    let cache = cache(&script);
    let mut changes = cache.changes();
    let held = async {
        while cache.withheld().is_none() {
            changes.next().await.unwrap();
        }
    };
    timeout(Duration::from_hours(1), held).await.unwrap();
    let start = Instant::now();
    assert_eq!((cache.withheld(), cache.holds(), cache.len()), (Some(2), 1, 2));
    while cache.withheld().is_some() {
        assert_eq!(cache.up("WEB").len(), 2);
        changes.next().await.unwrap();
    }
    assert_eq!((cache.holds(), cache.len()), (1, 0));
    let hold = Settings::default().snapshot_hold;
    assert!((hold..hold + Duration::from_mins(1)).contains(&start.elapsed()), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_error_that_nothing_mends_is_told() {
    let script = Script::new(vec![Err(refusal(Code::InvalidArgument, "INVALID_SELECTOR"))]);
    let cache = cache(&script);
    assert!(cache.ready().await.unwrap_err().is("INVALID_SELECTOR"));
    assert!(cache.fault().unwrap().is("INVALID_SELECTOR") && !cache.is_ready());
}

#[tokio::test(start_paused = true)]
async fn a_cache_follows_until_its_last_clone_is_dropped() {
    let script = Script::new(vec![Ok((vec![begin(v1::SnapshotMode::Full), end("one")], true))]);
    let cache = cache(&script);
    cache.ready().await.unwrap();
    let clone = cache.clone();
    drop(cache);
    let mut changes = clone.changes();
    changes.next().await.unwrap();
    drop(clone);
    assert_eq!(changes.next().await, None);
}
