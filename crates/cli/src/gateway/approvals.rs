//! Calls of a running gateway that wait for approval. `execbox approvals` lists and decides them over a Unix socket of the gateway,
//! in a directory that only its user can enter: a line of JSON as request, and one as response.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use execbox::policy::{Approval, Approver, ProposedCall};
use execbox_core::text::cut;
use execbox_mcp::server::{question, whole_question};
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixListener;
use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::gateway::always::{Always, NoTarget, Target};
use crate::gateway::running;
use crate::gateway::watch::Lines;

/// A call that waits for approval.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WaitingApproval {
    /// The id of the call, unique among all gateways of the machine: the process id of the gateway, and a number.
    pub(crate) id: String,
    /// The tool with its namespace: `shop.delete_order`.
    pub(crate) tool: String,
    /// The client that makes the call, if it has a name (`--clients`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) client: Option<String>,
    /// The beginning of the arguments, as JSON.
    pub(crate) arguments: String,
    /// The call as text for a person. Long arguments are cut.
    pub(crate) question: String,
    /// The time of the call, in milliseconds since 1970.
    pub(crate) since_ms: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Request {
    List,
    /// Shows a call as a whole.
    Show {
        id: String,
    },
    /// Finds the entry to which the tool of a call can be added.
    Where {
        id: String,
    },
    /// Approves a call, or refuses it with a reason.
    Decide {
        id: String,
        refused: Option<String>,
        /// Whether an approval is one of all calls of the tool, of any client, until the gateway ends.
        #[serde(default)]
        later: bool,
        /// Whether the tool was added to its entry, so that its calls need no approval before the configuration is read again,
        /// either.
        #[serde(default)]
        always: bool,
    },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Response {
    Pending(Vec<WaitingApproval>),
    /// A whole call as text for a person.
    Call(String),
    Entry(Target),
    NoEntry(NoTarget),
    Decided,
    /// No call with this id waits.
    Unknown,
}

/// The calls that wait for approval, and the lines that announce them.
pub(crate) struct Approvals {
    waiting: Mutex<BTreeMap<u64, Waiting>>,
    /// The number of calls so far. Numbers are never used again, so that an answer reaches only the call that its author has
    /// seen.
    count: AtomicU64,
    /// The tools whose later calls are approved.
    approved: Mutex<HashSet<String>>,
    always: Arc<Always>,
    lines: Lines,
}

struct Waiting {
    call: WaitingApproval,
    namespace: Arc<str>,
    /// The names of the tool on its server and in code.
    names: [Arc<str>; 2],
    answer: oneshot::Sender<Approval>,
    /// Takes requests for the text of the whole call, so that its arguments are not stored twice.
    readers: mpsc::Sender<oneshot::Sender<String>>,
}

impl Approvals {
    pub(crate) fn new(lines: Lines, always: Arc<Always>) -> Arc<Self> {
        let (waiting, count, approved) = Default::default();
        Arc::new(Self { waiting, count, approved, always, lines })
    }

    /// Serves `execbox approvals` until the task is dropped.
    pub(crate) async fn serve(self: Arc<Self>) -> io::Result<()> {
        let path = running::approvals_socket(std::process::id())?;
        let _ = fs::remove_file(&path); // The socket of an earlier gateway with this process id.
        let listener = UnixListener::bind(path)?;
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            let (stream, _) = listener.accept().await?;
            let (approvals, place) = (Arc::clone(&self), Arc::clone(&places).acquire_owned().await);
            tokio::spawn(async move {
                let _place = place;
                let _ = tokio::time::timeout(TIMEOUT, approvals.answer(stream)).await;
            });
        }
    }

    async fn answer(&self, mut stream: tokio::net::UnixStream) -> io::Result<()> {
        let mut line = String::new();
        tokio::io::BufReader::new((&mut stream).take(MAX_REQUEST)).read_line(&mut line).await?;
        let response = match serde_json::from_str(&line)? {
            Request::Show { id } => self.show(&id).await.map_or(Response::Unknown, Response::Call),
            Request::List => Response::Pending(self.lock().values().map(|waiting| waiting.call.clone()).collect()),
            Request::Where { id } => self.entry(&id),
            Request::Decide { id, refused, later, always } => self.decide(&id, refused, later, always),
        };
        stream.write_all(&to_line(&response)?).await
    }

    async fn show(&self, id: &str) -> Option<String> {
        let readers = self.lock().values().find(|waiting| waiting.call.id == id)?.readers.clone();
        let (reader, text) = oneshot::channel();
        readers.send(reader).await.ok()?;
        text.await.ok()
    }

    fn entry(&self, id: &str) -> Response {
        let waiting = self.lock();
        let Some(Waiting { namespace, names: [original, safe], .. }) =
            waiting.values().find(|waiting| waiting.call.id == id)
        else {
            return Response::Unknown;
        };
        self.always.target(namespace, [original, safe]).map_or_else(Response::NoEntry, Response::Entry)
    }

    fn decide(&self, id: &str, refused: Option<String>, later: bool, always: bool) -> Response {
        let mut waiting = self.lock();
        let number = waiting.iter().find(|(_, waiting)| waiting.call.id == id).map(|(number, _)| *number);
        let Some(decided) = number.and_then(|number| waiting.remove(&number)) else { return Response::Unknown };
        if (later || always) && refused.is_none() {
            let tool = &decided.call.tool;
            if always {
                self.always.add(tool);
            } else {
                self.lock_approved().insert(tool.clone());
            }
            let same = waiting.extract_if(.., |_, waiting| waiting.call.tool == *tool);
            same.for_each(|(_, waiting)| drop(waiting.answer.send(Approval::Approved)));
        }
        match decided.answer.send(refused.map_or(Approval::Approved, Approval::Refused)) {
            Ok(()) => Response::Decided,
            Err(_) => Response::Unknown, // The program of the call has ended.
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_approved(&self) -> MutexGuard<'_, HashSet<String>> {
        self.approved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a call, which is removed when the returned [`Listed`] is dropped.
    fn add(&self, call: &ProposedCall<'_>, client: Option<&str>) -> (Listed<'_>, Requests) {
        let ((answer, answered), (readers, shown)) = (oneshot::channel(), mpsc::channel(1));
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let id = format!("{}.{number}", std::process::id());
        let tool = call.name();
        let question = question(call).map_or_else(|error| error.to_string(), |question| question.text);
        let since_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        let arguments = cut(&call.input.to_string(), MAX_ARGUMENTS);
        let (namespace, context) = (Arc::clone(&call.context.provider), call.context);
        let names = [&context.original_name, &context.safe_name].map(Arc::clone);
        let client = client.map(str::to_owned);
        let call = WaitingApproval { id: id.clone(), tool, client, arguments, question, since_ms };
        self.lock().insert(number, Waiting { call, namespace, names, answer, readers });
        (Listed { approvals: self, number, id }, Requests { answered, shown })
    }
}

/// The approver of the calls of one client.
pub(crate) struct ClientApprover {
    pub(crate) approvals: Arc<Approvals>,
    /// The name of the client, if it has one (`--clients`).
    pub(crate) client: Option<String>,
}

impl Approver for ClientApprover {
    fn approve<'a>(&'a self, call: ProposedCall<'a>) -> BoxFuture<'a, Approval> {
        Box::pin(async move {
            if let Err(error) = whole_question(&call) {
                return Approval::Refused(error.to_string());
            }
            let Self { approvals, client } = self;
            let (listed, mut requests) = approvals.add(&call, client.as_deref());
            if approvals.lock_approved().contains(&call.name()) || approvals.always.has(&call.name()) {
                return Approval::Approved;
            }
            let of = self.client.as_ref().map(|client| format!(" of client {client:?}")).unwrap_or_default();
            let line = format!("{}{of} waits for approval: execbox approvals approve {}", call.name(), listed.id);
            self.approvals.lines.add(&line, true);
            loop {
                tokio::select! {
                    Some(reader) = requests.shown.recv() => {
                        let _ = reader.send(whole_question(&call).unwrap_or_default());
                    }
                    answer = &mut requests.answered => {
                        return answer.unwrap_or_else(|_| Approval::Refused("the gateway is closing".to_owned()));
                    }
                }
            }
        })
    }

    fn command(&self) -> Option<&str> {
        Some("`execbox approvals` lists it, `execbox approvals show ID` shows it")
    }
}

/// The receivers of requests for a call that waits.
struct Requests {
    answered: oneshot::Receiver<Approval>,
    shown: mpsc::Receiver<oneshot::Sender<String>>,
}

struct Listed<'a> {
    approvals: &'a Approvals,
    number: u64,
    id: String,
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.approvals.lock().remove(&self.number);
    }
}

/// Sends a request to the gateway with this process id.
pub(crate) fn request(pid: u32, request: &Request) -> io::Result<Response> {
    exchange(&running::approvals_socket(pid)?, request)
}

fn exchange(socket: &Path, request: &Request) -> io::Result<Response> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.write_all(&to_line(request)?)?;
    let mut line = String::new();
    BufReader::new(stream.take(MAX_RESPONSE)).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

fn to_line(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// The maximum number of characters of arguments outside of the question.
const MAX_ARGUMENTS: usize = 200;

/// How long an exchange may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The maximum number of connections at the same time.
const MAX_CONNECTIONS: usize = 8;

/// The maximum lengths of a request and a response, in bytes.
const MAX_REQUEST: u64 = 64 << 10;
const MAX_RESPONSE: u64 = 256 << 20;
