//! The program that a slot's holder runs to send many frames with one system call, each of them checked.
//!
//! ```text
//! queue ── next descriptor ── copied into a socket buffer ── the checks of `outgoing` ── where to ── share ── sent
//!   ^                                                             └─ for the ring: given back                  │
//!   └──────────────────────────────────────── tail call to itself ──────────────────────────────────────┘
//! ```
//!
//! It is of type `BPF_PROG_TYPE_SCHED_ACT`: bpf(2) attaches those to nothing, and who holds the descriptor can do no more
//! than run it (`BPF_PROG_TEST_RUN`), for which it takes no privilege. The frame is copied before it is checked, so that
//! the sender cannot change it afterwards. What is in order leaves there and then, by `bpf_clone_redirect`.
//!
//! What takes the programs at the interfaces to decide is given back: nothing is counted or charged for it, its
//! descriptor is marked ([`GIVEN_BACK`]), and the sender may put it into its ring.
//!
//! - In another network namespace than the gate's, all: its interfaces are not here.
//! - While anyone copies packets, all: the copy programs run behind the others.
//! - What no exact grant covers: general filters are the ring's.
//! - Fragments. A first one that its receiver gets opens the way for later ones, and the holder chooses where the
//!   first would go, for instance into a network namespace of its own.

use super::super::code::classify::Local;
use super::super::code::share::SEGMENT_SIZE;
use super::super::code::{
    CELL, Code, ETHERNET, FRAGMENT, PLACE, QUEUE, SENDER, SHAPES, SLOT, Side,
};
use super::super::code::{fragment, tcx};
use super::super::counter::Counter;
use super::super::layout::SlotKind;
use super::super::limits::SLOTS;
use super::super::maps::MapFds;
use super::super::outgoing::Ends;
use crate::ebpf::{Alu, Condition, Emit, Helper, Insn, Label, Reg, Size};
use crate::program::Program;
use crate::transmit::{DESCRIPTORS, END, GIVEN_BACK, LOST, Memory, REFUSED, RETURNED, TAKEN, Take};

/// Offsets in `struct __sk_buff`.
const MARK: i16 = 8;
const PROTOCOL_OF_BUFFER: i16 = 16;
const PRIORITY: i16 = 32;
const INGRESS_IFINDEX: i16 = 36;
const TIME: i16 = 152;
const SEGMENTS: i16 = 164;
const HARDWARE_TIME: i16 = 184;

/// `bpf_skb_store_bytes`: forget the buffer's hash.
const INVALIDATE_HASH: i32 = 2;

/// A frame that every Ethernet interface takes: its header and the least MTU that the kernel allows one.
const SHORT: i32 = 14 + 68;

/// What the program of one slot is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The slot; not the daemon's, whose frames nobody checks.
    pub slot: u32,
    /// The slot's interface: once the slot is another's, it has another, and the program sends nothing more.
    pub ifindex: u32,
    /// An array of one value of [`crate::transmit::QUEUE_WORDS`] words.
    pub queue_fd: i32,
    /// An array of chunks.
    pub frames_fd: i32,
    /// How many.
    pub chunks: u32,
    /// Their size, in bytes.
    pub chunk_size: u32,
    /// A program array whose entry 0 is the program itself. The kernel empties it when its last descriptor is closed, and
    /// then each run sends one frame.
    pub programs_fd: i32,
    /// Where the program may be run; None: anywhere.
    pub namespace: Option<Namespace>,
}

/// The network namespace of the gate. The program sends by the interfaces of the namespace in which it is run; with this it sends by no
/// others than the gate's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// The kernel's number of `bpf_cast_to_kern_ctx`.
    cast_function: i32,
    /// Offset of `dev` in `struct sk_buff`.
    device: i16,
    /// Offset of `nd_net` in `struct net_device`.
    namespace: i16,
    /// Offset of `net_cookie` in `struct net`.
    cookie: i16,
    /// What is there.
    value: u64,
}

