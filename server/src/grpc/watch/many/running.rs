//! What runs on a stream: watchers, and the subscriptions that each of them serves.
//!
//! A subscription begins with a watcher of its own. Once it was told as much as another that asks for the same, one
//! watcher goes on for both, and what it tells is told under both numbers: a further subscription is a number and a
//! seat then.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::stream::{AbortHandle, Abortable, SelectAll};
use futures_util::{Stream, StreamExt as _};
use heureka_proto::served::watch_many_response::Response as Content;

use super::Response;
use super::subscription::{Word, to, words};
use crate::grpc::seats::{Seat, Sitter, count};
use crate::grpc::watch::Rest;
use crate::grpc::watch::caller::Caller;
use crate::grpc::watch::spec::{Asked, Likeness};

/// Number of a watcher on its stream.
type Number = u64;

type Words = Pin<Box<dyn Stream<Item = (Number, Word)> + Send>>;

/// Watchers and whom they serve.
pub(super) struct Running {
    caller: Caller,
    watchers: SelectAll<Abortable<Words>>,
    parts: HashMap<Number, Part>,
    /// Which watcher serves a subscription.
    open: HashMap<u32, Number>,
    /// The watcher that others join who ask for the same.
    joined: HashMap<Likeness, Number>,
    next: Number,
    telling: Option<Telling>,
}

/// A watcher and whom it serves.
struct Part {
    likeness: Likeness,
    handle: AbortHandle,
    /// Of the one that it began with.
    lead: Arc<Sitter>,
    members: Vec<Member>,
    rest: Option<Rest>,
}

struct Member {
    id: u32,
    seat: Seat,
}

/// A word while it is told to one after the other.
struct Telling {
    number: Number,
    content: Content,
    /// Whom it is still told to, the last one first.
    ids: Vec<u32>,
}

impl Running {
    pub(super) fn new(caller: Caller) -> Self {
        Self {
            caller,
            watchers: SelectAll::new(),
            parts: HashMap::new(),
            open: HashMap::new(),
            joined: HashMap::new(),
            next: 0,
            telling: None,
        }
    }

    /// Whether nothing more comes.
    pub(super) fn is_empty(&self) -> bool {
        self.watchers.is_empty() && self.telling.is_none()
    }

    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    pub(super) fn contains(&self, id: u32) -> bool {
        self.open.contains_key(&id)
    }

    pub(super) fn begin(&mut self, id: u32, asked: Asked, seat: Seat) {
        self.next += 1;
        let (number, likeness, lead) = (self.next, asked.likeness(), seat.sitter().clone());
        let words: Words =
            Box::pin(words(self.caller.clone(), asked, lead.clone()).map(move |word| (number, word)));
        let (handle, registration) = AbortHandle::new_pair();
        self.watchers.push(Abortable::new(words, registration));
        let members = vec![Member { id, seat }];
        self.parts.insert(number, Part { likeness, handle, lead, members, rest: None });
        self.open.insert(id, number);
    }

    /// Ends a subscription; false when there is none of this number.
    pub(super) fn end(&mut self, id: u32) -> bool {
        let Some(number) = self.open.remove(&id) else { return false };
        if let Some(part) = self.parts.get_mut(&number) {
            part.members.retain(|member| member.id != id);
            if part.members.is_empty() {
                self.remove(number);
            }
        }
        true
    }

    /// The next message; nothing when none of the watchers has one any more.
    pub(super) async fn next(&mut self) -> Option<Response> {
        loop {
            if let Some(response) = self.tell() {
                return Some(response);
            }
            let (number, word) = self.watchers.next().await?;
            self.hear(number, word);
        }
    }

    /// The word that is under way, to the next one who is served.
    fn tell(&mut self) -> Option<Response> {
        let Telling { number, content, ids } = self.telling.as_mut()?;
        while let Some(id) = ids.pop() {
            if self.open.get(&id) == Some(number) {
                let response = to(id, content.clone());
                if let Content::Closed(_) = content {
                    self.end(id);
                }
                return Some(response);
            }
        }
        self.telling = None;
        None
    }

    fn hear(&mut self, number: Number, word: Word) {
        let Some(part) = self.parts.get_mut(&number) else { return };
        let Word { content, changes, rest } = word;
        count(&self.caller.figures().changes, changes * part.members.len() as u64);
        part.members.iter().for_each(|member| member.seat.sitter().follow(&part.lead));
        let ids = part.members.iter().rev().map(|member| member.id).collect();
        part.rest = rest;
        let number = self.join(number);
        self.telling = Some(Telling { number, content, ids });
    }

    /// Lets another watcher go on for this one, where its clients were told the same; the one that goes on.
    fn join(&mut self, number: Number) -> Number {
        let part = &self.parts[&number];
        if part.rest.is_none() {
            return number;
        }
        let other = *self.joined.entry(part.likeness).or_insert(number);
        if other == number || !self.are_level(number, other) {
            return number;
        }
        let members = self.remove(number).map_or_else(Vec::new, |part| part.members);
        members.iter().for_each(|member| {
            self.open.insert(member.id, other);
        });
        if let Some(part) = self.parts.get_mut(&other) {
            part.members.extend(members);
        }
        other
    }

    fn are_level(&self, one: Number, other: Number) -> bool {
        let rest = |number| self.parts.get(&number)?.rest.as_ref();
        let (Some(one), Some(other)) = (rest(one), rest(other)) else { return false };
        one.is_level(other, &self.caller.core.registry)
    }

    fn remove(&mut self, number: Number) -> Option<Part> {
        let part = self.parts.remove(&number)?;
        part.handle.abort();
        if self.joined.get(&part.likeness) == Some(&number) {
            self.joined.remove(&part.likeness);
        }
        Some(part)
    }
}
