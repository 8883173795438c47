//! The PROXY protocol, by which a server learns of the client behind a connection: a header before everything else.
//!
//! HAProxy's "The PROXY protocol, versions 1 & 2" (doc/proxy-protocol.txt), sections 2.1 and 2.2.

use std::net::{IpAddr, SocketAddr};

/// Which of its versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Version {
    /// Version 1: a line of text.
    V1,
    /// Version 2: binary.
    V2,
}

/// What a header of version 2 begins with.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Version 2, a connection that is passed on for somebody.
const PROXIED: u8 = 0x21;
/// A stream over either family.
const STREAM_V4: u8 = 0x11;
const STREAM_V6: u8 = 0x21;

/// The header of a connection of `client` to `listener`, which are of one family.
pub(super) fn header(version: Version, client: SocketAddr, listener: SocketAddr) -> Vec<u8> {
    match version {
        Version::V1 => {
            let family = if client.is_ipv6() { "TCP6" } else { "TCP4" };
            format!(
                "PROXY {family} {} {} {} {}\r\n",
                client.ip(),
                listener.ip(),
                client.port(),
                listener.port()
            )
            .into_bytes()
        }
        Version::V2 => version_2(client, listener),
    }
}

fn version_2(client: SocketAddr, listener: SocketAddr) -> Vec<u8> {
    let addresses = [octets(client.ip()), octets(listener.ip())].concat();
    let ports = [client.port(), listener.port()].map(u16::to_be_bytes);
    let family = if client.is_ipv6() {
        STREAM_V6
    } else {
        STREAM_V4
    };
    let len = (addresses.len() + 4) as u16;
    let mut header = SIGNATURE.to_vec();
    header.extend([PROXIED, family]);
    header.extend(len.to_be_bytes());
    header.extend(addresses);
    header.extend(ports.concat());
    header
}

fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_line_of_version_1() {
        let four = header(Version::V1, at("192.0.2.1:56324"), at("192.0.2.11:443"));
        assert_eq!(four, b"PROXY TCP4 192.0.2.1 192.0.2.11 56324 443\r\n");
        let six = header(
            Version::V1,
            at("[2001:db8::1]:1"),
            at("[2001:db8::2]:65535"),
        );
        assert_eq!(six, b"PROXY TCP6 2001:db8::1 2001:db8::2 1 65535\r\n");
    }

    #[test]
    fn the_bytes_of_version_2() {
        let four = header(Version::V2, at("192.0.2.1:258"), at("192.0.2.11:443"));
        let rest = [
            0x21, 0x11, 0, 12, 192, 0, 2, 1, 192, 0, 2, 11, 1, 2, 1, 0xbb,
        ];
        assert_eq!(four, [&b"\r\n\r\n\0\r\nQUIT\n"[..], &rest].concat());
        let six = header(Version::V2, at("[2001:db8::1]:1"), at("[2001:db8::2]:2"));
        assert_eq!(six.len(), 16 + 36);
        assert_eq!(six[13..18], [0x21, 0, 36, 0x20, 0x01]);
        assert_eq!(six[48..], [0, 1, 0, 2]);
    }
}
