//! One subscription of many.

use futures_util::Stream;
use futures_util::stream::unfold;
use heureka_proto::served;
use heureka_proto::served::watch_event::Event;
use heureka_proto::served::watch_many_response::Response as Content;
use heureka_proto::v1;

use super::Response;
use crate::grpc::seats::Seat;
use crate::grpc::watch::Watcher;
use crate::grpc::watch::caller::Caller;
use crate::grpc::watch::spec::Asked;

enum Stage {
    Asked(Caller, Box<Asked>),
    Runs(Box<Watcher>),
    Over,
}

/// What is told under this number, from the decision how to begin to the status with which it ends.
pub(super) fn events(
    caller: Caller,
    id: u32,
    asked: Asked,
    seat: Seat,
) -> impl Stream<Item = Response> + Send + 'static {
    let asked = Stage::Asked(caller, Box::new(asked));
    unfold((asked, seat), move |(stage, seat)| async move {
        let mut watcher = match stage {
            Stage::Over => return None,
            Stage::Runs(watcher) => watcher,
            Stage::Asked(caller, asked) => match asked.decide(&caller.core).await {
                Ok(spec) => Box::new(caller.watcher(spec, &seat)),
                Err(fault) => return Some((closed(id, fault.into()), (Stage::Over, seat))),
            },
        };
        let (response, stage) = match watcher.next().await {
            Some(Ok(Event::GoAway(goodbye))) => (mark(id, goodbye, &watcher)?, Stage::Over),
            Some(Ok(told)) => (event(id, told), Stage::Runs(watcher)),
            Some(Err(fault)) => (closed(id, fault.into()), Stage::Over),
            None => (closed(id, v1::ItemStatus::default()), Stage::Over),
        };
        Some((response, (stage, seat)))
    })
}

/// The goodbye of one becomes its last mark, if there is a token to give: the stream has a goodbye of its own.
fn mark(id: u32, goodbye: v1::GoAway, watcher: &Watcher) -> Option<Response> {
    let resume_token = Some(goodbye.resume_token).filter(|token| !token.is_empty())?;
    let mark = v1::Bookmark { resume_token, revision: watcher.told(), digest: None };
    Some(event(id, Event::Bookmark(mark)))
}

pub(super) fn event(id: u32, event: Event) -> Response {
    let event = served::WatchEvent { event: Some(event) };
    served::WatchManyResponse { subscription_id: id, response: Some(Content::Event(event)) }
}

pub(super) fn closed(id: u32, status: v1::ItemStatus) -> Response {
    served::WatchManyResponse { subscription_id: id, response: Some(Content::Closed(status)) }
}
