//! The parse: from the packet's first byte to the section that knows its class.
//!
//! Computes what [`crate::layers`] computes, and only as far as a plan depends on it.

use super::emit::{
    CONTEXT, END, Emitter, FRAME, Known, LINK, NETWORK, PROTOCOL, SCRATCH, SCRATCH2, TRANSPORT,
    TYPE, in_memory_order,
};
use super::plan::{Class, Part, Plan, Version};
use super::{Action, CompileError, ProgramMaps, Rule};
use crate::ebpf::{Alu, Condition, Insn, Label, Operand, Reg, Size};
use crate::layers::VLAN;
use crate::limits::{EXTENSION_HEADERS_MAX, OFFSET_MAX, TRANSPORT_OFFSET_MAX};
use crate::literal::{Base, Literal, Width};
use exos_wire::ipv6::EXTENSION_HEADERS;
use exos_wire::protocol::{AUTHENTICATION, FRAGMENT};

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
) -> Result<Vec<Insn>, CompileError> {
    let plans = Plans::new(rules, otherwise);
    let mut e = Emitter::new(maps, otherwise);
    let independent = plans.all().iter().all(|(_, plan)| **plan == plans.short);
    if independent && plans.short.is_decided() {
        e.verdict(plans.short.otherwise);
    } else {
        // struct xdp_md: data, data_end.
        e.asm.load(Size::Word, END, CONTEXT, 4);
        e.asm.load(Size::Word, FRAME, CONTEXT, 0);
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
    check_frame(e, shortest, short.label);
    e.asm.load(Size::Half, TYPE, FRAME, NETWORK - 2);
    e.asm
        .jump_if32(TYPE, Condition::NotEqual, half(VLAN), untagged);
    e.asm.alu(Alu::Add, FRAME, 4);
    check_frame(e, shortest, short.label);
    e.asm.load(Size::Half, TYPE, FRAME, NETWORK - 2);
    e.asm.bind(untagged);

    let known = Known::frame(shortest);
    dispatch(e, plans, known);
    if !short.decided {
        e.asm.bind(short.label);
        e.plan(&plans.short, Class::Short, Known::default());
    }
}

/// Jump to `short` when there are fewer than `length` bytes behind [`FRAME`].
fn check_frame(e: &mut Emitter<'_>, length: usize, short: Label) {
    e.asm.set(SCRATCH, FRAME);
    e.asm.alu(Alu::Add, SCRATCH, length as i32);
    e.asm.jump_if(SCRATCH, Condition::Greater, END, short);
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
        check_frame(e, header, malformed.label);
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
    // 0x45 to 0x4f: what is above 0x45 are words of options.
    e.asm.load(Size::Byte, TRANSPORT, FRAME, NETWORK);
    e.asm.alu(Alu::Sub, TRANSPORT, 0x45);
    e.asm.jump_if(TRANSPORT, Condition::Greater, 10, malformed);
    e.asm.alu(Alu::ShiftLeft, TRANSPORT, 2);
    e.asm.alu(Alu::Add, TRANSPORT, FRAME);
    e.asm.alu(Alu::Add, TRANSPORT, (NETWORK + 20) as i32);
    e.asm.jump_if(TRANSPORT, Condition::Greater, END, malformed);
    if let Some(fragment) = fragment {
        e.asm.load(Size::Half, SCRATCH, FRAME, NETWORK + 6);
        e.asm
            .jump_if32(SCRATCH, Condition::Set, half(0x1fff), fragment);
    }
}

/// RFC 8200 §4: the walk over extension headers, unrolled. Leaves the protocol in [`PROTOCOL`] and the transport
/// header in [`TRANSPORT`], which until then is the distance from [`FRAME`]: see [`forget_distance`].
fn ipv6_headers(e: &mut Emitter<'_>, malformed: Label, fragment: Label) {
    e.asm.load(Size::Byte, SCRATCH, FRAME, NETWORK);
    e.asm.alu32(Alu::And, SCRATCH, 0xf0);
    e.asm
        .jump_if32(SCRATCH, Condition::NotEqual, 0x60, malformed);
    e.asm.load(Size::Byte, PROTOCOL, FRAME, NETWORK + 6);
    e.asm.set(TRANSPORT, (NETWORK + 40) as i32);
    let end = e.asm.label();
    for count in 0..EXTENSION_HEADERS_MAX {
        extension_header(e, count == 0, end, malformed, fragment);
    }
    for next in &EXTENSION_HEADERS[1..] {
        e.asm
            .jump_if32(PROTOCOL, Condition::Equal, i32::from(*next), malformed);
    }
    e.asm.bind(end);
    e.asm.alu(Alu::Add, TRANSPORT, FRAME);
}

/// One extension header: on to the next, or to `end` when the protocol is none.
fn extension_header(
    e: &mut Emitter<'_>,
    first: bool,
    end: Label,
    malformed: Label,
    fragment: Label,
) {
    let [generic, authentication, advance, read, walked] = [(); 5].map(|()| e.asm.label());
    // RFC 8200 §4.1: hop-by-hop options only directly behind the fixed header.
    for next in &EXTENSION_HEADERS[usize::from(!first)..] {
        e.asm
            .jump_if32(PROTOCOL, Condition::Equal, i32::from(*next), read);
    }
    e.asm.jump(end);
    e.asm.bind(read);
    e.asm.set(SCRATCH2, FRAME);
    e.asm.alu(Alu::Add, SCRATCH2, TRANSPORT);
    e.asm.set(SCRATCH, SCRATCH2);
    e.asm.alu(Alu::Add, SCRATCH, 8);
    e.asm.jump_if(SCRATCH, Condition::Greater, END, malformed);

    // The header's length comes into the scratch register; its kind is overwritten by the next one's only then.
    e.asm.load(Size::Byte, SCRATCH, SCRATCH2, 1);
    e.asm.jump_if32(
        PROTOCOL,
        Condition::Equal,
        i32::from(AUTHENTICATION),
        authentication,
    );
    e.asm
        .jump_if32(PROTOCOL, Condition::NotEqual, i32::from(FRAGMENT), generic);
    e.asm.load(Size::Byte, PROTOCOL, SCRATCH2, 0);
    e.asm.load(Size::Half, SCRATCH, SCRATCH2, 2);
    e.asm
        .jump_if32(SCRATCH, Condition::Set, half(0xfff8), fragment);
    e.asm.alu(Alu::Add, TRANSPORT, 8);
    e.asm.jump(walked);
    e.asm.bind(generic);
    scaled_length(e, 1, 3);
    e.asm.jump(advance);
    e.asm.bind(authentication);
    scaled_length(e, 2, 2);
    e.asm.bind(advance);
    e.asm.load(Size::Byte, PROTOCOL, SCRATCH2, 0);
    e.asm.alu(Alu::Add, TRANSPORT, SCRATCH);
    e.asm.set(SCRATCH, FRAME);
    e.asm.alu(Alu::Add, SCRATCH, TRANSPORT);
    e.asm.jump_if(SCRATCH, Condition::Greater, END, malformed);
    e.asm.bind(walked);
    forget_distance(e);
}

/// Make the verifier forget what it knows of [`TRANSPORT`] but that it is below 32 KiB, which it always is
/// ([`TRANSPORT_OFFSET_MAX`]). It follows every distinct state separately, so without this the paths multiply with
/// each header, and all tests behind are verified once for each. Half a word stored askew in its 8-byte stack slot
/// is not followed by any version of the verifier.
fn forget_distance(e: &mut Emitter<'_>) {
    e.asm.push(Insn::store(Size::Half, Reg::R10, -6, TRANSPORT));
    e.asm.push(Insn::load(Size::Half, TRANSPORT, Reg::R10, -6));
    e.asm.alu(Alu::And, TRANSPORT, 0x7fff);
}

const _: () = assert!(TRANSPORT_OFFSET_MAX <= 0x7fff && 0x7fff + OFFSET_MAX <= 0xffff);

/// `scratch = (scratch + plus) << shift`.
fn scaled_length(e: &mut Emitter<'_>, plus: i32, shift: i32) {
    e.asm.alu(Alu::Add, SCRATCH, plus);
    e.asm.alu(Alu::ShiftLeft, SCRATCH, shift);
}

/// A 16-bit constant to compare with a word in memory order.
fn half(value: u16) -> Operand {
    Operand::Imm(in_memory_order(Width::Half, value.into()))
}
