//! What sockets of both ways need: the stack, the set of what is waited for, and the calls that are answered.

use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::rc::Rc;

use exos::net::{Net, Poll};
use exos::via::Protocol;
use exos::{Error, Exos};
use exos_host::intercept::{Call, Calls};
use exos_preload::memory::Shared;

use crate::answer::errno;
use crate::later::Later;
use crate::trace::{Trace, say};

pub(crate) struct Context {
    pub net: Net,
    pub poll: Poll,
    pub calls: Calls,
    /// What prints calls, where that is asked for.
    trace: Option<Trace>,
    later: Later,
    /// What programs share with us, where they do.
    memory: Option<Rc<Shared>>,
    /// What an error was about that was said last.
    said: RefCell<String>,
}

impl Context {
    /// # Errors
    ///
    /// The kernel gives no set.
    pub fn new(
        net: Net,
        calls: Calls,
        trace: Option<Trace>,
        memory: Option<Rc<Shared>>,
    ) -> io::Result<Self> {
        let poll = Poll::new(&net)?;
        Ok(Self {
            net,
            poll,
            calls,
            trace,
            later: Later::default(),
            memory,
            said: RefCell::default(),
        })
    }

    /// Sockets that are to be looked at again in a while.
    pub fn later(&self) -> &Later {
        &self.later
    }

    /// Gives a call its result.
    pub fn respond(&self, call: &Call, result: io::Result<i64>) {
        let made = self.traced(call, result.is_err());
        self.trace(call, made, &result);
        if let Err(error) = &result {
            self.say(error);
        }
        self.goes_on();
        self.calls
            .answer(call, result.map_err(|error| errno(&error)));
    }

    /// Has the kernel answer a call.
    pub fn let_pass(&self, call: &Call) {
        self.goes_on();
        self.calls.let_pass(call);
    }

    /// A program is about to go on. It may do so at once: what it counts then is to be right.
    fn goes_on(&self) {
        if let Some(memory) = &self.memory {
            memory.one_runs();
        }
    }

    /// Says why a call fails where a number does not tell, as when the daemon refuses; once, for programs try again.
    fn say(&self, error: &io::Error) {
        let inner = error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<Error>());
        let Some(sentence) = inner.map(Error::to_string) else {
            return;
        };
        if self.said.replace(sentence.clone()) != sentence {
            say(format_args!("exos run: {sentence}"));
        }
    }

    /// A call with its arguments, where that is asked for; before it has its answer, for they lie in the caller's memory. None of one
    /// that waits no more: its thread's number may be another's, and the memory too.
    pub fn traced(&self, call: &Call, has_failed: bool) -> Option<String> {
        let made = self
            .trace
            .as_ref()
            .and_then(|trace| trace.made(call, has_failed));
        made.filter(|_| self.calls.waits(call))
    }

    /// Prints a line as strace has it, of a call that was [traced](Self::traced).
    pub fn trace(&self, call: &Call, made: Option<String>, result: &io::Result<i64>) {
        if let (Some(trace), Some(made)) = (&self.trace, made) {
            trace.print(call, &made, result);
        }
    }

    /// What prints calls.
    pub fn tracing(&self) -> Option<&Trace> {
        self.trace.as_ref()
    }

    /// An address of the stack's.
    pub fn has_address(&self, ip: IpAddr) -> bool {
        self.net.with(|exos| exos.stack.has_address(ip))
    }

    /// An address that is the stack's, or all of them.
    pub fn is_ours(&self, ip: IpAddr) -> bool {
        ip.is_unspecified() || self.has_address(ip)
    }

    /// Whether an address that is to be connected to is the kernel's to reach: the stack shares it with this host, and nothing of
    /// ours listens there.
    pub fn is_hosts(&self, to: SocketAddr, protocol: Protocol) -> bool {
        let takes = |at: Option<IpAddr>, port: u16| {
            port == to.port() && at.is_none_or(|at| at.is_unspecified() || at == to.ip())
        };
        let is_heard = |exos: &mut Exos| match protocol {
            Protocol::Tcp => exos.stack.tcp.listening().any(|l| takes(l.address, l.port)),
            _ => exos.stack.udp.sockets().any(|s| takes(s.local, s.port)),
        };
        self.has_address(to.ip())
            && !self.net.with(is_heard)
            && UdpSocket::bind((to.ip(), 0)).is_ok()
    }

    /// From which address packets to another host go, where there is a route.
    pub fn source_for(&self, to: IpAddr) -> Option<IpAddr> {
        let is_this_host = to.is_loopback() || to.is_unspecified();
        let source = |exos: &mut Exos| {
            let (_, routes) = exos.stack.routes();
            routes.next_hop(to).and_then(|_| routes.source_for(to))
        };
        self.net.with(source).filter(|_| !is_this_host)
    }

    /// Whether the link takes a datagram of this length, in fragments.
    pub fn has_room(&self, len: usize) -> bool {
        /// More than the longest has on a link of 576 bytes. With a smaller MTU some are dropped and counted.
        const MOST: usize = 128;
        let has = |exos: &mut Exos| {
            let each = exos.stack.config().mtu.saturating_sub(68).max(8);
            exos.stack.datagram_room() >= (len / each + 1).min(MOST)
        };
        // An interface that has gone ends the loop.
        self.net.with(has) || (self.net.flush().is_ok() && self.net.with(has))
    }
}
