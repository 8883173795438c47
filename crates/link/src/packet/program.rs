//! The program in traffic control, which marks what the rules claim, and a handler before it.
//!
//! Either is exchanged as a whole: each packet sees the old or the new one.
//!
//! ```text
//! attached: the filter, or a handler ──> slot of the filter
//! ```

use std::os::fd::AsFd as _;

use exos_filter::handler::{FILTER_SLOT, Handler};
use exos_filter::{Action, Counter, Rule, compile_classifier};
use exos_host::bpf::{Map, Prog, TcxHook, TcxLink};
use exos_host::random::random_number;

use crate::Error;

/// A program on an interface. Dropped, it is detached and everything freed.
#[derive(Debug)]
pub(super) struct Program {
    /// `None` while nothing is claimed.
    attachment: Option<TcxLink>,
    interface: u32,
    mark: u32,
    /// Packets by verdict, see [`Counter`].
    verdicts: Map,
    /// Where a handler finds the filter.
    slots: Map,
    filter: Prog,
    has_handler: bool,
}

/// A mark that other programs on the machine do not use by chance.
pub(super) fn draw_mark() -> u32 {
    random_number() as u32 | 1
}

impl Program {
    pub(super) fn attach(
        interface: u32,
        mark: u32,
        rules: &[Rule],
        otherwise: Action,
    ) -> Result<Self, Error> {
        let verdicts = Map::percpu_array("exos_verdicts", size_of::<u64>(), Counter::COUNT)?;
        let slots = Map::prog_array(FILTER_SLOT + 1)?;
        let filter = generate(&verdicts, mark, rules, otherwise)?;
        slots.set_fd(FILTER_SLOT, filter.as_fd())?;
        let attachment = TcxLink::attach(interface, &filter, TcxHook::Ingress)?;
        Ok(Self {
            attachment: Some(attachment),
            interface,
            mark,
            verdicts,
            slots,
            filter,
            has_handler: false,
        })
    }

    /// Puts other rules in force.
    pub(super) fn set_rules(&mut self, rules: &[Rule], otherwise: Action) -> Result<(), Error> {
        let filter = generate(&self.verdicts, self.mark, rules, otherwise)?;
        self.slots.set_fd(FILTER_SLOT, filter.as_fd())?;
        if !self.has_handler {
            self.put(&filter)?;
        }
        self.filter = filter;
        Ok(())
    }

    /// Has a handler see packets before the filter does, in the place of the one that did.
    pub(super) fn set_handler(&mut self, handler: &dyn Handler) -> Result<(), Error> {
        let code = handler.program(self.slots.raw_fd(), self.verdicts.raw_fd());
        let program = Prog::load_classifier(&code.words(), handler.name())?;
        self.put(&program)?;
        self.has_handler = true;
        Ok(())
    }

    /// The filter sees everything again.
    pub(super) fn remove_handler(&mut self) -> Result<(), Error> {
        if let Some(attachment) = &self.attachment {
            attachment.update(&self.filter)?;
        }
        self.has_handler = false;
        Ok(())
    }

    fn put(&mut self, program: &Prog) -> Result<(), Error> {
        match &self.attachment {
            Some(attachment) => attachment.update(program),
            None => {
                let attachment = TcxLink::attach(self.interface, program, TcxHook::Ingress)?;
                self.attachment = Some(attachment);
                Ok(())
            }
        }
    }

    /// All packets go to the host.
    pub(super) fn detach(&mut self) {
        self.attachment = None;
        self.has_handler = false;
    }

    /// Packets by the verdict of the program; nothing where the kernel does not tell.
    pub(super) fn verdicts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let told = [
            (Counter::Pass, "tc_pass"),
            (Counter::Drop, "tc_drop"),
            (Counter::Redirect, "tc_claimed"),
        ];
        told.into_iter()
            .map(|(counter, name)| (name, self.verdict(counter)))
    }

    /// Packets with one verdict; 0 where the kernel does not tell.
    pub(super) fn verdict(&self, counter: Counter) -> u64 {
        let sums = self.verdicts.sum_percpu_u64(counter as u32);
        sums.ok()
            .and_then(|sums| sums.first().copied())
            .unwrap_or(0)
    }
}

/// Compiles and loads the program for a set of rules.
fn generate(verdicts: &Map, mark: u32, rules: &[Rule], otherwise: Action) -> Result<Prog, Error> {
    let counters = Some(verdicts.raw_fd());
    let code = compile_classifier(rules, otherwise, mark, counters).map_err(|error| {
        Error::new(format!("the packet filter cannot be compiled: {error}"))
            .mend("claim fewer packets, or describe them by fewer conditions")
    })?;
    Ok(Prog::load_classifier(&code.words(), "exos_filter")?)
}
