//! What a packet socket lets in of what passes, as a program of classic BPF (linux/filter.h).
//!
//! Frames of a VLAN are left out, of which the tag is not in the frame any more, and those that the host sends. Of the rest those for
//! our addresses, and ARP. A load behind the end of a frame leaves that frame out, so each is behind a look at what the frame is.
//!
//! ```text
//! received, of no VLAN ──> IPv4, IPv6 ──> with SYN, or without ──> for one of ours
//!                      └─> ARP, where SYNs are not wanted
//! ```

use std::net::IpAddr;

pub(super) type Step = libc::sock_filter;

/// Which segments of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// Those with SYN, and nothing else.
    Syns,
    /// All else.
    Others,
}

/// A program has at most this many steps (`BPF_MAXINSNS`). Ours has up to 13 for an address.
const STEPS_MAX: usize = 4096;

const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const LOAD_HALF: u16 = (libc::BPF_LD | libc::BPF_H | libc::BPF_ABS) as u16;
const LOAD_BYTE: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16;
/// Of the byte at an offset behind the header of which [`LOAD_HEADER_LEN`] has found the length.
const LOAD_BYTE_BEHIND: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_IND) as u16;
const LOAD_HEADER_LEN: u16 = (libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH) as u16;
const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const IF_SET: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
const GO: u16 = (libc::BPF_JMP | libc::BPF_JA) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

const OF_VLAN: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_VLAN_TAG_PRESENT) as u32;
const KIND: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32;

const TCP: u32 = 6;
const SYN: u32 = 0x02;

const fn step(code: u16, k: u32) -> Step {
    jump(code, 0, 0, k)
}

const fn jump(code: u16, jt: u8, jf: u8, k: u32) -> Step {
    libc::sock_filter { code, jt, jf, k }
}

/// Lets nothing in.
pub(super) fn nothing() -> Vec<Step> {
    vec![LEAVE]
}

const LEAVE: Step = step(RETURN, 0);
const TAKE: Step = step(RETURN, u32::MAX);

/// Lets in what is for these networks, with single addresses as the narrowest of them. With more than a program has room for, it is
/// for any.
pub(super) fn program(ours: &[(IpAddr, u8)], which: Which) -> Vec<Step> {
    let steps = steps(ours, which);
    if steps.len() <= STEPS_MAX {
        return steps;
    }
    self::steps(&[([0, 0, 0, 0].into(), 0), ([0u16; 8].into(), 0)], which)
}

fn steps(ours: &[(IpAddr, u8)], which: Which) -> Vec<Step> {
    let mut steps = vec![
        step(LOAD_WORD, OF_VLAN),
        jump(IF_EQUAL, 1, 0, 0),
        LEAVE,
        step(LOAD_WORD, KIND),
        jump(IF_EQUAL, 0, 1, libc::PACKET_OUTGOING as u32),
        LEAVE,
        step(LOAD_HALF, 12),
    ];
    for (kind, of_family) in [
        (libc::ETH_P_IP, v4(ours, which)),
        (libc::ETH_P_IPV6, v6(ours, which)),
    ] {
        steps.push(jump(IF_EQUAL, 1, 0, kind as u32));
        // The bodies are longer than a conditional jump goes.
        steps.push(step(GO, of_family.len() as u32));
        steps.extend(of_family);
    }
    if which == Which::Others {
        steps.extend([jump(IF_EQUAL, 0, 1, libc::ETH_P_ARP as u32), TAKE]);
    }
    steps.push(LEAVE);
    steps
}

/// Jumps to the step behind a `LEAVE` that is `left` steps away, or to that.
const fn onward(which: Which, left: u8) -> [u8; 2] {
    match which {
        // Where it is a SYN, where it is none.
        Which::Syns => [left + 1, left],
        Which::Others => [left, left + 1],
    }
}

