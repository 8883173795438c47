//! Handlers of the program's own messages.
//!
//! The program says what is to be done with the datagrams that come to one of its ports, in the [language of handlers](exos_ash). The
//! kernel does it where they arrive, while the program sleeps or is busy elsewhere; where the kernel cannot, the same is done in
//! the program's own receive path, before any socket. What the handler gives up comes to the program's own socket at that port, as everything
//! did before. The handler's memory is the program's, too.

mod here;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use exos_ash::kernel::{InKernel, TOO_MANY_WAYS};
use exos_ash::limits::ADDRESSES_MAX;
use exos_ash::{Checked, Layout, Memory};
use exos_filter::handler::forward::WayOut;
use exos_host::bpf::MappedArray;
use exos_link::Link;
use rustix::io::Errno;

use self::here::Here;
use crate::handlers::needs_interface;
use crate::node::Exos;
use crate::requests::Requests;
use crate::via;
use crate::{Error, ErrorKind};

const ONE_HANDLER: &str =
    "the daemon has the kernel run one handler of a program, and that answers requests already";

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
#[derive(Debug)]
enum Words {
    OfKernel(MappedArray),
    Ours(Arc<[AtomicU64]>),
}

impl Downloaded {
    fn in_kernel(handler: Checked, layout: Layout, memory: MappedArray) -> Self {
        Self {
            handler,
            layout,
            words: Words::OfKernel(memory),
            place: Place::Kernel,
            not_in_kernel: None,
        }
    }

    /// The memory, which the handler may change at any time. What is written here it sees with the next message.
    pub fn memory(&self) -> Memory<'_> {
        let words = match &self.words {
            Words::OfKernel(memory) => memory.words(),
            Words::Ours(words) => words,
        };
        Memory::new(words, &self.layout, self.handler.handler())
    }

    /// The handler.
    pub fn handler(&self) -> &Checked {
        &self.handler
    }

    /// Where it runs.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Why it does not run in the kernel, if it does not.
    pub fn not_in_kernel(&self) -> Option<&Error> {
        self.not_in_kernel.as_ref()
    }
}

impl Exos {
    /// Has a handler deal with the datagrams that come to a port of ours, in place of the handler before: in the kernel
    /// ([`download_into_kernel`](Self::download_into_kernel)), or here where the kernel cannot run it ([`Downloaded::place`]).
    ///
    /// Here it deals with what the stack receives, in [`receive`](Self::receive), as machine code: on any link, and also with what the
    /// kernel's verifier does not follow. Messages and replies are the same, but that replies go by the stack's routes.
    ///
    /// # Errors
    ///
    /// The daemon has the port for another program, or does not answer; or the kernel cannot run it, and this program has several cores.
    pub fn download(&mut self, handler: Checked, port: u16) -> Result<Downloaded, Error> {
        self.claim_for_handler(port)?;
        let layout = Layout::of(handler.handler());
        match self.put_in_kernel(&handler, &layout, port) {
            Ok(memory) => Ok(Downloaded::in_kernel(handler, layout, memory)),
            // A handler of before may be in the kernel, which nobody can take out now.
            Err(gone) if via::control::is_gone(gone.kind) => Err(gone),
            Err(why) => self.put_here(handler, layout, port, why),
        }
    }

    /// Has a handler deal with the datagrams that come to a port of ours, in the kernel, in place of the handler before, also of
    /// [one for SYNs](Exos::answer_syns_in_kernel), which the stack answers again then; beside
    /// [requests](Exos::answer_requests_in_kernel) that are answered there on a link of its own, if they were first.
    ///
    /// Messages are the payloads of whole UDP datagrams without IP options or extension headers, to the addresses that the
    /// stack has now, from another port than this: two handlers of one port would answer each other for ever. All others come to the
    /// program's socket, and so does what the handler gives up.
    ///
    /// By a daemon it takes no privilege: the port is claimed as a socket's is, and the daemon makes the kernel's program of the
    /// handler. What policy allows of steps (`handler_steps`) and of the link is used up, messages come to the
    /// socket, too.
    ///
    /// # Errors
    ///
    /// The daemon refuses; or the link is not one of AF_XDP with a program of ours, replies would not arrive (the other end of a veth has neither GRO nor an
    /// XDP program), or the kernel refuses the handler
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

    fn claim_for_handler(&mut self, port: u16) -> Result<(), Error> {
        if port == 0 {
            return Err(invalid("a handler is of one port, which is not 0"));
        }
        match &mut self.via {
            Some(via) => via.claim_for_handler(port),
            None => Ok(()),
        }
    }

