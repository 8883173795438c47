//! The program in the kernel's packet path, and its maps.
//!
//! Attached to an interface once, as one XDP link, is a dispatcher, which does
//! nothing but call the program in the first slot of a program array. Generated programs
//! redirect to a map of sockets and count their verdicts in another map. New rules are a new program, put into the slot: one pointer changes, each
//! packet sees the old or the new one, and the interface is not disturbed
//! (replacing the program of the link stops a veth for some 16 ms).
//!
//! While the slot is empty, packets pass to the host.
//!
//! ```text
//! dispatcher ──> first slot: the filter, or a handler ──> second slot: the filter
//! ```
//!
//! The filter is always in the second slot too, so that a [handler](exos_filter::handler) comes and goes by one
//! pointer as well. Of several handlers each but the last has a program array of its own, with the next in the place of the filter.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use exos_filter::Program as Code;
use exos_filter::handler::{FILTER_SLOT, Handler};
use exos_filter::{
    Action, Counter, EarlyDrop, ProgramMaps, ReceiveRing, Rule, SlotCounters, compile, dispatcher,
    stamping_dispatcher,
};
use exos_host::bpf::{self, KernelTypes, Map, Prog, TcxHook, TcxLink, XdpMode};

use super::interface::Interface;
use crate::Error;
use crate::limits::QUEUES_MAX;

/// Slots of the program array: what sees a packet first, and the filter.
const SLOTS: u32 = FILTER_SLOT + 1;

/// Where the program runs.
pub use exos_host::bpf::XdpMode as Mode;

/// Which place the program is wanted in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ModeChoice {
    /// Native where the driver has it, else generic.
    #[default]
    Auto,
    /// In the driver, or not at all.
    Native,
    /// On socket buffers, after the driver. On a veth this has the peer send
    /// large TCP segments uncut, which come in pieces and are joined; before Linux 6.6 they
    /// are dropped (`kernel_rx_dropped`) unless segmentation is turned off there. Native mode
    /// turns it off itself.
    Generic,
}

/// What a program is to do.
pub(super) struct ProgramConfig<'a> {
    pub(super) rules: &'a [Rule],
    pub(super) otherwise: Action,
    pub(super) mode: ModeChoice,
    /// It notes when each frame came.
    pub(super) arrival_times: bool,
    /// Packets may come in several pieces.
    pub(super) multi_buffer: bool,
}

/// A dispatcher on an interface. Dropped, it is detached and everything freed.
#[derive(Debug)]
pub(super) struct Program {
    interface: u32,
    attachment: bpf::Link,
    slots: Map,
    maps: Maps,
    /// The filter in force, and whether a handler is before it.
    first: Mutex<First>,
    multi_buffer: bool,
    native_refusal: Option<Error>,
}

/// What is in the first slot.
#[derive(Debug)]
struct First {
    filter: Prog,
    /// The handler that was loaded last, and its code: the same one can be put in force again without privilege.
    loaded: Option<(Vec<u64>, Prog)>,
    /// Where the first handler finds the second, and so on.
    behind: Vec<Map>,
    /// Where those before them did: some may still be running.
    behind_before: Vec<Map>,
    has_handler: bool,
    /// What deals with packets that the handler passes to it.
    second_stage: Option<TcxLink>,
}

/// What generated programs refer to; it stays when they are exchanged.
#[derive(Debug)]
struct Maps {
    /// The socket of each queue.
    sockets: Map,
    /// Packets by verdict, see [`Counter`].
    verdicts: Map,
}

impl Program {
    /// Attaches a dispatcher with the configured rules. No socket is in the map
    /// yet, so that packets pass.
    pub(super) fn attach(interface: &Interface, config: &ProgramConfig<'_>) -> Result<Self, Error> {
        let multi_buffer = config.multi_buffer;
        let slots = Map::prog_array(SLOTS)?;
        let maps = Maps {
            sockets: Map::xskmap(QUEUES_MAX)?,
            verdicts: Map::percpu_array("exos_verdicts", size_of::<u64>(), Counter::COUNT)?,
        };
        let kind = if config.arrival_times {
            stamping_dispatcher
        } else {
            dispatcher
        };
        let code = kind(slots.raw_fd(), Action::Pass);
        let dispatcher = load(&code, "exos_dispatch", multi_buffer)?;
        let filter = generate(&maps, config.rules, config.otherwise, multi_buffer)?;
        for slot in 0..SLOTS {
            slots.set_fd(slot, filter.as_fd())?;
        }
        let (attachment, native_refusal) = attach(interface, &dispatcher, config.mode)?;
        Ok(Self {
            interface: interface.index,
            attachment,
            slots,
            maps,
            first: Mutex::new(First {
                filter,
                loaded: None,
                behind: Vec::new(),
                behind_before: Vec::new(),
                has_handler: false,
                second_stage: None,
            }),
            multi_buffer,
            native_refusal,
        })
    }

