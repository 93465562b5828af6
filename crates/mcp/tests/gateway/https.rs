//! The server over HTTPS: clients that trust its certificate, and connections that do not complete the handshake.

use std::fs;

use execbox::transport::tls::{Certificates, ClientTls, Identity, ServerTls, TlsStream, Trust};
use execbox_mcp::server::HttpOptions;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::fakes::Fake;
use crate::http::{Served, initialize, serve};

/// A file of `crates/tls/tests/pem`.
fn pem(name: &str) -> Vec<u8> {
    fs::read(format!("{}/../tls/tests/pem/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// Presents `server.pem`, and requires a certificate that `clients` vouches for.
pub(crate) fn server_tls(clients: Option<&str>) -> ServerTls {
    let identity = Identity::from_pem(&pem("server.pem"), &pem("server.key")).unwrap();
    let clients = clients.map(|name| Certificates::from_pem(&pem(&format!("{name}.pem"))).unwrap());
    ServerTls::new(identity, clients).unwrap()
}

async fn connect(served: &Served) -> TlsStream<TcpStream> {
    let trust = Trust::only(Certificates::from_pem(&pem("authority.pem")).unwrap()).unwrap();
    let stream = TcpStream::connect(served.address).await.unwrap();
    ClientTls::new(trust, None).unwrap().connect("127.0.0.1", stream).await.unwrap()
}

/// Sends a request, and returns the status of its response.
async fn status(served: &Served, mut stream: TlsStream<TcpStream>) -> u16 {
    let request = served.post("", &initialize("2025-06-18", &json!({})));
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    Served::answer(stream).await.status
}

#[tokio::test]
async fn clients_are_served_over_tls() {
    let served = serve(&Fake::standard(), HttpOptions::default().tls(server_tls(None))).await;
    assert_eq!(status(&served, connect(&served).await).await, 200);
}

/// A hello of a client that has not arrived as a whole.
const HELLO: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";

#[tokio::test]
async fn connections_without_a_complete_handshake_give_way() {
    let served = serve(&Fake::standard(), HttpOptions::default().tls(server_tls(None)).max_connections(8)).await;
    for attack in [&b""[..], HELLO, b"GET /mcp HTTP/1.1\r\n\r\n"] {
        let mut flood = Vec::new();
        for _ in 0..20 {
            let mut stream = TcpStream::connect(served.address).await.unwrap();
            stream.write_all(attack).await.unwrap();
            flood.push(stream);
        }
        assert_eq!(status(&served, connect(&served).await).await, 200, "{attack:?}");
    }
}
