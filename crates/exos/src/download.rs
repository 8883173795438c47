//! Handlers of the program's own messages, downloaded into the kernel.
//!
//! The program says what is to be done with the datagrams that come to one of its ports, in the [language of handlers](exos_ash); the
//! kernel does it where they arrive, while the program sleeps or is busy elsewhere. What the handler gives up comes to the program's
//! own socket at that port, as everything did before. The handler's memory is the program's, too.

use exos_ash::kernel::InKernel;
use exos_ash::{Checked, Layout, Memory};
use exos_host::bpf::MappedArray;
use exos_link::Link;

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
    /// Has a handler deal with the datagrams that come to a port of ours, in the kernel, in place of the handler before.
    ///
    /// Messages are the payloads of whole UDP datagrams without IP options or extension headers, to the addresses that the
    /// stack has now. All others come to the program's socket, and so does what the handler gives up.
    ///
    /// # Errors
    ///
    /// The link is not one of AF_XDP with a program of ours, replies would not arrive (the other end of a veth has neither GRO nor an
    /// XDP program), or the kernel refuses the handler.
    pub fn download(&mut self, handler: Checked, port: u16) -> Result<Downloaded, Error> {
        let Link::Xdp(link) = &mut self.link else {
            return Err(needs_interface(
                "handlers of datagrams run in the kernel on AF_XDP only",
            ));
        };
        if port == 0 {
            return Err(
                Error::new("a handler is of one port, which is not 0").of_kind(ErrorKind::Invalid)
            );
        }
        if handler.longest_reply() > 0 && self.pair.is_some() {
            return Err(needs_interface(
                "what handlers reply does not leave a pair of the program's own",
            ));
        }
        let layout = Layout::of(handler.handler());
        let memory = MappedArray::new("exos_ash", layout.bytes() as usize, 1)?;
        let addresses: Vec<_> = self
            .stack
            .addresses()
            .iter()
            .map(|ours| ours.addr)
            .collect();
        if addresses.is_empty() {
            return Err(
                Error::new("a handler needs an address, and the stack has none")
                    .of_kind(ErrorKind::Invalid),
            );
        }
        let way_out = match handler.longest_reply() {
            0 => exos_filter::handler::forward::WayOut::Transmit,
            _ => exos_link::ways_out(&[&*link])?[0][0],
        };
        let in_kernel = InKernel {
            handler: &handler,
            memory_fd: memory.raw_fd(),
            mac: link.mac(),
            addresses,
            port,
            may_be_partial: link.offload().rx_partial_checksum,
            way_out,
        };
        link.set_handler(&in_kernel)?;
        Ok(Downloaded {
            handler,
            layout,
            memory,
        })
    }
}
