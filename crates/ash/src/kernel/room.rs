//! Room for a reply, before anything has an effect: so a reply cannot fail for want of it.

use exos_filter::ebpf::{Alu, Condition, Emit, Helper, Reg};

use super::{CONTEXT, Generator, KEPT, LENGTH, MESSAGE, START_MAX, stack};
use crate::limits::MESSAGE_MAX;

/// What can be had before a packet: 256 bytes (`XDP_PACKET_HEADROOM`) but for what the kernel puts there.
const HEADROOM: i32 = 208;
/// Bytes that are copied at once.
const PART_LEN: i32 = 64;

impl Generator<'_> {
    /// Takes off what stands behind the message, and has zeros follow up to the longest reply.
    pub(super) fn make_room(&mut self) {
        self.cut();
        let longest = i32::from(self.of.handler.room());
        if longest > 0 {
            self.make_longer(longest);
        }
    }

    /// Takes off what stands behind the message, whose length becomes the packet's ([`nospec`](super::nospec)). The verifier knows no more of it
    /// than that it is one.
    fn cut(&mut self) {
        let is_cut = self.label();
        let length = Reg::R1;
        self.bytes_to_end(length);
        self.jump_if(length, Condition::Equal, LENGTH, is_cut);
        self.set(Reg::R2, LENGTH);
        self.alu(Alu::Sub, Reg::R2, length);
        self.move_end(self.labels.filter);
        self.bytes_to_end(length);
        self.bind(is_cut);
        self.set(LENGTH, length);
        self.expect_length();
    }

    fn make_longer(&mut self, longest: i32) {
        let [has_room, short] = [(); 2].map(|()| self.label());
        self.jump_if(LENGTH, Condition::GreaterOrEqual, longest, has_room);
        self.set(Reg::R4, longest);
        self.set_length(Reg::R4, short);
        self.jump(has_room);
        self.bind(short);
        self.move_forward(longest);
        self.set(Reg::R4, longest);
        self.set_length(Reg::R4, self.labels.give_up);
        self.bind(has_room);
        self.set(KEPT, 0);
        self.find_message();
        self.forget_length();
    }

    /// Has the packet begin earlier, by as much as the longest reply is longer, so that there is as much more room behind it: a veth
    /// hands over packets of another kernel in buffers that are hardly longer than they.
    fn move_forward(&mut self, longest: i32) {
        let [again, moved] = [(); 2].map(|()| self.label());
        let (by, at) = (KEPT, MESSAGE);
        self.set(by, longest);
        self.alu(Alu::Sub, by, LENGTH);
        if longest > HEADROOM {
            self.have_the_rest_behind(by, longest - HEADROOM);
        }
        self.set(Reg::R1, CONTEXT);
        self.set(Reg::R2, 0);
        self.alu(Alu::Sub, Reg::R2, by);
        self.call(Helper::XdpAdjustHead);
        self.jump_if(Reg::R0, Condition::NotEqual, 0, self.labels.give_up);
        self.set(at, 0);
        self.bind(again);
        let part = Reg::R4;
        self.load_start(part);
        self.alu(Alu::Add, part, LENGTH);
        self.jump_if(at, Condition::GreaterOrEqual, part, moved);
        self.alu(Alu::Sub, part, at);
        self.copy_part(by, at);
        self.alu(Alu::Add, at, PART_LEN);
        let most = i32::from(MESSAGE_MAX) + START_MAX;
        self.jump_if(at, Condition::Less, most, again);
        self.bind(moved);
        // What the packet's end was comes again as zeros.
        self.find_message();
        self.set_length(LENGTH, self.labels.wrong);
    }

    /// Where more is missing than there is before a packet, the rest has to be behind it: before anything is copied.
    fn have_the_rest_behind(&mut self, by: Reg, longest: i32) {
        let fits = self.label();
        self.jump_if(by, Condition::LessOrEqual, HEADROOM, fits);
        self.set(by, HEADROOM);
        self.find_message();
        self.set(Reg::R4, longest);
        self.set_length(Reg::R4, self.labels.give_up);
        self.bind(fits);
    }

    /// Copies what r4 says, [`PART_LEN`] bytes at most, from `at + by` to `at`.
    fn copy_part(&mut self, by: Reg, at: Reg) {
        let (short, wrong, part) = (self.label(), self.labels.wrong, Reg::R4);
        self.jump_if(part, Condition::LessOrEqual, PART_LEN, short);
        self.set(part, PART_LEN);
        self.bind(short);
        self.keep(stack::KEY, part);
        for (from, helper) in [
            (Some(by), Helper::XdpLoadBytes),
            (None, Helper::XdpStoreBytes),
        ] {
            self.kept(part, stack::KEY);
            // Not a comparison with 0 for equality, of which the verifier before Linux 6.2 learns no least length.
            self.jump_if(part, Condition::Less, 1, wrong);
            self.jump_if(part, Condition::Greater, PART_LEN, wrong);
            self.set(Reg::R1, CONTEXT);
            self.set(Reg::R2, at);
            if let Some(by) = from {
                self.alu(Alu::Add, Reg::R2, by);
            }
            self.stack(Reg::R3, stack::PART);
            self.call(helper);
            self.jump_if(Reg::R0, Condition::NotEqual, 0, wrong);
        }
    }
}