fn v4(ours: &[(IpAddr, u8)], which: Which) -> Vec<Step> {
    let none = |left| onward(which, left)[1];
    let [is, is_none] = onward(which, 0);
    let mut steps = vec![
        step(LOAD_BYTE, 23),
        jump(IF_EQUAL, 0, none(5), TCP),
        step(LOAD_HALF, 20),
        // A later fragment has no header of TCP.
        jump(IF_SET, none(3), 0, 0x1fff),
        step(LOAD_HEADER_LEN, 14),
        step(LOAD_BYTE_BEHIND, 14 + 13),
        jump(IF_SET, is, is_none, SYN),
        LEAVE,
    ];
    for (ip, prefix) in ours {
        if let IpAddr::V4(ip) = ip {
            steps.extend(network(30, &[ip.to_bits()], *prefix));
        }
    }
    steps.push(LEAVE);
    steps
}

/// With extension headers a SYN is none for this.
fn v6(ours: &[(IpAddr, u8)], which: Which) -> Vec<Step> {
    let [is, is_none] = onward(which, 0);
    let mut steps = vec![
        step(LOAD_BYTE, 20),
        jump(IF_EQUAL, 0, onward(which, 2)[1], TCP),
        step(LOAD_BYTE, 14 + 40 + 13),
        jump(IF_SET, is, is_none, SYN),
        LEAVE,
    ];
    let words = |ip: u128| [96, 64, 32, 0].map(|shift| (ip >> shift) as u32);
    for (ip, prefix) in ours {
        if let IpAddr::V6(ip) = ip {
            steps.extend(network(38, &words(ip.to_bits()), *prefix));
        }
    }
    // Where neighbours ask for us: RFC 4291 §2.7.1.
    steps.extend(network(38, &[0xff02_0000, 0, 1, 0xff00_0000], 104));
    steps.push(LEAVE);
    steps
}

