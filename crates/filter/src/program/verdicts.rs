//! Code for verdicts: where every path through a program ends.
//!
//! The context is in [`CONTEXT`] until here; every other register is free. With counters, r6 holds the verdict and r7
//! the counter while the counter is looked up.

use super::classifier;
use super::compiled::{Counter, xdp};
use super::emitter::{CONTEXT, Emitter, Hook};
use super::rules::Action;
use crate::ebpf::{Condition, Label, Reg, Size};

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
            return self.asm.jump(label);
        }
        self.verdicts[action as usize].emitted = true;
        self.asm.bind(label);
        match (action, self.hook) {
            (Action::Pass, Hook::Xdp) => self.finish_with(xdp::PASS, Counter::Pass),
            (Action::Drop, Hook::Xdp) => self.finish_with(xdp::DROP, Counter::Drop),
            (Action::RedirectToSocket, Hook::Xdp) => self.redirect(),
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
            self.asm.set(Reg::R0, verdict);
            return self.asm.exit();
        }
        self.asm.set(Reg::R6, verdict);
        self.asm.set(Reg::R7, counter as i32);
        self.count_and_exit();
    }

    /// `bpf_redirect_map(xskmap, ctx->rx_queue_index, fallback)`.
    fn redirect(&mut self) {
        if let Some(how) = self.maps.early_drop {
            self.drop_early(&how);
        }
        // struct xdp_md: rx_queue_index is its fifth word.
        self.asm.load(Size::Word, Reg::R2, CONTEXT, 16);
        self.asm.redirect(self.maps.xskmap_fd, self.fallback);
        if self.maps.counters_fd.is_none() {
            return self.asm.exit();
        }
        let found = self.asm.label();
        self.asm.set(Reg::R6, Reg::R0);
        self.asm.set(Reg::R7, Counter::Redirect as i32);
        self.asm
            .jump_if(Reg::R0, Condition::Equal, xdp::REDIRECT, found);
        self.asm.set(Reg::R7, Counter::NoSocket as i32);
        self.asm.bind(found);
        self.count_and_exit();
    }

    /// Add one to the counter r7 and return r6. The value is this CPU's own and XDP does not nest: no atomics.
    pub(super) fn count_and_exit(&mut self) {
        if let Some(label) = self.count {
            return self.asm.jump(label);
        }
        let here = self.asm.label();
        self.asm.bind(here);
        self.count = Some(here);
        let missing = self.asm.label();
        let counters = self.maps.counters_fd.expect("asked by the callers");
        self.asm.store(Size::Word, Reg::R10, -4, Reg::R7);
        self.asm.look_up(counters, -4, missing);
        self.asm.add_to(Reg::R0, 0, 1);
        self.asm.bind(missing);
        self.asm.set(Reg::R0, Reg::R6);
        self.asm.exit();
    }
}
