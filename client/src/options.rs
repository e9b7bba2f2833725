//! What a watch asks for.

use heureka_proto::v1;

use crate::InstanceSelector;

pub use heureka_proto::v1::best::By as BestBy;
pub use heureka_proto::v1::{Best, GaugeRequirement, ReadingsSpec, Subset};

/// What [`Client::watch_with`](crate::Client::watch_with) asks for. The default follows the whole default namespace.
///
/// A server that does not know one of these refuses the watch with UNSUPPORTED_FEATURE, so that nothing is dropped
/// silently.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WatchOptions {
    /// The instances, as in [`Client::watch`](crate::Client::watch).
    pub selectors: Vec<InstanceSelector>,
    /// Free capacity, gauges and who is overdue are told as [`Event::Reading`](crate::Event::Reading); the default of
    /// [`ReadingsSpec`] asks for everything.
    pub readings: Option<ReadingsSpec>,
    /// The best of the selection instead of all of it.
    pub best: Option<Best>,
    /// A part of the selection that is this client's own instead of all of it; not together with `best`.
    pub subset: Option<Subset>,
}

impl WatchOptions {
    /// The parameters of a stream that begins with nothing.
    pub(crate) fn spec(&self) -> v1::WatchSpec {
        v1::WatchSpec {
            selectors: self.selectors.clone(),
            readings: self.readings.clone(),
            best: self.best.clone(),
            subset: self.subset.clone(),
            required_features: self.features(),
            ..Default::default()
        }
    }

    /// Names of what a server must not drop.
    fn features(&self) -> Vec<String> {
        let numbers =
            |selector: &InstanceSelector| !selector.min_available.is_empty() || !selector.gauges.is_empty();
        let used = [
            ("readings", self.readings.is_some()),
            ("numbers", self.selectors.iter().any(numbers)),
            ("best", self.best.is_some()),
            ("subset", self.subset.is_some()),
        ];
        used.into_iter().filter(|(_, is_used)| *is_used).map(|(name, _)| name.to_owned()).collect()
    }
}

impl From<Vec<InstanceSelector>> for WatchOptions {
    fn from(selectors: Vec<InstanceSelector>) -> Self {
        Self { selectors, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_told_what_it_must_not_drop() {
        let free = InstanceSelector {
            min_available: [("slots".to_owned(), 1)].into(),
            ..InstanceSelector::default()
        };
        let options = |selectors| WatchOptions { selectors, ..WatchOptions::default() };
        let table = [
            (options(vec![InstanceSelector::default()]), vec![]),
            (options(vec![InstanceSelector::default(), free]), vec!["numbers"]),
            (WatchOptions { readings: Some(ReadingsSpec::default()), ..options(vec![]) }, vec!["readings"]),
            (WatchOptions { best: Some(Best::default()), ..options(vec![]) }, vec!["best"]),
            (WatchOptions { subset: Some(Subset::default()), ..options(vec![]) }, vec!["subset"]),
        ];
        for (options, expected) in table {
            assert_eq!(options.spec().required_features, expected);
        }
    }
}
