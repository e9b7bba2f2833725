//! An owner that speaks HTTP/1.1 as Eureka clients do: a connection for each call, one server after the other.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use heureka_model::Status;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;
use turmoil::net::TcpStream;

use crate::ledger::{Book, Said, Standing, key, now, until};
use crate::net::address;
use crate::plan::{Act, OwnerPlan, Plan};
use crate::server::WALL;

/// Longest time for one call.
const LIMIT: Duration = Duration::from_secs(4);
/// Time between two calls where one failed.
const PAUSE: Duration = Duration::from_millis(700);

/// One process of an owner.
struct Process {
    number: usize,
    /// Servers that it knows, that of the moment first.
    servers: Vec<usize>,
    lease: u64,
    /// Stamp of its last change.
    dirty: u64,
    book: Book,
}

/// Runs a process of the owner: registers, does what is planned from now on, and renews.
pub(crate) async fn own(plan: Rc<Plan>, number: usize, book: Book) -> turmoil::Result {
    let owner = &plan.owners[number];
    until(owner.begins).await;
    let process = Process { number, servers: owner.servers.clone(), lease: plan.lease, dirty: 0, book };
    process.run(owner).await
}

impl Process {
    async fn run(mut self, owner: &OwnerPlan) -> turmoil::Result {
        self.stands(Standing::Coming);
        self.register().await;
        let begun = now();
        for (at, act) in owner.acts.iter().filter(|(at, _)| *at >= begun) {
            self.renew_until(*at).await;
            match *act {
                Act::Update | Act::Report(_) => self.register().await,
                Act::Leave(back) => {
                    self.leave().await;
                    let Some(away) = back else { return std::future::pending().await };
                    tokio::time::sleep(Duration::from_millis(away)).await;
                    self.stands(Standing::Coming);
                    self.register().await;
                }
            }
        }
        self.renew_until(u64::MAX).await;
        Ok(())
    }

    async fn renew_until(&mut self, end: u64) {
        let interval = self.lease * 1_000 / 3;
        loop {
            let due = now() + interval;
            until(due.min(end)).await;
            if end <= due {
                return;
            }
            let path = format!("{}?status=UP&lastDirtyTimestamp={}", self.path(), self.dirty);
            match self.call("PUT", &path, "").await {
                200 => {}
                404 => self.register().await,
                code => self.book.borrow_mut().note(now(), Some(self.number), format!("renew: {code}")),
            }
        }
    }

    /// Registers with the next content, until a server has taken it.
    async fn register(&mut self) {
        self.dirty = (WALL + now()).max(self.dirty + 1);
        let content = {
            let mut book = self.book.borrow_mut();
            book.owners[self.number].content += 1;
            book.owners[self.number].content
        };
        let body = self.body(content);
        let path = format!("/eureka/apps/{}", key(self.number).app);
        loop {
            match self.call("POST", &path, &body).await {
                204 => break,
                503 => {}
                code => {
                    let text = format!("a registration was answered {code}");
                    self.book.borrow_mut().breach("an owner is taken", now(), Some(self.number), text);
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
        self.book.borrow_mut().said(now(), self.number, Said { content, status: Status::Up });
        self.stands(Standing::There);
    }

    async fn leave(&mut self) {
        self.stands(Standing::Leaving);
        let path = self.path();
        let standing =
            if self.call("DELETE", &path, "").await == 200 { Standing::Left } else { Standing::Lost };
        self.stands(standing);
    }

    fn stands(&self, standing: Standing) {
        self.book.borrow_mut().stands(now(), self.number, standing);
    }

    fn path(&self) -> String {
        let key = key(self.number);
        format!("/eureka/apps/{}/{}", key.app, key.id)
    }

    /// Status of the first answer; 503 where no server gave one.
    async fn call(&mut self, method: &str, path: &str, body: &str) -> u16 {
        for _ in 0..self.servers.len() {
            let answer = timeout(LIMIT, exchange(self.servers[0], method, path, body)).await;
            match answer {
                Ok(Ok(code)) if code != 503 => return code,
                Err(_) | Ok(Err(_)) => self.book.borrow_mut().owners[self.number].gave_up = Some(now()),
                Ok(Ok(_)) => {}
            }
            self.servers.rotate_left(1);
        }
        503
    }

    fn body(&self, content: u64) -> String {
        let key = key(self.number);
        let instance = json!({
            "instanceId": key.id, "app": key.app, "hostName": format!("h{}", self.number), "ipAddr": "10.0.0.9",
            "status": "UP", "port": {"$": 8080, "@enabled": "true"}, "metadata": {"content": content.to_string()},
            "lastDirtyTimestamp": self.dirty.to_string(),
            "leaseInfo": {"renewalIntervalInSecs": self.lease / 3, "durationInSecs": self.lease},
            "dataCenterInfo": {"@class": "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo", "name": "MyOwn"},
        });
        json!({ "instance": instance }).to_string()
    }
}

async fn exchange(server: usize, method: &str, path: &str, body: &str) -> io::Result<u16> {
    let mut socket = TcpStream::connect(address(server)).await?;
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: n{server}\r\nconnection: close\r\naccept: application/json\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all(format!("{head}{body}").as_bytes()).await?;
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).await?;
    let text = String::from_utf8_lossy(&answer);
    let code = text.split(' ').nth(1).and_then(|code| code.parse().ok());
    code.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}
