//! An application: opened, waited for, stopped and closed.

use crate::failure::{Code, Failure, Result, call_int};
use crate::handle::{Borrowed, Owned, give, give_none, text};
use crate::request::Request;
use exos_application::{Application, Event};
use exos_iolite::Shape;
use std::ffi::{OsStr, c_char, c_int};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::ptr;
use std::time::Duration;

/// What C knows as `exos_application`.
pub(crate) type Handle = Owned<Application>;

/// Buffers of a pool: what it takes to answer at all, and what a pool may have.
const BUFFERS: std::ops::RangeInclusive<u32> = 2..=16_384;

/// What C knows as `exos_event`.
#[repr(C)]
pub(crate) struct RawEvent {
    pub kind: i32,
    request: Request,
}

// As in the header, which has it checked by C.
const _: () = assert!(size_of::<RawEvent>() == 24 && std::mem::offset_of!(RawEvent, request) == 8);

impl From<Event> for RawEvent {
    fn from(event: Event) -> Self {
        let (kind, id) = match event {
            Event::Request(id) => (1, id),
            Event::Body(id) => (2, id),
            Event::Room(id) => (3, id),
            Event::Left(id) => (4, id),
        };
        let request = id.into();
        RawEvent { kind, request }
    }
}

/// Opens an application, for which there is a place to be put.
///
/// # Safety
///
/// `out` is NULL, or there is room for a pointer behind it.
unsafe fn open(
    buffers: u32,
    out: *mut *mut Handle,
    open: impl FnOnce(Shape) -> exos_iolite::Result<Application>,
) -> Result<i32> {
    // SAFETY: as the caller says.
    unsafe { give_none(out) }?;
    if !BUFFERS.contains(&buffers) {
        return Err(Failure::new(
            Code::Argument,
            "a pool has 2 to 16,384 buffers",
        ));
    }
    ignore_sigpipe();
    let application = open(Shape::of(buffers))?;
    // SAFETY: as the caller says.
    unsafe { give(out, Handle::hand_out(application)) }?;
    Ok(0)
}

/// A server that has ended is found out by writing to it. Programs that have a handler of their own see to that.
fn ignore_sigpipe() {
    let mut now = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: there is room for what it writes.
    if unsafe { libc::sigaction(libc::SIGPIPE, ptr::null(), now.as_mut_ptr()) } != 0 {
        return;
    }
    // SAFETY: the call has written it.
    let now = unsafe { now.assume_init() };
    if now.sa_sigaction == libc::SIG_DFL {
        // SAFETY: no handler is installed; what was to happen is made not to.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exos_application_open(
    socket: *const c_char,
    buffers: u32,
    out: *mut *mut Handle,
) -> c_int {
    call_int(|| {
        // SAFETY: a text, as the header says.
        let path = OsStr::from_bytes(unsafe { text(socket, "the socket's path") }?);
        // SAFETY: as the header says.
        unsafe { open(buffers, out, |shape| Application::listen(path, shape)) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exos_application_open_fd(
    fd: c_int,
    buffers: u32,
    out: *mut *mut Handle,
) -> c_int {
    call_int(|| {
        let socket = owned(fd)?;
        // SAFETY: as the header says.
        unsafe { open(buffers, out, |shape| Application::of(socket, shape)) }
    })
}

/// A descriptor that is ours from here on.
fn owned(fd: c_int) -> Result<OwnedFd> {
    // SAFETY: it asks the kernel about a number, and changes nothing.
    if fd < 0 || unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
        return Err(Failure::new(Code::Argument, "it is no open descriptor"));
    }
    // SAFETY: the program has given it to us, as the header says.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exos_application_close(app: *mut Handle) -> c_int {
    call_int(|| {
        if !app.is_null() {
            // SAFETY: it was opened and not closed, as the header says.
            drop(unsafe { Handle::take_back(app, "the application") }?);
        }
        Ok(0)
    })
}

/// What a pointer to an application is to.
///
/// # Safety
///
/// As the header says: it is NULL, or one that was opened and not closed. Nothing that this returns is kept beyond a call.
pub(crate) unsafe fn application<'a>(app: *const Handle) -> Result<Borrowed<'a, Application>> {
    // SAFETY: as the caller says.
    unsafe { Handle::of(app, "the application") }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exos_application_wait(
    app: *mut Handle,
    timeout_ms: c_int,
    out: *mut RawEvent,
) -> c_int {
    call_int(|| {
        // SAFETY: as the header says.
        let mut app = unsafe { application(app) }?;
        if out.is_null() {
            return Err(Failure::null("where to put the event"));
        }
        let time = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
        let Some(event) = app.wait(time)? else {
            return Ok(0);
        };
        // SAFETY: there is room, as the header says.
        unsafe { give(out, event.into()) }?;
        Ok(1)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exos_application_fd(app: *mut Handle) -> c_int {
    // SAFETY: as the header says.
    call_int(|| unsafe { application(app) }.map(|app| app.as_fd().as_raw_fd()))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exos_application_poll_timeout(
    app: *mut Handle,
    timeout_ms: *mut c_int,
) -> c_int {
    call_int(|| {
        // SAFETY: as the header says.
        unsafe { give(timeout_ms, 0) }?;
        // SAFETY: as the header says.
        let time = unsafe { application(app) }?.poll_timeout();
        // Not before it has passed.
        let ms = time.map(|time| time.as_micros().div_ceil(1000));
        let ms = ms.map_or(-1, |ms| c_int::try_from(ms).unwrap_or(c_int::MAX));
        // SAFETY: as the header says.
        unsafe { give(timeout_ms, ms) }?;
        Ok(0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn exos_application_version() -> c_int {
    2
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exos_application_stop(app: *mut Handle, at_most_ms: u32) -> c_int {
    call_int(|| {
        // SAFETY: as the header says.
        unsafe { application(app) }?.stop(Duration::from_millis(at_most_ms.into()));
        Ok(0)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exos_application_stop_on(
    app: *mut Handle,
    fd: c_int,
    at_most_ms: u32,
) -> c_int {
    call_int(|| {
        let fd = owned(fd)?;
        // SAFETY: as the header says.
        unsafe { application(app) }?.stop_on(fd, Duration::from_millis(at_most_ms.into()))?;
        Ok(0)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exos_application_is_over(app: *const Handle) -> c_int {
    if app.is_null() {
        return 1;
    }
    // SAFETY: as the header says.
    call_int(|| Ok(unsafe { application(app) }?.is_over().into()))
}
