//! Calls behind which a process may not find the memory any more: it has other rights, another root, other processes. One that has not
//! opened it does so before.

use super::*;

macro_rules! begun_before {
    ($($name:ident($($argument:ident: $kind:ty),*);)*) => { $(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $kind),*) -> i32 {
            begun();
            // SAFETY: the program's promise.
            unsafe { system::$name($($argument),*) }
        }
    )* };
}

begun_before! {
    setuid(user: u32);
    setgid(group: u32);
    seteuid(user: u32);
    setegid(group: u32);
    setreuid(real: u32, effective: u32);
    setregid(real: u32, effective: u32);
    setresuid(real: u32, effective: u32, saved: u32);
    setresgid(real: u32, effective: u32, saved: u32);
    chroot(path: *const c_char);
    unshare(what: i32);
    setns(fd: i32, what: i32);
    capset(head: *mut c_void, data: *const c_void);
}
