//! Signals that come while this thread has a lock: their handlers run when it has let go of it, as behind a call of the kernel's. At
//! once, one that uses the same socket would wait for its own thread.
//!
//! A program's handlers are called by [`handle`]. Within a [`Section`] it blocks all signals in what it has interrupted and sends the
//! signal to this thread again, with what came with it; the section's end takes the mask back, and the kernel delivers it there. So the
//! usual way costs a count, and no system call.
//!
//! At once are called those that tell of faults, those that are for one signal alone (`SA_RESETHAND`), and those that were set past
//! `sigaction` and `signal`.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr::from_ref;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence};

use crate::system::{self, Action, SA_RESETHAND, SA_SIGINFO, number};
use crate::trace::pipe;

/// A program's handler in whose place [`handle`] is.
struct Handler {
    at: AtomicUsize,
    /// It was set as one that is told more (`SA_SIGINFO`).
    has_info: AtomicBool,
}

const SIGNALS: usize = 65;

static HANDLERS: [Handler; SIGNALS] = [const {
    Handler {
        at: AtomicUsize::new(0),
        has_info: AtomicBool::new(false),
    }
}; SIGNALS];

/// SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSYS: what was done wrong would be done again, and again.
const FAULTS: u64 = 1 << 3 | 1 << 4 | 1 << 6 | 1 << 7 | 1 << 10 | 1 << 30;

/// SIG_DFL and SIG_IGN; others are functions.
const NO_FUNCTION: std::ops::RangeInclusive<usize> = 0..=1;

/// What a thread is doing: read and written by itself alone, and its handlers.
struct Thread {
    sections: AtomicU32,
    has_deferred: AtomicBool,
    /// What it blocked before.
    mask: AtomicU64,
}

thread_local! {
    static THREAD: Thread = const {
        Thread {
            sections: AtomicU32::new(0),
            has_deferred: AtomicBool::new(false),
            mask: AtomicU64::new(0),
        }
    };
}

/// While there is one, this thread's handlers wait.
pub struct Section(PhantomData<*const ()>);

impl Section {
    pub fn enter() -> Self {
        THREAD.with(|thread| {
            let sections = thread.sections.load(Ordering::Relaxed);
            thread.sections.store(sections + 1, Ordering::Relaxed);
        });
        compiler_fence(Ordering::SeqCst);
        Self(PhantomData)
    }
}

impl Drop for Section {
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        THREAD.with(|thread| {
            let sections = thread.sections.load(Ordering::Relaxed) - 1;
            thread.sections.store(sections, Ordering::Relaxed);
            compiler_fence(Ordering::SeqCst);
            if sections == 0 && thread.has_deferred.load(Ordering::Relaxed) {
                thread.deliver();
            }
        });
    }
}

impl Thread {
    /// The handlers of what came meanwhile run in here.
    #[cold]
    fn deliver(&self) {
        self.has_deferred.store(false, Ordering::Relaxed);
        block(self.mask.load(Ordering::Relaxed));
    }

    /// Has the kernel keep a signal until the section's end; `false` where its queue is full.
    ///
    /// # Safety
    ///
    /// `info` and `context` are a handler's.
    unsafe fn defer(&self, signal: i32, info: *const c_void, context: *mut c_void) -> bool {
        /// The offset of `uc_sigmask` in `ucontext_t`.
        const MASK_AT: usize = if cfg!(target_arch = "x86_64") {
            296
        } else {
            40
        };
        // Another may have come in before this, and be done with: what this one has interrupted is what that must not forget.
        let before = block(!FAULTS);
        // SAFETY: the caller's promise; a signal to this thread.
        unsafe {
            let to = [system::getpid() as usize, this_thread(), signal as usize];
            let words = [to[0], to[1], to[2], info.expose_provenance(), 0, 0];
            if system::call(number::RT_TGSIGQUEUEINFO, words) < 0 {
                block(before);
                return false;
            }
            let mask = context.byte_add(MASK_AT).cast::<u64>();
            self.mask.store(*mask, Ordering::Relaxed);
            self.has_deferred.store(true, Ordering::Relaxed);
            *mask |= !FAULTS;
        }
        true
    }
}

