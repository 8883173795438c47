//! Errors as numbers, with words for the last one of a thread. What panics is an error too, and never passes a function of C.

use exos_iolite::Error;
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The numbers of `enum exos_error`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum Code {
    /// `EXOS_ERROR_ARGUMENT`
    Argument = -1,
    /// `EXOS_ERROR_THREAD`
    Thread = -2,
    /// `EXOS_ERROR_GONE`
    Gone = -3,
    /// `EXOS_ERROR_EXHAUSTED`
    Exhausted = -4,
    /// `EXOS_ERROR_SYSTEM`
    System = -5,
    /// `EXOS_ERROR_INTERNAL`
    Internal = -6,
}

/// Why a call failed.
#[derive(Debug)]
pub(crate) struct Failure {
    code: Code,
    words: String,
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub fn new(code: Code, words: impl Into<String>) -> Self {
        let words = words.into();
        Self { code, words }
    }

    pub fn null(what: &str) -> Self {
        Self::new(Code::Argument, format!("{what} is NULL"))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match error {
            Error::Exhausted { .. } | Error::ShareExceeded { .. } => Code::Exhausted,
            Error::Shape(_) | Error::TooLong { .. } => Code::Argument,
            _ => Code::System,
        };
        Self::new(code, error.to_string())
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Runs what a function does: its number, or that of an error, which is kept for [`exos_application_error`].
pub(crate) fn call(act: impl FnOnce() -> Result<i64>) -> i64 {
    let done = catch_unwind(AssertUnwindSafe(act));
    let failure = match done {
        Ok(Ok(number)) => return number,
        Ok(Err(failure)) => failure,
        Err(_) => Failure::new(
            Code::Internal,
            "a defect of the library; it was said on standard error",
        ),
    };
    let code = failure.code as i64;
    // The thread may be ending.
    let _ = LAST.try_with(|last| {
        let words = failure.words.replace('\0', " ");
        *last.borrow_mut() = CString::new(words).unwrap_or_default();
    });
    code
}

/// As [`call`], of a function that returns `int`.
pub(crate) fn call_int(act: impl FnOnce() -> Result<i32>) -> i32 {
    call(|| act().map(i64::from)) as i32
}

#[unsafe(no_mangle)]
extern "C" fn exos_application_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr())
        .unwrap_or(c"the thread is ending".as_ptr())
}
