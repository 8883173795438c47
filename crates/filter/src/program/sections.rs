//! The parse: from the packet's first byte to the section that knows its class.
//!
//! Computes what [`crate::layers`] computes, and only as far as a plan depends on it.

use super::compiled::CompileError;
use super::emitter::{
    CONTEXT, END, Emitter, FRAME, Hook, Known, LINK, PROTOCOL, SCRATCH, SCRATCH2, TRANSPORT, TYPE,
};
use super::plan::{Class, Part, Plan, Version};
use super::rules::{Action, ProgramMaps, Rule};
use crate::ebpf::{Alu, Condition, Emit, Insn, Label, Reg, Size, half};
use crate::layers::VLAN;
use crate::limits::{OFFSET_MAX, TRANSPORT_OFFSET_MAX};
use crate::literal::{Base, Literal};
use crate::packet::{
    self, Bytes, FRAGMENT_OFFSET, LATER_FRAGMENT, NETWORK, Walk, WalkEnds, WalksHeaders,
};

/// The packet from [`FRAME`] on.
const FROM_FRAME: Bytes = Bytes {
    start: FRAME,
    end: END,
};

/// The plans of all classes.
struct Plans {
    short: Plan,
    other: Plan,
    v4: Parts,
    v6: Parts,
}

/// The plans of one version of IP.
#[derive(PartialEq, Eq)]
struct Parts {
    malformed: Plan,
    fragment: Plan,
    whole: Plan,
}

impl Parts {
    fn new(rules: &[Rule], otherwise: Action, version: Version) -> Self {
        let plan = |part| Plan::new(rules, otherwise, Class::Ip(version, part));
        Self {
            malformed: plan(Part::Malformed),
            fragment: plan(Part::Fragment),
            whole: plan(Part::Whole),
        }
    }

    /// The plan that is the same in all parts, if so: then the header need not be looked into.
    fn only(&self) -> Option<&Plan> {
        (self.malformed == self.fragment && self.fragment == self.whole).then_some(&self.whole)
    }
}

impl Plans {
    fn new(rules: &[Rule], otherwise: Action) -> Self {
        Self {
            short: Plan::new(rules, otherwise, Class::Short),
            other: Plan::new(rules, otherwise, Class::Other),
            v4: Parts::new(rules, otherwise, Version::V4),
            v6: Parts::new(rules, otherwise, Version::V6),
        }
    }

    fn all(&self) -> [(Class, &Plan); 8] {
        let part = |version, part, plan| (Class::Ip(version, part), plan);
        [
            (Class::Short, &self.short),
            (Class::Other, &self.other),
            part(Version::V4, Part::Malformed, &self.v4.malformed),
            part(Version::V4, Part::Fragment, &self.v4.fragment),
            part(Version::V4, Part::Whole, &self.v4.whole),
            part(Version::V6, Part::Malformed, &self.v6.malformed),
            part(Version::V6, Part::Fragment, &self.v6.fragment),
            part(Version::V6, Part::Whole, &self.v6.whole),
        ]
    }

    /// Whether the tests made on other types give this verdict to packets of the version as well.
    fn other_decides(&self, version: Version, verdict: Action) -> bool {
        let fails = |l: &Literal| {
            l.test.base() == Base::Type && l.test.accepts(version.ethertype().into()) == l.negated
        };
        verdict == self.other.otherwise
            && self
                .other
                .conjunctions
                .iter()
                .all(|(c, _)| c.iter().any(fails))
    }

    /// Whether any test counts from the frame's first byte.
    fn look_at_frame(&self) -> bool {
        let literals = |plan: &Plan| {
            plan.conjunctions
                .iter()
                .any(|(c, _)| c.iter().any(|l| l.test.base() == Base::Link))
        };
        self.all().iter().any(|(_, plan)| literals(plan))
    }

    /// Frames shorter than this all get the verdict of frames that are too short for a type.
    fn shortest(&self) -> usize {
        let agreed =
            |plan: &Plan| self.short.is_decided() && plan.otherwise == self.short.otherwise;
        if !self.all().iter().all(|(_, plan)| agreed(plan)) {
            return NETWORK;
        }
        let shortest = self
            .all()
            .iter()
            .map(|(class, plan)| plan.shortest_match(*class))
            .min();
        // Without any test the program does not get here.
        shortest
            .filter(|&n| n != usize::MAX)
            .unwrap_or(NETWORK)
            .max(NETWORK)
    }
}