impl Namespace {
    /// The namespace with this cookie (`SO_NETNS_COOKIE`), by the number of the function `bpf_cast_to_kern_ctx` and the
    /// offset in bits of a member of a structure. None when one is missing.
    pub fn from_layout(
        cookie: u64,
        cast_function: i32,
        member: impl Fn(&str, &str) -> Option<u32>,
    ) -> Option<Self> {
        let offset = |structure, name| i16::try_from(member(structure, name)? / 8).ok();
        Some(Self {
            cast_function,
            device: offset("sk_buff", "dev")?,
            namespace: offset("net_device", "nd_net")?,
            cookie: offset("net", "net_cookie")?,
            value: cookie,
        })
    }
}

/// Ends that several paths lead to.
#[derive(Clone, Copy)]
pub(in crate::gate) struct Others {
    /// No frame, or not one to be sent from this buffer.
    pub(in crate::gate) refuse: Label,
    /// For the ring.
    pub(in crate::gate) give_back: Label,
    /// All is sent.
    pub(in crate::gate) done: Label,
}

impl Others {
    pub(in crate::gate) fn new(code: &mut Code<'_>) -> Self {
        let [refuse, give_back, done] = [(); 3].map(|()| code.label());
        Self {
            refuse,
            give_back,
            done,
        }
    }
}

/// The program of type `BPF_PROG_TYPE_SCHED_ACT` for one slot.
///
/// # Panics
///
/// If the slot is the daemon's, or none.
pub fn batch(maps: &MapFds, batch: &Batch) -> Program {
    let slot = batch.slot;
    assert!((1..SLOTS).contains(&slot), "a batch of slot {slot}");
    let mut code = Code::new(maps, Side::Batch);
    let ends = Ends::new(&mut code);
    let others = Others::new(&mut code);
    code.take(batch, others);
    code.clear();
    code.measure();
    code.own_slot(batch);
    code.load_frame();
    code.protocol(others.refuse);
    code.checks(ends, others);
    code.call_any(batch.programs_fd, 0..1);
    code.bind(others.done);
    code.set(Reg::R0, tcx::DROP);
    code.exit();
    Program::new(code.asm.finish().expect("the programs are short"))
}

