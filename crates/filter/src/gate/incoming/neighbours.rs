//! ARP and neighbour discovery: what is about addresses that are ours alone is the daemon's.

use super::Ends;
use crate::ebpf::{Alu, Condition, Emit, Reg, Size};
use crate::gate::code::parse::OFFSET;
use crate::gate::code::{Code, DESTINATION, ICMP_TYPE, IP, IS_V6, TARGET, TRANSPORT, half};
use crate::gate::layout::AddressFlags;
use crate::layers::IPV4;

/// Ethernet, IPv4's ARP and the target's address (RFC 826).
const ARP_LEN: i32 = 28;

impl Code<'_> {
    /// Questions and answers about addresses that are ours alone are the daemon's. RFC 826: target protocol address.
    pub(super) fn arp(&mut self, ends: Ends) {
        self.load_bytes(14, ARP_LEN, IP, ends.unclaimed);
        // Ethernet, IPv4, 6 and 4 bytes.
        for (at, value) in [(0, 1), (2, IPV4), (4, 0x0604)] {
            self.read(Size::Half, Reg::R1, IP + at);
            self.jump_if(Reg::R1, Condition::NotEqual, half(value), ends.unclaimed);
        }
        self.map_address(IP + 24, DESTINATION);
        self.if_address(DESTINATION, AddressFlags::OURS_ALONE, ends.daemon);
        self.jump(ends.pass);
    }

    /// RFC 4861 §4: types 133 to 137 are never a program's.
    pub(super) fn neighbour_discovery(&mut self, ends: Ends) {
        let [other, addressed] = [(); 2].map(|()| self.label());
        self.get(Reg::R1, IS_V6);
        self.jump_if(Reg::R1, Condition::Equal, 0, other);
        self.get(Reg::R1, ICMP_TYPE);
        self.alu(Alu::Sub, Reg::R1, 133);
        self.jump_if(Reg::R1, Condition::Greater, 4, other);
        // Solicitation and advertisement, 135 and 136, name a target behind 8 bytes (RFC 4861 §4.3, §4.4).
        self.alu(Alu::Sub, Reg::R1, 2);
        self.jump_if(Reg::R1, Condition::Greater, 1, addressed);
        self.within(OFFSET, 24, addressed);
        self.alu(Alu::Add, OFFSET, 8);
        self.load_bytes(OFFSET, 16, TARGET, addressed);
        self.if_address(TARGET, AddressFlags::OURS_ALONE, ends.daemon);
        self.bind(addressed);
        self.if_address(DESTINATION, AddressFlags::OURS_ALONE, ends.daemon);
        self.jump(ends.pass);
        self.bind(other);
    }
}

const _: () = assert!(ARP_LEN <= (TRANSPORT - IP) as i32);
