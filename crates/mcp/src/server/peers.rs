//! The user of the process at the other end of a connection.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{IpAddr, SocketAddr};

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::clients::Client;

/// The two ends of a TCP connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer {
    pub(super) remote: SocketAddr,
    /// The port of this end.
    pub(super) local_port: u16,
}

/// The user, address or named client that opens a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Owner {
    /// A user of this machine, by id.
    User(u32),
    /// An address, where the user is not known.
    Address(IpAddr),
    /// A client with a token of its own.
    Named(Client),
}

/// Finds the owners of connections. The tables of the system are long, so that one reading serves all who wait for it.
#[derive(Default)]
pub(super) struct Owners(Mutex<Option<Reading>>);

/// The users of the connections to one port.
struct Reading {
    began: Instant,
    /// By address in the format of the table.
    users: HashMap<String, u32>,
}

impl Owners {
    /// The user if the connection is from this machine and the system reports it (on Linux), the address otherwise.
    pub(super) async fn owner(&self, peer: Peer) -> Owner {
        let address = peer.remote.ip().to_canonical();
        let user = if address.is_loopback() { self.user(peer).await } else { None };
        user.map_or(Owner::Address(address), Owner::User)
    }

    async fn user(&self, peer: Peer) -> Option<u32> {
        let asked = Instant::now();
        let mut last = self.0.lock().await;
        if last.as_ref().is_none_or(|reading| reading.began < asked) {
            let began = Instant::now();
            let users = tokio::task::spawn_blocking(move || read_users(peer.local_port)).await.ok()?;
            *last = Some(Reading { began, users });
        }
        let user =
            |address: IpAddr| last.as_ref()?.users.get(&hex(SocketAddr::new(address, peer.remote.port()))).copied();
        match peer.remote.ip().to_canonical() {
            // An IPv6 socket can have an IPv4 address, too.
            IpAddr::V4(ip) => user(ip.into()).or_else(|| user(ip.to_ipv6_mapped().into())),
            ip @ IpAddr::V6(_) => user(ip),
        }
    }
}

/// Reads the users of the established connections to a port from the tables of the system.
fn read_users(port: u16) -> HashMap<String, u32> {
    let (mut users, to_port) = (HashMap::new(), format!(":{port:04X}"));
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let Ok(table) = File::open(table) else { continue };
        let mut table = BufReader::with_capacity(TABLE_BUFFER, table.take(MAX_TABLE));
        let mut line = String::new();
        while table.read_line(&mut line).is_ok_and(|length| length > 0) {
            if let Some((from, user)) = user_of(&line, &to_port) {
                users.insert(from.to_owned(), user);
            }
            line.clear();
        }
    }
    users
}

/// The address and the user of a line of the table if it is an established connection to a port.
fn user_of<'a>(line: &'a str, to_port: &str) -> Option<(&'a str, u32)> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let from = fields.next()?;
    let is_it = fields.next()?.ends_with(to_port) && fields.next()? == ESTABLISHED;
    if is_it { Some((from, fields.nth(3)?.parse().ok()?)) } else { None }
}

/// An address in the format of the table: 32-bit words in native byte order.
fn hex(address: SocketAddr) -> String {
    let mut text = String::new();
    let mut add = |bytes: &[u8]| {
        for bytes in bytes.chunks(4) {
            let word = bytes.try_into().map(u32::from_ne_bytes).unwrap_or_default();
            text += &format!("{word:08X}");
        }
    };
    match address.ip() {
        IpAddr::V4(ip) => add(&ip.octets()),
        IpAddr::V6(ip) => add(&ip.octets()),
    }
    text + &format!(":{:04X}", address.port())
}

/// The state of established connections in the table. A socket that is closing has no owner.
const ESTABLISHED: &str = "01";

/// How much of the table is read, in bytes: about 25 000 sockets.
const MAX_TABLE: u64 = 4 << 20;

/// How much of the table is read at once, in bytes.
const TABLE_BUFFER: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_table_are_read() {
        let line = "   3: 0100007F:A1B2 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0 20 4 30 10 -1";
        assert_eq!(user_of(line, ":1F90"), Some(("0100007F:A1B2", 1000)));
        assert_eq!(user_of(line, ":1F91"), None);
        assert_eq!(user_of(&line.replace(" 01 ", " 06 "), ":1F90"), None);
        for text in ["", "  sl  local_address rem_address   st", "3: 0100007F:A1B2 0100007F:1F90 01"] {
            assert_eq!(user_of(text, ":1F90"), None);
        }
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_user_of_a_local_connection_is_known() {
        use std::os::unix::fs::MetadataExt as _;
        let own = std::fs::metadata("/proc/self").unwrap().uid();
        for (address, target) in [
            ("127.0.0.1:0", "127.0.0.1"),
            ("127.0.0.1:0", "::ffff:127.0.0.1"),
            ("[::1]:0", "::1"),
            ("[::]:0", "127.0.0.1"),
        ] {
            // A system may have no IPv6.
            let Ok(listener) = tokio::net::TcpListener::bind(address).await else { continue };
            let local = listener.local_addr().unwrap();
            let Ok(client) = tokio::net::TcpStream::connect((target, local.port())).await else { continue };
            let (_accepted, remote) = listener.accept().await.unwrap();
            let peer = Peer { remote, local_port: local.port() };
            let owners = Owners::default();
            assert_eq!(owners.owner(peer).await, Owner::User(own), "{address} {target}");
            let Ok(later) = tokio::net::TcpStream::connect((target, local.port())).await else { continue };
            let (_accepted, remote) = listener.accept().await.unwrap();
            let peer = Peer { remote, ..peer };
            assert_eq!(owners.owner(peer).await, Owner::User(own), "the table is read again");
            drop((client, later));
        }
    }
}
