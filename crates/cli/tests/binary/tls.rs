//! TLS of runners and of gateways: who is served, what the others are told, and certificates that change.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::Duration;

use execbox::transport::tls::{Certificates, ClientTls, Trust};

const EXECBOX: &str = env!("CARGO_BIN_EXE_execbox");

/// The certificates and keys: see their `README.md`.
const PEM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tls/tests/pem");

pub(crate) fn pem(name: &str) -> String {
    format!("{PEM}/{name}")
}

/// A folder with private copies of `server.pem` and `server.key`, and with `token.txt`.
pub(crate) fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tls").join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("token.txt"), "s3cret\n").unwrap();
    install(&folder, "server");
    folder
}

/// Trusts only the certificates in this file.
pub(crate) fn trusting(name: &str) -> ClientTls {
    let certificates = Certificates::from_pem(&fs::read(pem(name)).unwrap()).unwrap();
    ClientTls::new(Trust::only(certificates).unwrap(), None).unwrap()
}

/// Replaces the certificate and the key in `folder`, as tools do that renew certificates.
fn install(folder: &Path, name: &str) {
    for (from, to) in [(format!("{name}.key"), "key.pem"), (format!("{name}.pem"), "cert.pem")] {
        let new = folder.join("new");
        fs::copy(pem(&from), &new).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).unwrap();
        fs::rename(new, folder.join(to)).unwrap();
    }
}

/// A command that listens, with what it prints to standard error.
struct Listening {
    process: Child,
    address: String,
    errors: BufReader<ChildStderr>,
}

/// Starts a command that listens. It has the certificate in `folder`.
fn listen(folder: &Path, arguments: &[&str]) -> Listening {
    let path = |name: &str| folder.join(name).display().to_string();
    let mut process = Command::new(EXECBOX)
        .args(arguments)
        .args(["--tls-cert", &path("cert.pem"), "--tls-key", &path("key.pem")])
        .env_remove("EXECBOX_TOKEN")
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(process.stderr.take().unwrap());
    let mut text = String::new();
    let address = loop {
        let mut line = String::new();
        assert!(errors.read_line(&mut line).unwrap() > 0, "{text}");
        if let Some(address) = line.trim().strip_prefix("execbox: listening on ") {
            break address.replace("127.0.0.1", "localhost");
        }
        text += &line;
    };
    Listening { process, address, errors }
}

