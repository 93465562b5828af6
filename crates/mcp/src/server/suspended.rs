//! Programs that outlive a request of their client, because they ask it for something (section "Multi Round-Trip Requests" of
//! MCP 2026-07-28).
//!
//! The request is answered with what the program asks, and with a state. Until the client sends the request again, with the
//! answers and the state, the program is suspended: its open requests wait, all else goes on. A state is sealed with a key of
//! this process, and valid once, for a limited time, for the same client and the same call.
//!
//! The protocol intends a server without state, which writes all that it needs into the state of the request. Calls without code are
//! such: what their servers require is relayed ([`Relayed`]). A program that waits in the middle cannot be written down, so its
//! state is a sealed handle.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use execbox_core::budget::{Budget, Charge};
use futures_util::future::BoxFuture;
use rmcp::model::{
    CallToolResponse, ErrorData, InputRequests, InputRequiredResult, InputResponses, RequestStateCodec,
    RequestStateError, SealOptions, ServerResult,
};
use rmcp::service::{RequestContext, RoleServer};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;

use super::progress::Recipient;
use crate::clients::{Channel, Client};
use crate::open_requests::{InvalidAnswer, MAX_ROUNDS, OpenRequests};
use crate::text::json_length;
use crate::upstream::Relayed;

/// What answers a request.
pub(super) type Answer = Result<ServerResult, ErrorData>;

/// The response to a call.
pub(super) fn call_response(answer: Answer) -> Result<CallToolResponse, ErrorData> {
    match answer? {
        ServerResult::CallToolResult(result) => Ok(result.into()),
        ServerResult::InputRequiredResult(required) => Ok(required.into()),
        _ => Err(ErrorData::internal_error("another kind of result", None)),
    }
}

/// A program, or another request, which ends when this is dropped.
pub(super) struct Running {
    /// The result, with its charge if it has waited for a request.
    program: BoxFuture<'static, (Answer, Charge)>,
    /// Whether `program` waits for a task, and need not be polled.
    is_task: bool,
    /// What the program asks its client, if results can contain it.
    open: Option<OpenRequests>,
    rounds: u32,
    progress: Option<Recipient>,
    ended: CancellationToken,
    _end: DropGuard,
}

impl Running {
    /// Creates a program, which runs while a request waits for it, and ends with `ended`. `channel` is how it asks its client.
    pub(super) fn new(
        channel: &Channel,
        progress: Option<Recipient>,
        ended: CancellationToken,
        program: impl Future<Output = Answer> + Send + 'static,
    ) -> Self {
        let open = match channel {
            Channel::Results(open) => Some(open.clone()),
            Channel::Requests { .. } => None,
        };
        let program = Box::pin(async { (program.await, Charge::none()) });
        Self { program, is_task: false, open, rounds: 0, progress, _end: ended.clone().drop_guard(), ended }
    }

    /// Answers a request with the result, or with what the program asks. Then it is suspended.
    pub(super) async fn respond(
        mut self,
        context: &RequestContext<RoleServer>,
        call: &Call,
        suspended: &Arc<Suspended>,
    ) -> Answer {
        self.progress.iter().for_each(|progress| progress.set(Some(context)));
        loop {
            let requests = tokio::select! {
                biased;
                (answer, _) = &mut self.program => return answer,
                () = context.ct.cancelled(), if !self.ended.is_cancelled() => {
                    self.ended.cancel();
                    continue;
                }
                requests = requests(self.open.as_ref()) => requests,
            };
            if self.rounds < MAX_ROUNDS {
                self.rounds += 1;
                return Ok(ServerResult::InputRequiredResult(suspended.keep(self, call, requests)));
            }
            self.open.iter().for_each(OpenRequests::close);
        }
    }

    /// Lets the program run without a request. Its result is charged to `budget`.
    fn detach(&mut self, budget: &Budget) {
        self.progress.iter().for_each(|progress| progress.set(None));
        if self.is_task {
            return;
        }
        self.is_task = true;
        let program = std::mem::replace(&mut self.program, Box::pin(std::future::pending()));
        let budget = budget.clone();
        let task = tokio::spawn(async move {
            let (answer, _) = program.await;
            let length = match &answer {
                Ok(result) => json_length(result, budget.limit()).unwrap_or(usize::MAX),
                Err(_) => 0,
            };
            match budget.charge(length) {
                Ok(charge) => (answer, charge),
                Err(_) => (failed("the result is lost: too many programs wait for answers"), Charge::none()),
            }
        });
        self.program = Box::pin(async { task.await.unwrap_or_else(|_| (failed("internal error"), Charge::none())) });
    }
}