    /// Where the program runs.
    pub(super) fn mode(&self) -> Mode {
        self.attachment.mode()
    }

    /// Why it does not run in the driver, when it was to.
    pub(super) fn native_refusal(&self) -> Option<&Error> {
        self.native_refusal.as_ref()
    }

    /// Puts other rules in force.
    pub(super) fn set_rules(&self, rules: &[Rule], otherwise: Action) -> Result<(), Error> {
        let filter = generate(&self.maps, rules, otherwise, self.multi_buffer)?;
        let mut first = self.first();
        self.slots.set_fd(FILTER_SLOT, filter.as_fd())?;
        if !first.has_handler {
            self.slots.set_fd(0, filter.as_fd())?;
        }
        first.filter = filter;
        Ok(())
    }

    /// Has a handler see packets, and what it does not deal with the others in their order, before the filter does; in the place of
    /// those that did. Only the first may have a second stage.
    pub(super) fn set_handlers(
        &self,
        handler: &dyn Handler,
        others: &[&dyn Handler],
    ) -> Result<(), Error> {
        let behind = self.load_behind(others)?;
        let next = behind.last().unwrap_or(&self.slots);
        let code = handler.program(next.raw_fd(), self.maps.verdicts.raw_fd());
        let words = code.words();
        let mut first = self.first();
        // Descriptors that were closed meanwhile may be others' by now.
        let is_same = handler.may_be_kept() && first.behind.is_empty() && behind.is_empty();
        let known = first
            .loaded
            .take_if(|(known, _)| is_same && *known == words);
        let program = match known {
            Some((_, program)) => program,
            None => Prog::load(&words, handler.name(), self.multi_buffer)?,
        };
        let second_stage = self.attach_second_stage(handler)?;
        let put = self.slots.set_fd(0, program.as_fd());
        first.loaded = Some((words, program));
        put?;
        first.behind_before = std::mem::replace(&mut first.behind, behind);
        first.has_handler = true;
        first.second_stage = second_stage;
        Ok(())
    }

    /// Loads handlers that stand behind another, the last first: each is in an array that the one before it goes on with.
    fn load_behind(&self, others: &[&dyn Handler]) -> Result<Vec<Map>, Error> {
        let mut behind = Vec::<Map>::new();
        for other in others.iter().rev() {
            let next = behind.last().unwrap_or(&self.slots);
            let code = other.program(next.raw_fd(), self.maps.verdicts.raw_fd());
            let program = load(&code, other.name(), self.multi_buffer)?;
            let slots = Map::prog_array(SLOTS)?;
            slots.set_fd(FILTER_SLOT, program.as_fd())?;
            behind.push(slots);
        }
        Ok(behind)
    }

    fn attach_second_stage(&self, handler: &dyn Handler) -> Result<Option<TcxLink>, Error> {
        let Some(code) = handler.second_stage(self.maps.verdicts.raw_fd()) else {
            return Ok(None);
        };
        let program = Prog::load_classifier(&code.words(), handler.name())?;
        TcxLink::attach(self.interface, &program, TcxHook::Ingress).map(Some)
    }

    /// The filter sees everything again.
    pub(super) fn remove_handler(&self) -> Result<(), Error> {
        let mut first = self.first();
        self.slots.set_fd(0, first.filter.as_fd())?;
        first.has_handler = false;
        first.second_stage = None;
        Ok(())
    }

    /// Empties the slots: the dispatcher has packets pass then.
    pub(super) fn let_pass(&self) -> Result<(), Error> {
        let mut first = self.first();
        // The first before the others: a handler that still runs goes on to the filter.
        for slot in 0..SLOTS {
            self.slots.clear(slot)?;
        }
        first.has_handler = false;
        first.second_stage = None;
        Ok(())
    }