    /// Gives the handler's memory. One that ran here is done with: what it has not seen by now the kernel's has.
    fn put_in_kernel(
        &mut self,
        handler: &Checked,
        layout: &Layout,
        port: u16,
    ) -> Result<MappedArray, Error> {
        let bytes = layout.bytes() as usize;
        let memory = match &mut self.via {
            Some(_) if self.requests.is_some() => return Err(invalid(ONE_HANDLER)),
            Some(via) => {
                let memory = via.download(port, handler.handler().to_string())?;
                MappedArray::adopt(memory, bytes)?
            }
            None => self.put_before_filter(handler, bytes, port)?,
        };
        self.stack.stop_handling_datagrams();
        Ok(memory)
    }

    /// In our own receive path. One in the kernel goes once this is there, so that each message meets one of the two; what answers SYNs
    /// and requests stays.
    fn put_here(
        &mut self,
        handler: Checked,
        layout: Layout,
        port: u16,
        why: Error,
    ) -> Result<Downloaded, Error> {
        if self.handoff.is_some() {
            let what = "handlers outside of the kernel are for programs on one core";
            return Err(invalid(format!("{what}, and in the kernel: {why}")));
        }
        let here = Here::new(handler.clone(), layout.clone());
        let (words, place) = (Words::Ours(here.words()), here.place());
        self.stack.handle_datagrams(port, Box::new(here));
        let answers = self.requests.as_ref().and_then(Requests::handler);
        let removed = match (answers, &mut self.link) {
            (Some(answers), Link::Xdp(link)) => link.set_handlers(answers, &[]),
            _ if self.requests.is_some() => Ok(()),
            _ if self.syn_answers.is_some() => Ok(()),
            _ => self.remove_from_kernel(),
        };
        removed.inspect_err(|_| self.stack.stop_handling_datagrams())?;
        Ok(Downloaded {
            handler,
            layout,
            words,
            place,
            not_in_kernel: Some(why),
        })
    }

    /// On a link of our own. Gives its memory, of this many bytes.
    fn put_before_filter(
        &mut self,
        handler: &Checked,
        bytes: usize,
        port: u16,
    ) -> Result<MappedArray, Error> {
        let addresses = self.addresses_of_handlers()?;
        let not_from = self.stack.broadcasts_v4().collect();
        let Link::Xdp(link) = &mut self.link else {
            return Err(needs_interface(
                "the kernel runs handlers of datagrams on AF_XDP only",
            ));
        };
        if handler.longest_reply().is_some() && self.pair.is_some() {
            return Err(needs_interface(
                "what handlers reply does not leave a pair of the program's own",
            ));
        }
        let way_out = match handler.longest_reply() {
            None => WayOut::Transmit,
            Some(_) => exos_link::ways_out(&[&*link])?[0][0],
        };
        let memory = MappedArray::new("exos_ash", bytes, 1)?;
        let in_kernel = InKernel {
            handler,
            memory_fd: memory.raw_fd(),
            mac: link.mac(),
            addresses,
            not_from,
            port,
            may_be_partial: link.offload().rx_partial_checksum,
            way_out,
        };
        let set = match self.requests.as_ref().and_then(Requests::handler) {
            Some(answers) => link.set_handlers(answers, &[&in_kernel]),
            None => link.set_handlers(&in_kernel, &[]),
        };
        match set {
            Ok(()) => {
                self.syns_were_replaced();
                Ok(memory)
            }
            Err(error) if error.is(Errno::TOOBIG.raw_os_error()) => Err(invalid(TOO_MANY_WAYS)),
            Err(error) => Err(error),
        }
    }

    /// What answered SYNs in the kernel, without requests, is there no more: the stack answers them.
    fn syns_were_replaced(&mut self) {
        if self.requests.is_none()
            && let Some(answers) = self.syn_answers.take()
        {
            let now = self.now();
            self.stack.stop_offloading_syns(now, answers.listener());
        }
    }

    fn addresses_of_handlers(&self) -> Result<Vec<IpAddr>, Error> {
        let all: Vec<_> = self
            .stack
            .addresses()
            .iter()
            .map(|ours| ours.addr)
            .collect();
        match all.len() {
            0 => Err(invalid(
                "a handler needs an address, and the stack has none",
            )),
            1..=ADDRESSES_MAX => Ok(all),
            many => Err(invalid(format!(
                "the stack has {many} addresses; a handler's messages come to {ADDRESSES_MAX} at most"
            ))),
        }
    }
}

fn invalid(what: impl Into<String>) -> Error {
    Error::new(what).of_kind(ErrorKind::Invalid)
}
