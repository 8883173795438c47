//! The guard of XDP programs that are lent: who attaches one to an interface has to have the right to.
//!
//! By netlink it takes CAP_NET_ADMIN in the interface's network namespace to attach an XDP program. By bpf(2) (`BPF_LINK_CREATE`) it
//! takes the program's descriptor alone: the kernel takes for granted that its holder was allowed to load it. A program that
//! is lent to be run, by a holder without privilege, could so be put on any interface of the holder's network namespace, and
//! drop what arrives there. The guard is a security module: it is asked before each bpf(2) call, and refuses such a link (EPERM) to
//! who could not have it by netlink. It looks at the caller and not at the program, for a descriptor's number may mean another program
//! a moment later.
//!
//! It also refuses to bind maps to programs (`BPF_PROG_BIND_MAP`) to who has no privilege on the machine: a map that is bound stays as
//! long as the program, which all holders have in common.

use crate::ebpf::{Assembler, Condition, Emit, Helper, Label, Reg, Size};
use crate::program::Program;

/// The function that the guard is asked before.
pub const FUNCTION: &str = "bpf_lsm_bpf";

/// The guard answers the attempt to attach an XDP program by this number of a descriptor with the error [`ANSWER`], which the kernel does
/// not give for it: so it can be found out whether the kernel asks.
pub const QUESTION: u32 = 0x6578_6f73;
/// ENOTUNIQ, which the kernel does not give for this.
pub const ANSWER: i32 = 76;

/// `BPF_LINK_CREATE`, and the offset of the kind of link in its arguments (include/uapi/linux/bpf.h).
const LINK_CREATE: i32 = 28;
const ATTACH_TYPE: i16 = 8;
/// `BPF_PROG_BIND_MAP`.
const BIND_MAP: i32 = 35;
/// `BPF_XDP`.
const XDP: i32 = 37;
/// Bits among the capabilities, in their lower and higher words: CAP_NET_ADMIN, CAP_SYS_ADMIN; CAP_BPF.
const NET_ADMIN: i32 = 1 << 12;
const SYS_ADMIN: i32 = 1 << 21;
const BPF: i32 = 1 << 7;
/// User namespaces in each other (kernel/user_namespace.c).
const LEVELS_MAX: usize = 33;
const EPERM: i32 = 1;

/// Where in the kernel's structures stands what the guard looks at, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardLayout {
    task_credentials: i16,
    task_namespaces: i16,
    credentials_user: i16,
    credentials_euid: i16,
    /// Two words on machines that store the lower one first.
    credentials_effective: i16,
    namespaces_network: i16,
    network_user: i16,
    user_level: i16,
    user_parent: i16,
    user_owner: i16,
}

impl GuardLayout {
    /// By the offset in bits of a member of a structure. None when one is missing.
    pub fn from_layout(member: impl Fn(&str, &str) -> Option<u32>) -> Option<Self> {
        let at = |structure, name| i16::try_from(member(structure, name)? / 8).ok();
        let layout = Self {
            task_credentials: at("task_struct", "cred")?,
            task_namespaces: at("task_struct", "nsproxy")?,
            credentials_user: at("cred", "user_ns")?,
            credentials_euid: at("cred", "euid")?,
            credentials_effective: at("cred", "cap_effective")?,
            namespaces_network: at("nsproxy", "net_ns")?,
            network_user: at("net", "user_ns")?,
            user_level: at("user_namespace", "level")?,
            user_parent: at("user_namespace", "parent")?,
            user_owner: at("user_namespace", "owner")?,
        };
        cfg!(target_endian = "little").then_some(layout)
    }
}

/// The ends of the program.
#[derive(Clone, Copy)]
struct Ends {
    allow: Label,
    refuse: Label,
    /// By the capability in the credentials' own namespace.
    capable: Label,
}

