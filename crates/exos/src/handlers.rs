//! Handlers in the kernel: parts of what a program does that are done before packets reach it.
//!
//! [`Exos::answer_syns_in_kernel`] has the XDP program answer SYNs of a listener with cookies
//! ([`exos_filter::handler`]), so that a client that opens a connection costs this program nothing before it has
//! acknowledged. Answers leave by `XDP_TX`, and on a veth those arrive only where the other end has an XDP program too.
//! Nobody can tell from this end. So on virtual interfaces [`Exos::see_to_handlers`] watches whether anybody who was
//! answered comes back, and takes the handler away if nobody does.

use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

use exos_filter::Counter;
use exos_filter::handler::forward::WayOut;
use exos_filter::handler::{Handler, SynHandler};
use exos_inet::tcp::ListenerId;
use exos_inet::{Instant, Stack};
use exos_link::{Link, XdpLink};

use crate::node::Exos;
use crate::node::syn_answers::{OnInterface, SynAnswers};
use crate::{Error, ErrorKind};

impl Exos {
    /// Has a handler of the program's own deal with packets in the kernel before they come here, from now on, in place of all that did.
    ///
    /// # Errors
    ///
    /// The link is not one of AF_XDP with a program of ours, or the kernel refuses the handler.
    pub fn set_handler(&mut self, handler: &dyn Handler) -> Result<(), Error> {
        match &mut self.link {
            Link::Xdp(link) => link.set_handlers(handler, &[])?,
            Link::Packet(link) => link.set_handler(handler)?,
            _ => return Err(needs_interface(IN_KERNEL)),
        }
        self.in_kernel.were_replaced();
        Ok(())
    }

    /// All packets come here again, and all messages to the program.
    pub fn remove_handler(&mut self) {
        self.stack.stop_handling();
        // A daemon that is not there has the kernel go on; when it comes back it is asked again by nobody.
        let _ = self.remove_from_kernel();
    }

    pub(crate) fn remove_from_kernel(&mut self) -> Result<(), Error> {
        match (&mut self.via, &mut self.link) {
            (Some(via), _) => via.remove_handler(None)?,
            (None, Link::Xdp(link)) => link.remove_handler(),
            (None, Link::Packet(link)) => link.remove_handler(),
            (None, Link::Tap(_) | Link::Memory(_)) => {}
        }
        self.in_kernel.were_replaced();
        Ok(())
    }

    /// Has SYNs to a listener answered in the kernel, with cookies, from now on. The connection appears when
    /// its client acknowledges. See to it with [`see_to_handlers`](Self::see_to_handlers).
    ///
    /// On several cores, of one interface or [several](crate::Core::lead), the first calls this before the others are
    /// [taken](Exos::take_cores), and each of those once it has started, with a listener of its own that is like the first's.
    ///
    /// # Errors
    ///
    /// The link is not one of AF_XDP with a program of ours, the listener offers other options than usual, the
    /// kernel refuses the program, or the first core did not call this.
    pub fn answer_syns_in_kernel(&mut self, listener: ListenerId) -> Result<(), Error> {
        let (on_interface, watches) = match self.syns_part.take() {
            Some((on_interface, is_first)) => {
                let handler = self.syn_handler(listener)?;
                (on_interface, is_first && handler.may_be_partial)
            }
            None => self.begin_to_answer_syns(listener)?,
        };
        let accepted = self.stack.counters().tcp_syn_cookies_accepted;
        let mut answers = SynAnswers::new(listener, on_interface, accepted);
        if watches {
            answers.watch(self.now());
        }
        self.syn_answers = Some(answers);
        Ok(())
    }

    /// On the first core: its part, and whether it watches; the others get theirs.
    fn begin_to_answer_syns(
        &mut self,
        listener: ListenerId,
    ) -> Result<(Arc<OnInterface>, bool), Error> {
        if self.handoff.is_some() && self.cores.is_empty() {
            return Err(needs_interface(
                "SYNs are answered in the kernel from an interface's first core on",
            ));
        }
        let handlers = self.syn_handlers(listener)?;
        let set = handlers
            .iter()
            .try_for_each(|(handler, cores)| self.link_of(cores.start)?.set_handlers(handler, &[]));
        set.inspect_err(|_| self.remove_handlers(listener))?;
        self.in_kernel.were_replaced();
        let mut first = None;
        for (handler, cores) in handlers {
            let on_interface = Arc::<OnInterface>::default();
            for core in cores.clone() {
                let part = (on_interface.clone(), core == cores.start);
                match core.checked_sub(1) {
                    Some(other) => self.cores[other].syns = Some(part),
                    None => first = Some((on_interface.clone(), handler.may_be_partial)),
                }
            }
        }
        Ok(first.expect("this core has an interface"))
    }

    /// What answers SYNs to a listener, by `XDP_TX`; the stack believes its cookies from now on.
    pub(crate) fn syn_handler(&mut self, listener: ListenerId) -> Result<SynHandler, Error> {
        let now = self.now();
        match &self.link {
            Link::Xdp(link) => syn_handler(link, &mut self.stack, now, listener),
            _ => Err(needs_interface(SYNS)),
        }
    }

