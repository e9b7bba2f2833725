//! What a server is told of what is held, so that it tells what differs.

use std::collections::BTreeMap;
use std::sync::Arc;

use heureka_model::{BucketSums, Registration, SetDigest};
use heureka_proto::v1;

/// Applications of which a server is told what is held: some dozen kilobytes. With more of them a server that cannot
/// resume tells everything.
pub(super) const MAX_DIGESTS: usize = 1000;

/// Instances in a bucket, about; what differs is told again in such pieces. Fewer of an application are one piece.
const PIECE: usize = 64;

/// Digests by application; nothing when that is too much to tell, or nothing at all.
pub(super) fn digests<'a>(told: impl Iterator<Item = &'a Arc<Registration>>) -> Vec<v1::AppDigest> {
    let mut apps: BTreeMap<(&str, &str), Vec<&Registration>> = BTreeMap::new();
    for member in told {
        let key = &member.instance.key;
        apps.entry((&key.namespace, &key.app)).or_default().push(member);
    }
    if apps.len() > MAX_DIGESTS {
        return Vec::new();
    }
    let mut left = BucketSums::MOST_TOGETHER;
    let known = |((namespace, app), members): ((&str, &str), Vec<&Registration>)| {
        let buckets = buckets(&members, left);
        left -= buckets.len();
        let (namespace, app) = (namespace.to_owned(), app.to_owned());
        v1::AppDigest { namespace, app, digest: Some(sum(&members)), buckets }
    };
    apps.into_iter().map(known).collect()
}

fn sum(members: &[&Registration]) -> v1::SetDigest {
    let mut digest = SetDigest::default();
    members.iter().for_each(|member| digest.add(member.hash(), member.status()));
    v1::SetDigest { status_counts: Vec::new(), ..digest.into() }
}

/// Sums by bucket, of an application that is worth parting.
fn buckets(members: &[&Registration], left: usize) -> Vec<u64> {
    let count = (members.len() / PIECE).next_power_of_two().min(BucketSums::MOST);
    if count < 4 || count > left {
        return Vec::new();
    }
    let mut sums = BucketSums::new(count);
    members.iter().for_each(|member| sums.add(member.instance.key.as_ref(), &member.version));
    sums.into_sums()
}
