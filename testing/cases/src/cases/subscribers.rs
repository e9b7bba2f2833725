//! Subscribers that leave, and calls that nobody can read.

use std::time::Duration;

use anyhow::ensure;
use bytes::{Buf, BufMut, Bytes};
use heureka_proto::v1;
use http::uri::PathAndQuery;
use prost::Message as _;
use tokio::task::JoinHandle;
use tokio::time::{Instant, interval};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::case::{Bench, Case, Found};
use heureka_cluster::checks::{eventually, same};
use heureka_cluster::figures::{mebibytes, seconds};
use heureka_cluster::native;
use heureka_cluster::server::Server;
use heureka_cluster::watcher::{Watcher, spec};

pub(crate) const CASES: &[Case] = &[
    Case::new("F61", "subscribers that leave are let go", |bench| Box::pin(f61(bench))),
    Case::new("F65", "one call that cannot be read harms no other", |bench| Box::pin(f65(bench))),
];

async fn f61(bench: Bench) -> Found {
    let server = bench.start(&[]).await?;
    native::register(&server.channel().await?, native::instance("QUIET", "q1")).await?;
    let count = bench.pick(2000, 10_000);
    let open = server.rest.metric("heureka_connection_open").await?;
    come_and_go(&server, count, open).await?;
    let warm = server.rest.resident().await?;
    let freed = come_and_go(&server, count, open).await?;
    let after = server.rest.resident().await?;
    ensure!(
        after <= warm + warm / 10,
        "memory: expected {} within 10 %, saw {}",
        mebibytes(warm),
        mebibytes(after)
    );
    Ok(format!(
        "{count} came and went twice: all let go {} after the last, memory {} then {}",
        seconds(freed),
        mebibytes(warm),
        mebibytes(after)
    ))
}

/// Opens watches, half of which end their stream and half their connection; the time until nothing is left of them.
async fn come_and_go(server: &Server, count: usize, open: f64) -> anyhow::Result<Duration> {
    for hundred in 0..count / 100 {
        let channel = server.channel().await?;
        let mut watchers = Vec::new();
        for _ in 0..100 {
            let mut watcher = Watcher::open(&channel, spec(Some("QUIET"), Duration::from_secs(60))).await?;
            watcher.settle().await?;
            watchers.push(watcher);
        }
        if hundred % 2 == 0 {
            drop(channel);
        }
        drop(watchers);
    }
    eventually("all are let go", Duration::from_secs(30), || async {
        let streams = server.rest.metric("heureka_watch_open").await?;
        Ok(streams < 0.5 && server.rest.metric("heureka_connection_open").await? < open + 0.5)
    })
    .await
}

async fn f65(bench: Bench) -> Found {
    let server = bench.start(&[]).await?;
    let channel = server.channel().await?;
    native::register(&channel, native::instance("GOOD", "g1")).await?;
    let valid = steady(&channel, bench.seconds(3, 30));
    let register = "/heureka.registry.v1.RegistryService/Register";
    let renew = "/heureka.registry.v1.RegistryService/Renew";
    let known = v1::RenewRequest { key: Some(native::key("GOOD", "g1")), ..Default::default() };
    let mut unknown_field = known.encode_to_vec();
    // Field 999 as a text of three bytes.
    unknown_field.extend([0xba, 0x3e, 3, b'a', b'b', b'c']);
    let unknown_status = v1::RenewRequest { status: 77, ..known.clone() }.encode_to_vec();
    let only_key = v1::Instance { key: Some(native::key("GOOD", "g2")), ..Default::default() };
    let only_key = v1::RegisterRequest { instance: Some(only_key), ..Default::default() }.encode_to_vec();
    let odd_status = v1::Instance { status: 77, ..native::instance("GOOD", "g3") };
    let odd_status = v1::RegisterRequest { instance: Some(odd_status), ..Default::default() }.encode_to_vec();
    let table: [(&str, &str, Vec<u8>, &[Code]); 8] = [
        ("an empty registration", register, Vec::new(), &[Code::InvalidArgument]),
        ("an empty renewal", renew, Vec::new(), &[Code::InvalidArgument]),
        ("every optional member unset", register, only_key, &[Code::Ok]),
        ("an unknown member", renew, unknown_field, &[Code::Ok]),
        ("an unknown status in a renewal", renew, unknown_status, &[Code::Ok, Code::InvalidArgument]),
        ("an unknown status", register, odd_status, &[Code::Ok, Code::InvalidArgument]),
        ("garbage", register, vec![0xff; 100], &[Code::Internal, Code::InvalidArgument]),
        ("more garbage", renew, (0..=255).collect(), &[Code::Internal, Code::InvalidArgument]),
    ];
    let mut told = Vec::new();
    for (what, path, message, expected) in table {
        let code = raw(&channel, path, message).await.err().map_or(Code::Ok, |status| status.code());
        ensure!(expected.contains(&code), "{what}: expected one of {expected:?}, saw {code:?}");
        told.push(format!("{code:?}"));
    }
    let calls = valid.await??;
    let accepted = server.rest.metric("heureka_connection_accepted_total{protocol=\"h2\"}").await?;
    ensure!(accepted < 1.5, "expected the one connection to stay, saw {accepted}");
    same("still there", server.rest.status("GOOD", "g1").await?, "UP".to_owned())?;
    Ok(format!("{}; {calls} valid calls on the same connection succeeded", told.join(", ")))
}

/// Valid calls, 50 a second; how many there were.
fn steady(channel: &Channel, lasts: Duration) -> JoinHandle<Result<u32, Status>> {
    let (channel, end) = (channel.clone(), Instant::now() + lasts);
    tokio::spawn(async move {
        let (mut pace, mut calls) = (interval(Duration::from_millis(20)), 0);
        while Instant::now() < end {
            pace.tick().await;
            native::renew(&channel, "GOOD", "g1").await?;
            calls += 1;
        }
        Ok(calls)
    })
}

/// Sends these bytes as a message.
async fn raw(channel: &Channel, path: &'static str, message: Vec<u8>) -> Result<Bytes, Status> {
    let mut grpc = tonic::client::Grpc::new(channel.clone());
    grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let request = tonic::Request::new(Bytes::from(message));
    Ok(grpc.unary(request, PathAndQuery::from_static(path), Raw).await?.into_inner())
}

/// Messages as they are.
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(message);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}
