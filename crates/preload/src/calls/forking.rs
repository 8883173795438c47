//! Calls that make a process with memory of its own: fork(2), and clone(2) where it is asked for that. Such a child has the sockets of its
//! parent; one that has its parent's memory (vfork(2)) becomes another program, and is not told of.

use super::numbered::at;
use super::*;
use crate::start;
use crate::trace::number as n;

/// What a process is made with (clone(2)).
const CLONE_VM: usize = 0x100;
const CLONE_FILES: usize = 0x400;
const CLONE_SETTLS: usize = 0x8_0000;
const CLONE_NEWNET: usize = 0x4000_0000;

#[unsafe(no_mangle)]
unsafe extern "C" fn fork() -> i32 {
    // SAFETY: as above.
    let child = unsafe { system::fork() };
    start::has_forked(child.into());
    child
}

/// What the child of a `clone` does.
struct Child {
    main: extern "C" fn(*mut c_void) -> i32,
    argument: *mut c_void,
    flags: usize,
}

extern "C" fn child(child: *mut c_void) -> i32 {
    // SAFETY: what the caller of `clone` has in its frame, of which this process has a copy.
    let Child {
        main,
        argument,
        flags,
    } = unsafe { child.cast::<Child>().read() };
    is_child(flags);
    main(argument)
}

/// The C library's takes the last three where the flags tell of them: they are in registers, or on the stack, and whatever is there.
#[unsafe(no_mangle)]
unsafe extern "C" fn clone(
    main: extern "C" fn(*mut c_void) -> i32,
    stack: *mut c_void,
    flags: i32,
    argument: *mut c_void,
    a: usize,
    b: usize,
    c: usize,
) -> i32 {
    let bits = flags as usize;
    if !is_told() || !forks(bits) {
        // SAFETY: the program's promise.
        return unsafe { system::clone(main, stack, flags, argument, a, b, c) };
    }
    let mut made = Child {
        main,
        argument,
        flags: bits,
    };
    let made = (&raw mut made).cast();
    // SAFETY: as above; the child reads it out of its copy of this frame.
    as_fork(|| unsafe { system::clone(child, stack, flags, made, a, b, c) }.into()) as i32
}

/// As above, by the number of the call, which goes on in the child as in the parent; none of another call.
pub(super) unsafe fn by_number(number: i64, words: [usize; 6]) -> Option<i64> {
    let flags = match number {
        n::CLONE => words[0],
        // SAFETY: the program's promise: its arguments begin with the flags.
        n::CLONE3 => {
            unsafe { at::<u64>(words[0]).as_ref() }.map_or(CLONE_VM, |flags| *flags as usize)
        }
        n::FORK => 0,
        _ => return None,
    };
    forks(flags).then(|| {
        // SAFETY: the program's promise.
        let made = as_fork(|| unsafe { system::call(number, words) });
        if made == 0 {
            is_child(flags);
        }
        made
    })
}

/// Whether it makes a process whose memory and descriptors are its own. One whose thread's memory is another's does not know of the library.
fn forks(flags: usize) -> bool {
    flags & (CLONE_VM | CLONE_FILES | CLONE_SETTLS) == 0
}

/// What fork(3) has done before and after it, around a call that makes a child.
fn as_fork(make: impl FnOnce() -> i64) -> i64 {
    start::before_fork();
    let made = make();
    if made != 0 {
        let before = system::errno();
        start::in_parent();
        start::has_forked(made);
        system::set_errno(before);
    }
    made
}

fn is_child(flags: usize) {
    start::in_child();
    if flags & CLONE_NEWNET != 0 {
        interfaces::keep_none();
    }
}