/// Takes what has these words at an offset, as far as the prefix goes; else it goes on behind.
fn network(at: u32, words: &[u32], prefix: u8) -> Vec<Step> {
    let masks = words.iter().enumerate().map(|(n, word)| {
        let bits = u32::from(prefix).saturating_sub(32 * n as u32).min(32);
        (
            4 * n as u32,
            *word,
            (u64::from(u32::MAX) << (32 - bits)) as u32,
        )
    });
    let masks: Vec<_> = masks.filter(|(_, _, mask)| *mask != 0).collect();
    let mut steps = Vec::new();
    for (left, (offset, word, mask)) in masks.iter().rev().enumerate().rev() {
        // Behind the steps of the words that are left, and the last.
        let behind = 3 * left as u8 + 1;
        steps.extend([
            step(LOAD_WORD, at + offset),
            step(AND, *mask),
            jump(IF_EQUAL, 0, behind, word & mask),
        ]);
    }
    steps.push(TAKE);
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixDatagram;

    /// What the kernel lets in, of frames that are sent as datagrams of a Unix socket.
    fn lets_in(program: &[Step], frame: &[u8]) -> bool {
        let (from, to) = UnixDatagram::pair().unwrap();
        to.set_nonblocking(true).unwrap();
        super::super::attach(&to, program).unwrap();
        let _ = from.send(frame);
        to.recv(&mut [0; 2048]).is_ok()
    }

    fn frame(kind: u16, rest: &[&[u8]]) -> Vec<u8> {
        [&[2; 12], &kind.to_be_bytes()[..], &rest.concat()].concat()
    }

    fn v4_frame(dst: [u8; 4], protocol: u8, fragment: u16, flags: u8, options: usize) -> Vec<u8> {
        let head = [0x45 + options as u8, 0, 0, 40, 0, 0];
        let rest = [64, protocol, 0, 0, 192, 0, 2, 1];
        let options = vec![1; 4 * options];
        let tcp = [
            0, 9, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0,
        ];
        frame(
            0x0800,
            &[&head, &fragment.to_be_bytes(), &rest, &dst, &options, &tcp],
        )
    }

    fn v6_frame(dst: &str, next: u8, flags: u8) -> Vec<u8> {
        let dst: std::net::Ipv6Addr = dst.parse().unwrap();
        let mut tcp = [0; 20];
        tcp[13] = flags;
        frame(
            0x86dd,
            &[
                &[0x60, 0, 0, 0, 0, 20, next, 64],
                &[9; 16],
                &dst.octets(),
                &tcp,
            ],
        )
    }

    #[test]
    fn syns_come_by_one_and_all_else_by_the_other() {
        /// By which of the two programs a frame comes.
        const SYNS: [bool; 2] = [true, false];
        const OTHERS: [bool; 2] = [false, true];
        const NEITHER: [bool; 2] = [false; 2];
        let ours: Vec<(IpAddr, u8)> = [
            ("10.0.0.1", 32),
            ("10.1.0.0", 16),
            ("fd00::1", 128),
            ("fd01::", 33),
        ]
        .map(|(ip, prefix)| (ip.parse().unwrap(), prefix))
        .into();
        let [syns, others] = [Which::Syns, Which::Others].map(|which| program(&ours, which));
        let (mine, tcp, syn) = ([10, 0, 0, 1], 6, 2);
        for (what, frame, wanted) in [
            ("a SYN", v4_frame(mine, tcp, 0x4000, syn, 0), SYNS),
            ("with options of IP", v4_frame(mine, tcp, 0, syn, 3), SYNS),
            ("an answer to one", v4_frame(mine, tcp, 0, 0x12, 0), SYNS),
            (
                "an acknowledgement",
                v4_frame(mine, tcp, 0, 0x10, 0),
                OTHERS,
            ),
            ("with options too", v4_frame(mine, tcp, 0, 0x10, 3), OTHERS),
            ("a later fragment", v4_frame(mine, tcp, 5, syn, 0), OTHERS),
            ("a datagram", v4_frame(mine, 17, 0, syn, 0), OTHERS),
            (
                "a SYN to another",
                v4_frame([10, 0, 0, 2], tcp, 0, syn, 0),
                NEITHER,
            ),
            (
                "data to another",
                v4_frame([10, 0, 0, 2], tcp, 0, 0x10, 0),
                NEITHER,
            ),
            (
                "a SYN to a network",
                v4_frame([10, 1, 9, 9], tcp, 0, syn, 0),
                SYNS,
            ),
            (
                "a SYN beside it",
                v4_frame([10, 2, 9, 9], tcp, 0, syn, 0),
                NEITHER,
            ),
            ("a SYN of IPv6", v6_frame("fd00::1", tcp, syn), SYNS),
            ("data of IPv6", v6_frame("fd00::1", tcp, 0x10), OTHERS),
            ("to another", v6_frame("fd00::2", tcp, syn), NEITHER),
            ("to a network of IPv6", v6_frame("fd01::5", tcp, syn), SYNS),
            (
                "in its last bit",
                v6_frame("fd01:0:8000::5", tcp, syn),
                NEITHER,
            ),
            (
                "a neighbour's question",
                v6_frame("ff02::1:ff00:1", 58, 0),
                OTHERS,
            ),
            ("ARP, the shortest", frame(0x0806, &[&[0; 28]]), OTHERS),
            ("another protocol", frame(0x88cc, &[&[0; 100]]), NEITHER),
            ("nothing but a type", frame(0x0800, &[]), NEITHER),
        ] {
            let found = [&syns, &others].map(|program| lets_in(program, &frame));
            assert_eq!(found, wanted, "{what}");
        }
        assert!(!lets_in(&nothing(), &v4_frame(mine, tcp, 0, syn, 0)));
    }

    #[test]
    fn more_addresses_than_a_program_has_room_for_are_any() {
        let ours: Vec<(IpAddr, u8)> = (0..2000u32)
            .map(|n| (IpAddr::from(n.to_be_bytes()), 32))
            .collect();
        let many = program(&ours, Which::Syns);
        assert!(lets_in(&many, &v4_frame([10, 0, 0, 1], 6, 0, 2, 0)));
        assert!(!lets_in(&many, &v4_frame([10, 0, 0, 1], 6, 0, 0x10, 0)));
    }
}
