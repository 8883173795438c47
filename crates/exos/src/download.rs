//! Handlers of the program's own messages, downloaded into the kernel.
//!
//! The program says what is to be done with the datagrams that come to one of its ports, in the [language of handlers](exos_ash); the
//! kernel does it where they arrive, while the program sleeps or is busy elsewhere. What the handler gives up comes to the program's
//! own socket at that port, as everything did before. The handler's memory is the program's, too.

use std::net::IpAddr;

use exos_ash::kernel::{InKernel, TOO_MANY_WAYS};
use exos_ash::limits::ADDRESSES_MAX;
use exos_ash::{Checked, Layout, Memory};
use exos_filter::handler::forward::WayOut;
use exos_host::bpf::MappedArray;
use exos_link::Link;
use rustix::io::Errno;

use crate::handlers::needs_interface;
use crate::node::Exos;
use crate::{Error, ErrorKind};

/// A handler that the kernel runs, and its memory. Dropped, it goes on handling, as long as the link and until
/// [`Exos::remove_handler`]; only its memory is out of reach then.
#[derive(Debug)]
pub struct Downloaded {
    handler: Checked,
    layout: Layout,
    memory: MappedArray,
}

impl Downloaded {
    /// The memory, which the handler may change at any time. What is written here it sees with the next message.
    pub fn memory(&self) -> Memory<'_> {
        Memory::new(self.memory.words(), &self.layout, self.handler.handler())
    }

    /// The handler.
    pub fn handler(&self) -> &Checked {
        &self.handler
    }
}

impl Exos {
    /// Has a handler deal with the datagrams that come to a port of ours, in the kernel, in place of the handler before; beside
    /// [requests](Exos::answer_requests_in_kernel) that are answered there, if they were first.
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
    pub fn download(&mut self, handler: Checked, port: u16) -> Result<Downloaded, Error> {
        if port == 0 {
            return Err(invalid("a handler is of one port, which is not 0"));
        }
        let layout = Layout::of(handler.handler());
        if let Some(via) = &mut self.via {
            via.claim_for_handler(port)?;
            let memory = via.download(port, handler.handler().to_string())?;
            let memory = MappedArray::adopt(memory, layout.bytes() as usize)?;
            return Ok(Downloaded {
                handler,
                layout,
                memory,
            });
        }
        let memory = MappedArray::new("exos_ash", layout.bytes() as usize, 1)?;
        self.put_before_filter(&handler, &memory, port)?;
        Ok(Downloaded {
            handler,
            layout,
            memory,
        })
    }

    /// On a link of our own.
    fn put_before_filter(
        &mut self,
        handler: &Checked,
        memory: &MappedArray,
        port: u16,
    ) -> Result<(), Error> {
        let addresses = self.addresses_of_handlers()?;
        let not_from = self.stack.broadcasts_v4().collect();
        let Link::Xdp(link) = &mut self.link else {
            return Err(needs_interface(
                "handlers of datagrams run in the kernel on AF_XDP only",
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
        let set = match &self.requests {
            Some(requests) => link.set_handlers(requests.handler(), &[&in_kernel]),
            None => link.set_handlers(&in_kernel, &[]),
        };
        set.map_err(|error| match error.is(Errno::TOOBIG.raw_os_error()) {
            true => invalid(TOO_MANY_WAYS),
            false => error,
        })
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
