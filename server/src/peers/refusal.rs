//! Why a replication stream is refused or ended, as the two servers tell each other. The catalogue for readers is
//! `docs/replication.md`.

use heureka_registry::replication::Declined;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

const DOMAIN: &str = "heureka";

/// Why a stream is refused or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Refusal {
    Untrusted,
    HelloExpected,
    HelloLate,
    OtherCluster,
    OwnNode,
    NameTaken,
    NodeAlive,
    Duplicate,
    Protocol,
    Clock,
    TooMany,
    BrokenStream,
    Silent,
    Replaced,
    Leaving,
}

impl Refusal {
    /// All of them.
    pub(crate) const ALL: [Self; 15] = [
        Self::Untrusted,
        Self::HelloExpected,
        Self::HelloLate,
        Self::OtherCluster,
        Self::OwnNode,
        Self::NameTaken,
        Self::NodeAlive,
        Self::Duplicate,
        Self::Protocol,
        Self::Clock,
        Self::TooMany,
        Self::BrokenStream,
        Self::Silent,
        Self::Replaced,
        Self::Leaving,
    ];

    /// As in `ErrorInfo.reason`.
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Self::Untrusted => "PEER_UNTRUSTED",
            Self::HelloExpected => "PEER_HELLO_EXPECTED",
            Self::HelloLate => "PEER_HELLO_LATE",
            Self::OtherCluster => "PEER_OTHER_CLUSTER",
            Self::OwnNode => "PEER_OWN_NODE",
            Self::NameTaken => "PEER_NAME_TAKEN",
            Self::NodeAlive => "PEER_NODE_ALIVE",
            Self::Duplicate => "PEER_DUPLICATE",
            Self::Protocol => "PEER_PROTOCOL",
            Self::Clock => "PEER_CLOCK",
            Self::TooMany => "PEER_TOO_MANY",
            Self::BrokenStream => "PEER_BROKEN_STREAM",
            Self::Silent => "PEER_SILENT",
            Self::Replaced => "PEER_REPLACED",
            Self::Leaving => "PEER_LEAVING",
        }
    }

    /// As a label has it.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Untrusted => "untrusted",
            Self::HelloExpected => "hello_expected",
            Self::HelloLate => "hello_late",
            Self::OtherCluster => "other_cluster",
            Self::OwnNode => "own_node",
            Self::NameTaken => "name_taken",
            Self::NodeAlive => "node_alive",
            Self::Duplicate => "duplicate",
            Self::Protocol => "protocol",
            Self::Clock => "clock",
            Self::TooMany => "too_many",
            Self::BrokenStream => "broken_stream",
            Self::Silent => "silent",
            Self::Replaced => "replaced",
            Self::Leaving => "leaving",
        }
    }

    pub(crate) const fn code(self) -> Code {
        match self {
            Self::Untrusted => Code::PermissionDenied,
            Self::HelloExpected | Self::BrokenStream => Code::InvalidArgument,
            Self::HelloLate => Code::DeadlineExceeded,
            Self::OtherCluster
            | Self::OwnNode
            | Self::NameTaken
            | Self::NodeAlive
            | Self::Protocol
            | Self::Clock => Code::FailedPrecondition,
            Self::Duplicate => Code::AlreadyExists,
            Self::TooMany => Code::ResourceExhausted,
            Self::Replaced => Code::Aborted,
            Self::Silent | Self::Leaving => Code::Unavailable,
        }
    }

    /// Somebody has to change a configuration before it ends, so there is no hurry to try again.
    pub(crate) const fn needs_people(self) -> bool {
        matches!(self, Self::NameTaken | Self::NodeAlive | Self::OtherCluster | Self::Protocol)
    }

    /// As the other side is told.
    pub(crate) fn status(self, message: &str) -> Status {
        let details = ErrorDetails::with_error_info(self.reason(), DOMAIN, []);
        Status::with_error_details(self.code(), message, details)
    }

    /// What the other side told.
    pub(crate) fn of(status: &Status) -> Option<Self> {
        let details = status.get_error_details();
        let info = details.error_info().filter(|info| info.domain == DOMAIN)?;
        Self::ALL.into_iter().find(|refusal| refusal.reason() == info.reason)
    }
}

impl From<&Declined> for Refusal {
    fn from(declined: &Declined) -> Self {
        match declined {
            Declined::OtherCluster { .. } => Self::OtherCluster,
            Declined::OwnNode => Self::OwnNode,
            Declined::NameTaken { .. } => Self::NameTaken,
            Declined::NodeAlive { .. } => Self::NodeAlive,
            Declined::Duplicate => Self::Duplicate,
            Declined::Protocol { .. } => Self::Protocol,
            Declined::Clock { .. } => Self::Clock,
            Declined::TooMany { .. } => Self::TooMany,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_other_side_understands_every_reason() {
        for refusal in Refusal::ALL {
            let status = refusal.status("as told");
            assert_eq!((Refusal::of(&status), status.message()), (Some(refusal), "as told"));
        }
        assert_eq!(Refusal::of(&Status::unavailable("gone")), None);
    }

    #[test]
    fn the_catalogue_holds_every_reason_and_no_other() {
        let catalogue = include_str!("../../../docs/replication.md");
        let documented: BTreeSet<_> = catalogue
            .lines()
            .filter_map(|line| line.strip_prefix("| `PEER_")?.split('`').next())
            .map(|rest| format!("PEER_{rest}"))
            .collect();
        let given: BTreeSet<_> = Refusal::ALL.iter().map(|refusal| refusal.reason().to_owned()).collect();
        assert_eq!(documented, given);
    }
}