fn this_thread() -> usize {
    // SAFETY: always.
    unsafe { system::call(number::GETTID, [0; 6]) as usize }
}

/// Blocks these signals and no others; which were blocked before.
fn block(mask: u64) -> u64 {
    const SET: usize = 2;
    let mut before = 0_u64;
    let words = [
        SET,
        from_ref(&mask).expose_provenance(),
        (&raw mut before).expose_provenance(),
        size_of_val(&mask),
        0,
        0,
    ];
    // SAFETY: both masks live as long as the call.
    unsafe { system::call(number::RT_SIGPROCMASK, words) };
    before
}

/// The handler of all signals for which the program has one.
unsafe extern "C-unwind" fn handle(signal: i32, info: *mut c_void, context: *mut c_void) {
    let before = system::errno();
    let is_deferred = THREAD.with(|thread| {
        // SAFETY: the kernel's.
        thread.sections.load(Ordering::Relaxed) > 0
            && unsafe { thread.defer(signal, info, context) }
    });
    system::set_errno(before);
    if is_deferred {
        return;
    }
    let at = HANDLERS[signal as usize].at.load(Ordering::Acquire);
    // SAFETY: the program's function, which may look at fewer of these.
    unsafe {
        let call: unsafe extern "C-unwind" fn(i32, *mut c_void, *mut c_void) =
            std::mem::transmute(std::ptr::with_exposed_provenance::<c_void>(at));
        match pipe::is_on() {
            true => pipe::of_handler(|| call(signal, info, context)),
            false => call(signal, info, context),
        }
    }
}

fn handle_at() -> usize {
    (handle as unsafe extern "C-unwind" fn(i32, *mut c_void, *mut c_void)) as usize
}

/// Whether a signal's handler can wait.
fn can_wait(signal: i32, action: &Action) -> bool {
    let is_function = !NO_FUNCTION.contains(&action.handler) && action.handler != handle_at();
    (1..SIGNALS as i32).contains(&signal)
        && FAULTS & 1 << (signal - 1) == 0
        && is_function
        && action.flags & SA_RESETHAND == 0
}

/// sigaction(2).
///
/// # Safety
///
/// As the C library says.
pub unsafe fn set(signal: i32, new: *const Action, old: *mut Action) -> i32 {
    // SAFETY: the caller's promise.
    unsafe {
        let Some(place) = HANDLERS.get(signal as usize) else {
            return system::sigaction(signal, new, old);
        };
        let was = place.at.load(Ordering::Relaxed);
        let had_info = place.has_info.load(Ordering::Relaxed);
        let ours = new.as_ref().filter(|new| can_wait(signal, new)).map(|new| {
            place.at.store(new.handler, Ordering::Release);
            let has_info = new.flags & SA_SIGINFO != 0;
            place.has_info.store(has_info, Ordering::Relaxed);
            Action {
                handler: handle_at(),
                flags: new.flags | SA_SIGINFO,
                ..*new
            }
        });
        let result = system::sigaction(signal, ours.as_ref().map_or(new, from_ref), old);
        if let Some(old) = old.as_mut().filter(|_| result == 0)
            && old.handler == handle_at()
        {
            old.handler = was;
            if !had_info {
                old.flags &= !SA_SIGINFO;
            }
        }
        result
    }
}

/// signal(2).
///
/// # Safety
///
/// As the C library says.
pub unsafe fn set_handler(signal: i32, handler: usize) -> usize {
    const FAILED: usize = usize::MAX;
    if handler == FAILED || !(1..SIGNALS as i32).contains(&signal) {
        system::set_errno(system::EINVAL);
        return FAILED;
    }
    let mut new = Action {
        handler,
        mask: [0; 16],
        flags: system::SA_RESTART,
        restorer: 0,
    };
    new.mask[0] = 1 << (signal - 1);
    let mut old = new;
    // SAFETY: the caller's promise.
    match unsafe { set(signal, &new, &mut old) } {
        0 => old.handler,
        _ => FAILED,
    }
}