    /// Links of several cores may change it at the same time.
    fn first(&self) -> MutexGuard<'_, First> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the packets that the rules claim on a queue given to a socket.
    pub(super) fn set_socket(&self, queue: u32, socket: BorrowedFd<'_>) -> Result<(), Error> {
        self.maps.sockets.set_fd(queue, socket)
    }

    /// Packets by the verdict of the program; nothing where the kernel does not
    /// tell.
    pub(super) fn verdicts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Counter::ALL
            .into_iter()
            .filter_map(|(counter, name)| Some((name, self.count(counter)?)))
    }

    /// Packets with one verdict; 0 where the kernel does not tell.
    pub(super) fn verdict(&self, counter: Counter) -> u64 {
        self.count(counter).unwrap_or(0)
    }

    fn count(&self, counter: Counter) -> Option<u64> {
        let sums = self.maps.verdicts.sum_percpu_u64(counter as u32).ok()?;
        sums.first().copied()
    }
}

/// Native first, generic where native is not to be had; then with the reason.
fn attach(
    interface: &Interface,
    dispatcher: &Prog,
    choice: ModeChoice,
) -> Result<(bpf::Link, Option<Error>), Error> {
    let attach = |mode| bpf::Link::attach_xdp(interface.index, dispatcher, mode);
    match choice {
        ModeChoice::Native if interface.is_bond => Err(of_members(interface)),
        ModeChoice::Auto if interface.is_bond => {
            Ok((attach(XdpMode::Generic)?, Some(of_members(interface))))
        }
        ModeChoice::Native => Ok((attach(XdpMode::Native)?, None)),
        ModeChoice::Generic => Ok((attach(XdpMode::Generic)?, None)),
        ModeChoice::Auto => match attach(XdpMode::Native) {
            Ok(link) => Ok((link, None)),
            // Someone was faster; in generic mode it would be the same.
            Err(error) if error.is(libc::EBUSY) || error.is(libc::EEXIST) => Err(error),
            Err(error) => Ok((attach(XdpMode::Generic)?, Some(error))),
        },
    }
}

/// The kernel gives an AF_XDP socket what came in by the very interface that it is bound to, and in a bond's driver that is the
/// member.
fn of_members(interface: &Interface) -> Error {
    let name = &interface.name;
    Error::new(format!(
        "{name} is a bond: in its driver programs see packets of its members, which sockets of {name} do not get"
    ))
    .mend("use generic mode, or name a member")
}

/// Compiles and loads the program for a set of rules.
fn generate(
    maps: &Maps,
    rules: &[Rule],
    otherwise: Action,
    multi_buffer: bool,
) -> Result<Prog, Error> {
    let load = |early_drop| {
        let maps = ProgramMaps {
            xskmap_fd: maps.sockets.raw_fd(),
            counters_fd: Some(maps.verdicts.raw_fd()),
            early_drop,
        };
        let code = compile(rules, otherwise, &maps).map_err(|error| {
            Error::new(format!("the packet filter cannot be compiled: {error}"))
                .mend("claim fewer packets, or describe them by fewer conditions")
        })?;
        load(&code, "exos_filter", multi_buffer)
    };
    match early_drop(None).map(|how| load(Some(how))) {
        Some(Ok(program)) => Ok(program),
        _ => load(None),
    }
}

/// Early drop, if this kernel says where it keeps how full a socket's ring is. Anyone who is refused a program with it does
/// without: a kernel before 6.2, or one that does not let this process look at its structures.
pub(super) fn early_drop(count: Option<SlotCounters>) -> Option<EarlyDrop> {
    static FOUND: OnceLock<Option<ReceiveRing>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let types = KernelTypes::load().ok()?;
        let member = |structure: &str, name: &str| Some(types.member(structure, name)?.offset_bits);
        let function = types.function("bpf_rdonly_cast")?;
        ReceiveRing::from_layout(function, types.structure("xdp_sock")?, member)
    });
    found.map(|ring| EarlyDrop { ring, count })
}

fn load(code: &Code, name: &str, multi_buffer: bool) -> Result<Prog, Error> {
    Prog::load(&code.words(), name, multi_buffer).map_err(Error::from)
}
