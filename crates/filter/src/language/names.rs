//! Names that stand for numbers. No files are read, so these are all.

/// Protocol numbers that `proto` takes by name.
pub(super) const PROTOCOLS: &[(&str, u8)] = &[
    ("icmp", 1),
    ("igmp", 2),
    ("tcp", 6),
    ("udp", 17),
    ("esp", 50),
    ("ah", 51),
    ("icmp6", 58),
    ("sctp", 132),
];

/// Ethertypes that `ether proto` takes by name.
pub(super) const ETHERTYPES: &[(&str, u16)] = &[
    ("ip", 0x0800),
    ("arp", 0x0806),
    ("rarp", 0x8035),
    ("ip6", 0x86dd),
];

/// Ports that `port` takes by name: those that people write.
pub(super) const PORTS: &[(&str, u16)] = &[
    ("ftp", 21),
    ("ssh", 22),
    ("telnet", 23),
    ("smtp", 25),
    ("domain", 53),
    ("bootps", 67),
    ("bootpc", 68),
    ("tftp", 69),
    ("http", 80),
    ("pop3", 110),
    ("ntp", 123),
    ("imap", 143),
    ("snmp", 161),
    ("bgp", 179),
    ("https", 443),
    ("syslog", 514),
];

/// Numbers inside comparisons: offsets and flags of TCP and ICMP, named as tcpdump names them.
pub(super) const NUMBERS: &[(&str, u32)] = &[
    ("tcpflags", 13),
    ("tcp-fin", 0x01),
    ("tcp-syn", 0x02),
    ("tcp-rst", 0x04),
    ("tcp-push", 0x08),
    ("tcp-ack", 0x10),
    ("tcp-urg", 0x20),
    ("tcp-ece", 0x40),
    ("tcp-cwr", 0x80),
    ("icmptype", 0),
    ("icmpcode", 1),
    ("icmp-echoreply", 0),
    ("icmp-unreach", 3),
    ("icmp-redirect", 5),
    ("icmp-echo", 8),
    ("icmp-timxceed", 11),
    ("icmp6type", 0),
    ("icmp6code", 1),
    ("icmp6-echo", 128),
    ("icmp6-echoreply", 129),
    ("icmp6-neighborsolicit", 135),
    ("icmp6-neighboradvert", 136),
];

/// The number of a name.
pub(super) fn find<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    table
        .iter()
        .find(|(n, _)| *n == name)
        .map(|(_, value)| *value)
}