/// The whole program.
pub(super) fn program(
    rules: &[Rule],
    otherwise: Action,
    maps: &ProgramMaps,
    hook: Hook,
) -> Result<Vec<Insn>, CompileError> {
    let plans = Plans::new(rules, otherwise);
    let mut e = Emitter::new(maps, otherwise, hook);
    let independent = plans.all().iter().all(|(_, plan)| **plan == plans.short);
    if independent && plans.short.is_decided() {
        e.verdict(plans.short.otherwise);
    } else {
        match hook {
            Hook::Xdp => FROM_FRAME.open(&mut e.asm, CONTEXT),
            Hook::Ingress { .. } => e.open_buffer(),
        }
        if plans.look_at_frame() {
            e.asm.set(LINK, FRAME);
        }
        if independent {
            e.plan(&plans.short, Class::Short, Known::default());
        } else {
            by_type(&mut e, &plans);
        }
    }
    e.remaining_verdicts();
    e.asm.finish().map_err(|_| CompileError)
}

/// The label of code to come, or of a verdict when nothing is left to test.
struct Section {
    label: Label,
    decided: bool,
}

fn section(e: &mut Emitter<'_>, plan: Option<&Plan>) -> Section {
    match plan {
        Some(plan) if plan.is_decided() => Section {
            label: e.verdict_label(plan.otherwise),
            decided: true,
        },
        _ => Section {
            label: e.asm.label(),
            decided: false,
        },
    }
}

/// Length, type and VLAN tag; then the section of the type.
fn by_type(e: &mut Emitter<'_>, plans: &Plans) {
    let shortest = plans.shortest();
    let short = section(e, Some(&plans.short));
    let untagged = e.asm.label();
    FROM_FRAME.expect(&mut e.asm, shortest, SCRATCH, short.label);
    e.asm.load(Size::Half, TYPE, FRAME, NETWORK - 2);
    e.asm
        .jump_if32(TYPE, Condition::NotEqual, half(VLAN), untagged);
    e.asm.alu(Alu::Add, FRAME, 4);
    FROM_FRAME.expect(&mut e.asm, shortest, SCRATCH, short.label);
    e.asm.load(Size::Half, TYPE, FRAME, NETWORK - 2);
    e.asm.bind(untagged);

    let known = Known::frame(shortest);
    dispatch(e, plans, known);
    if !short.decided {
        e.asm.bind(short.label);
        e.plan(&plans.short, Class::Short, Known::default());
    }
}

/// Jump by type, and the three sections.
fn dispatch(e: &mut Emitter<'_>, plans: &Plans, known: Known) {
    let other = section(e, Some(&plans.other));
    let mut versions =
        [(Version::V4, &plans.v4), (Version::V6, &plans.v6)].map(|(version, parts)| {
            let section = section(e, parts.only());
            (version, parts, section)
        });
    // When other types are decided, the code of a version may follow without a jump.
    versions.sort_by_key(|(_, _, section)| !section.decided);
    let falls = if other.decided {
        versions.iter().rposition(|(_, _, s)| !s.decided)
    } else {
        None
    };
    for (i, (version, parts, section)) in versions.iter().enumerate() {
        let ethertype = half(version.ethertype());
        if parts
            .only()
            .is_some_and(|plan| plan.is_decided() && plans.other_decides(*version, plan.otherwise))
        {
            continue;
        }
        if Some(i) == falls {
            e.asm
                .jump_if32(TYPE, Condition::NotEqual, ethertype, other.label);
        } else if section.label != other.label {
            e.asm
                .jump_if32(TYPE, Condition::Equal, ethertype, section.label);
        }
    }
    if falls.is_none() {
        if other.decided {
            e.verdict(plans.other.otherwise);
        } else {
            e.asm.bind(other.label);
            e.plan(&plans.other, Class::Other, known);
        }
    }
    for (version, parts, section) in versions.iter().rev() {
        if !section.decided {
            e.asm.bind(section.label);
            ip(e, *version, parts, known);
        }
    }
}

