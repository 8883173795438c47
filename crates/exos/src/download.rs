//! Handlers of the program's own messages.
//!
//! The program says what is to be done with the datagrams that come to one of its ports, in the [language of handlers](exos_ash). The
//! kernel does it where they arrive, while the program sleeps or is busy elsewhere; where the kernel cannot, or has not done it with a message,
//! the same is done in the program's own receive path, before any socket. What the handler gives up comes to the program's own socket at
//! that port, as everything did before. The handler's memory is the program's, too. With messages of TCP connections it is done here alone.

mod here;
mod in_kernel;
mod kept;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use exos_ash::{Checked, Layout, Memory};
use exos_host::bpf::MappedArray;
use exos_inet::Framing;

use self::here::Here;
pub(crate) use self::kept::InKernelHandlers;
use crate::node::Exos;
use crate::via;
use crate::{Error, ErrorKind};

/// Where a handler runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the kernel, where packets arrive, also while the program sleeps.
    Kernel,
    /// In the program, as machine code, when [`Exos::receive`] takes in what has come.
    Compiled,
    /// In the program, by the interpreter: there is no machine code for this processor.
    Interpreted,
}

/// A handler that runs, and its memory. Dropped, it goes on handling, as long as the link and until
/// [`Exos::remove_handler`]; only its memory is out of reach then.
#[derive(Debug)]
pub struct Downloaded {
    handler: Checked,
    layout: Layout,
    words: Words,
    place: Place,
    not_in_kernel: Option<Error>,
}

/// Memory of a handler.
#[derive(Clone, Debug)]
enum Words {
    OfKernel(Arc<MappedArray>),
    Ours(Arc<[AtomicU64]>),
}

impl Words {
    fn new(layout: &Layout) -> Self {
        let words = (0..layout.bytes() / 8).map(|_| AtomicU64::new(0));
        Self::Ours(words.collect())
    }

    fn all(&self) -> &[AtomicU64] {
        match self {
            Self::OfKernel(memory) => memory.words(),
            Self::Ours(words) => words,
        }
    }
}

impl Downloaded {
    fn in_kernel(handler: Checked, layout: Layout, memory: Arc<MappedArray>) -> Self {
        Self {
            handler,
            layout,
            words: Words::OfKernel(memory),
            place: Place::Kernel,
            not_in_kernel: None,
        }
    }

    fn here(handler: Checked, layout: Layout, here: &Here, why: Error) -> Self {
        Self {
            handler,
            layout,
            words: here.words(),
            place: here.place(),
            not_in_kernel: Some(why),
        }
    }

    /// The memory, which the handler may change at any time. What is written here it sees with the next message.
    pub fn memory(&self) -> Memory<'_> {
        Memory::new(self.words.all(), &self.layout, self.handler.handler())
    }

    /// The handler.
    pub fn handler(&self) -> &Checked {
        &self.handler
    }

    /// Where it has run since it was downloaded. What the program puts in its place later, [answers to SYNs](Exos::answer_syns_in_kernel) or
    /// [requests](Exos::answer_requests_in_kernel) say, does not show here.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Why it does not run in the kernel, if it does not.
    pub fn not_in_kernel(&self) -> Option<&Error> {
        self.not_in_kernel.as_ref()
    }
}

impl Exos {
    /// Has a handler deal with the datagrams that come to a port of ours, in place of the handler of this port before: in the kernel
    /// ([`download_into_kernel`](Self::download_into_kernel)), or here where the kernel cannot run it ([`Downloaded::place`]).
    ///
    /// Here it deals with what the stack receives, in [`receive`](Self::receive), as machine code: on any link, and also with what the
    /// kernel's verifier does not follow. Messages and replies are the same, but that replies go by the stack's routes.
    ///
    /// Of a handler in the kernel, what comes up is dealt with here first: what the kernel had no steps or no room for, or left to
    /// somebody who looks at packets. What was given up there has had no effect, so the second time is as the first.
    ///
    /// # Errors
    ///
    /// The daemon has the port for another program, or does not answer; or the kernel cannot run it, and this program has several cores.
    pub fn download(&mut self, handler: Checked, port: u16) -> Result<Downloaded, Error> {
        self.claim_for_handler(port)?;
        let layout = Layout::of(handler.handler());
        match self.put_in_kernel(&handler, &layout, port) {
            Ok(memory) => {
                let words = Words::OfKernel(memory.clone());
                let here = Here::new(handler.clone(), layout.clone(), words);
                self.stack.handle_datagrams(port, Box::new(here));
                Ok(Downloaded::in_kernel(handler, layout, memory))
            }
            // A handler of before may be in the kernel, which nobody can take out now.
            Err(gone) if via::control::is_gone(gone.kind) => Err(gone),
            Err(why) => self.put_here(handler, layout, port, why),
        }
    }

