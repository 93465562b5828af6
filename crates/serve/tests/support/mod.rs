//! An application that talks to a service in this process, line by line.

#![allow(dead_code)] // no test uses all of it

use std::sync::Arc;

use execbox::InlineExecutor;
use execbox::transport::StreamTransport;
use execbox_serve::Service;
use serde_json::{Value as Json, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf,
};
use tokio::task::JoinHandle;

/// What an application receives.
#[derive(Debug)]
pub(crate) enum Received {
    Message(Json),
    Attachment(Vec<u8>),
}

pub(crate) struct Application {
    read: BufReader<ReadHalf<DuplexStream>>,
    write: WriteHalf<DuplexStream>,
    service: JoinHandle<std::io::Result<()>>,
    last_id: u64,
}

impl Application {
    /// Starts a service as the binary does, without MCP servers.
    pub(crate) fn start() -> Self {
        let executor = Arc::new(InlineExecutor::new().unwrap());
        Self::of(&Service::new(executor, "inline").max_memory_bytes(1 << 30))
    }

    /// Connects to a service.
    pub(crate) fn of(service: &Service) -> Self {
        let (near, far) = tokio::io::duplex(64 << 10);
        let service = service.clone();
        let service = tokio::spawn(async move { service.serve(Box::new(StreamTransport::over(far))).await });
        let (read, write) = tokio::io::split(near);
        Self { read: BufReader::new(read), write, service, last_id: 0 }
    }

    /// Starts a service and begins the connection.
    pub(crate) async fn initialized() -> Self {
        let mut application = Self::start();
        application.call("initialize", json!({ "protocolVersion": 1 })).await;
        application
    }

    pub(crate) async fn send_line(&mut self, line: &str) {
        self.write.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    /// Sends the beginning of a line.
    pub(crate) async fn send_part(&mut self, text: &str) {
        self.write.write_all(text.as_bytes()).await.unwrap();
    }

    pub(crate) async fn send(&mut self, message: Json) {
        self.send_line(&message.to_string()).await;
    }

    pub(crate) async fn attach(&mut self, bytes: &[u8]) {
        self.write.write_all(format!("*{}\n", bytes.len()).as_bytes()).await.unwrap();
        self.write.write_all(bytes).await.unwrap();
    }

    /// Sends a request. Returns its id.
    pub(crate) async fn request(&mut self, method: &str, params: Json) -> u64 {
        self.last_id += 1;
        self.send(json!({ "jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params })).await;
        self.last_id
    }

    /// Answers a request of the service.
    pub(crate) async fn answer(&mut self, request: &Json, value: Json) {
        self.send(json!({ "jsonrpc": "2.0", "id": request["id"], "result": { "value": value } })).await;
    }

    pub(crate) async fn receive(&mut self) -> Received {
        let mut line = Vec::new();
        self.read.read_until(b'\n', &mut line).await.unwrap();
        match line.strip_prefix(b"*") {
            None => Received::Message(serde_json::from_slice(&line).expect("a message")),
            Some(length) => {
                let length: usize = str::from_utf8(length).unwrap().trim().parse().unwrap();
                let mut bytes = vec![0; length];
                self.read.read_exact(&mut bytes).await.unwrap();
                Received::Attachment(bytes)
            }
        }
    }

    pub(crate) async fn message(&mut self) -> Json {
        match self.receive().await {
            Received::Message(message) => message,
            Received::Attachment(_) => panic!("an attachment"),
        }
    }

    /// Sends a request and receives its answer, the next message.
    pub(crate) async fn call(&mut self, method: &str, params: Json) -> Json {
        let id = self.request(method, params).await;
        let answer = self.message().await;
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// Closes the connection, and waits for the service.
    pub(crate) async fn end(self) -> Result<(), String> {
        let Self { read, write, service, .. } = self;
        drop((read, write));
        service.await.unwrap().map_err(|error| error.to_string())
    }
}
