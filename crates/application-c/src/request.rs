//! Requests: numbers, by which C asks what there is of them.

use crate::application::{Handle, application};
use crate::failure::{Code, Failure, Result, call, call_int};
use crate::handle::{give, text};
use exos_application::{Application, RequestId};
use std::ffi::{c_char, c_int};
use std::ptr;

/// What C knows as `exos_request`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Request {
    link: u64,
    number: u32,
    serial: u32,
}

const _: () = assert!(size_of::<Request>() == 16 && std::mem::offset_of!(Request, serial) == 12);

impl From<RequestId> for Request {
    fn from(id: RequestId) -> Self {
        let (link, number, serial) = id.to_parts();
        Self {
            link,
            number,
            serial,
        }
    }
}

impl From<Request> for RequestId {
    fn from(request: Request) -> Self {
        RequestId::from_parts((request.link, request.number, request.serial))
    }
}

impl Request {
    /// The request, as long as somebody wants its answer and that has not ended.
    pub fn in_app(self, app: &Application) -> Result<RequestId> {
        let id = self.into();
        match app.request(id) {
            Some(_) => Ok(id),
            None => Err(Failure::new(Code::Gone, "the request is over")),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exos_request_variable(
    app: *const Handle,
    request: Request,
    name: *const c_char,
    len: *mut usize,
) -> *const c_char {
    let mut found = ptr::null();
    call(|| {
        // SAFETY: as the header says.
        unsafe { give(len, 0) }?;
        // SAFETY: as the header says.
        let app = unsafe { application(app) }?;
        // SAFETY: a text, as the header says.
        let name = unsafe { text(name, "the variable's name") }?;
        let request = app.request(request.in_app(&app)?);
        let mut variables = request.into_iter().flat_map(|request| request.variables());
        let value = variables.find_map(|(known, value)| (known == name).then_some(value));
        if let Some(value) = value {
            // SAFETY: there is room for a length, as the header says.
            unsafe { give(len, value.len()) }?;
            found = value.as_ptr().cast();
        }
        Ok(0)
    });
    found
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exos_request_variable_at(
    app: *const Handle,
    request: Request,
    index: usize,
    name: *mut *const c_char,
    name_len: *mut usize,
    value: *mut *const c_char,
    value_len: *mut usize,
) -> c_int {
    call_int(|| {
        // SAFETY: as the header says.
        let app = unsafe { application(app) }?;
        let request = app.request(request.in_app(&app)?);
        let Some((known, has)) = request.and_then(|request| request.variables().nth(index)) else {
            return Ok(0);
        };
        // SAFETY: there is room for each, as the header says.
        unsafe {
            give(name, known.as_ptr().cast())?;
            give(name_len, known.len())?;
            give(value, has.as_ptr().cast())?;
            give(value_len, has.len())?;
        }
        Ok(1)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exos_request_read_body(
    app: *mut Handle,
    request: Request,
    out: *mut c_char,
    len: usize,
) -> i64 {
    call(|| {
        // SAFETY: as the header says.
        let mut app = unsafe { application(app) }?;
        let id = request.in_app(&app)?;
        if out.is_null() && len > 0 {
            return Err(Failure::null("where to put the body"));
        }
        // What C has there may never have been written: it is written before it is looked at, in steps.
        let (mut block, mut taken) = ([0; 4096], 0);
        while taken < len {
            let now = block.len().min(len - taken);
            let count = app.read_body_into(id, &mut block[..now]);
            if count == 0 {
                break;
            }
            // SAFETY: there is room for this many more, as the header says, and the block is ours.
            unsafe { ptr::copy_nonoverlapping(block.as_ptr(), out.cast::<u8>().add(taken), count) };
            taken += count;
        }
        Ok(taken as i64)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exos_request_body_is_whole(app: *const Handle, request: Request) -> c_int {
    call_int(|| {
        // SAFETY: as the header says.
        let app = unsafe { application(app) }?;
        let id = request.in_app(&app)?;
        Ok(app.body_is_whole(id).into())
    })
}
