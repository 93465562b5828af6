//! The scope of the address in a URL. A remote server must not direct a login to this computer or its network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use reqwest::Url;

/// The scope of the host in a URL; names are not resolved. A server must not direct requests to a greater scope than its own.
///
/// A name is public, whatever it resolves to: requests to names are encrypted, so the host must have a certificate for the
/// name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AddressScope {
    Public,
    /// An address of a private network or of a link.
    Network,
    /// An address of this computer.
    Loopback,
}

impl AddressScope {
    pub(super) fn of(url: &Url) -> Self {
        let host = url.host_str().unwrap_or_default();
        match host.trim_matches(['[', ']']).parse() {
            Ok(IpAddr::V4(address)) => Self::of_v4(address),
            Ok(IpAddr::V6(address)) => Self::of_v6(address),
            Err(_) => {
                let name = host.trim_end_matches('.').to_ascii_lowercase();
                let is_local = name == "localhost" || name.ends_with(".localhost");
                if is_local { Self::Loopback } else { Self::Public }
            }
        }
    }

    fn of_v4(address: Ipv4Addr) -> Self {
        let [first, second, ..] = address.octets();
        let is_shared = first == 100 && second & 0xc0 == 64; // RFC 6598
        if address.is_loopback() || first == 0 {
            Self::Loopback // The system connects to itself at 0.0.0.0.
        } else if address.is_private() || address.is_link_local() || is_shared || first >= 224 {
            Self::Network
        } else {
            Self::Public
        }
    }

    fn of_v6(address: Ipv6Addr) -> Self {
        if address.is_loopback() || address.is_unspecified() {
            return Self::Loopback;
        }
        let [first, second, .., high, low] = address.segments();
        let last = Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
        // IPv4 addresses: mapped, compatible, and translated (RFC 6052).
        let is_prefixed = address.segments()[..5] == [0; 5] || (first, second) == (0x64, 0xff9b);
        if is_prefixed {
            Self::of_v4(last)
        } else if address.is_unique_local() || address.is_unicast_link_local() || address.is_multicast() {
            Self::Network
        } else {
            Self::Public
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(host: &str) -> AddressScope {
        AddressScope::of(&Url::parse(&format!("https://{host}:8443/path")).unwrap())
    }

    #[test]
    fn this_computer_is_known_in_every_notation() {
        for host in [
            "localhost",
            "LOCALHOST",
            "localhost.",
            "a.b.localhost",
            "ｌｏｃａｌｈｏｓｔ",
            "%6cocalhost",
            "127.0.0.1",
            "127.1",
            "127.0.0.1.",
            "127.255.255.254",
            "2130706433",
            "0x7f.1",
            "0177.0.0.1",
            "0x7f000001",
            "0",
            "0.0.0.0",
            "0.1.2.3",
            "[::1]",
            "[::]",
            "[0:0:0:0:0:0:0:1]",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
            "[::127.0.0.1]",
            "[64:ff9b::127.0.0.1]",
            "user:password@127.0.0.1",
            "[::ffff:0.0.0.0]",
        ] {
            assert_eq!(place(host), AddressScope::Loopback, "{host}");
        }
    }

    #[test]
    fn networks_of_this_computer_are_distinguished_from_others() {
        for host in [
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "[fe80::1]",
            "[fd00::1]",
            "[ff02::1]",
            "[::ffff:10.0.0.1]",
            "3232235777",
        ] {
            assert_eq!(place(host), AddressScope::Network, "{host}");
        }
        for host in [
            "example.com",
            "localhost.example.com",
            "notlocalhost",
            "127.0.0.1.example.com",
            "1.1.1.1",
            "172.32.0.1",
            "100.128.0.1",
            "[2606:4700::1111]",
            "[::ffff:1.1.1.1]",
        ] {
            assert_eq!(place(host), AddressScope::Public, "{host}");
        }
    }
}
