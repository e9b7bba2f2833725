//! The limit: the same libraries with handlers that decode a request and answer, and nothing else. No limits, no
//! timeouts, no registry.

use std::collections::BTreeMap;

use axum::Router;
use axum::extract::{Path, Query};
use axum::routing::{post, put};
use bytes::Bytes;
use heureka_proto::v1;
use heureka_proto::v1::registry_service_server::{RegistryService, RegistryServiceServer};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use serde::Deserialize;
use tokio::net::TcpListener;
use tonic::service::Routes;
use tonic::{Request, Response, Status};

/// Answers on this listener until the process ends.
pub(super) async fn serve(listener: TcpListener) {
    let rest = Router::new()
        .route("/eureka/apps/{app}", post(register))
        .route("/eureka/apps/{app}/{id}", put(renew));
    let routes = Routes::new(RegistryServiceServer::new(Native)).into_axum_router().merge(rest);
    while let Ok((socket, _)) = listener.accept().await {
        let service = TowerToHyperService::new(routes.clone());
        if socket.set_nodelay(true).is_ok() {
            tokio::spawn(async move {
                let builder = auto::Builder::new(TokioExecutor::new());
                // A driver that leaves is no fault.
                let _ = builder.serve_connection(TokioIo::new(socket), service).await;
            });
        }
    }
}

/// What a Eureka client sends, as far as its members are typed.
#[derive(Deserialize)]
struct Envelope {
    instance: Draft,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Draft {
    app: String,
    instance_id: String,
    host_name: String,
    ip_addr: String,
    status: String,
    vip_address: String,
    home_page_url: String,
    status_page_url: String,
    health_check_url: String,
    metadata: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Beat {
    status: String,
    last_dirty_timestamp: u64,
}

async fn register(Path(app): Path<String>, body: Bytes) -> axum::http::StatusCode {
    let Ok(Envelope { instance }) = serde_json::from_slice::<Envelope>(&body) else {
        return axum::http::StatusCode::BAD_REQUEST;
    };
    let texts = [&instance.instance_id, &instance.host_name, &instance.ip_addr, &instance.status];
    let urls = [&instance.home_page_url, &instance.status_page_url, &instance.health_check_url];
    let complete = texts.into_iter().chain(urls).all(|text| !text.is_empty());
    let known = instance.app == app && !instance.vip_address.is_empty() && instance.metadata.len() == 10;
    if complete && known { axum::http::StatusCode::NO_CONTENT } else { axum::http::StatusCode::BAD_REQUEST }
}

async fn renew(Path((app, id)): Path<(String, String)>, Query(beat): Query<Beat>) -> axum::http::StatusCode {
    let complete = !app.is_empty() && !id.is_empty() && !beat.status.is_empty();
    if complete && beat.last_dirty_timestamp > 0 {
        axum::http::StatusCode::OK
    } else {
        axum::http::StatusCode::NOT_FOUND
    }
}

/// The native service without a registry. What the bench does not call it does not serve.
struct Native;

#[tonic::async_trait]
impl RegistryService for Native {
    async fn register(
        &self,
        request: Request<v1::RegisterRequest>,
    ) -> Result<Response<v1::RegisterResponse>, Status> {
        let instance = request.into_inner().instance.ok_or_else(|| Status::invalid_argument("instance"))?;
        let version = v1::Version { owner: instance.metadata.len() as u64, ..v1::Version::default() };
        Ok(Response::new(v1::RegisterResponse {
            created: true,
            applied: true,
            version: Some(version),
            lease: Some(v1::Lease::default()),
            ..v1::RegisterResponse::default()
        }))
    }

    async fn renew(&self, request: Request<v1::RenewRequest>) -> Result<Response<v1::RenewResponse>, Status> {
        request.into_inner().key.ok_or_else(|| Status::invalid_argument("key"))?;
        Ok(Response::new(v1::RenewResponse::default()))
    }

    async fn batch_register(
        &self,
        _: Request<v1::BatchRegisterRequest>,
    ) -> Result<Response<v1::BatchRegisterResponse>, Status> {
        Err(Status::unimplemented("not measured"))
    }

    async fn batch_renew(
        &self,
        _: Request<v1::BatchRenewRequest>,
    ) -> Result<Response<v1::BatchRenewResponse>, Status> {
        Err(Status::unimplemented("not measured"))
    }

    async fn cancel(&self, _: Request<v1::CancelRequest>) -> Result<Response<v1::CancelResponse>, Status> {
        Err(Status::unimplemented("not measured"))
    }

    async fn set_status_override(
        &self,
        _: Request<v1::SetStatusOverrideRequest>,
    ) -> Result<Response<v1::SetStatusOverrideResponse>, Status> {
        Err(Status::unimplemented("not measured"))
    }

    async fn clear_status_override(
        &self,
        _: Request<v1::ClearStatusOverrideRequest>,
    ) -> Result<Response<v1::ClearStatusOverrideResponse>, Status> {
        Err(Status::unimplemented("not measured"))
    }

    async fn update_metadata(
        &self,
        _: Request<v1::UpdateMetadataRequest>,
    ) -> Result<Response<v1::UpdateMetadataResponse>, Status> {
        Err(Status::unimplemented("not measured"))
    }
}
