//! An owner that uses the Rust client.

use std::rc::Rc;
use std::time::Duration;

use futures_util::StreamExt as _;
use heureka_client::{Lease, LeaseState, Settings};
use heureka_history::Recorder;
use heureka_model::{Capacity, Instance, LeaseTerms, Metadata, Port, Status};

use crate::ledger::{Book, Said, Standing, key, now, report, until};
use crate::net::{self, Native};
use crate::plan::{Act, OwnerPlan, Plan, REPORTED};

/// One process of an owner.
struct Process {
    number: usize,
    lease: Duration,
    ballast: usize,
    client: Native,
    status: Status,
    book: Book,
}

/// Runs a process of the owner: registers, does what is planned from now on, and keeps the lease.
pub(crate) async fn own(plan: Rc<Plan>, number: usize, book: Book, recorder: Recorder) -> turmoil::Result {
    let owner = &plan.owners[number];
    until(owner.begins).await;
    let client = net::client(Settings::default(), &owner.servers, &recorder, &format!("k{number}"))?;
    let lease = Duration::from_secs(plan.lease);
    Process { number, lease, ballast: plan.ballast, client, status: Status::Up, book }.run(owner).await
}

impl Process {
    async fn run(mut self, owner: &OwnerPlan) -> turmoil::Result {
        self.book.borrow_mut().stands(now(), self.number, Standing::Coming);
        let mut lease = self.register().await?;
        let begun = now();
        for (at, act) in owner.acts.iter().filter(|(at, _)| *at >= begun) {
            self.report(&lease, owner.reports, *at).await;
            match *act {
                Act::Update => {
                    // The old lease must not register its own content again.
                    drop(lease);
                    lease = self.register().await?;
                }
                Act::Report(status) => {
                    self.status = status;
                    lease.set_status(status);
                }
                Act::Leave(back) => {
                    self.leave(&lease).await;
                    let Some(away) = back else { return std::future::pending().await };
                    tokio::time::sleep(Duration::from_millis(away)).await;
                    self.book.borrow_mut().stands(now(), self.number, Standing::Coming);
                    lease = self.register().await?;
                }
            }
        }
        self.report(&lease, owner.reports, REPORTED).await;
        // Dropped, the lease would end.
        let _kept = lease;
        std::future::pending().await
    }

    /// Reports until that time, a moment after each answer.
    async fn report(&self, lease: &Lease, every: u64, end: u64) {
        let pause = Duration::from_millis(every);
        while now() + every < end {
            tokio::time::sleep(pause).await;
            let number = self.numbered();
            let left = Duration::from_millis(end.saturating_sub(now()));
            let answer = tokio::time::timeout(left, lease.report(report(self.number, number))).await;
            let mut book = self.book.borrow_mut();
            book.owners[self.number].is_reported = answer.is_ok_and(|answer| answer.is_ok());
        }
        until(end).await;
    }

    /// The number of the next report.
    fn numbered(&self) -> u64 {
        let mut book = self.book.borrow_mut();
        let owner = &mut book.owners[self.number];
        (owner.reports, owner.is_reported) = (owner.reports + 1, false);
        owner.reports
    }

    async fn register(&self) -> turmoil::Result<Lease> {
        let content = self.content();
        let lease = match self.client.register(self.instance(content)).await {
            Ok(lease) => lease,
            Err(error) => {
                let mut book = self.book.borrow_mut();
                book.breach("an owner is taken", now(), Some(self.number), error.to_string());
                return Err(error.into());
            }
        };
        self.heard(content, &lease.state());
        self.book.borrow_mut().stands(now(), self.number, Standing::There);
        let (states, process) = (lease.states(), self.listener());
        tokio::task::spawn_local(states.for_each(move |state| {
            process.heard(content, &state);
            std::future::ready(())
        }));
        Ok(lease)
    }

    /// The next content of the instance.
    fn content(&self) -> u64 {
        let mut book = self.book.borrow_mut();
        book.owners[self.number].content += 1;
        let content = book.owners[self.number].content;
        book.note(now(), Some(self.number), format!("k{} registers {content}", self.number));
        content
    }

    async fn leave(&self, lease: &Lease) {
        self.book.borrow_mut().stands(now(), self.number, Standing::Leaving);
        let outcome = lease.cancel().await;
        let standing = if outcome.is_ok() { Standing::Left } else { Standing::Lost };
        self.book.borrow_mut().stands(now(), self.number, standing);
    }

    fn listener(&self) -> Listener {
        Listener { number: self.number, book: self.book.clone() }
    }

    fn heard(&self, content: u64, state: &LeaseState) {
        self.listener().heard(content, state);
    }

    fn metadata(&self, content: u64) -> Metadata {
        let content = ("content".to_owned(), content.to_string());
        let ballast = (self.ballast > 0).then(|| ("ballast".to_owned(), "x".repeat(self.ballast)));
        [content].into_iter().chain(ballast).collect()
    }

    fn instance(&self, content: u64) -> Instance {
        let port = Some(Port { number: 8080, enabled: true });
        Instance {
            status: self.status,
            host_name: format!("h{}", self.number),
            port,
            metadata: self.metadata(content),
            capacity: Capacity { total: [("slots".to_owned(), 8)].into(), ..Capacity::default() },
            lease: LeaseTerms::clamped(self.lease / 3, self.lease),
            ..Instance::new(key(self.number))
        }
    }
}

/// Notes what becomes of a lease.
struct Listener {
    number: usize,
    book: Book,
}

impl Listener {
    fn heard(&self, content: u64, state: &LeaseState) {
        let mut book = self.book.borrow_mut();
        if state.is_registered && state.fault.is_none() {
            book.said(now(), self.number, Said { content, status: state.status });
        }
        if let Some(fault) = &state.fault {
            book.note(now(), Some(self.number), format!("k{} is told: {fault}", self.number));
        }
    }
}