fn failed(why: &'static str) -> Answer {
    Err(ErrorData::internal_error(why, None))
}

/// What a program asks, once it asks something.
async fn requests(open: Option<&OpenRequests>) -> InputRequests {
    let Some(open) = open else { return std::future::pending().await };
    open.wait().await;
    tokio::time::sleep(COLLECTION).await;
    open.wait().await
}

/// A call of a client that runs a program. Each request of a suspended program repeats it.
pub(super) struct Call {
    pub(super) client: Client,
    /// The name of the tool and its arguments, in one form.
    pub(super) text: String,
}

impl Call {
    /// What a state is bound to.
    fn identity(&self) -> Vec<u8> {
        format!("{:?} {}", self.client, self.text).into_bytes()
    }
}

/// The suspended programs of all clients of a server.
pub(super) struct Suspended {
    programs: Mutex<BTreeMap<u64, SuspendedProgram>>,
    /// The number of the next suspension.
    next: AtomicU64,
    /// How many programs can be suspended at once.
    max: usize,
    lifetime: Duration,
    /// The memory budget of results that wait for a request.
    results: Budget,
    codec: RequestStateCodec,
}

struct SuspendedProgram {
    client: Client,
    running: Running,
    _expiry: AbortOnDropHandle<()>,
}

impl Suspended {
    /// `answers` is how long a person may take for an answer.
    pub(super) fn new(max: usize, answers: Duration) -> Self {
        let mut key = [0; RequestStateCodec::MIN_KEY_LENGTH];
        getrandom::fill(&mut key).expect("the system has random numbers");
        Self {
            programs: Mutex::default(),
            next: AtomicU64::default(),
            max: max.max(1),
            lifetime: answers.saturating_add(LATE),
            results: Budget::new(MAX_RESULTS),
            codec: RequestStateCodec::new_unchecked(key),
        }
    }

    /// Keeps a program until its client has answered. Ends the oldest one if there are too many.
    fn keep(self: &Arc<Self>, mut running: Running, call: &Call, requests: InputRequests) -> InputRequiredResult {
        running.detach(&self.results);
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (suspended, lifetime) = (Arc::downgrade(self), self.lifetime);
        let expiry = AbortOnDropHandle::new(tokio::spawn(async move {
            tokio::time::sleep(lifetime).await;
            drop(suspended.upgrade().and_then(|suspended| suspended.lock().remove(&number)));
        }));
        let program = SuspendedProgram { client: call.client, running, _expiry: expiry };
        let displaced = {
            let mut programs = self.lock();
            programs.insert(number, program);
            let own =
                || programs.iter().filter(|(_, program)| program.client == call.client).map(|(number, _)| *number);
            let oldest = match () {
                () if own().count() > MAX_PER_CLIENT => own().next(),
                () if programs.len() > self.max => programs.keys().next().copied(),
                () => None,
            };
            oldest.and_then(|oldest| programs.remove(&oldest))
        };
        drop(displaced);
        let identity = call.identity();
        let options = SealOptions::new().associated_data(&identity).ttl(self.lifetime);
        InputRequiredResult::new(Some(requests), Some(self.codec.seal_with(&number.to_be_bytes(), &options)))
    }

    /// Takes the program of a state, or starts another one with what the client has sent: the state may be one of the server that
    /// is called.
    pub(super) fn resume_or(
        &self,
        sent: Relayed,
        call: &Call,
        start: impl FnOnce(Relayed) -> Running,
    ) -> Result<Running, NotResumed> {
        let Some(state) = &sent.state else { return Ok(start(sent)) };
        match self.resume(state, sent.answers.clone(), call) {
            Err(NotResumed::Foreign) => Ok(start(sent)),
            resumed => resumed,
        }
    }