impl Listening {
    /// The next line of standard error with this text.
    fn line_with(&mut self, text: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(self.errors.read_line(&mut line).unwrap() > 0, "no line with {text:?}");
            if line.contains(text) {
                return line.trim().to_owned();
            }
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn run(address: &str, arguments: &[&str]) -> Output {
    Command::new(EXECBOX)
        .args(["run", "-e", "6 * 7", "--timeout", "1m", "--executor", &format!("remote={address}")])
        .args(arguments)
        .env_remove("EXECBOX_TOKEN")
        .env("SSL_CERT_FILE", pem("other-authority.pem"))
        .env_remove("NODE_EXTRA_CA_CERTS")
        .output()
        .unwrap()
}

/// Standard output, or the error.
fn said(output: &Output) -> String {
    let text = if output.status.success() { &output.stdout } else { &output.stderr };
    String::from_utf8_lossy(text).trim().to_owned()
}

#[test]
fn programs_run_over_tls_where_the_certificate_is_trusted() {
    let folder = folder("programs");
    let token = folder.join("token.txt").display().to_string();
    for address in ["tls:127.0.0.1:0", "wss://127.0.0.1:0/path"] {
        let mut runner = listen(&folder, &["runner", "--listen", address, "--token-file", &token]);
        let authority = pem("authority.pem");
        let address = runner.address.clone();
        assert_eq!(said(&run(&address, &["--tls-ca", &authority, "--token-file", &token])), "42", "{address}");
        let not_trusted = said(&run(&address, &["--token-file", &token]));
        let expected = "certificate not trusted: its authority is unknown; name a file with its certificate (--tls-ca)";
        assert!(not_trusted.contains(expected), "{not_trusted}");
        runner.line_with("it does not trust the certificate of the runner");
        let no_token = said(&run(&address, &["--tls-ca", &authority]));
        assert!(no_token.contains("the runner requires a token"), "{no_token}");
    }
}

#[test]
fn hosts_without_tls_are_told_to_use_it() {
    let folder = folder("plain");
    for (address, plain, expected) in [
        ("tls:127.0.0.1:0", "tcp:", "the runner uses TLS; use an address of tls: or wss://"),
        ("wss://127.0.0.1:0", "ws:", "its answer is not that of a WebSocket; use wss:// if it listens with TLS"),
    ] {
        let mut runner = listen(&folder, &["runner", "--listen", address]);
        let (_, rest) = runner.address.split_once(':').unwrap();
        let said = said(&run(&format!("{plain}{rest}"), &[]));
        assert!(said.contains(expected), "{said}");
        assert!(runner.line_with("rejected a connection").ends_with(": it did not use TLS"));
    }
}

#[test]
fn hosts_must_have_a_certificate_where_one_is_required() {
    let folder = folder("clients");
    let authority = pem("authority.pem");
    for address in ["tls:127.0.0.1:0", "wss://127.0.0.1:0"] {
        let mut runner = listen(&folder, &["runner", "--listen", address, "--tls-client-ca", &authority]);
        let run_as = |name: Option<&str>| {
            let files = name.map(|name| [pem(&format!("{name}.pem")), pem(&format!("{name}.key"))]);
            let files = files.as_ref().map_or(vec![], |[cert, key]| vec!["--tls-cert", cert, "--tls-key", key]);
            said(&run(&runner.address, &[&["--tls-ca", &authority], &files[..]].concat()))
        };
        assert_eq!(run_as(Some("client")), "42", "{address}");
        let without = run_as(None);
        assert!(without.contains("it requires a client certificate (--tls-cert and --tls-key)"), "{without}");
        let stranger = run_as(Some("stranger"));
        assert!(stranger.contains("it does not trust the client certificate (--tls-cert)"), "{stranger}");
        assert!(runner.line_with("rejected a connection").ends_with(": it presented no certificate"));
    }
}

#[test]
fn certificates_that_change_are_used_by_new_connections() {
    let folder = folder("renewed");
    for (arguments, log) in [(&["runner", "--listen", "tls:127.0.0.1:0"][..], "execbox: "), (&GATEWAY, "execbox: ")] {
        install(&folder, "server");
        let mut listening = listen(&folder, arguments);
        assert_eq!(presented(&listening.address), fs::read_to_string(pem("server.pem")).unwrap());
        fs::write(folder.join("key.pem"), "-----BEGIN").unwrap();
        listening.line_with("certificates not reloaded: --tls-key ");
        assert_eq!(presented(&listening.address), fs::read_to_string(pem("server.pem")).unwrap());
        install(&folder, "renewed");
        assert_eq!(listening.line_with("certificates reloaded"), format!("{log}certificates reloaded"));
        assert_eq!(presented(&listening.address), fs::read_to_string(pem("renewed.pem")).unwrap());
    }
}

/// The certificate of a server, as Python sees it.
fn presented(address: &str) -> String {
    let script = "import ssl, sys; print(ssl.get_server_certificate((\"localhost\", int(sys.argv[1]))), end='')";
    let port = address.trim_end_matches("/mcp").rsplit_once(':').unwrap().1;
    let output = Command::new("python3").args(["-c", script, port]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A gateway over HTTPS.
const GATEWAY: [&str; 6] = ["mcp", "--tools", STUBS, "--http", "127.0.0.1:0", "--quiet"];
const STUBS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/binary/tls/tools.json");

#[test]
fn the_process_that_reads_the_files_of_a_runner_ends_with_it() {
    let folder = folder("ended");
    let mut runner = listen(&folder, &["runner", "--listen", "tls:127.0.0.1:0"]);
    let readers = || {
        let processes =
            fs::read_dir("/proc").unwrap().filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok());
        let marks = [&b"follow-files"[..], folder.to_str().unwrap().as_bytes()];
        processes.filter(|line| marks.iter().all(|mark| line.windows(mark.len()).any(|part| part == *mark))).count()
    };
    assert_eq!(readers(), 1);
    runner.process.kill().unwrap();
    runner.process.wait().unwrap();
    while readers() > 0 {
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn addresses_of_other_machines_need_a_token_and_tls() {
    let folder = folder("exposed");
    let path = |name: &str| folder.join(name).display().to_string();
    let (token, cert, key) = (path("token.txt"), path("cert.pem"), path("key.pem"));
    let tls = ["--tls-cert", &cert, "--tls-key", &key];
    let authority = pem("authority.pem");
    let refused = |arguments: &[&str]| {
        let output =
            Command::new(EXECBOX).args(arguments).env_remove("EXECBOX_TOKEN").stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let gateway = ["mcp", "--tools", STUBS, "--http"];
    for (listen, address) in [
        (&["runner", "--listen"][..], "tcp:0.0.0.0:0"),
        (&["runner", "--listen"], "ws://0.0.0.0:0"),
        (&gateway, "0.0.0.0:0"),
    ] {
        let arguments = [listen, &[address]].concat();
        assert!(refused(&arguments).contains("or require a token (--token-file)"));
        let clear = refused(&[&arguments[..], &["--token-file", &token]].concat());
        assert!(clear.contains("which would send their token in clear text"), "{clear}");
        assert!(clear.contains("(--tls-cert and --tls-key), or --insecure"), "{clear}");
    }
    for arguments in [
        ["runner", "--listen", "tls:0.0.0.0:0", "--token-file", &token].to_vec(),
        ["runner", "--listen", "wss://0.0.0.0:0", "--tls-client-ca", &authority].to_vec(),
        [&gateway[..], &["0.0.0.0:0", "--token-file", &token]].concat(),
        [&gateway[..], &["0.0.0.0:0", "--tls-client-ca", &authority]].concat(),
    ] {
        listen(&folder, &arguments);
    }
    let mut insecure = Command::new(EXECBOX)
        .args(["runner", "--listen", "tcp:0.0.0.0:0", "--token-file", &token, "--insecure"])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(insecure.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let _ = (insecure.kill(), insecure.wait());
    assert!(line.starts_with("execbox: listening on tcp:0.0.0.0:"), "{line}");
    for (arguments, expected) in [
        (vec!["runner", "--listen", "tls:127.0.0.1:0"], "needs a certificate (--tls-cert and --tls-key)"),
        ([&["runner", "--listen", "tcp:127.0.0.1:0"], &tls[..]].concat(), "use tls: or wss://"),
        ([&["runner"], &tls[..]].concat(), "--tls-cert needs --listen"),
        ([&["mcp", "--tools", STUBS], &tls[..]].concat(), "--tls-cert needs --http"),
        (
            vec!["runner", "--listen", "tls:127.0.0.1:0", "--tls-cert", &cert, "--tls-key", &token],
            "no private key found",
        ),
        (vec!["runner", "--listen", "tls:127.0.0.1:0", "--tls-cert", "none.pem", "--tls-key", &key], "no such file"),
        (
            vec!["run", "-e", "1", "--executor", "remote=tcp:127.0.0.1:1", "--tls-ca", &authority],
            "use an address of tls: or wss://",
        ),
        (vec!["run", "-e", "1", "--tls-ca", &authority], "use an address of tls: or wss://"),
    ] {
        let error = refused(&arguments);
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
}

/// A client that runs a program in the gateway at `argv[1]`, whose certificate is vouched for by `argv[2]`.
const CLIENT: &str = "
import json, ssl, sys, urllib.request
context = ssl.create_default_context(cafile=sys.argv[2])
meta = {'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {},
        'io.modelcontextprotocol/clientInfo': {'name': 'python', 'version': '3'}}
body = {'jsonrpc': '2.0', 'id': 1, 'method': 'tools/call',
        'params': {'name': 'mcp_execute_code', 'arguments': {'code': '6 * 7'}, '_meta': meta}}
headers = {'Content-Type': 'application/json', 'Accept': 'application/json, text/event-stream',
           'MCP-Protocol-Version': '2026-07-28', 'Mcp-Method': 'tools/call', 'Mcp-Name': 'mcp_execute_code'}
request = urllib.request.Request(sys.argv[1], json.dumps(body).encode(), headers)
answer = urllib.request.urlopen(request, context=context).read().decode()
print(json.loads(answer.split('data: ')[-1])['result']['content'][0]['text'])
";

#[test]
fn clients_of_a_gateway_are_served_over_https_and_its_runner_over_tls() {
    let folder = folder("gateway");
    let runner = listen(&folder, &["runner", "--listen", "tls:127.0.0.1:0", "--tls-client-ca", &pem("authority.pem")]);
    let executor = format!("remote={}", runner.address);
    let trusted = folder.join("ca.pem");
    fs::copy(pem("other-authority.pem"), &trusted).unwrap();
    let files = [
        ("--executor-tls-ca", trusted.display().to_string()),
        ("--executor-tls-cert", pem("client.pem")),
        ("--executor-tls-key", pem("client.key")),
    ];
    let files: Vec<_> = files.iter().flat_map(|(option, file)| [*option, file]).collect();
    let mut gateway = listen(&folder, &[&GATEWAY[..], &["--executor", &executor], &files].concat());
    assert!(gateway.address.starts_with("https://localhost:"), "{}", gateway.address);
    let address = gateway.address.clone();
    let python =
        |authority: &str| Command::new("python3").args(["-c", CLIENT, &address, &pem(authority)]).output().unwrap();
    let not_trusted = said(&python("authority.pem"));
    assert!(not_trusted.contains("certificate not trusted: its authority is unknown"), "{not_trusted}");
    fs::copy(pem("authority.pem"), &trusted).unwrap();
    gateway.line_with("certificates reloaded");
    assert_eq!(said(&python("authority.pem")), "42");
    assert!(said(&python("other-authority.pem")).contains("CERTIFICATE_VERIFY_FAILED"));
    // What is not TLS is not answered in clear text.
    let mut plain =
        TcpStream::connect(gateway.address.trim_start_matches("https://").trim_end_matches("/mcp")).unwrap();
    plain.write_all(b"GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(answer.len() < 16 && !answer.starts_with(b"HTTP"), "{answer:?}");
}
