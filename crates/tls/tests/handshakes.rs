//! Handshakes between the two sides: whom they trust, what they say otherwise, and what changes while they are in use.

use std::io;

use execbox_tls::{CertificateFailure, Certificates, ClientTls, Identity, ServerTls, TlsFailure, TlsStream, Trust};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

/// The certificate and the key of the file `tests/pem/NAME.pem`.
macro_rules! identity {
    ($name:literal) => {
        Identity::from_pem(
            include_bytes!(concat!("pem/", $name, ".pem")),
            include_bytes!(concat!("pem/", $name, ".key")),
        )
        .unwrap()
    };
}

macro_rules! certificates {
    ($name:literal) => {
        Certificates::from_pem(include_bytes!(concat!("pem/", $name, ".pem"))).unwrap()
    };
}

type Side = io::Result<TlsStream<DuplexStream>>;

/// A handshake of a client that expects `host`. The client then reads what the server sends, as only that shows whether its
/// certificate is accepted.
async fn handshake(server: &ServerTls, client: &ClientTls, host: &str) -> (io::Result<String>, io::Result<()>) {
    let (here, there) = tokio::io::duplex(1 << 14);
    let greeting = async {
        let mut stream = server.accept(there).await?;
        stream.write_all(b"welcome").await?;
        stream.shutdown().await
    };
    let greeted = async {
        let mut text = String::new();
        client.connect(host, here).await?.read_to_string(&mut text).await?;
        Ok(text)
    };
    tokio::join!(greeted, greeting)
}

/// What the client and the server see fail.
async fn failures(server: &ServerTls, client: &ClientTls, host: &str) -> [Option<TlsFailure>; 2] {
    let (greeted, greeting) = handshake(server, client, host).await;
    let failure = |error: io::Error| TlsFailure::of(&error).unwrap_or_else(|| panic!("{error}"));
    if let Ok(text) = &greeted {
        assert_eq!(text, "welcome");
    }
    [greeted.err().map(failure), greeting.err().map(failure)]
}

fn server(identity: Identity) -> ServerTls {
    ServerTls::new(identity, None).unwrap()
}

fn trusting(certificates: Certificates) -> ClientTls {
    ClientTls::new(Trust::only(certificates).unwrap(), None).unwrap()
}

#[tokio::test]
async fn servers_are_trusted_by_their_authority_their_name_and_their_time() {
    use CertificateFailure::{Expired, OtherName, UnknownAuthority};
    let authority = || trusting(certificates!("authority"));
    for (server, client, host, failure) in [
        (server(identity!("server")), authority(), "localhost", None),
        (server(identity!("server")), authority(), "127.0.0.1", None),
        (server(identity!("server")), authority(), "::1", None),
        (server(identity!("server")), trusting(certificates!("server")), "localhost", None),
        (server(identity!("itself")), trusting(certificates!("itself")), "localhost", None),
        (server(identity!("server")), authority(), "example.com", Some(OtherName)),
        (server(identity!("itself")), trusting(certificates!("itself")), "example.com", Some(OtherName)),
        (server(identity!("expired")), authority(), "localhost", Some(Expired)),
        (server(identity!("expired")), trusting(certificates!("expired")), "localhost", Some(Expired)),
        (server(identity!("server")), trusting(certificates!("other-authority")), "localhost", Some(UnknownAuthority)),
        (server(identity!("itself")), authority(), "localhost", Some(UnknownAuthority)),
        (
            server(identity!("server")),
            ClientTls::new(Trust::system().unwrap(), None).unwrap(),
            "localhost",
            Some(UnknownAuthority),
        ),
    ] {
        let [seen, told] = failures(&server, &client, host).await;
        assert_eq!(seen, failure.map(TlsFailure::Certificate), "{host}");
        assert_eq!(told, failure.map(|_| TlsFailure::CertificateRejected), "{host}");
    }
}

#[tokio::test]
async fn clients_present_a_certificate_where_one_is_required() {
    let server = ServerTls::new(identity!("server"), Some(certificates!("authority"))).unwrap();
    let client = |identity| ClientTls::new(Trust::only(certificates!("authority")).unwrap(), identity).unwrap();
    let unknown = TlsFailure::Certificate(CertificateFailure::UnknownAuthority);
    for (client, failures_of_both) in [
        (client(Some(identity!("client"))), [None, None]),
        (client(None), [Some(TlsFailure::CertificateRequired), Some(TlsFailure::CertificateRequired)]),
        (client(Some(identity!("stranger"))), [Some(TlsFailure::CertificateRejected), Some(unknown)]),
        (client(Some(identity!("itself"))), [Some(TlsFailure::CertificateRejected), Some(unknown)]),
    ] {
        assert_eq!(failures(&server, &client, "localhost").await, failures_of_both);
    }
    // A certificate that is trusted itself.
    let server = ServerTls::new(identity!("server"), Some(certificates!("itself"))).unwrap();
    assert!(server.requires_certificate());
    assert_eq!(failures(&server, &client(Some(identity!("itself"))), "localhost").await, [None, None]);
    assert_ne!(failures(&server, &client(Some(identity!("client"))), "localhost").await, [None, None]);
}

