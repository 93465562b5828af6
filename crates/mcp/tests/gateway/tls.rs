//! Servers over TLS: whose certificates are trusted, and what is said otherwise; HTTP/2.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use execbox_mcp::upstream::UpstreamOptions;
use http_body_util::{BodyExt as _, Full};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};
use tokio_rustls::server::TlsStream;

use crate::remote::{connect_error, fine, one_tool, open, run, serve_one};

const CERTIFICATE: &str = include_str!("tls/certificate.pem");
const AUTHORITY: &str = include_str!("tls/authority.pem");
const COMMON_NAME: &str = include_str!("tls/common_name.pem");
const EXPIRED: &str = include_str!("tls/expired.pem");

/// A server for `localhost` that presents a certificate and accepts these protocols (none: any).
async fn serve<F: Future<Output = ()> + Send>(
    certificate: &str,
    protocols: &[&str],
    serve: impl Fn(TlsStream<TcpStream>) -> F + Clone + Send + 'static,
) -> String {
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("tls/key.pem")).unwrap();
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_no_client_auth().with_single_cert(chain, key).unwrap();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    let (acceptor, listener) = (TlsAcceptor::from(Arc::new(config)), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let url = format!("https://localhost:{}/mcp", listener.local_addr().unwrap().port());
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (acceptor, serve) = (acceptor.clone(), serve.clone());
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    serve(stream).await;
                }
            });
        }
    });
    url
}

async fn serve_http1(stream: TlsStream<TcpStream>) {
    serve_one(stream, &|_, body| one_tool(body, |_| fine())).await;
}

async fn serve_http2(stream: TlsStream<TcpStream>) {
    let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    let _ = server.serve_connection(TokioIo::new(stream), service_fn(respond)).await;
}

async fn respond(request: http::Request<hyper::body::Incoming>) -> Result<http::Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let (status, headers, body) = one_tool(std::str::from_utf8(&body).unwrap(), |_| fine());
    let mut response = http::Response::builder().status(status);
    for (name, value) in headers.lines().filter_map(|line| line.split_once(": ")) {
        response = response.header(name, value);
    }
    Ok(response.body(Full::new(Bytes::from(body))).unwrap())
}

fn trusting(certificates: &str) -> UpstreamOptions {
    UpstreamOptions::default().certificates(certificates.to_owned())
}

/// The error of a connection to the server at `url`, which names its origin.
fn not_connected(url: &str, reason: &str) -> String {
    format!("MCP server \"far\": cannot connect to {}: {reason}", url.strip_suffix("/mcp").unwrap())
}

const UNKNOWN: &str = "certificate not trusted: its authority is unknown; name a file with its certificate in \
                       SSL_CERT_FILE or NODE_EXTRA_CA_CERTS";

#[tokio::test]
async fn certificates_are_trusted_only_if_their_authority_or_they_are() {
    for (presented, trusted, is_own_name, reason) in [
        (CERTIFICATE, "", true, UNKNOWN),
        (CERTIFICATE, AUTHORITY, true, UNKNOWN),
        (CERTIFICATE, CERTIFICATE, true, ""),
        (CERTIFICATE, CERTIFICATE, false, "certificate not trusted: it was issued for other names"),
        (AUTHORITY, "", true, UNKNOWN),
        (AUTHORITY, CERTIFICATE, true, UNKNOWN),
        (AUTHORITY, AUTHORITY, true, ""),
        (AUTHORITY, AUTHORITY, false, "certificate not trusted: it was issued for other names"),
        (COMMON_NAME, "", true, UNKNOWN),
        (COMMON_NAME, COMMON_NAME, true, ""),
        (COMMON_NAME, COMMON_NAME, false, "certificate not trusted: it was issued for other names"),
        (EXPIRED, EXPIRED, true, "certificate not trusted: it has expired"),
    ] {
        let url = serve(presented, &[], serve_http1).await;
        let url = if is_own_name { url } else { url.replace("localhost", "127.0.0.1") };
        match open(&url, trusting(trusted)).await {
            Ok(upstream) => {
                assert!(reason.is_empty() && run(&upstream, "await far.ask({})").await.is_ok(), "{reason}");
            }
            Err(error) => assert_eq!(error.to_string(), not_connected(&url, reason)),
        }
    }
}

#[tokio::test]
async fn servers_choose_http_2_or_http_1() {
    for protocols in [&["h2"][..], &["h2", "http/1.1"]] {
        let upstream = open(&serve(CERTIFICATE, protocols, serve_http2).await, trusting(CERTIFICATE)).await.unwrap();
        assert!(run(&upstream, "await far.ask({})").await.is_ok(), "{protocols:?}");
    }
    let upstream = open(&serve(CERTIFICATE, &["http/1.1"], serve_http1).await, trusting(CERTIFICATE)).await.unwrap();
    assert!(run(&upstream, "await far.ask({})").await.is_ok());
}

#[tokio::test]
async fn failed_handshakes_have_a_reason() {
    let other = serve(CERTIFICATE, &["h3"], serve_http1).await;
    assert_eq!(
        connect_error(&other).await,
        not_connected(&other, "TLS handshake failed: the server offers neither HTTP/1.1 nor HTTP/2")
    );
    for (answer, reason) in [
        (
            "HTTP/1.1 400 Bad Request\r\n\r\n",
            "TLS handshake failed: the answer is not TLS; is the URL one of `http://`?",
        ),
        ("", "the connection was closed"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://localhost:{}/mcp", listener.local_addr().unwrap().port());
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _hello = stream.read(&mut [0; 4096]).await;
            stream.write_all(answer.as_bytes()).await.unwrap();
        });
        assert_eq!(connect_error(&url).await, not_connected(&url, reason));
    }
}
