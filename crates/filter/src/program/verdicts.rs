//! Code for verdicts: where every path through a program ends.
//!
//! The context is in [`CONTEXT`] until here; every other register is free. With counters, r6 holds the verdict and r7
//! the counter while the counter is looked up.

use super::classifier;
use super::compiled::{Counter, xdp};
use super::emitter::{CONTEXT, Emitter, Hook};
use super::rules::Action;
use crate::ebpf::{Condition, Emit, Label, Reg, Size};

impl Emitter<'_> {
    /// Where an action's code is, for a conditional jump.
    pub(super) fn verdict_label(&mut self, action: Action) -> Label {
        let verdict = &mut self.verdicts[action as usize];
        *verdict.label.get_or_insert_with(|| self.asm.label())
    }

    /// Take the action: its code, or a jump to it.
    pub(super) fn verdict(&mut self, action: Action) {
        let label = self.verdict_label(action);
        if self.verdicts[action as usize].emitted {
            return self.jump(label);
        }
        self.verdicts[action as usize].emitted = true;
        self.bind(label);
        match (action, self.hook) {
            (Action::Pass, Hook::Xdp) => self.finish_with(xdp::PASS, Counter::Pass),
            (Action::Drop, Hook::Xdp) => self.finish_with(xdp::DROP, Counter::Drop),
            (Action::RedirectToSocket, Hook::Xdp) => self.redirect_to_socket(),
            (Action::Pass, _) => self.finish_with(classifier::NEXT, Counter::Pass),
            (Action::Drop, _) => self.finish_with(classifier::DROP, Counter::Drop),
            (Action::RedirectToSocket, Hook::Ingress { mark }) => self.mark(mark),
        }
    }

    /// The verdicts that were jumped to and are not there yet.
    pub(super) fn remaining_verdicts(&mut self) {
        for action in [Action::RedirectToSocket, Action::Drop, Action::Pass] {
            let verdict = &self.verdicts[action as usize];
            if !verdict.emitted && verdict.label.is_some_and(|label| self.asm.is_target(label)) {
                self.verdict(action);
            }
        }
    }

    pub(super) fn finish_with(&mut self, verdict: i32, counter: Counter) {
        if self.maps.counters_fd.is_none() {
            self.set(Reg::R0, verdict);
            return self.exit();
        }
        self.set(Reg::R6, verdict);
        self.set(Reg::R7, counter as i32);
        self.count_and_exit();
    }

    /// `bpf_redirect_map(xskmap, ctx->rx_queue_index, fallback)`.
    fn redirect_to_socket(&mut self) {
        if let Some(how) = self.maps.early_drop {
            self.drop_early(&how);
        }
        // struct xdp_md: rx_queue_index is its fifth word.
        self.load(Size::Word, Reg::R2, CONTEXT, 16);
        self.redirect(self.maps.xskmap_fd, self.fallback);
        if self.maps.counters_fd.is_none() {
            return self.exit();
        }
        let found = self.label();
        self.set(Reg::R6, Reg::R0);
        self.set(Reg::R7, Counter::Redirect as i32);
        self.jump_if(Reg::R0, Condition::Equal, xdp::REDIRECT, found);
        self.set(Reg::R7, Counter::NoSocket as i32);
        self.bind(found);
        self.count_and_exit();
    }

    /// Add one to the counter r7 and return r6. The value is this CPU's own and XDP does not nest: no atomics.
    pub(super) fn count_and_exit(&mut self) {
        if let Some(label) = self.count {
            return self.jump(label);
        }
        let here = self.label();
        self.bind(here);
        self.count = Some(here);
        let missing = self.label();
        let counters = self.maps.counters_fd.expect("asked by the callers");
        self.store(Size::Word, Reg::R10, -4, Reg::R7);
        self.look_up(counters, -4, missing);
        self.add_to(Reg::R0, 0, 1);
        self.bind(missing);
        self.set(Reg::R0, Reg::R6);
        self.exit();
    }
}