impl Code<'_> {
    /// The next frame, copied into the buffer.
    fn take(&mut self, batch: &Batch, ends: Others) {
        let sized = self.label();
        let take = Take {
            queue: Memory::Own(batch.queue_fd),
            frames: Memory::Own(batch.frames_fd),
            chunks: batch.chunks,
            chunk_size: batch.chunk_size,
            key: CELL,
        };
        self.next(&take, ends);
        self.buffer(batch, ends.refuse);
        if let Some(namespace) = &batch.namespace {
            self.in_namespace(namespace, ends.give_back);
        }
        self.load(Size::Word, Reg::R1, Reg::R6, 0);
        self.jump_if(Reg::R1, Condition::Equal, Reg::R7, sized);
        self.set(Reg::R1, Reg::R6);
        self.set(Reg::R2, Reg::R7);
        self.set(Reg::R3, 0);
        self.call(Helper::SkbChangeTail);
        self.jump_if(Reg::R0, Condition::NotEqual, 0, ends.refuse);
        self.bind(sized);
        self.fits(batch, ends.refuse);
        self.set(Reg::R1, Reg::R6);
        self.set(Reg::R2, 0);
        self.set(Reg::R3, Reg::R8);
        self.set(Reg::R4, Reg::R7);
        self.set(Reg::R5, INVALIDATE_HASH);
        self.call(Helper::SkbStoreBytes);
        self.jump_if(Reg::R0, Condition::NotEqual, 0, ends.refuse);
    }

    /// The next frame's length in r7, and r8 points to it.
    pub(in crate::gate) fn next(&mut self, take: &Take, ends: Others) {
        take.open(&mut self.asm, ends.done);
        self.load(Size::Double, Reg::R1, Reg::R9, 8 * TAKEN as i16);
        self.load(Size::Double, Reg::R2, Reg::R9, 8 * END as i16);
        self.jump_if(Reg::R1, Condition::Equal, Reg::R2, ends.done);
        self.put(QUEUE, Reg::R9);
        take.advance(&mut self.asm);
        self.put(PLACE, Reg::R2);
        take.frame(&mut self.asm, ends.refuse);
        self.no_copies(ends);
    }

    /// No longer than the slot's interface lets through, as it does not for what is sent by the ring: what is redirected
    /// goes to the device's driver whatever its length. The length is in r7.
    fn fits(&mut self, batch: &Batch, too_long: Label) {
        let short = self.label();
        self.jump_if(Reg::R7, Condition::LessOrEqual, SHORT, short);
        self.store_imm(Size::Word, Reg::R10, CELL, 0);
        self.set(Reg::R1, Reg::R6);
        self.set(Reg::R2, batch.ifindex as i32);
        self.stack(Reg::R3, CELL);
        self.set(Reg::R4, 0);
        self.set(Reg::R5, 0);
        self.call(Helper::CheckMtu);
        self.jump_if(Reg::R0, Condition::NotEqual, 0, too_long);
        self.bind(short);
    }

    /// Copies are made elsewhere.
    pub(in crate::gate) fn no_copies(&mut self, ends: Others) {
        self.lookup_index(self.maps.config, 0, ends.refuse);
        // Of `Config`: taps.
        self.load(Size::Word, Reg::R1, Reg::R0, 16);
        self.jump_if(Reg::R1, Condition::NotEqual, 0, ends.give_back);
    }

    /// The buffer is plain: what the caller may give it beside its bytes is set back, or refused.
    fn buffer(&mut self, batch: &Batch, refuse: Label) {
        for at in [SEGMENT_SIZE, SEGMENTS] {
            self.load(Size::Word, Reg::R1, Reg::R6, at);
            self.jump_if(Reg::R1, Condition::NotEqual, 0, refuse);
        }
        self.load(Size::Double, Reg::R1, Reg::R6, HARDWARE_TIME);
        self.jump_if(Reg::R1, Condition::NotEqual, 0, refuse);
        // A sum of all bytes, which the helper gives where there is one, else an error.
        self.set(Reg::R1, Reg::R6);
        self.set(Reg::R2, 0);
        self.call(Helper::CsumUpdate);
        self.jump_if(Reg::R0, Condition::SignedGreater, -1, refuse);
        // Told to the program at the device's egress: the slot's interface, or nothing.
        let told = self.label();
        self.load(Size::Word, Reg::R1, Reg::R6, INGRESS_IFINDEX);
        self.jump_if(Reg::R1, Condition::Equal, 0, told);
        self.jump_if(Reg::R1, Condition::NotEqual, batch.ifindex as i32, refuse);
        self.bind(told);
        self.set(Reg::R1, 0);
        for (size, at) in [
            (Size::Word, MARK),
            (Size::Word, PRIORITY),
            (Size::Double, TIME),
        ] {
            self.store(size, Reg::R6, at, Reg::R1);
        }
    }

    /// Run where the gate is; else to `elsewhere`.
    fn in_namespace(&mut self, namespace: &Namespace, elsewhere: Label) {
        self.set(Reg::R1, Reg::R6);
        self.push(Insn::call_kernel_function(namespace.cast_function));
        self.load(Size::Double, Reg::R1, Reg::R0, namespace.device);
        self.load(Size::Double, Reg::R1, Reg::R1, namespace.namespace);
        self.load(Size::Double, Reg::R1, Reg::R1, namespace.cookie);
        for insn in Insn::load_imm64(Reg::R2, namespace.value) {
            self.push(insn);
        }
        self.jump_if(Reg::R1, Condition::NotEqual, Reg::R2, elsewhere);
    }

    /// The slot is still the one that the program was made for; leaves it in r7.
    fn own_slot(&mut self, batch: &Batch) {
        let no_ring = self.refuse(Counter::NoRing);
        self.lookup_index(self.maps.config, 0, no_ring);
        self.load(Size::Word, Reg::R1, Reg::R0, 0);
        self.put(SHAPES, Reg::R1);
        self.lookup_index(self.maps.slots, batch.slot as i32, no_ring);
        self.set(Reg::R7, Reg::R0);
        self.load(Size::Word, Reg::R1, Reg::R7, 4);
        self.jump_if(Reg::R1, Condition::NotEqual, batch.ifindex as i32, no_ring);
        self.put_imm(SLOT, batch.slot as i32);
        self.put_imm(SENDER, batch.slot as i32);
        self.load(Size::Word, Reg::R1, Reg::R7, 0);
        self.jump_if(Reg::R1, Condition::Equal, SlotKind::None as i32, no_ring);
    }

    /// What the kernel takes the buffer for is what the frame is.
    fn protocol(&mut self, other: Label) {
        self.load(Size::Word, Reg::R1, Reg::R6, PROTOCOL_OF_BUFFER);
        self.read(Size::Half, Reg::R2, ETHERNET + 12);
        self.jump_if(Reg::R1, Condition::NotEqual, Reg::R2, other);
    }

    /// What is checked of every frame, and where it goes; comes out when all is decided.
    pub(in crate::gate) fn checks(&mut self, ends: Ends, others: Others) {
        self.station();
        self.network(ends);
        self.get(Reg::R1, FRAGMENT);
        self.jump_if(
            Reg::R1,
            Condition::NotEqual,
            fragment::WHOLE,
            others.give_back,
        );
        self.forbidden();
        self.exact_source(others.give_back);
        self.send(ends);
        self.not_sent(others);
        self.gather();
    }

    /// The source leads to the sender by an exact grant.
    fn exact_source(&mut self, unclaimed: Label) {
        let bad_source = self.refuse(Counter::TxBadSource);
        self.classify(Local::Source, unclaimed);
        self.get(Reg::R1, SENDER);
        self.jump_if(Reg::R0, Condition::NotEqual, Reg::R1, bad_source);
    }

    /// Out of r1 with the flags r2: at once. What the kernel does not take is lost, as behind a redirection, and counted.
    pub(in crate::gate) fn send_clone(&mut self) {
        let [sent, lost] = [self.end, self.refuse(Counter::TxLost)];
        self.set(Reg::R3, Reg::R2);
        self.set(Reg::R2, Reg::R1);
        self.set(Reg::R1, Reg::R6);
        self.call(Helper::CloneRedirect);
        self.jump_if(Reg::R0, Condition::Equal, 0, sent);
        self.get(Reg::R9, QUEUE);
        self.add_to(Reg::R9, 8 * LOST as i16, 1);
        self.get(Reg::R1, SENDER);
        self.put(SLOT, Reg::R1);
        self.jump(lost);
    }

    /// What the sender is told about in its queue.
    fn not_sent(&mut self, ends: Others) {
        self.bind(ends.give_back);
        self.get(Reg::R2, PLACE);
        self.load(Size::Double, Reg::R1, Reg::R2, 8 * DESCRIPTORS as i16);
        self.set(Reg::R3, 1);
        self.alu(Alu::ShiftLeft, Reg::R3, GIVEN_BACK.trailing_zeros() as i32);
        self.alu(Alu::Or, Reg::R1, Reg::R3);
        self.store(Size::Double, Reg::R2, 8 * DESCRIPTORS, Reg::R1);
        self.get(Reg::R9, QUEUE);
        self.add_to(Reg::R9, 8 * RETURNED as i16, 1);
        self.finish();
        self.bind(ends.refuse);
        self.get(Reg::R9, QUEUE);
        self.add_to(Reg::R9, 8 * REFUSED as i16, 1);
        self.finish();
    }
}