    /// Has a handler deal with the datagrams that come to a port of ours, in the kernel, in place of the handler of this port before, also of
    /// [one for SYNs](Exos::answer_syns_in_kernel), which the stack answers again then; beside
    /// [requests](Exos::answer_requests_in_kernel) that are answered there, if they were first.
    ///
    /// Messages are the payloads of whole UDP datagrams without IP options or extension headers, to the addresses that the
    /// stack has now, from another port than this: two handlers of one port would answer each other for ever. All others come to the
    /// program's socket, and so does what the handler gives up.
    ///
    /// By a daemon it takes no privilege: the port is claimed as a socket's is, and the daemon makes the kernel's program of the
    /// handler. Where what policy allows of steps (`handler_steps`, of all of this program's handlers) and of the link is used up, messages come to the
    /// socket, too.
    ///
    /// # Errors
    ///
    /// The daemon refuses; or the link is not one of AF_XDP with a program of ours, replies would not arrive (the other end of a veth has neither GRO nor an
    /// XDP program), the kernel has handlers of too many ports, or it refuses the handler
    /// ([too many ways](exos_ash::kernel::TOO_MANY_WAYS), [`ErrorKind::Invalid`]).
    pub fn download_into_kernel(
        &mut self,
        handler: Checked,
        port: u16,
    ) -> Result<Downloaded, Error> {
        self.claim_for_handler(port)?;
        let layout = Layout::of(handler.handler());
        let memory = self.put_in_kernel(&handler, &layout, port)?;
        Ok(Downloaded::in_kernel(handler, layout, memory))
    }

    /// Has a handler deal with the messages that come on TCP connections that peers open to a port of ours, here, in place of the handler
    /// of this port before; those that come at once also where the program, which is told of the connection then, refuses its peer. The
    /// program hears nothing of what was dealt with. When the handler gives a message up, all that comes on its connection is the program's,
    /// until this has answered and says so ([`resume_handling`](exos_inet::Stack::resume_handling)). A program reads such connections only
    /// when an event says that it may.
    ///
    /// # Errors
    ///
    /// The framing's number has not 1, 2, 4 or 8 bytes, or no message has it; or this program has several cores.
    pub fn download_for_streams(
        &mut self,
        handler: Checked,
        port: u16,
        framing: Framing,
    ) -> Result<Downloaded, Error> {
        expect_port(port)?;
        if let Framing::Length { at, bytes, .. } = framing
            && (!matches!(bytes, 1 | 2 | 4 | 8) || at > exos_ash::limits::MESSAGE_MAX - 8)
        {
            return Err(invalid(
                "the number that says a message's length has 1, 2, 4 or 8 bytes at the message's beginning",
            ));
        }
        self.expect_one_core(&"connections are the stack's")?;
        let layout = Layout::of(handler.handler());
        let here = Here::new(handler.clone(), layout.clone(), Words::new(&layout));
        let why = invalid("the kernel runs handlers of datagrams, and connections are the stack's");
        let downloaded = Downloaded::here(handler, layout, &here, why);
        self.stack.handle_streams(port, framing, Box::new(here));
        Ok(downloaded)
    }

    /// Has all that comes to a port, datagrams and messages of connections, be the program's again.
    ///
    /// # Errors
    ///
    /// The kernel's part of it cannot be changed.
    pub fn remove_handler_of(&mut self, port: u16) -> Result<(), Error> {
        self.stack.stop_handling_datagrams(port);
        self.stack.stop_handling_streams(port);
        self.take_out_of_kernel(port)
    }

    fn claim_for_handler(&mut self, port: u16) -> Result<(), Error> {
        expect_port(port)?;
        match &mut self.via {
            Some(via) => via.claim_for_handler(port),
            None => Ok(()),
        }
    }

    /// In our own receive path. One in the kernel goes once this is there, so that each message meets one of the two; what answers SYNs
    /// and requests stays, and handlers of other ports.
    fn put_here(
        &mut self,
        handler: Checked,
        layout: Layout,
        port: u16,
        why: Error,
    ) -> Result<Downloaded, Error> {
        self.expect_one_core(&why)?;
        let here = Here::new(handler.clone(), layout.clone(), Words::new(&layout));
        let downloaded = Downloaded::here(handler, layout, &here, why);
        self.stack.handle_datagrams(port, Box::new(here));
        let removed = self.take_out_of_kernel(port);
        removed.inspect_err(|_| self.stack.stop_handling_datagrams(port))?;
        Ok(downloaded)
    }

    fn expect_one_core(&self, why: &dyn std::fmt::Display) -> Result<(), Error> {
        if self.handoff.is_some() {
            let what = "handlers outside of the kernel are for programs on one core";
            return Err(invalid(format!("{what}, and in the kernel: {why}")));
        }
        Ok(())
    }
}

fn expect_port(port: u16) -> Result<(), Error> {
    match port {
        0 => Err(invalid("a handler is of one port, which is not 0")),
        _ => Ok(()),
    }
}

fn invalid(what: impl Into<String>) -> Error {
    Error::new(what).of_kind(ErrorKind::Invalid)
}
