//! Handlers that the kernel runs: one behind the other before our own filter, or each by itself by the daemon.
//!
//! Before our filter a handler knows which is the next by the kernel's program that it was made for. So all of them are made when one comes or goes, on
//! the memory that each has.

use std::net::IpAddr;
use std::sync::Arc;

use exos_ash::kernel::{InKernel, TOO_MANY_WAYS};
use exos_ash::limits::ADDRESSES_MAX;
use exos_ash::{Checked, Layout};
use exos_filter::handler::Handler;
use exos_filter::handler::forward::WayOut;
use exos_host::bpf::MappedArray;
use exos_link::Link;
use rustix::io::Errno;

use super::invalid;
use super::kept::One;
use crate::Error;
use crate::handlers::needs_interface;
use crate::limits::HANDLED_PORTS_MAX;
use crate::node::Exos;
use crate::requests::Requests;

const ON_AF_XDP: &str = "the kernel runs handlers of datagrams on AF_XDP only";

impl Exos {
    /// Gives the handler's memory. One that ran here is done with: what it has not seen by now the kernel's has.
    pub(super) fn put_in_kernel(
        &mut self,
        handler: &Checked,
        layout: &Layout,
        port: u16,
    ) -> Result<Arc<MappedArray>, Error> {
        let bytes = layout.bytes() as usize;
        let mut all = self.in_kernel.others(port);
        let memory = match &mut self.via {
            Some(via) => via.download(port, handler.handler().to_string(), bytes)?,
            None => MappedArray::new("exos_ash", bytes, 1)?,
        };
        let memory = Arc::new(memory);
        all.push(One {
            port,
            handler: handler.clone(),
            memory: memory.clone(),
        });
        if self.via.is_none() {
            self.put_before_filter(&all)?;
        }
        self.in_kernel.0 = all;
        self.stack.stop_handling_datagrams(port);
        Ok(memory)
    }

    /// The kernel leaves the messages of a port alone.
    pub(super) fn take_out_of_kernel(&mut self, port: u16) -> Result<(), Error> {
        let others = self.in_kernel.others(port);
        if others.len() == self.in_kernel.0.len() {
            return Ok(());
        }
        let answers = self.requests.as_ref().and_then(Requests::handler);
        match (&mut self.via, answers, &mut self.link) {
            (Some(via), ..) => via.remove_handler(Some(port))?,
            _ if !others.is_empty() => self.put_before_filter(&others)?,
            (None, Some(answers), Link::Xdp(link)) => link.set_handlers(answers, &[])?,
            _ => self.remove_from_kernel()?,
        }
        self.in_kernel.0 = others;
        Ok(())
    }

    /// On a link of our own.
    fn put_before_filter(&mut self, all: &[One]) -> Result<(), Error> {
        if all.len() > HANDLED_PORTS_MAX {
            return Err(invalid(format!(
                "the kernel has handlers of {HANDLED_PORTS_MAX} ports of a program"
            )));
        }
        let addresses = self.addresses_of_handlers()?;
        let not_from: Vec<_> = self.stack.broadcasts_v4().collect();
        let way_out = self.way_out_of_replies(all)?;
        let Link::Xdp(link) = &mut self.link else {
            return Err(needs_interface(ON_AF_XDP));
        };
        let all = all.iter().map(|one| InKernel {
            handler: &one.handler,
            memory_fd: one.memory.raw_fd(),
            mac: link.mac(),
            addresses: addresses.clone(),
            not_from: not_from.clone(),
            port: one.port,
            may_be_partial: link.offload().rx_partial_checksum,
            way_out,
        });
        let all: Vec<_> = all.collect();
        let answers = self.requests.as_ref().and_then(Requests::handler);
        let answers = answers.map(|answers| answers as &dyn Handler).into_iter();
        let handlers: Vec<_> = answers
            .chain(all.iter().map(|one| one as &dyn Handler))
            .collect();
        let (first, others) = handlers.split_first().expect("there is one");
        match link.set_handlers(*first, others) {
            Ok(()) => {
                if self.requests.is_none() {
                    self.syns_were_replaced();
                }
                Ok(())
            }
            Err(error) if error.is(Errno::TOOBIG.raw_os_error()) => Err(invalid(TOO_MANY_WAYS)),
            Err(error) => Err(error),
        }
    }

    /// How replies leave, where a handler has any.
    fn way_out_of_replies(&self, all: &[One]) -> Result<WayOut, Error> {
        let Link::Xdp(link) = &self.link else {
            return Err(needs_interface(ON_AF_XDP));
        };
        let replies = all.iter().any(|one| one.handler.longest_reply().is_some());
        match replies {
            false => Ok(WayOut::Transmit),
            true if self.pair.is_some() => Err(needs_interface(
                "what handlers reply does not leave a pair of the program's own",
            )),
            true => Ok(exos_link::ways_out(&[link])?[0][0]),
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