    /// What answers SYNs to a listener on each interface, or part of one that a daemon lends, that this core and those have that it has not
    /// given away, and which of these cores have it, this one being the first.
    pub(crate) fn syn_handlers(
        &mut self,
        listener: ListenerId,
    ) -> Result<Vec<(SynHandler, Range<usize>)>, Error> {
        let mut handlers = vec![(self.syn_handler(listener)?, 0..1)];
        let mut interface = self.link_of(0)?.interface();
        let like = self.stack.tcp.listener(listener);
        let (port, options) = like.expect("its SYNs are answered");
        for (core, number) in self.cores.iter().zip(1..) {
            if core.via.is_some() || core.link.interface() != interface {
                interface = core.link.interface();
                let handler = core.syn_handler(port, options.clone())?;
                handlers.push((handler, number..number));
            }
            let (_, cores) = handlers.last_mut().expect("there is a first interface");
            cores.end = number + 1;
        }
        Ok(handlers)
    }

    /// The link of a core, this one or one that it has not given away.
    pub(crate) fn link_of(&mut self, core: usize) -> Result<&mut XdpLink, Error> {
        match (core.checked_sub(1), &mut self.link) {
            (Some(other), _) => Ok(&mut self.cores[other].link),
            (None, Link::Xdp(link)) => Ok(link),
            (None, _) => Err(needs_interface(SYNS)),
        }
    }

    /// Takes away what was set for a listener on the interfaces of this core and those that it has not given away.
    pub(crate) fn remove_handlers(&mut self, listener: ListenerId) {
        // A daemon that is not there has the kernel go on.
        let _ = self.remove_from_kernel();
        for core in &mut self.cores {
            core.link.remove_handler();
        }
        let now = self.now();
        self.stack.stop_offloading_syns(now, listener);
    }

    /// The stack answers all SYNs itself again; on several cores, each that calls this, or [sees to it](Self::see_to_handlers).
    pub fn answer_syns_here(&mut self) {
        self.answer_requests_here();
        if let Link::Xdp(link) = &mut self.link
            && self.syn_answers.as_ref().is_some_and(|it| !it.have_ended())
        {
            link.remove_handler();
        }
        self.syns_were_replaced();
    }

    /// What answered SYNs in the kernel, without requests, is there no more: the stack answers them.
    pub(crate) fn syns_were_replaced(&mut self) {
        if let Some(answers) = self.syn_answers.take() {
            answers.end();
            let now = self.now();
            self.stack.stop_offloading_syns(now, answers.listener());
        }
    }

    /// Looks now and then whether answers of the handler arrive; to be called once a turn, on each core. When they do not, SYNs are
    /// answered by the stack again, and this says why, on one of them.
    pub fn see_to_handlers(&mut self) -> Option<Error> {
        let now = self.now();
        let answers = self.syn_answers.as_mut()?;
        let Link::Xdp(link) = &self.link else {
            return None;
        };
        if answers.have_ended() {
            self.syns_were_replaced();
            return None;
        }
        let accepted = self.stack.counters().tcp_syn_cookies_accepted;
        if !answers.are_lost(now, accepted, || link.verdict(Counter::Answered)) {
            return None;
        }
        let name = link.name().to_owned();
        self.answer_syns_here();
        let what = format!(
            "nobody came back whose SYN was answered in the kernel by {name}, so the stack answers again"
        );
        let mend = "give the veth's other end an XDP program too";
        Some(Error::new(what).mend(mend))
    }
}

/// What answers SYNs that come by a link to a listener of its stack.
pub(crate) fn syn_handler(
    link: &XdpLink,
    stack: &mut Stack,
    now: Instant,
    listener: ListenerId,
) -> Result<SynHandler, Error> {
    let recipe = stack.offload_syns(now, listener);
    let recipe = recipe.ok_or_else(|| {
        Error::new("SYNs can be answered in the kernel only with all usual TCP options")
            .mend("offer selective acknowledgements, or have the stack answer")
            .of_kind(ErrorKind::Invalid)
    })?;
    let ours: Vec<_> = stack.addresses().iter().map(|p| p.addr).collect();
    let broadcasts = stack.broadcasts_v4().map(IpAddr::V4);
    let not_from = ours.iter().copied().chain(broadcasts).collect();
    Ok(SynHandler {
        mac: link.mac(),
        addresses: ours,
        not_from,
        recipe,
        may_be_partial: link.offload().rx_partial_checksum,
        may_decline: false,
        way_out: WayOut::Transmit,
    })
}

/// How packets that come by each of these leave by each of them when a handler sends them on, a row for each that they come by: see
/// [`exos_link::ways_out`].
///
/// # Errors
///
/// They would not arrive.
pub fn ways_out(all: &[Exos]) -> Result<Vec<Vec<WayOut>>, Error> {
    let by_xdp = all.iter().map(|exos| match &exos.link {
        Link::Xdp(link) => Some(link),
        _ => None,
    });
    if let Some(links) = by_xdp.collect::<Option<Vec<_>>>() {
        return exos_link::ways_out(&links);
    }
    let by_packet = all.iter().map(|exos| match &exos.link {
        Link::Packet(link) => Ok(link.way_out()),
        _ => Err(needs_interface(IN_KERNEL)),
    });
    let row = by_packet.collect::<Result<Vec<_>, _>>()?;
    Ok(vec![row; all.len()])
}

/// Whether packets that a handler sends on between these interfaces would arrive, as far as can be seen without their links.
///
/// # Errors
///
/// They would not.
pub fn check_ways_out(names: &[&str]) -> Result<(), Error> {
    exos_link::check_ways_out(names)
}

const SYNS: &str = "the kernel answers SYNs and requests on AF_XDP only";
const IN_KERNEL: &str =
    "packets are dealt with in the kernel by AF_XDP, or by packet sockets of an interface";

pub(crate) fn needs_interface(what: &str) -> Error {
    Error::new(what)
        .mend("attach to an interface")
        .of_kind(ErrorKind::NeedsInterface)
}
