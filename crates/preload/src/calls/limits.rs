//! Limits of the address space (getrlimit(2)). The memory of shared sockets counts for the kernel, and not for the program, which means its own by a
//! limit that it sets: where it has the memory already, the kernel's limit is so much higher. What it becomes by `execve` has the memory no
//! more, and its limit as the program has set it: `exos run` sees to that.

use std::ptr::{null, null_mut};

use super::*;
use crate::memory::Shared;
use crate::trace::number as n;

/// `struct rlimit`: how far it goes, and how far that can be set.
type Limits = [u64; 2];

/// No limit (`RLIM_INFINITY`).
const NONE: u64 = u64::MAX;

/// The kernel's limits for what a program wants, where it has said these before, and the kernel has those. What it may not set the kernel
/// refuses.
fn raised([soft, hard]: Limits, [_, hard_said]: Limits, [_, hard_now]: Limits) -> Limits {
    let raise = |limit: u64| match limit {
        NONE => NONE,
        limit => limit.saturating_add(Shared::SIZE).min(NONE - 1),
    };
    let most = match hard <= hard_said {
        true => raise(hard).min(hard_now),
        false => raise(hard),
    };
    [
        if soft <= hard {
            raise(soft).min(most)
        } else {
            NONE
        },
        most,
    ]
}

/// prlimit(2) of this process's address space, where it has the memory.
unsafe fn of_address_space(here: &Here, new: *const Limits, old: *mut Limits) -> Result<(), i32> {
    let set = |new: *const Limits, old: *mut Limits| {
        let words = [
            0,
            RLIMIT_AS,
            new.expose_provenance(),
            old.expose_provenance(),
            0,
            0,
        ];
        // SAFETY: they are there, or are none.
        match unsafe { system::call(n::PRLIMIT64, words) } {
            0 => Ok(()),
            _ => Err(errno()),
        }
    };
    let mut now = [NONE; 2];
    set(null(), &raw mut now)?;
    let said = here
        .shared
        .shown_limits(here.part().unwrap_or_default(), now);
    if !new.is_null() {
        // SAFETY: the program's promise.
        let wanted = unsafe { new.read_unaligned() };
        let limits = raised(wanted, said, now);
        set(&raw const limits, null_mut())?;
        if let Some(part) = here.part() {
            here.shared.raised_limits(part, limits);
        }
    }
    if !old.is_null() {
        // SAFETY: the program's promise.
        unsafe { old.write_unaligned(said) };
    }
    Ok(())
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn prlimit(
    process: i32,
    resource: i32,
    new: *const Limits,
    old: *mut Limits,
) -> i32 {
    // SAFETY: the program's promise.
    unsafe {
        if resource as usize == RLIMIT_AS
            && let Some(here) = here().filter(|here| here.is_here() && here.part().is_some())
            && (process == 0 || process as u32 == here.own_pid())
        {
            return done(of_address_space(here, new, old));
        }
        let (new, old) = (new.expose_provenance(), old.expose_provenance());
        let words = [process as usize, resource as usize, new, old, 0, 0];
        system::call(n::PRLIMIT64, words) as i32
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn prlimit64(
    process: i32,
    resource: i32,
    new: *const Limits,
    old: *mut Limits,
) -> i32 {
    // SAFETY: as above.
    unsafe { prlimit(process, resource, new, old) }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn setrlimit(resource: i32, new: *const Limits) -> i32 {
    if new.is_null() {
        return done(Err(EFAULT));
    }
    // SAFETY: as above.
    unsafe { prlimit(0, resource, new, null_mut()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn setrlimit64(resource: i32, new: *const Limits) -> i32 {
    // SAFETY: as above.
    unsafe { setrlimit(resource, new) }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn getrlimit(resource: i32, old: *mut Limits) -> i32 {
    if old.is_null() {
        return done(Err(EFAULT));
    }
    // SAFETY: as above.
    unsafe { prlimit(0, resource, null(), old) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getrlimit64(resource: i32, old: *mut Limits) -> i32 {
    // SAFETY: as above.
    unsafe { getrlimit(resource, old) }
}
