//! What one watcher of a stream tells, for all subscriptions that it serves.

use std::sync::Arc;

use futures_util::Stream;
use futures_util::stream::unfold;
use heureka_proto::served;
use heureka_proto::served::watch_event::Event;
use heureka_proto::served::watch_many_response::Response as Content;
use heureka_proto::v1;

use super::Response;
use crate::grpc::seats::Sitter;
use crate::grpc::watch::caller::Caller;
use crate::grpc::watch::spec::Asked;
use crate::grpc::watch::{Rest, Watcher};

/// The next that is told.
pub(super) struct Word {
    pub(super) content: Content,
    /// How many changes it holds.
    pub(super) changes: u64,
    /// Where those who read it stand then, if nothing else is on its way to them.
    pub(super) rest: Option<Rest>,
}

enum Stage {
    Asked(Caller, Box<Asked>, Arc<Sitter>),
    Runs(Box<Watcher>),
    Over,
}

/// Everything from the decision how to begin to the status with which it ends.
pub(super) fn words(
    caller: Caller,
    asked: Asked,
    sitter: Arc<Sitter>,
) -> impl Stream<Item = Word> + Send + 'static {
    unfold(Stage::Asked(caller, Box::new(asked), sitter), |stage| async move {
        let mut watcher = match stage {
            Stage::Over => return None,
            Stage::Runs(watcher) => watcher,
            Stage::Asked(caller, asked, sitter) => match asked.decide(&caller.core).await {
                Ok(spec) => Box::new(caller.watcher(spec, sitter)),
                Err(fault) => return Some((last(closed(fault.into())), Stage::Over)),
            },
        };
        match watcher.next().await {
            Some(Ok(Event::GoAway(goodbye))) => Some((last(mark(goodbye, &watcher)?), Stage::Over)),
            Some(Ok(told)) => Some((word(told, &watcher), Stage::Runs(watcher))),
            Some(Err(fault)) => Some((last(closed(fault.into())), Stage::Over)),
            None => Some((last(closed(v1::ItemStatus::default())), Stage::Over)),
        }
    })
}

fn word(told: Event, watcher: &Watcher) -> Word {
    Word { content: event(told), changes: watcher.handed(), rest: watcher.rest() }
}

fn last(content: Content) -> Word {
    Word { content, changes: 0, rest: None }
}

/// The goodbye of one becomes its last mark, if there is a token to give: the stream has a goodbye of its own.
fn mark(goodbye: v1::GoAway, watcher: &Watcher) -> Option<Content> {
    let resume_token = Some(goodbye.resume_token).filter(|token| !token.is_empty())?;
    let mark = v1::Bookmark { resume_token, revision: watcher.told(), digest: None };
    Some(event(Event::Bookmark(mark)))
}

pub(super) fn event(event: Event) -> Content {
    Content::Event(served::WatchEvent { event: Some(event) })
}

pub(super) fn closed(status: v1::ItemStatus) -> Content {
    Content::Closed(status)
}

/// A message for one subscription; 0 is the stream itself.
pub(super) fn to(id: u32, content: Content) -> Response {
    served::WatchManyResponse { subscription_id: id, response: Some(content) }
}
