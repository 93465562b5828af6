//! The user of the process at the other end of a connection.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{IpAddr, SocketAddr};

/// The two ends of a TCP connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer {
    pub(super) remote: SocketAddr,
    /// The port of this end.
    pub(super) local_port: u16,
}

/// The user or address that opens a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Owner {
    /// A user of this machine, by id.
    User(u32),
    /// An address, where the user is not known.
    Address(IpAddr),
}

impl Peer {
    /// The user if the connection is from this machine and the system reports it (on Linux), the address otherwise.
    pub(super) async fn owner(self) -> Owner {
        let address = self.remote.ip().to_canonical();
        let user = async {
            let user = tokio::task::spawn_blocking(move || self.user());
            if address.is_loopback() { user.await.ok().flatten() } else { None }
        };
        user.await.map_or(Owner::Address(address), Owner::User)
    }

    /// Searches the tables of the system for the socket of the peer. An IPv6 socket can have an IPv4 address, too.
    fn user(self) -> Option<u32> {
        let local_port = format!(":{:04X}", self.local_port);
        let user = |table: &str, address: IpAddr| {
            let remote = hex(SocketAddr::new(address, self.remote.port()));
            let table = BufReader::new(File::open(table).ok()?.take(MAX_TABLE));
            table.lines().map_while(Result::ok).find_map(|line| user_of(&line, &remote, &local_port))
        };
        match self.remote.ip().to_canonical() {
            IpAddr::V4(ip) => {
                user("/proc/net/tcp", ip.into()).or_else(|| user("/proc/net/tcp6", ip.to_ipv6_mapped().into()))
            }
            IpAddr::V6(ip) => user("/proc/net/tcp6", ip.into()),
        }
    }
}

/// The user of a line of the table if it is the established connection from `from` to a port.
fn user_of(line: &str, from: &str, to_port: &str) -> Option<u32> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let is_it = fields.next()? == from && fields.next()?.ends_with(to_port) && fields.next()? == ESTABLISHED;
    if is_it { fields.nth(3)?.parse().ok() } else { None }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_table_are_read() {
        let line = "   3: 0100007F:A1B2 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0 20 4 30 10 -1";
        assert_eq!(user_of(line, "0100007F:A1B2", ":1F90"), Some(1000));
        assert_eq!(user_of(line, "0100007F:A1B3", ":1F90"), None);
        assert_eq!(user_of(line, "0100007F:A1B2", ":1F91"), None);
        assert_eq!(user_of(&line.replace(" 01 ", " 06 "), "0100007F:A1B2", ":1F90"), None);
        for text in ["", "  sl  local_address rem_address   st", "3: 0100007F:A1B2 0100007F:1F90 01"] {
            assert_eq!(user_of(text, "0100007F:A1B2", ":1F90"), None);
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
            assert_eq!(peer.owner().await, Owner::User(own), "{address} {target}");
            drop(client);
        }
    }
}
