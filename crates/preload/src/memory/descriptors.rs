//! What is known of a process: which sockets its descriptors are, and its limits of address space.

use std::sync::atomic::Ordering;

use super::agreed::OWN;
use super::mapping::Shared;
use super::sizes::PROCESSES;
use super::socket::state;

impl Shared {
    /// Takes a part for a process that this one, of number `pid`, is or starts.
    pub fn take_process(&self, pid: u32) -> Option<u32> {
        let take = |number: &u32| {
            let owner = &self.process(*number).pid;
            owner.compare_exchange(0, pid, Ordering::AcqRel, Ordering::Relaxed)
        };
        (0..PROCESSES as u32).find(|number| take(number).is_ok())
    }

    /// A process has ended: its part is anybody's.
    pub fn leave_process(&self, number: u32) {
        let process = self.process(number);
        let end = process.end.swap(0, Ordering::AcqRel) as usize;
        for place in process.descriptors.iter().take(end) {
            place.store(0, Ordering::Relaxed);
        }
        self.raised_limits(number, [0; 2]);
        process.pid.store(0, Ordering::Release);
    }

    /// A process has limits of its address space (soft, hard) that are higher by the size of the memory than it says.
    pub fn raised_limits(&self, process: u32, limits: [u64; 2]) {
        let words = &self.process(process).address_space;
        for (word, limit) in words.iter().zip(limits) {
            word.store(limit, Ordering::Relaxed);
        }
    }

    /// Whether a process may have such limits.
    pub fn has_raised_limits(&self, process: u32) -> bool {
        let words = &self.process(process).address_space;
        words.iter().any(|word| word.load(Ordering::Relaxed) != 0)
    }

    /// The limits that a process has said, where the kernel has these.
    pub fn shown_limits(&self, process: u32, kernels: [u64; 2]) -> [u64; 2] {
        let words = &self.process(process).address_space;
        let raised = words.each_ref().map(|word| word.load(Ordering::Relaxed));
        match raised == kernels {
            true => kernels.map(|limit| match limit {
                u64::MAX => limit,
                limit => limit.saturating_sub(Self::SIZE),
            }),
            false => kernels,
        }
    }

    /// A descriptor of a process is this socket.
    pub fn assign(&self, process: u32, fd: i32, socket: u32) {
        let process = self.process(process);
        let Some(place) = process.descriptors.get(fd as usize) else {
            return;
        };
        self.socket(socket).refs.fetch_add(1, Ordering::AcqRel);
        self.socket(socket).add(state::TAKEN);
        place.store(socket + 1, Ordering::Release);
        process.end.fetch_max(fd as u32 + 1, Ordering::AcqRel);
    }

    /// The socket that a descriptor of a process is.
    pub fn assigned(&self, process: u32, fd: i32) -> Option<u32> {
        let place = self.process(process).descriptors.get(fd as usize)?;
        let number = place.load(Ordering::Acquire);
        (number != 0 && number != OWN).then(|| number - 1)
    }

    /// Whether a descriptor of a process is neither a shared socket nor the library's own, and could be one.
    pub fn is_nothing(&self, process: u32, fd: i32) -> bool {
        let place = self.process(process).descriptors.get(fd as usize);
        place.is_some_and(|place| place.load(Ordering::Acquire) == 0)
    }

    /// A descriptor of a process is no socket any more. Gives what it was; true with it when it was the last that referred to it.
    pub fn unassign(&self, process: u32, fd: i32) -> Option<(u32, bool)> {
        let place = self.process(process).descriptors.get(fd as usize)?;
        let number = place.swap(0, Ordering::AcqRel);
        if number == 0 || number == OWN {
            return None;
        }
        let socket = number - 1;
        let refs = self.socket(socket).refs.fetch_sub(1, Ordering::AcqRel);
        Some((socket, refs <= 1))
    }

    /// A descriptor of a process is the library's own.
    pub fn own(&self, process: u32, fd: i32) {
        let process = self.process(process);
        if let Some(place) = process.descriptors.get(fd as usize) {
            place.store(OWN, Ordering::Release);
            process.end.fetch_max(fd as u32 + 1, Ordering::AcqRel);
        }
    }

    /// All descriptors of a process that are sockets.
    pub fn descriptors(&self, process: u32) -> impl Iterator<Item = (i32, u32)> + '_ {
        let process = self.process(process);
        let end = process.end.load(Ordering::Acquire) as usize;
        let all = process.descriptors.iter().enumerate().take(end);
        all.filter_map(|(fd, number)| {
            let number = number.load(Ordering::Acquire);
            (number != 0 && number != OWN).then(|| (fd as i32, number - 1))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_a_descriptor_is_its_sockets_or_the_librarys() {
        let shared = Shared::create().expect("memory");
        shared.assign(3, 5, 7);
        shared.own(3, 6);
        assert_eq!(
            (shared.assigned(3, 5), shared.assigned(3, 6)),
            (Some(7), None)
        );
        assert!(!shared.is_nothing(3, 5) && !shared.is_nothing(3, 6));
        assert!(shared.is_nothing(3, 8) && shared.is_nothing(4, 5));
        assert!(!shared.is_nothing(3, -1) && !shared.is_nothing(3, i32::MAX));
        shared.unassign(3, 5);
        assert!(shared.is_nothing(3, 5));
    }

    #[test]
    fn limits_are_shown_as_the_program_has_said_them() {
        let shared = Shared::create().expect("memory");
        let (few, none) = (1 << 30, u64::MAX);
        let raised = [few + Shared::SIZE, none];
        assert!(!shared.has_raised_limits(3));
        assert_eq!(shared.shown_limits(3, raised), raised);
        shared.raised_limits(3, raised);
        assert!(shared.has_raised_limits(3));
        assert_eq!(shared.shown_limits(3, raised), [few, none]);
        // Another program has set these.
        assert_eq!(shared.shown_limits(3, [few, none]), [few, none]);
        shared.leave_process(3);
        assert!(!shared.has_raised_limits(3));
        assert!(Shared::fits(none) && !Shared::fits(few) && !Shared::fits(3 * Shared::SIZE));
    }
}
