//! What must hold in the end, when the faults are long over.

use std::collections::BTreeMap;

use heureka_history::{Recording, judge};
use heureka_model::{InstanceKey, Registration, Selectors, Version};
use heureka_registry::PreservationMode;

use crate::ledger::{Book, Ledger, Said, Standing, key, number};
use crate::plan::{END, FLOCK, Look, Plan};
use crate::server::{Life, Slot};
use crate::sights;

/// Instances that a server can show: more than any plan has.
pub(crate) const ALL: usize = 1_000;

/// Looks at everything once.
pub(crate) fn end(at: u64, plan: &Plan, slots: &[Slot], book: &Book) {
    let lives: Vec<Life> = slots.iter().filter_map(|slot| slot.borrow().life.clone()).collect();
    let mut book = book.borrow_mut();
    if lives.len() < slots.len() || !lives.iter().all(Life::serves_readers) {
        return book.breach("every server serves", at, None, "one does not, long after the faults");
    }
    agreement(at, &lives, &mut book);
    for (number, life) in lives.iter().enumerate() {
        for owner in 0..plan.owners.len() {
            let shown = life.running.core().get(key(owner).as_ref(), life.now(at));
            promise(at, plan, (number, owner), shown.as_ref(), &mut book);
        }
    }
    views(at, plan, &lives[0], &mut book);
    if !(0..plan.owners.len()).any(|owner| is_forgotten(plan, owner, &book)) {
        sights::end(at, plan, &lives, &mut book);
    }
}

/// What the watchers' streams were like.
pub(crate) fn recorded(recording: &Recording, book: &mut Ledger) {
    for broken in judge(recording).broken {
        let key = broken.key.as_ref().and_then(number);
        book.breach("watches keep their guarantees", END, key, broken.to_string());
    }
}

fn agreement(at: u64, lives: &[Life], book: &mut Ledger) {
    let roots: Vec<_> = lives.iter().map(|life| life.running.peers().replicator().root()).collect();
    if roots.iter().any(|root| root.is_none() || *root != roots[0]) {
        book.breach("servers agree", at, None, format!("their digests are {roots:x?}"));
    }
    for (number, life) in lives.iter().enumerate().skip(1) {
        if held(at, life) != held(at, &lives[0]) {
            book.breach("servers agree", at, None, format!("n{number} shows something else than n0"));
        }
    }
}

/// What an owner was told, and what a server shows.
fn promise(
    at: u64,
    plan: &Plan,
    (server, owner): (usize, usize),
    shown: Option<&Registration>,
    book: &mut Ledger,
) {
    let (standing, said) = (book.owners[owner].standing, book.owners[owner].said);
    let held = shown.map(said_by);
    let (rule, text) = match (standing, held) {
        (Standing::There, None) => ("who renews is shown", "it is not shown".to_owned()),
        (Standing::There, held) if held != said => {
            ("who renews is shown", format!("{held:?} is shown, its owner was told {said:?}"))
        }
        (Standing::Coming | Standing::Leaving | Standing::Unborn, _) => {
            ("owners are answered", format!("its owner is still {standing:?}"))
        }
        (Standing::Left, Some(_)) if is_forgotten(plan, owner, book) => return,
        (Standing::Left, Some(held)) => ("who cancelled is gone", format!("{held:?} is shown")),
        (Standing::Lost, Some(held)) if plan.preservation == PreservationMode::Off => {
            ("who is silent goes", format!("{held:?} is shown"))
        }
        _ => return,
    };
    book.breach(rule, at, Some(owner), format!("n{server}: {text}"));
}

/// Its cancel may be known to no server any more, so that it is one who fell silent; those who were told of it keep to
/// that for some minutes.
fn is_forgotten(plan: &Plan, owner: usize, book: &Ledger) -> bool {
    let owner = &book.owners[owner];
    owner.standing == Standing::Left
        && plan.may_forget(owner.since)
        && plan.preservation != PreservationMode::Off
}

fn said_by(shown: &Registration) -> Said {
    let content = shown.instance.metadata.get("content").and_then(|content| content.parse().ok());
    Said { content: content.unwrap_or(0), status: shown.status() }
}

/// What somebody who looks should hold.
struct Eye<'a> {
    name: String,
    look: &'a Look,
    view: BTreeMap<InstanceKey, Version>,
    /// It compares no digests, so that what only a server that died knew stays with it.
    believes: bool,
}

fn views(at: u64, plan: &Plan, life: &Life, book: &mut Ledger) {
    let watchers = plan.watchers.iter().zip(&book.views).enumerate().map(|(number, (plan, view))| Eye {
        name: format!("w{number}"),
        look: &plan.look,
        view: view.clone(),
        believes: false,
    });
    let probers = plan.probers.iter().zip(&book.probes).enumerate().map(|(number, (plan, view))| Eye {
        name: format!("p{number}"),
        look: &plan.look,
        view: view.clone(),
        believes: true,
    });
    let flock = FLOCK.iter().zip(&book.flock).enumerate().map(|(number, (look, view))| Eye {
        name: format!("f#{}", number + 1),
        look,
        view: view.clone(),
        believes: false,
    });
    let eyes: Vec<_> = watchers.chain(probers).chain(flock).collect();
    eyes.into_iter().for_each(|eye| view(at, plan, eye, life, book));
}

fn view(at: u64, plan: &Plan, eye: Eye<'_>, life: &Life, book: &mut Ledger) {
    let Eye { name, look, mut view, believes } = eye;
    let is_held_back = |owner: usize| {
        believes
            && plan.preservation != PreservationMode::Off
            && book.owners[owner].standing != Standing::There
    };
    let is_certain = |key: &InstanceKey| {
        !number(key).is_some_and(|owner| is_forgotten(plan, owner, book) || is_held_back(owner))
    };
    let mut held = seen(at, life, look);
    held.retain(|key, _| is_certain(key));
    view.retain(|key, _| is_certain(key));
    if held != view {
        let differs = |key: &&InstanceKey| held.get(*key) != view.get(*key);
        let keys: Vec<_> = held.keys().chain(view.keys()).filter(differs).map(ToString::to_string).collect();
        let first = held.keys().chain(view.keys()).find(differs).and_then(number);
        book.breach("watchers hold what servers hold", at, first, format!("{name} differs in {keys:?}"));
    }
}

fn held(at: u64, life: &Life) -> BTreeMap<InstanceKey, Version> {
    seen(at, life, &Look::All)
}

fn seen(at: u64, life: &Life, look: &Look) -> BTreeMap<InstanceKey, Version> {
    let page = life.running.core().page(&Selectors::default(), None, ALL, life.now(at));
    let shown = page.instances.into_iter().filter(|shown| look.holds(shown));
    shown.map(|shown| (shown.instance.key, shown.version)).collect()
}
