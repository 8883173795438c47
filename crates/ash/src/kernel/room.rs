//! Room for a reply, before anything has an effect: so a reply cannot fail for want of it.

use exos_filter::ebpf::{Alu, Condition, Helper, Reg, Size};

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
        let is_cut = self.asm.label();
        let length = Reg::R1;
        self.bytes_to_end(length);
        self.asm.jump_if(length, Condition::Equal, LENGTH, is_cut);
        self.asm.set(Reg::R2, LENGTH);
        self.asm.alu(Alu::Sub, Reg::R2, length);
        self.move_end(self.labels.filter);
        self.bytes_to_end(length);
        self.asm.bind(is_cut);
        self.asm.set(LENGTH, length);
        self.expect_length();
    }

    fn make_longer(&mut self, longest: i32) {
        let [has_room, short] = [(); 2].map(|()| self.asm.label());
        self.asm
            .jump_if(LENGTH, Condition::GreaterOrEqual, longest, has_room);
        self.asm.set(Reg::R4, longest);
        self.set_length(Reg::R4, short);
        self.asm.jump(has_room);
        self.asm.bind(short);
        self.move_forward(longest);
        self.asm.set(Reg::R4, longest);
        self.set_length(Reg::R4, self.labels.give_up);
        self.asm.bind(has_room);
        self.asm.set(KEPT, 0);
        self.find_message();
        self.forget_length();
    }

    /// Has the packet begin earlier, by as much as the longest reply is longer, so that there is as much more room behind it: a veth
    /// hands over packets of another kernel in buffers that are hardly longer than they.
    fn move_forward(&mut self, longest: i32) {
        let [again, moved] = [(); 2].map(|()| self.asm.label());
        let (by, at) = (KEPT, MESSAGE);
        self.asm.set(by, longest);
        self.asm.alu(Alu::Sub, by, LENGTH);
        if longest > HEADROOM {
            self.have_the_rest_behind(by, longest - HEADROOM);
        }
        let asm = &mut self.asm;
        asm.set(Reg::R1, CONTEXT);
        asm.set(Reg::R2, 0);
        asm.alu(Alu::Sub, Reg::R2, by);
        asm.call(Helper::XdpAdjustHead);
        asm.jump_if(Reg::R0, Condition::NotEqual, 0, self.labels.give_up);
        asm.set(at, 0);
        asm.bind(again);
        let part = Reg::R4;
        self.load_start(part);
        let asm = &mut self.asm;
        asm.alu(Alu::Add, part, LENGTH);
        asm.jump_if(at, Condition::GreaterOrEqual, part, moved);
        asm.alu(Alu::Sub, part, at);
        self.copy_part(by, at);
        self.asm.alu(Alu::Add, at, PART_LEN);
        let most = i32::from(MESSAGE_MAX) + START_MAX;
        self.asm.jump_if(at, Condition::Less, most, again);
        self.asm.bind(moved);
        // What the packet's end was comes again as zeros.
        self.find_message();
        self.set_length(LENGTH, self.labels.wrong);
    }

    /// Where more is missing than there is before a packet, the rest has to be behind it: before anything is copied.
    fn have_the_rest_behind(&mut self, by: Reg, longest: i32) {
        let fits = self.asm.label();
        self.asm.jump_if(by, Condition::LessOrEqual, HEADROOM, fits);
        self.asm.set(by, HEADROOM);
        self.find_message();
        self.asm.set(Reg::R4, longest);
        self.set_length(Reg::R4, self.labels.give_up);
        self.asm.bind(fits);
    }

    /// Copies what r4 says, [`PART_LEN`] bytes at most, from `at + by` to `at`.
    fn copy_part(&mut self, by: Reg, at: Reg) {
        let (short, wrong, part) = (self.asm.label(), self.labels.wrong, Reg::R4);
        let asm = &mut self.asm;
        asm.jump_if(part, Condition::LessOrEqual, PART_LEN, short);
        asm.set(part, PART_LEN);
        asm.bind(short);
        asm.store(Size::Double, Reg::R10, stack::KEY, part);
        for (from, helper) in [
            (Some(by), Helper::XdpLoadBytes),
            (None, Helper::XdpStoreBytes),
        ] {
            asm.load(Size::Double, part, Reg::R10, stack::KEY);
            // Not a comparison with 0 for equality, of which the verifier before Linux 6.2 learns no least length.
            asm.jump_if(part, Condition::Less, 1, wrong);
            asm.jump_if(part, Condition::Greater, PART_LEN, wrong);
            asm.set(Reg::R1, CONTEXT);
            asm.set(Reg::R2, at);
            if let Some(by) = from {
                asm.alu(Alu::Add, Reg::R2, by);
            }
            asm.stack(Reg::R3, stack::PART);
            asm.call(helper);
            asm.jump_if(Reg::R0, Condition::NotEqual, 0, wrong);
        }
    }
}
