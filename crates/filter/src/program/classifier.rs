//! What is different in a program of traffic control: it sees socket buffers, of which headers may lie in pieces, and it marks
//! what is claimed.
//!
//! A packet socket that is bound to a protocol, not to all, sees a packet after traffic control did, beside the host's stack.
//! So the program marks what is claimed for the socket's filter, and says that it is for another host: the stack leaves that
//! alone (`ip_rcv`, `ipv6_rcv`, `arp_rcv`), whatever it is.
//!
//! Registers: r6 context, until it is in r1 again.

use super::compiled::Counter;
use super::emitter::{CONTEXT, END, Emitter, FRAME};
use crate::ebpf::{Alu, Condition, Emit, Helper, Reg, Size, half};
use crate::layers::{IPV4, IPV6};
use crate::packet::{Bytes, ETHERTYPE, NETWORK};
use exos_wire::protocol::{TCP, UDP};

/// Go on with the next program, or to the host (`TCX_NEXT`, `TC_ACT_UNSPEC`).
pub(crate) const NEXT: i32 = -1;
/// `TCX_PASS`, `TC_ACT_OK`.
const PASS: i32 = 0;
/// `TCX_DROP`, `TC_ACT_SHOT`.
pub(crate) const DROP: i32 = 2;
/// `PACKET_OTHERHOST` (linux/if_packet.h).
const FOR_ANOTHER_HOST: i32 = 3;

/// Where fields of `struct __sk_buff` are.
pub(crate) mod field {
    pub(crate) const LEN: i16 = 0;
    pub(crate) const MARK: i16 = 8;
    pub(crate) const VLAN_PRESENT: i16 = 20;
    pub(crate) const VLAN_TAG: i16 = 24;
    pub(crate) const DATA: i16 = 76;
    pub(crate) const DATA_META: i16 = 140;
}

/// The first piece.
const FIRST: Bytes = Bytes {
    start: FRAME,
    end: END,
};

const SAVED_CONTEXT: Reg = Reg::R6;
/// Of the tag's word (IEEE 802.1Q): which VLAN.
const VLAN_ID: i32 = 0x0fff;
/// Headers of a datagram or segment as they nearly always are, without options: they are in the first piece then.
const PLAIN_V4: usize = NETWORK + 20 + 20;
const PLAIN_V6: usize = NETWORK + 40 + 20;
/// Of all others so much is made one piece: IPv4 with all options and a header of TCP, or some extension headers of IPv6.
const UNUSUAL: usize = 256;

impl Emitter<'_> {
    /// Leaves frames of a VLAN alone, and has the headers of others in one piece: a driver may leave them in several.
    pub(super) fn open_buffer(&mut self) {
        let [untagged, unusual, v6, pull, ready] = [(); 5].map(|()| self.label());
        let (len, wanted) = (Reg::R4, Reg::R5);
        self.set(SAVED_CONTEXT, CONTEXT);
        let tag = Reg::R2;
        self.load(Size::Word, tag, CONTEXT, field::VLAN_PRESENT);
        self.jump_if(tag, Condition::Equal, 0, untagged);
        self.load(Size::Word, tag, CONTEXT, field::VLAN_TAG);
        self.alu(Alu::And, tag, VLAN_ID);
        self.jump_if(tag, Condition::Equal, 0, untagged);
        self.set(Reg::R0, NEXT);
        self.exit();

        self.bind(untagged);
        FIRST.open_buffer(&mut self.asm, SAVED_CONTEXT);
        self.set(wanted, UNUSUAL as i32);
        FIRST.expect(&mut self.asm, PLAIN_V4, Reg::R1, pull);
        self.load(Size::Half, Reg::R0, FRAME, ETHERTYPE);
        self.jump_if(Reg::R0, Condition::Equal, half(IPV6), v6);
        self.jump_if(Reg::R0, Condition::NotEqual, half(IPV4), unusual);
        self.load(Size::Byte, Reg::R0, FRAME, NETWORK);
        self.jump_if(Reg::R0, Condition::Equal, 0x45, ready);
        self.jump(unusual);
        self.bind(v6);
        self.load(Size::Byte, Reg::R0, FRAME, NETWORK + 6);
        FIRST.expect(&mut self.asm, PLAIN_V6, Reg::R1, pull);
        for plain in [TCP, UDP] {
            self.jump_if(Reg::R0, Condition::Equal, i32::from(plain), ready);
        }
        self.bind(unusual);
        FIRST.expect(&mut self.asm, UNUSUAL, Reg::R1, pull);
        self.jump(ready);

        // There may be no more than there is.
        self.bind(pull);
        self.load(Size::Word, len, SAVED_CONTEXT, field::LEN);
        let long = self.label();
        self.jump_if(len, Condition::Greater, wanted, long);
        self.set(wanted, len);
        self.bind(long);
        self.set(Reg::R0, END);
        self.alu(Alu::Sub, Reg::R0, FRAME);
        self.jump_if(Reg::R0, Condition::GreaterOrEqual, wanted, ready);
        self.set(Reg::R1, SAVED_CONTEXT);
        self.set(Reg::R2, wanted);
        self.call(Helper::SkbPullData);
        self.bind(ready);
        FIRST.open_buffer(&mut self.asm, SAVED_CONTEXT);
        self.set(CONTEXT, SAVED_CONTEXT);
    }

    /// Marks a packet for the socket.
    pub(super) fn mark(&mut self, mark: u32) {
        self.set(Reg::R2, mark as i32);
        self.store(Size::Word, CONTEXT, field::MARK, Reg::R2);
        self.set(Reg::R2, FOR_ANOTHER_HOST);
        self.call(Helper::SkbChangeType);
        self.finish_with(PASS, Counter::Redirect);
    }
}
