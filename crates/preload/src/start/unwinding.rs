//! What the standard library asks of the unwinder (libgcc_s), which is opened when it is asked for anything: programs that this library is
//! loaded into do not load that one with it, which took twice as long as loading this one.
//!
//! It is asked by a panic that prints its calls, and by frames of the standard library's that a thread's cancellation (pthread_cancel(3))
//! passes. The names are this library's alone: a program's own exceptions go by the unwinder that it has.

use std::ffi::{c_char, c_void};
use std::mem::transmute;

unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: i32) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// Any of those below, by Itanium's C++ ABI for exceptions, section 1: they take up to three words.
type Function = unsafe extern "C" fn(usize, usize, usize) -> usize;

/// One of them, whose name ends with a zero.
fn find(name: &str) -> Function {
    const RTLD_LAZY: i32 = 1;
    let library = c"libgcc_s.so.1".as_ptr();
    // SAFETY: both names end with a zero.
    let found = unsafe { dlsym(dlopen(library, RTLD_LAZY), name.as_ptr().cast()) };
    if found.is_null() {
        // What asks has no other way on.
        std::process::abort();
    }
    // SAFETY: functions of that name take words, and give one or nothing.
    unsafe { transmute::<*mut c_void, Function>(found) }
}

#[cfg(target_arch = "x86_64")]
macro_rules! jump {
    () => {
        "jmp {}"
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! jump {
    () => {
        "b {}"
    };
}

/// Defines functions of the unwinder, seen in this library alone.
macro_rules! forward {
    ($($function:ident $name:literal)*) => { $(
        unsafe extern "C" fn $function(first: usize, second: usize, third: usize) -> usize {
            // SAFETY: the caller means that function.
            unsafe { find(concat!($name, "\0"))(first, second, third) }
        }

        std::arch::global_asm!(
            concat!(".globl ", $name),
            concat!(".hidden ", $name),
            concat!(".type ", $name, ", %function"),
            concat!($name, ":"),
            jump!(),
            sym $function,
        );
    )* };
}

forward! {
    backtrace "_Unwind_Backtrace"
    get_data_rel_base "_Unwind_GetDataRelBase"
    get_ip "_Unwind_GetIP"
    get_ipinfo "_Unwind_GetIPInfo"
    get_language_specific_data "_Unwind_GetLanguageSpecificData"
    get_region_start "_Unwind_GetRegionStart"
    get_text_rel_base "_Unwind_GetTextRelBase"
    resume "_Unwind_Resume"
    set_gr "_Unwind_SetGR"
    set_ip "_Unwind_SetIP"
}
