//! Calls that make a process with memory of its own: fork(2), and clone(2) where it is asked for that. Such a child has the sockets of its
//! parent; one that has its parent's memory, or that its parent waits for (vfork(2)), becomes another program, and is not told of.

use std::sync::atomic::AtomicPtr;

use super::*;
use crate::start;
use crate::trace::number as n;

/// What a process is made with (clone(2)).
const CLONE_VM: usize = 0x100;
const CLONE_FILES: usize = 0x400;
/// The parent waits for the child's end, or for it to become another program: with what it holds for forking, other threads would wait too.
const CLONE_VFORK: usize = 0x4000;
const CLONE_SETTLS: usize = 0x8_0000;
const CLONE_NEWNET: usize = 0x4000_0000;
/// Namespaces of its own, in which a process may not find the memory.
const CLONE_NEW: usize = 0x7e02_0080;

/// The size of the arguments of `clone3` in the first version.
const CLONE_ARGS: usize = 64;

/// What a child does first.
type Main = extern "C" fn(*mut c_void) -> i32;

#[unsafe(no_mangle)]
unsafe extern "C" fn fork() -> i32 {
    // SAFETY: as above.
    let child = unsafe { system::fork() };
    start::has_forked(child.into());
    child
}

#[unsafe(export_name = "__fork")]
unsafe extern "C" fn fork_too() -> i32 {
    // SAFETY: as above.
    unsafe { fork() }
}

/// Without what the program has asked to be done before and after it (pthread_atfork(3)): ours is done.
#[unsafe(export_name = "_Fork")]
unsafe extern "C" fn fork_alone() -> i32 {
    static PLACE: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    let beneath = system::beneath(&PLACE, "_Fork\0");
    // SAFETY: the function of that name has no arguments.
    let make = || unsafe {
        let make: unsafe extern "C" fn() -> i32 = std::mem::transmute(beneath);
        make()
    };
    let made = match is_told() {
        true => as_fork(|| make().into()) as i32,
        false => return make(),
    };
    if made == 0 {
        is_child(0);
    }
    made
}

/// What the child of a `clone` does.
struct Child {
    main: Main,
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
    main: Option<Main>,
    stack: *mut c_void,
    flags: i32,
    argument: *mut c_void,
    a: usize,
    b: usize,
    c: usize,
) -> i32 {
    let bits = flags as usize;
    let Some(first) = main.filter(|_| is_told() && forks(bits)) else {
        // SAFETY: the program's promise.
        return unsafe { system::clone(main, stack, flags, argument, a, b, c) };
    };
    let mut made = Child {
        main: first,
        argument,
        flags: bits,
    };
    let made = (&raw mut made).cast();
    // SAFETY: as above; the child reads it out of its copy of this frame.
    as_fork(|| unsafe { system::clone(Some(child), stack, flags, made, a, b, c) }.into()) as i32
}

#[unsafe(export_name = "__clone")]
unsafe extern "C" fn clone_too(
    main: Option<Main>,
    stack: *mut c_void,
    flags: i32,
    argument: *mut c_void,
    a: usize,
    b: usize,
    c: usize,
) -> i32 {
    // SAFETY: the program's promise.
    unsafe { clone(main, stack, flags, argument, a, b, c) }
}

/// As above, by the number of the call, which goes on in the child as in the parent; none of another call.
pub(super) unsafe fn by_number(number: i64, words: [usize; 6]) -> Option<i64> {
    let flags = match number {
        n::CLONE => words[0],
        n::CLONE3 if words[1] >= CLONE_ARGS => {
            // Its arguments begin with the flags; the kernel says what of them cannot be read.
            let mut flags = [0; 8];
            let len = printing::memory(words[0] as u64, &mut flags);
            (len == flags.len()).then(|| u64::from_ne_bytes(flags) as usize)?
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
/// One that has namespaces of its own opens the memory before.
fn forks(flags: usize) -> bool {
    if flags & CLONE_NEW != 0 {
        begun();
    }
    flags & (CLONE_VM | CLONE_VFORK | CLONE_FILES | CLONE_SETTLS) == 0
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
