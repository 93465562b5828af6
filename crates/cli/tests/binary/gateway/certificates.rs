//! The certificates of variables: `SSL_CERT_FILE` of curl and OpenSSL, and `NODE_EXTRA_CA_CERTS` of node.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value as Json, json};

use crate::support::transcript::{BINARY, directory, text};

/// Certificates for `localhost`.
const TLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../mcp/tests/gateway/tls");

/// A server with one tool, whose certificate is its own authority. Returns its port.
fn serve() -> u16 {
    let chain = vec![CertificateDer::from_pem_file(format!("{TLS}/authority.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(format!("{TLS}/key.pem")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(config.with_no_client_auth().with_single_cert(chain, key).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            // A client that does not trust the certificate ends the handshake.
            let _ = answer(StreamOwned::new(connection, stream.unwrap()));
        }
    });
    port
}

fn answer(stream: StreamOwned<ServerConnection, std::net::TcpStream>) -> std::io::Result<()> {
    let (mut stream, mut length) = (BufReader::new(stream), 0);
    let mut line = String::new();
    while stream.read_line(&mut line)? > 2 {
        length = line.to_lowercase().strip_prefix("content-length: ").map_or(length, |n| n.trim().parse().unwrap());
        line.clear();
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    let message: Json = serde_json::from_slice(&body).unwrap_or_default();
    let result = match message["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": "2025-06-18", "capabilities": { "tools": {} }, "serverInfo": { "name": "s", "version": "1" }
        }),
        Some("tools/list") => json!({ "tools": [{ "name": "hello", "inputSchema": { "type": "object" } }] }),
        Some("tools/call") => json!({ "content": [{ "type": "text", "text": "hello over TLS" }] }),
        _ => Json::Null,
    };
    let (status, body) = match result {
        Json::Null => (202, String::new()),
        result => (200, json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }).to_string()),
    };
    let head = format!("HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nConnection: close\r\n");
    let stream = stream.get_mut();
    write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len())?;
    stream.conn.send_close_notify();
    stream.flush()
}

fn call(dir: &Path, port: u16, variable: Option<(&str, &str)>) -> (String, String) {
    let server = format!("far=https://localhost:{port}/mcp");
    let mut command = Command::new(BINARY);
    command.current_dir(dir).args(["run", "--server", &server, "-e", "await far.hello()"]);
    command.env_remove("SSL_CERT_FILE").env_remove("SSL_CERT_DIR").env_remove("NODE_EXTRA_CA_CERTS").envs(variable);
    let output = command.output().unwrap();
    (text(output.stdout), text(output.stderr))
}

#[test]
fn a_certificate_of_ones_own_is_trusted_if_a_variable_names_it() {
    let (dir, port) = (directory("certificates"), serve());
    let (authority, other) = (format!("{TLS}/authority.pem"), format!("{TLS}/certificate.pem"));
    for variable in [("SSL_CERT_FILE", &*authority), ("NODE_EXTRA_CA_CERTS", &authority)] {
        let (value, errors) = call(&dir, port, Some(variable));
        assert_eq!(value.trim(), "\"hello over TLS\"", "{variable:?}: {errors}");
    }
    std::fs::write(dir.join("none.pem"), "no certificate").unwrap();
    for (variable, is_unreadable) in [
        (None, false),
        (Some(("NODE_EXTRA_CA_CERTS", "")), false),
        (Some(("NODE_EXTRA_CA_CERTS", &*other)), false),
        (Some(("SSL_CERT_FILE", &*other)), false),
        (Some(("NODE_EXTRA_CA_CERTS", "missing.pem")), true),
        (Some(("NODE_EXTRA_CA_CERTS", "none.pem")), true),
    ] {
        let (value, errors) = call(&dir, port, variable);
        assert!(value.is_empty() && errors.contains("certificate not trusted: its authority is unknown"), "{errors}");
        assert_eq!(errors.contains("now names no readable file"), is_unreadable, "{variable:?}: {errors}");
    }
}