#[tokio::test]
async fn later_handshakes_use_what_replaces_a_side_and_connections_go_on() {
    let (served, client) = (server(identity!("server")), trusting(certificates!("server")));
    let (here, there) = tokio::io::duplex(1 << 14);
    let (accepted, connected): (Side, Side) = tokio::join!(served.accept(there), client.connect("localhost", here));
    let (mut accepted, mut connected) = (accepted.unwrap(), connected.unwrap());

    served.clone().replace(&server(identity!("renewed")));
    assert_ne!(failures(&served, &client, "localhost").await, [None, None], "only the certificate before is trusted");
    client.clone().replace(&trusting(certificates!("renewed")));
    assert_eq!(failures(&served, &client, "localhost").await, [None, None]);

    connected.write_all(b"still here").await.unwrap();
    connected.shutdown().await.unwrap();
    let mut text = String::new();
    accepted.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "still here");
}

#[tokio::test]
async fn a_connection_that_ends_without_a_word_has_ended() {
    let (served, client) = (server(identity!("server")), trusting(certificates!("authority")));
    let (here, there) = tokio::io::duplex(1 << 14);
    let (accepted, connected): (Side, Side) = tokio::join!(served.accept(there), client.connect("localhost", here));
    let (mut accepted, mut connected) = (accepted.unwrap(), connected.unwrap());
    connected.write_all(b"last words").await.unwrap();
    connected.flush().await.unwrap();
    drop(connected);
    let mut text = String::new();
    accepted.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "last words");
}

#[tokio::test]
async fn a_peer_without_tls_is_told_from_other_failures() {
    let (mut here, there) = tokio::io::duplex(1 << 14);
    let plain = async {
        here.write_all(b"{\"type\":\"execute\"}\n").await.unwrap();
        let mut rest = Vec::new();
        here.read_to_end(&mut rest).await.unwrap();
    };
    let (error, ()) = tokio::join!(async { server(identity!("server")).accept(there).await.unwrap_err() }, plain);
    assert_eq!(TlsFailure::of(&error), Some(TlsFailure::NotTls));

    let (here, mut there) = tokio::io::duplex(1 << 14);
    let plain = async {
        there.write_all(b"{\"type\":\"rejected\"}\n").await.unwrap();
        let mut rest = Vec::new();
        let _ = there.read_to_end(&mut rest).await;
    };
    let client = trusting(certificates!("authority"));
    let (error, ()) = tokio::join!(async { client.connect("localhost", here).await.unwrap_err() }, plain);
    assert_eq!(TlsFailure::of(&error), Some(TlsFailure::NotTls));
}

#[test]
fn texts_without_a_certificate_or_its_key_are_rejected_with_what_helps() {
    const SERVER: &[u8] = include_bytes!("pem/server.pem");
    const KEY: &[u8] = include_bytes!("pem/server.key");
    let cut = &SERVER[..SERVER.len() / 2];
    let spoiled = String::from_utf8_lossy(SERVER).replacen("MII", "AAA", 1).into_bytes();
    for (certificate, key, expected) in [
        (KEY, KEY, "no certificate found; expected PEM, which begins with -----BEGIN CERTIFICATE-----"),
        (b"", KEY, "no certificate found"),
        (&b"\x30\x82\x01"[..], KEY, "no certificate found"),
        (cut, KEY, "invalid PEM"),
        (&spoiled[..], KEY, "invalid certificate"),
        (SERVER, SERVER, "no private key found; expected PEM, which begins with -----BEGIN PRIVATE KEY-----"),
        (SERVER, include_bytes!("pem/encrypted.key"), "the private key is encrypted; write it without a password"),
        (SERVER, include_bytes!("pem/renewed.key"), "the private key is not that of the certificate"),
    ] {
        let error = Identity::from_pem(certificate, key).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
    let both = [SERVER, KEY].concat();
    let identity = Identity::from_pem(&both, &both).expect("one file with both");
    assert!(!format!("{identity:?} {:?}", server(identity!("server"))).contains("PrivateKey"));
}
