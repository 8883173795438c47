//! Handlers in the kernel: parts of what a program does that are done before packets reach it.
//!
//! [`Exos::answer_syns_in_kernel`] has the XDP program answer SYNs of a listener with cookies
//! ([`exos_filter::handler`]), so that a client that opens a connection costs this program nothing before it has
//! acknowledged. Answers leave by `XDP_TX`, and on a veth those arrive only where the other end has an XDP program too.
//! Nobody can tell from this end. So [`Exos::see_to_handlers`] watches whether
//! anybody who was answered comes back, and takes the handler away if nobody does.

use std::time::Duration;

use exos_filter::Counter;
use exos_filter::handler::SynHandler;
use exos_inet::Instant;
use exos_inet::tcp::ListenerId;
use exos_inet::tcp::elsewhere::SynAnswer;
use exos_link::{Link, XdpLink};

use crate::{Error, Exos};

/// How often it is looked whether answers arrive, as long as none is known to.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Looks after the first answers. A client asks again after 1 s and after 3 s: the second time it is heard.
const LOOKS: u32 = 2;

/// A handler whose answers are not known to arrive.
pub(crate) struct Unproven {
    listener: ListenerId,
    accepted_before: u64,
    next_look: Instant,
    looks_left: u32,
}

impl Exos {
    /// Has SYNs over IPv4 to a listener answered in the kernel, with cookies, from now on. The connection appears when
    /// its client acknowledges. See to it with [`see_to_handlers`](Self::see_to_handlers).
    ///
    /// # Errors
    ///
    /// The link is not one of AF_XDP with a program of ours, the listener offers other options than usual, or the
    /// kernel refuses the program.
    pub fn answer_syns_in_kernel(&mut self, listener: ListenerId) -> Result<(), Error> {
        let now = self.now();
        let Link::Xdp(link) = &mut self.link else {
            return Err(
                Error::new("SYNs can be answered in the kernel on AF_XDP only").mend(
                    "name an interface with --link xdp:INTERFACE, or leave --syn-handler out",
                ),
            );
        };
        let answer = self.stack.answer_elsewhere(now, listener);
        let answer = answer.ok_or_else(|| {
            Error::new("SYNs can be answered in the kernel only with all usual TCP options")
                .mend("leave --no-sack out, or --syn-handler")
        })?;
        let ours: Vec<_> = self.stack.addresses_v4().collect();
        let broadcasts = self.stack.broadcasts_v4();
        let not_from = ours.iter().copied().chain(broadcasts).collect();
        let handler = SynHandler {
            addresses: ours,
            not_from,
            ..handler_of(&answer, link)
        };
        if let Err(e) = link.set_syn_handler(&handler) {
            self.stack.answer_here(now, listener);
            return Err(e);
        }
        self.unproven = Some(Unproven {
            listener,
            accepted_before: self.stack.counters().tcp_syn_cookies_accepted,
            next_look: now + LOOK_EVERY,
            looks_left: LOOKS,
        });
        Ok(())
    }

    /// The stack answers SYNs to the listener itself again.
    pub fn answer_syns_here(&mut self, listener: ListenerId) {
        self.unproven = None;
        if let Link::Xdp(link) = &mut self.link {
            link.remove_syn_handler();
        }
        self.stack.answer_here(self.now(), listener);
    }

    /// Looks now and then whether answers of the handler arrive; to be called once a turn. When they do not, SYNs are
    /// answered by the stack again, and this says why.
    pub fn see_to_handlers(&mut self) -> Option<Error> {
        let now = self.now();
        let unproven = self.unproven.as_mut().filter(|u| u.next_look <= now)?;
        unproven.next_look = now + LOOK_EVERY;
        if self.stack.counters().tcp_syn_cookies_accepted > unproven.accepted_before {
            self.unproven = None;
            return None;
        }
        let Link::Xdp(link) = &self.link else {
            return None;
        };
        if link.verdict(Counter::Answered) == 0 {
            return None;
        }
        unproven.looks_left -= 1;
        if unproven.looks_left > 0 {
            return None;
        }
        let (listener, name) = (unproven.listener, link.name().to_owned());
        self.answer_syns_here(listener);
        let what = format!("nobody came back whose SYN was answered in the kernel by {name}");
        let mend = "a veth's other end has to have an XDP program too; leave --syn-handler out there. The program answers them from now on";
        Some(Error::new(what).mend(mend))
    }
}

fn handler_of(answer: &SynAnswer, link: &XdpLink) -> SynHandler {
    SynHandler {
        mac: link.mac(),
        addresses: Vec::new(),
        not_from: Vec::new(),
        port: answer.port,
        key: answer.key,
        cookie_salt: answer.cookie_salt,
        sequence_salt: answer.sequence_salt,
        epoch_us: answer.epoch_us,
        mss_table: answer.mss_table,
        mss: answer.mss,
        window: answer.window,
        scale: answer.scale,
        hop_limit: answer.hop_limit,
        class: answer.class,
        may_be_partial: link.offload().rx_partial_checksum,
    }
}