/// One version of IP.
fn ip(e: &mut Emitter<'_>, version: Version, parts: &Parts, known: Known) {
    if let Some(plan) = parts.only() {
        return e.plan(plan, Class::Ip(version, Part::Whole), known);
    }
    let malformed = section(e, Some(&parts.malformed));
    let fragment = section(e, Some(&parts.fragment));
    let header = NETWORK + version.header_len();
    let mut inside = known;
    if known.frame < header {
        FROM_FRAME.expect(&mut e.asm, header, SCRATCH, malformed.label);
        inside.frame = header;
        inside.link = known.link.max(header);
    }
    // Fragments need not be told apart when they are treated as whole packets are.
    let differs = (parts.fragment != parts.whole).then_some(fragment.label);
    match version {
        Version::V4 => ipv4_header(e, malformed.label, differs),
        Version::V6 => ipv6_headers(e, malformed.label, fragment.label),
    }
    e.plan(&parts.whole, Class::Ip(version, Part::Whole), inside);
    if !fragment.decided && (differs.is_some() || version == Version::V6) {
        e.asm.bind(fragment.label);
        e.plan(&parts.fragment, Class::Ip(version, Part::Fragment), inside);
    }
    if !malformed.decided {
        e.asm.bind(malformed.label);
        e.plan(&parts.malformed, Class::Ip(version, Part::Malformed), known);
    }
}

/// RFC 791 §3.1: version and header length, then the fragment offset. Leaves the transport header in [`TRANSPORT`].
fn ipv4_header(e: &mut Emitter<'_>, malformed: Label, fragment: Option<Label>) {
    e.asm.load(Size::Byte, TRANSPORT, FRAME, NETWORK);
    packet::ipv4_options(&mut e.asm, TRANSPORT, malformed);
    e.asm.alu(Alu::Add, TRANSPORT, FRAME);
    e.asm.alu(Alu::Add, TRANSPORT, (NETWORK + 20) as i32);
    e.asm.jump_if(TRANSPORT, Condition::Greater, END, malformed);
    if let Some(fragment) = fragment {
        e.asm.load(Size::Half, SCRATCH, FRAME, NETWORK + 6);
        let offset = half(FRAGMENT_OFFSET);
        e.asm.jump_if32(SCRATCH, Condition::Set, offset, fragment);
    }
}

/// RFC 8200 §4: version, then the extension headers. Leaves the protocol in [`PROTOCOL`] and the transport header in
/// [`TRANSPORT`], which until then is the distance from [`FRAME`]: see [`Emitter::header_walked`].
fn ipv6_headers(e: &mut Emitter<'_>, malformed: Label, later: Label) {
    e.asm.load(Size::Byte, SCRATCH, FRAME, NETWORK);
    packet::expect_ipv6(&mut e.asm, SCRATCH, malformed);
    e.asm.load(Size::Byte, PROTOCOL, FRAME, NETWORK + 6);
    e.asm.set(TRANSPORT, (NETWORK + 40) as i32);
    let transport = e.asm.label();
    let ends = WalkEnds {
        transport,
        later,
        malformed,
    };
    packet::walk_extension_headers(e, ends);
    e.asm.alu(Alu::Add, TRANSPORT, FRAME);
}

/// By pointer, with the open header at [`SCRATCH2`].
impl WalksHeaders for Emitter<'_> {
    const WALK: Walk = Walk {
        next: PROTOCOL,
        offset: TRANSPORT,
        spare: SCRATCH,
    };

    fn open_header(&mut self, malformed: Label) {
        self.set(SCRATCH2, FRAME);
        self.alu(Alu::Add, SCRATCH2, TRANSPORT);
        let header = Bytes {
            start: SCRATCH2,
            end: END,
        };
        header.expect(&mut self.asm, 8, SCRATCH, malformed);
    }

    fn read_header(&mut self, size: Size, dst: Reg, at: i16) {
        self.load(size, dst, SCRATCH2, at);
    }

    fn fragment_header(&mut self, later: Label) {
        self.read_header(Size::Half, SCRATCH, 2);
        let offset = half(LATER_FRAGMENT);
        self.jump_if32(SCRATCH, Condition::Set, offset, later);
    }

    fn expect_offset(&mut self, malformed: Label) {
        self.set(SCRATCH, FRAME);
        self.alu(Alu::Add, SCRATCH, TRANSPORT);
        self.jump_if(SCRATCH, Condition::Greater, END, malformed);
    }

    /// Makes the verifier forget what it knows of [`TRANSPORT`] but that it is below 32 KiB, which it always is
    /// ([`TRANSPORT_OFFSET_MAX`]). It follows every distinct state separately, so without this the paths multiply with
    /// each header, and all tests behind are verified once for each. Half a word stored askew in its 8-byte stack slot
    /// is not followed by any version of the verifier.
    fn header_walked(&mut self) {
        self.store(Size::Half, Reg::R10, -6, TRANSPORT);
        self.load(Size::Half, TRANSPORT, Reg::R10, -6);
        self.alu(Alu::And, TRANSPORT, 0x7fff);
    }
}

const _: () = assert!(TRANSPORT_OFFSET_MAX <= 0x7fff && 0x7fff + OFFSET_MAX <= 0xffff);
