//! Formatted output to a descriptor (dprintf(3)): the C library writes beneath us, so that a shared socket becomes a Unix socket before. The
//! arguments stay where they are, however many there are.

use std::arch::naked_asm;
use std::sync::atomic::AtomicPtr;

use super::*;

macro_rules! unshared_before {
    ($($name:ident: $before:ident;)*) => { $(
        /// Where the C library's function is.
        extern "C" fn $before(fd: i32) -> *mut c_void {
            static PLACE: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
            unshare_fd(fd);
            system::beneath(&PLACE, concat!(stringify!($name), "\0"))
        }

        #[cfg(target_arch = "x86_64")]
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            // In registers are up to six arguments, and eight vectors, whose number is in a ninth one.
            naked_asm!(
                "sub rsp, 184",
                "mov [rsp], rdi", "mov [rsp + 8], rsi", "mov [rsp + 16], rdx", "mov [rsp + 24], rcx",
                "mov [rsp + 32], r8", "mov [rsp + 40], r9", "mov [rsp + 48], rax",
                "movups [rsp + 56], xmm0", "movups [rsp + 72], xmm1", "movups [rsp + 88], xmm2", "movups [rsp + 104], xmm3",
                "movups [rsp + 120], xmm4", "movups [rsp + 136], xmm5", "movups [rsp + 152], xmm6", "movups [rsp + 168], xmm7",
                "call {before}",
                "mov r11, rax",
                "mov rdi, [rsp]", "mov rsi, [rsp + 8]", "mov rdx, [rsp + 16]", "mov rcx, [rsp + 24]",
                "mov r8, [rsp + 32]", "mov r9, [rsp + 40]", "mov rax, [rsp + 48]",
                "movups xmm0, [rsp + 56]", "movups xmm1, [rsp + 72]", "movups xmm2, [rsp + 88]", "movups xmm3, [rsp + 104]",
                "movups xmm4, [rsp + 120]", "movups xmm5, [rsp + 136]", "movups xmm6, [rsp + 152]", "movups xmm7, [rsp + 168]",
                "add rsp, 184",
                "jmp r11",
                before = sym $before,
            )
        }

        #[cfg(target_arch = "aarch64")]
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            // In registers are up to eight arguments, and eight vectors.
            naked_asm!(
                "stp x29, x30, [sp, #-208]!",
                "mov x29, sp",
                "stp x0, x1, [sp, #16]", "stp x2, x3, [sp, #32]", "stp x4, x5, [sp, #48]", "stp x6, x7, [sp, #64]",
                "stp q0, q1, [sp, #80]", "stp q2, q3, [sp, #112]", "stp q4, q5, [sp, #144]", "stp q6, q7, [sp, #176]",
                "bl {before}",
                "mov x16, x0",
                "ldp x0, x1, [sp, #16]", "ldp x2, x3, [sp, #32]", "ldp x4, x5, [sp, #48]", "ldp x6, x7, [sp, #64]",
                "ldp q0, q1, [sp, #80]", "ldp q2, q3, [sp, #112]", "ldp q4, q5, [sp, #144]", "ldp q6, q7, [sp, #176]",
                "ldp x29, x30, [sp], #208",
                "br x16",
                before = sym $before,
            )
        }
    )* };
}

unshared_before! {
    dprintf: before_dprintf;
    vdprintf: before_vdprintf;
    __dprintf_chk: before_dprintf_chk;
    __vdprintf_chk: before_vdprintf_chk;
}