/// The program, to be asked before [`FUNCTION`]: 0, or the error for what the caller has no right to.
pub fn guard(layout: &GuardLayout) -> Program {
    let mut asm = Assembler::new();
    let [allow, refuse, capable, bind, answer] = [(); 5].map(|()| asm.label());
    let ends = Ends {
        allow,
        refuse,
        capable,
    };
    // The arguments of the function, a word each: the command, and where the kernel has its arguments.
    asm.load(Size::Double, Reg::R9, Reg::R1, 8);
    asm.load(Size::Word, Reg::R2, Reg::R1, 0);
    asm.jump_if(Reg::R2, Condition::Equal, BIND_MAP, bind);
    asm.jump_if(Reg::R2, Condition::NotEqual, LINK_CREATE, allow);
    asm.load(Size::Word, Reg::R2, Reg::R9, ATTACH_TYPE);
    asm.jump_if(Reg::R2, Condition::NotEqual, XDP, allow);
    asm.load(Size::Word, Reg::R2, Reg::R9, 0);
    asm.jump_if(Reg::R2, Condition::Equal, QUESTION as i32, answer);
    credentials(&mut asm, layout);
    asm.load(Size::Double, Reg::R8, Reg::R0, layout.task_namespaces);
    asm.load(Size::Double, Reg::R8, Reg::R8, layout.namespaces_network);
    asm.load(Size::Double, Reg::R8, Reg::R8, layout.network_user);
    for _ in 0..LEVELS_MAX {
        level(&mut asm, layout, ends);
    }
    asm.jump(refuse);
    asm.bind(bind);
    credentials(&mut asm, layout);
    asm.load(Size::Word, Reg::R1, Reg::R7, layout.user_level);
    asm.jump_if(Reg::R1, Condition::NotEqual, 0, refuse);
    asm.load(
        Size::Word,
        Reg::R1,
        Reg::R6,
        layout.credentials_effective + 4,
    );
    asm.jump_if(Reg::R1, Condition::Set, BPF, allow);
    asm.load(Size::Word, Reg::R1, Reg::R6, layout.credentials_effective);
    asm.jump_if(Reg::R1, Condition::Set, SYS_ADMIN, allow);
    asm.bind(capable);
    asm.load(Size::Word, Reg::R1, Reg::R6, layout.credentials_effective);
    asm.jump_if(Reg::R1, Condition::Set, NET_ADMIN, allow);
    for (label, result) in [(refuse, -EPERM), (answer, -ANSWER), (allow, 0)] {
        asm.bind(label);
        asm.set(Reg::R0, result);
        asm.exit();
    }
    Program::new(asm.finish().expect("it is short"))
}

/// The caller's task in r0, its credentials in r6, and the user namespace of those in r7.
fn credentials(asm: &mut Assembler, layout: &GuardLayout) {
    asm.call(Helper::GetCurrentTask);
    asm.load(Size::Double, Reg::R6, Reg::R0, layout.task_credentials);
    asm.load(Size::Double, Reg::R7, Reg::R6, layout.credentials_user);
}

/// One step of the kernel's `ns_capable`: in the namespace r8, for the credentials r6 that are of the namespace r7.
fn level(asm: &mut Assembler, layout: &GuardLayout, ends: Ends) {
    let above = asm.label();
    asm.jump_if(Reg::R8, Condition::Equal, Reg::R7, ends.capable);
    asm.load(Size::Word, Reg::R1, Reg::R8, layout.user_level);
    asm.load(Size::Word, Reg::R2, Reg::R7, layout.user_level);
    asm.jump_if(Reg::R1, Condition::LessOrEqual, Reg::R2, ends.refuse);
    asm.load(Size::Word, Reg::R3, Reg::R8, layout.user_owner);
    asm.load(Size::Double, Reg::R8, Reg::R8, layout.user_parent);
    asm.jump_if(Reg::R8, Condition::NotEqual, Reg::R7, above);
    // Who made a namespace has all rights in it.
    asm.load(Size::Word, Reg::R1, Reg::R6, layout.credentials_euid);
    asm.jump_if(Reg::R1, Condition::Equal, Reg::R3, ends.allow);
    asm.bind(above);
}
