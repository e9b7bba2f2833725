//! A discovery service that answers many subscriptions by a script, application by application.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use heureka_proto::v1;
use heureka_proto::v1::discovery_service_server::{DiscoveryService, DiscoveryServiceServer};
use heureka_proto::v1::watch_event::Event as Wire;
use heureka_proto::v1::watch_many_request::Request as Asked;
use heureka_proto::v1::watch_many_response::Response as Content;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

type Answer = Result<v1::WatchManyResponse, Status>;

/// What a subscription is told.
#[derive(Clone, Debug)]
pub(crate) enum Told {
    Events(Vec<Wire>),
    Closed(v1::ItemStatus),
}

/// Answers each stream with its next act: a subscription by the application that it asks for.
#[derive(Clone, Default)]
pub(crate) struct ManyScript(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    acts: VecDeque<Act>,
    streams: usize,
    asked: Vec<(String, String)>,
    ended: Vec<u32>,
    line: Option<mpsc::Sender<Answer>>,
    numbers: BTreeMap<String, u32>,
    later: BTreeMap<String, Told>,
}

struct Act {
    told: BTreeMap<String, Told>,
    end: Option<Status>,
}

impl ManyScript {
    /// What the next stream tells, and the status with which it ends once all of it was told.
    pub(crate) fn stream<const N: usize>(&self, told: [(&str, Told); N], end: Option<Status>) {
        let told = told.into_iter().map(|(app, told)| (app.to_owned(), told)).collect();
        self.state().acts.push_back(Act { told, end });
    }

    /// What is told to a subscription that comes after those of its stream.
    pub(crate) fn later(&self, app: &str, told: Told) {
        self.state().later.insert(app.to_owned(), told);
    }

    /// Tells one more event to the last subscription of that application.
    pub(crate) fn told_to(&self, app: &str, item: Result<v1::WatchResponse, Status>) {
        let state = self.state();
        let response = event(state.numbers[app], event_of(item));
        state.line.as_ref().unwrap().try_send(Ok(response)).unwrap();
    }

    pub(crate) fn say_goodbye(&self, reason: v1::GoAwayReason) {
        let away = Wire::GoAway(v1::GoAway { reason: reason.into(), ..Default::default() });
        let state = self.state();
        state.line.as_ref().unwrap().try_send(Ok(event(0, away))).unwrap();
    }

    pub(crate) fn server(&self) -> DiscoveryServiceServer<Self> {
        DiscoveryServiceServer::new(self.clone())
    }

    /// Application and token of each subscription.
    pub(crate) fn tokens(&self) -> Vec<(String, String)> {
        self.state().asked.clone()
    }

    pub(crate) fn streams(&self) -> usize {
        self.state().streams
    }

    /// Numbers that were unsubscribed.
    pub(crate) fn ended(&self) -> Vec<u32> {
        self.state().ended.clone()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    async fn answer(
        self,
        mut act: Act,
        mut requests: Streaming<v1::WatchManyRequest>,
        line: mpsc::Sender<Answer>,
    ) {
        while let Ok(Some(request)) = requests.message().await {
            match request.request {
                Some(Asked::Subscribe(wish)) => {
                    for response in self.subscribed(&mut act, wish) {
                        line.send(Ok(response)).await.ok();
                    }
                }
                Some(Asked::Unsubscribe(wish)) => self.state().ended.push(wish.subscription_id),
                _ => {}
            }
            if let Some(end) = act.end.take_if(|_| act.told.is_empty()) {
                line.send(Err(end)).await.ok();
                self.state().line = None;
                return;
            }
        }
    }

    fn subscribed(&self, act: &mut Act, wish: v1::Subscribe) -> Vec<v1::WatchManyResponse> {
        let (id, spec) = (wish.subscription_id, wish.spec.unwrap());
        let app = spec.selectors[0].apps[0].clone();
        let mut state = self.state();
        state.asked.push((app.clone(), String::from_utf8(spec.resume_token.to_vec()).unwrap()));
        state.numbers.insert(app.clone(), id);
        let told = act.told.remove(&app).or_else(|| state.later.remove(&app)).unwrap();
        match told {
            Told::Events(events) => events.into_iter().map(|told| event(id, told)).collect(),
            Told::Closed(status) => {
                vec![v1::WatchManyResponse { subscription_id: id, response: Some(Content::Closed(status)) }]
            }
        }
    }
}

fn event(subscription_id: u32, event: Wire) -> v1::WatchManyResponse {
    let response = Some(Content::Event(v1::WatchEvent { event: Some(event) }));
    v1::WatchManyResponse { subscription_id, response }
}

/// The event of an answer to a single watch.
pub(crate) fn event_of(item: Result<v1::WatchResponse, Status>) -> Wire {
    item.unwrap().event.unwrap().event.unwrap()
}

#[tonic::async_trait]
impl DiscoveryService for ManyScript {
    type WatchStream = futures_util::stream::Empty<Result<v1::WatchResponse, Status>>;
    type WatchManyStream = ReceiverStream<Answer>;

    async fn watch(&self, _: Request<v1::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented("not in the script"))
    }

    async fn watch_many(
        &self,
        request: Request<Streaming<v1::WatchManyRequest>>,
    ) -> Result<Response<Self::WatchManyStream>, Status> {
        let (line, answers) = mpsc::channel(64);
        let mut state = self.state();
        state.streams += 1;
        state.line = Some(line.clone());
        let act = state.acts.pop_front().unwrap_or(Act { told: BTreeMap::new(), end: None });
        drop(state);
        tokio::spawn(self.clone().answer(act, request.into_inner(), line));
        Ok(Response::new(ReceiverStream::new(answers)))
    }

    async fn get_instance(
        &self,
        _: Request<v1::GetInstanceRequest>,
    ) -> Result<Response<v1::GetInstanceResponse>, Status> {
        Err(Status::unimplemented("not in the script"))
    }

    async fn list_instances(
        &self,
        _: Request<v1::ListInstancesRequest>,
    ) -> Result<Response<v1::ListInstancesResponse>, Status> {
        Err(Status::unimplemented("not in the script"))
    }

    async fn list_applications(
        &self,
        _: Request<v1::ListApplicationsRequest>,
    ) -> Result<Response<v1::ListApplicationsResponse>, Status> {
        Err(Status::unimplemented("not in the script"))
    }
}
