//! `--tls-cert`, `--tls-key`, `--tls-client-ca`, `--tls-ca` and `--insecure`: the files of TLS, which are read again when they
//! change.

use std::ffi::OsStr;
use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use clap::Args;
use execbox::transport::tls::{Certificates, ClientTls, Identity, IdentityError, ServerTls, TlsError, Trust};
use execbox::transport::{Address, ConnectOptions};

use crate::config::files::{self, Files};
use crate::error::{CliError, CommandError, reason};
use crate::files::source;
use crate::options::token::TokenSource;
use crate::output::report;
use crate::process::secrecy;

/// The TLS of a command that listens.
#[derive(Debug, Args)]
#[command(next_help_heading = "TLS")]
pub(crate) struct ServerTlsArguments {
    /// Present the certificate in FILE (PEM), with those that lead to its authority
    ///
    /// The files of TLS are read again when they change; connections go on.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// Prove the certificate with the private key in FILE (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// Require a certificate that is in FILE (PEM), or is signed by one of those
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,

    /// Let other machines send their token in clear text: behind a proxy or a tunnel that encrypts
    #[arg(long)]
    pub(crate) insecure: bool,
}

/// The TLS of a command that connects to a runner.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "TLS")]
pub(crate) struct ClientTlsArguments {
    /// Trust runners with a certificate that is in FILE (PEM), or is signed by one of those [default: those of the system]
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    tls_ca: Option<PathBuf>,

    /// Present the certificate in FILE (PEM) to runners that ask for one
    #[arg(long, value_name = "FILE", requires = "tls_key", hide_short_help = true)]
    tls_cert: Option<PathBuf>,

    /// Prove the certificate with the private key in FILE (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert", hide_short_help = true)]
    tls_key: Option<PathBuf>,

    /// Send the token to another machine in clear text: through a tunnel that encrypts
    #[arg(long, hide_short_help = true)]
    insecure: bool,
}

/// [`ClientTlsArguments`] of a command that listens, too.
#[derive(Debug, Args)]
#[command(next_help_heading = "Isolation")]
pub(crate) struct ExecutorTlsArguments {
    /// Trust remote runners with a certificate that is in FILE (PEM), or is signed by one of those
    #[arg(id = "executor_tls_ca", long = "executor-tls-ca", value_name = "FILE", hide_short_help = true)]
    ca: Option<PathBuf>,

    /// Present the certificate in FILE (PEM) to the remote runner
    #[arg(
        id = "executor_tls_cert",
        long = "executor-tls-cert",
        value_name = "FILE",
        requires = "executor_tls_key",
        hide_short_help = true
    )]
    cert: Option<PathBuf>,

    /// Prove the certificate with the private key in FILE (PEM)
    #[arg(
        id = "executor_tls_key",
        long = "executor-tls-key",
        value_name = "FILE",
        requires = "executor_tls_cert",
        hide_short_help = true
    )]
    key: Option<PathBuf>,

    /// Send the token to a remote runner on another machine in clear text: through a tunnel that encrypts
    #[arg(id = "executor_insecure", long = "executor-insecure", hide_short_help = true)]
    insecure: bool,
}

impl ServerTlsArguments {
    /// Fails if there is a certificate and nothing to listen for. `option` is the one that listens.
    pub(crate) fn check_needed(&self, option: &'static str, is_given: bool) -> Result<(), TlsFileError> {
        if self.tls_cert.is_some() && !is_given { Err(TlsFileError::NotListening(option)) } else { Ok(()) }
    }

    /// The files, if there is a certificate.
    pub(crate) fn files(&self) -> Option<ServerTlsFiles> {
        let certificate = PemFile::of("--tls-cert", self.tls_cert.as_deref())?;
        let key = PemFile::of("--tls-key", self.tls_key.as_deref())?;
        let clients = PemFile::of("--tls-client-ca", self.tls_client_ca.as_deref());
        Some(ServerTlsFiles(PemFiles([Some(certificate), Some(key), clients])))
    }
}

impl ClientTlsArguments {
    pub(crate) fn options(&self) -> ClientTlsOptions {
        let files = [("--tls-cert", &self.tls_cert), ("--tls-key", &self.tls_key), ("--tls-ca", &self.tls_ca)];
        ClientTlsOptions::new(files, self.insecure)
    }
}

impl ExecutorTlsArguments {
    pub(crate) fn options(&self) -> ClientTlsOptions {
        let [cert, key, ca] = ["--executor-tls-cert", "--executor-tls-key", "--executor-tls-ca"];
        ClientTlsOptions::new([(cert, &self.cert), (key, &self.key), (ca, &self.ca)], self.insecure)
    }
}

/// How a command connects to a runner.
pub(crate) struct ClientTlsOptions {
    files: Option<ClientTlsFiles>,
    insecure: bool,
}

