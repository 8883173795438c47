//! A program that has sockets for others tells whose they are.

use std::time::Duration;

use super::holders::Holders;
use crate::node::{BLOCKED_SLEEP, Exos, SLEEP_MAX};

impl Exos {
    /// Answers those that ask for the program's sockets, which the loop does otherwise, with `holders`, which is called when somebody
    /// asks. To be called once a turn, and again within the time that it gives.
    pub fn tell_sockets(&mut self, holders: impl FnOnce() -> Holders) -> Duration {
        let now = self.now();
        let Some(answers) = &mut self.answers else {
            return SLEEP_MAX;
        };
        answers.leave_to_program();
        if answers.is_asked() {
            answers.answer(now, &self.stack, &holders());
        }
        match answers.expects_more(now) {
            true => BLOCKED_SLEEP,
            false => SLEEP_MAX,
        }
    }
}
