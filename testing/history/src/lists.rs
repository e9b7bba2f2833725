//! Lists beside the streams.

use std::sync::Arc;

use heureka_model::Registration;
use heureka_proto::v1;

use crate::court::{Charge, Court, Place};
use crate::guarantee::{Guarantee, shown};
use crate::recording::Page;
use crate::set::Set;
use crate::stream::encoded;
use crate::watcher::Watcher;

/// Lists of a watcher, until they are complete and compared.
#[derive(Default)]
pub(crate) struct Lists {
    listed: Option<Set>,
    rested: Option<Set>,
    /// A whole list taken at rest, with the revision it reflects.
    due: Option<(Set, u64)>,
}

impl Watcher {
    /// A page before a watch from its token.
    pub(crate) fn listed(&mut self, page: &Page, court: &mut Court<'_>) {
        let first = page.request.page_token.is_empty();
        let before = self.lists.listed.take().filter(|_| !first);
        let set = self.read(before, page, court);
        if !page.response.next_page_token.is_empty() {
            self.lists.listed = Some(set);
            return;
        }
        let place = Place {
            watcher: self.name.clone(),
            boot: set.boot,
            selectors: set.selectors.clone(),
            // The token stands for the moment of the first page, whose revision is at least that.
            revision: 0,
            list: Some(set),
        };
        court.issue(page.response.resume_token.clone(), place);
    }

    /// A page while nothing changes.
    pub(crate) fn rested(&mut self, page: &Page, court: &mut Court<'_>) {
        let first = page.request.page_token.is_empty();
        let before = self.lists.rested.take().filter(|_| !first);
        let set = self.read(before, page, court);
        if !page.response.next_page_token.is_empty() {
            self.lists.rested = Some(set);
            return;
        }
        let revision = page.response.header.as_ref().map_or(0, |header| header.revision);
        self.lists.due = Some((set, revision));
        if let Some(reached) = self.reached {
            self.compare_lists(reached, court);
        }
    }

    /// Compares a list at rest with what was told, once that reaches it.
    pub(crate) fn compare_lists(&mut self, mark: u64, court: &mut Court<'_>) {
        let Some((list, _)) = self.lists.due.take_if(|(_, revision)| *revision <= mark) else { return };
        let comparable = list.boot == self.told.boot && list.selectors == self.told.selectors;
        if self.spoiled || !comparable || !self.told.is_whole() {
            return;
        }
        court.counts.digests += 1;
        let keys = list.held.keys().chain(self.told.held.keys());
        let unequal = keys.filter(|key| list.version(key) != self.told.version(key)).min();
        if let Some(key) = unequal.cloned() {
            let version = |set: &Set| set.version(&key).map_or("nothing".to_owned(), |found| shown(&found));
            let (listed, told) = (version(&list), version(&self.told));
            let charge =
                Charge::new(Guarantee::ViewEquality, format!("{listed} as listed"), format!("{told} told"));
            self.accuse(court, charge.of(&key));
        }
    }

    fn read(&mut self, before: Option<Set>, page: &Page, court: &mut Court<'_>) -> Set {
        let header = page.response.header.clone().unwrap_or_default();
        let selectors = encoded(&page.request.selectors);
        let mut set = before.unwrap_or(Set { boot: header.boot, selectors, ..Set::default() });
        for instance in page.response.instances.clone() {
            self.read_one(&mut set, instance, court);
        }
        set
    }

    fn read_one(&mut self, set: &mut Set, instance: v1::Instance, court: &mut Court<'_>) {
        let live = match Registration::try_from(instance) {
            Ok(live) => Arc::new(live),
            Err(fault) => {
                let charge = Charge::new(Guarantee::Atomic, "whole instances in a list", fault.to_string());
                return self.accuse(court, charge);
            }
        };
        if !court.is_the_content_of(&live) {
            let seen = format!("another listed with {}", shown(&live.version));
            let charge = Charge::new(Guarantee::Atomic, "one content for each version", seen);
            self.accuse(court, charge.of(&live.instance.key));
        }
        set.held.insert(live.instance.key.clone(), live);
    }
}