impl ClientTlsOptions {
    /// `files` are the options that name the certificate, its key and the certificates that are trusted.
    fn new(files: [(&'static str, &Option<PathBuf>); 3], insecure: bool) -> Self {
        let files = files.map(|(option, path)| PemFile::of(option, path.as_deref()));
        let is_given = files.iter().any(Option::is_some);
        Self { files: is_given.then_some(ClientTlsFiles(PemFiles(files))), insecure }
    }

    /// The options of connections to `address`, if programs run on a remote runner at all. The token is read then. The files of
    /// TLS are read again when they change, on a thread of its own.
    pub(crate) fn read(
        &self,
        address: Option<&Address>,
        token: TokenSource<'_>,
    ) -> Result<ConnectOptions, CommandError> {
        let tls = match &self.files {
            Some(files) if address.is_some_and(Address::is_encrypted) => Some(files.read_and_follow()?),
            Some(files) => return Err(TlsFileError::NotEncrypted(files.0.first_option()).into()),
            None => None,
        };
        let token = if address.is_some() { token.read()? } else { None };
        Ok(ConnectOptions::default().token(token).tls(tls).insecure(self.insecure))
    }
}

/// Why the TLS of a command cannot be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsFileError {
    #[error("{option} {}: {reason}", path.display())]
    File { option: &'static str, path: PathBuf, reason: String },
    #[error("--tls-cert needs {0}")]
    NotListening(&'static str),
    #[error("{0}: connections to the runner are not encrypted; use an address of tls: or wss://")]
    NotEncrypted(&'static str),
    #[error("{0}")]
    Tls(#[from] TlsError),
}

impl CliError for TlsFileError {}

/// A file that an option names.
#[derive(Debug, Clone)]
struct PemFile {
    option: &'static str,
    path: PathBuf,
}

impl PemFile {
    fn of(option: &'static str, path: Option<&Path>) -> Option<Self> {
        path.map(|path| Self { option, path: path.to_owned() })
    }

    /// The text of the file. Bytes that are not UTF-8 are replaced: PEM has none outside of comments.
    fn read(&self) -> Result<String, TlsFileError> {
        let file = source::open(&self.path).map_err(|error| self.error(&reason(&error)))?;
        let file = file.map_err(|kind| self.error(&format_args!("{kind}; name a regular file")))?;
        let mut text = Vec::new();
        file.take(MAX_FILE).read_to_end(&mut text).map_err(|error| self.error(&reason(&error)))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn error(&self, reason: &dyn fmt::Display) -> TlsFileError {
        TlsFileError::File { option: self.option, path: self.path.clone(), reason: reason.to_string() }
    }
}

/// The texts of [`PemFiles`].
pub(crate) type PemTexts = [Option<String>; 3];

/// The files with a certificate, its private key, and the certificates that are trusted.
#[derive(Clone)]
struct PemFiles([Option<PemFile>; 3]);

impl PemFiles {
    fn first_option(&self) -> &'static str {
        self.0.iter().flatten().map(|file| file.option).next().unwrap_or_default()
    }

    fn read(&self) -> Result<PemTexts, TlsFileError> {
        let [certificate, key, trusted] = &self.0;
        let read = |file: &Option<PemFile>| file.as_ref().map(PemFile::read).transpose();
        Ok([read(certificate)?, read(key)?, read(trusted)?])
    }

    fn identity(&self, [certificate, key, _]: &PemTexts) -> Result<Option<Identity>, TlsFileError> {
        let ([Some(certificate_file), Some(key_file), _], Some(certificate), Some(key)) = (&self.0, certificate, key)
        else {
            return Ok(None);
        };
        Identity::from_pem(certificate.as_bytes(), key.as_bytes()).map(Some).map_err(|error| match &error {
            IdentityError::Certificate(_) => certificate_file.error(&error),
            error => key_file.error(error),
        })
    }

    fn trusted(&self, [_, _, trusted]: &PemTexts) -> Result<Option<Certificates>, TlsFileError> {
        let (Some(file), Some(trusted)) = (&self.0[2], trusted) else { return Ok(None) };
        Certificates::from_pem(trusted.as_bytes()).map(Some).map_err(|error| file.error(&error))
    }

    /// Calls `apply` with the texts each time that they differ from those before, at first from `known`, as long as `wait`,
    /// which waits for a time, returns true. A file that cannot be read changes nothing, and is reported.
    fn follow(&self, mut known: PemTexts, wait: impl Fn(Duration) -> bool, mut apply: impl FnMut(&PemTexts)) {
        let mut stamps = self.stamps();
        loop {
            match self.read() {
                Ok(texts) if texts == known => {}
                Ok(texts) => {
                    apply(&texts);
                    known = texts;
                }
                Err(error) => warn_of(&error),
            }
            stamps = match changed(&stamps, &wait) {
                Some(stamps) => stamps,
                None => return,
            };
        }
    }

    fn stamps(&self) -> Files {
        let mut stamps = Files::default();
        for file in self.0.iter().flatten() {
            stamps.record(&file.path);
        }
        stamps
    }
}

/// Waits until the files have other stamps than `known`, and then until they are no longer written. `None` if `wait` returns
/// false.
fn changed(known: &Files, wait: &impl Fn(Duration) -> bool) -> Option<Files> {
    let mut now = known.clone();
    while now == *known {
        wait(POLL).then_some(())?;
        now = now.now();
    }
    loop {
        wait(SETTLE).then_some(())?;
        let settled = now.clone().now();
        if settled == now {
            return Some(now);
        }
        now = settled;
    }
}

/// The files of a command that listens.
#[derive(Clone)]
pub(crate) struct ServerTlsFiles(PemFiles);

impl ServerTlsFiles {
    /// Reads the files. Protects this process, and warns of a private key that others can read.
    pub(crate) fn read(&self) -> Result<(ServerTls, PemTexts), TlsFileError> {
        check_secrecy(&self.0);
        let texts = self.0.read()?;
        Ok((self.tls(&texts)?, texts))
    }

    fn tls(&self, texts: &PemTexts) -> Result<ServerTls, TlsFileError> {
        let identity = self.0.identity(texts)?.expect("there is a certificate");
        Ok(ServerTls::new(identity, self.0.trusted(texts)?)?)
    }

    /// Replaces what `tls` presents and requires, and reports that. A mistake in the texts changes nothing.
    pub(crate) fn replace(&self, tls: &ServerTls, texts: &PemTexts) {
        report_reload(self.tls(texts).map(|new| tls.replace(&new)));
    }

    /// Replaces what `tls`, which was made from `known`, presents and requires whenever the files change, on a thread of its own.
    pub(crate) fn keep_current(&self, tls: &ServerTls, known: PemTexts) {
        let (files, tls) = (self.clone(), tls.clone());
        thread::spawn(move || files.0.follow(known, pause, |texts| files.replace(&tls, texts)));
    }

    /// Calls `apply` with the texts, and again whenever they have changed, as long as `wait`, which waits for a time, returns true.
    pub(crate) fn follow(&self, wait: impl Fn(Duration) -> bool, apply: impl FnMut(&PemTexts)) {
        self.0.follow(PemTexts::default(), wait, apply);
    }

    /// The options that name the files, as on a command line.
    pub(crate) fn to_arguments(&self) -> impl Iterator<Item = &OsStr> {
        let files = self.0.0.iter().flatten();
        files.flat_map(|file| [file.option.as_ref(), file.path.as_os_str()])
    }
}

/// The files of a command that connects to a runner.
#[derive(Clone)]
struct ClientTlsFiles(PemFiles);

impl ClientTlsFiles {
    /// Reads the files, now and whenever they change. Protects this process, and warns of a private key that others can read.
    fn read_and_follow(&self) -> Result<ClientTls, TlsFileError> {
        check_secrecy(&self.0);
        let known = self.0.read()?;
        let tls = self.tls(&known)?;
        let (files, replaced) = (self.clone(), tls.clone());
        thread::spawn(move || {
            files.0.follow(known, pause, |texts| report_reload(files.tls(texts).map(|new| replaced.replace(&new))));
        });
        Ok(tls)
    }

    fn tls(&self, texts: &PemTexts) -> Result<ClientTls, TlsFileError> {
        let trust = match self.0.trusted(texts)? {
            Some(trusted) => Trust::only(trusted)?,
            None => Trust::system()?,
        };
        Ok(ClientTls::new(trust, self.0.identity(texts)?)?)
    }
}

/// Reports that the files were read again, or why they are not used.
fn report_reload(reloaded: Result<(), TlsFileError>) {
    match reloaded {
        Ok(()) => report::note(&"certificates reloaded"),
        Err(error) => warn_of(&error),
    }
}

fn check_secrecy(files: &PemFiles) {
    let Some(key) = &files.0[1] else { return };
    secrecy::protect();
    if files::is_readable_by_others(&key.path) {
        let path = key.path.display();
        report::warn(&format_args!("{} {path}: all users of this machine can read it; chmod 600 {path}", key.option));
    }
}

fn warn_of(error: &TlsFileError) {
    report::warn(&format_args!("certificates not reloaded: {error}"));
}

fn pause(time: Duration) -> bool {
    thread::sleep(time);
    true
}

/// The maximum number of bytes that are read of a file: far more than certificates have.
const MAX_FILE: u64 = 1 << 20;

/// The time between two checks of the files.
const POLL: Duration = Duration::from_secs(1);

/// How long files must have been unchanged before they are read.
const SETTLE: Duration = Duration::from_millis(250);