    /// Takes the program of a state, and passes the answers to it.
    pub(super) fn resume(
        &self,
        state: &str,
        answers: Option<InputResponses>,
        call: &Call,
    ) -> Result<Running, NotResumed> {
        let number = self.codec.open_with(state, &call.identity()).map_err(|error| match error {
            RequestStateError::Expired => NotResumed::Ended,
            _ => NotResumed::Foreign,
        })?;
        let number = u64::from_be_bytes(number.try_into().map_err(|_| NotResumed::Foreign)?);
        let mut programs = self.lock();
        let running = &programs.get(&number).ok_or(NotResumed::Ended)?.running;
        if let (Some(open), Some(answers)) = (&running.open, answers) {
            open.answer(answers)?;
        }
        programs.remove(&number).map(|program| program.running).ok_or(NotResumed::Ended)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, SuspendedProgram>> {
        self.programs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why no program goes on.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotResumed {
    /// The state is not one of this server, for this client and this call.
    #[error("{FOREIGN}")]
    Foreign,
    #[error("{ENDED}")]
    Ended,
    #[error(transparent)]
    Invalid(#[from] InvalidAnswer),
}

impl From<NotResumed> for ErrorData {
    fn from(error: NotResumed) -> Self {
        Self::invalid_params(error.to_string(), None)
    }
}

const ENDED: &str = "the program waits no longer: it was answered before, or has ended. To run it again, call the tool without \
                     `requestState`";
const FOREIGN: &str = "`requestState` does not belong to this call: repeat the call as it was. To run another program, call the \
                       tool without `requestState`";

/// How long further requests are awaited before a client is asked: each result counts.
const COLLECTION: Duration = Duration::from_millis(10);

/// How long a program waits for its client after the time for answers: a late client reads what has become of it.
const LATE: Duration = Duration::from_mins(1);

/// How many programs of one client can be suspended at once.
const MAX_PER_CLIENT: usize = 32;

/// How much memory results may take that wait for a request, in bytes.
const MAX_RESULTS: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use rmcp::model::{CallToolResult, ContentBlock};

    use super::*;

    fn call() -> Call {
        Call { client: Client::new(), text: "mcp_code None return 1".to_owned() }
    }

    fn suspended(max: usize) -> Arc<Suspended> {
        Arc::new(Suspended::new(max, Duration::from_mins(10)))
    }

    /// Suspends a program. Returns its state, and a token that fires when it ends.
    fn keep(
        suspended: &Arc<Suspended>,
        call: &Call,
        program: impl Future<Output = Answer> + Send + 'static,
    ) -> (String, CancellationToken) {
        let (open, ended) = (OpenRequests::default(), CancellationToken::new());
        let running = Running::new(&Channel::Results(open), None, ended.clone(), program);
        let asked = suspended.keep(running, call, InputRequests::new());
        (asked.request_state.expect("a state"), ended)
    }

    fn result_of(resumed: Result<Running, NotResumed>) -> Result<ServerResult, String> {
        let mut running = resumed.map_err(|error| error.to_string())?;
        let (answer, _) = (&mut running.program).now_or_never().expect("the program has ended");
        answer.map_err(|error| error.message.into_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn a_program_ends_that_no_request_asks_for() {
        let (suspended, call) = (suspended(8), call());
        let (state, ended) = keep(&suspended, &call, std::future::pending());
        tokio::time::sleep(Duration::from_mins(10)).await;
        assert!(!ended.is_cancelled());
        tokio::time::sleep(Duration::from_mins(2)).await;
        assert!(ended.is_cancelled());
        assert_eq!(result_of(suspended.resume(&state, None, &call)).unwrap_err(), ENDED);
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_program_of_all_clients_ends_if_there_are_too_many() {
        let (suspended, calls) = (suspended(2), [call(), call(), call()]);
        let programs = calls.each_ref().map(|call| keep(&suspended, call, std::future::pending()));
        assert_eq!(programs.each_ref().map(|(_, ended)| ended.is_cancelled()), [true, false, false]);
    }

    #[tokio::test(start_paused = true)]
    async fn results_that_wait_have_a_memory_budget() {
        let (suspended, call) = (suspended(8), call());
        let large = || async {
            let result = CallToolResult::success(vec![ContentBlock::text("x".repeat(40 << 20))]);
            Ok(ServerResult::CallToolResult(result))
        };
        let (first, _) = keep(&suspended, &call, large());
        let (second, _) = keep(&suspended, &call, large());
        tokio::time::sleep(Duration::from_secs(1)).await;
        let text = |state: &str| match result_of(suspended.resume(state, None, &call))? {
            ServerResult::CallToolResult(result) => Ok(result.content[0].as_text().expect("a text").text.clone()),
            result => Err(format!("{result:?}")),
        };
        assert_eq!(text(&first).unwrap().len(), 40 << 20);
        assert_eq!(text(&second).unwrap_err(), "the result is lost: too many programs wait for answers");
        let (third, _) = keep(&suspended, &call, large());
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(text(&third).unwrap().len(), 40 << 20);
    }
}
