//! Calls behind which a process may not find the memory any more: it has other rights, another root, other processes. One that has not
//! opened it does so before.

use super::*;
use crate::trace::number as n;

macro_rules! begun_before {
    ($first:ident: $($name:ident($($argument:ident: $kind:ty),*);)*) => { $(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $kind),*) -> i32 {
            $first();
            // SAFETY: the program's promise.
            unsafe { system::$name($($argument),*) }
        }
    )* };
}

begun_before! { begun:
    setuid(user: u32);
    setgid(group: u32);
    seteuid(user: u32);
    setegid(group: u32);
    setreuid(real: u32, effective: u32);
    setregid(real: u32, effective: u32);
    setresuid(real: u32, effective: u32, saved: u32);
    setresgid(real: u32, effective: u32, saved: u32);
    setfsuid(user: u32);
    setfsgid(group: u32);
    chroot(path: *const c_char);
    capset(head: *mut c_void, data: *const c_void);
}

begun_before! { another_network:
    unshare(what: i32);
    setns(fd: i32, what: i32);
}

/// A thread may be in another network behind it.
fn another_network() {
    begun();
    interfaces::keep_none();
}

/// A filter of system calls may come to stand between a process and the memory.
#[unsafe(no_mangle)]
unsafe extern "C" fn prctl(what: i32, a: usize, b: usize, c: usize, d: usize) -> i32 {
    // SAFETY: the program's promise. Some allocate memory by it: the C library's is not looked for, which allocates some.
    unsafe {
        let words = [what as usize, a, b, c, d, 0];
        before_number(n::PRCTL, words[0]);
        system::call(n::PRCTL, words) as i32
    }
}

/// As above, of a call by its number, with its first argument.
pub(super) fn before_number(number: i64, first: usize) {
    const PR_SET_SECCOMP: usize = 22;
    let is_one = match number {
        n::PRCTL => first == PR_SET_SECCOMP,
        n::SETUID | n::SETGID | n::SETREUID | n::SETREGID | n::SETRESUID | n::SETRESGID => true,
        n::SETFSUID | n::SETFSGID | n::CAPSET | n::CHROOT | n::PIVOT_ROOT => true,
        n::UNSHARE | n::SETNS => return another_network(),
        n::SECCOMP | n::LANDLOCK_RESTRICT_SELF => true,
        _ => false,
    };
    if is_one {
        begun();
    }
}
