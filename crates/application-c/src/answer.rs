//! Answers: heads, and content of pieces.

use crate::application::{Handle, application};
use crate::failure::{Code, Failure, Result, call, call_int};
use crate::handle::{bytes, text};
use crate::piece::{Piece, piece};
use crate::request::Request;
use exos_application::{Application, Head, RequestId};
use std::ffi::{c_char, c_int};

/// What C knows as `exos_field`.
#[repr(C)]
struct Field {
    name: *const c_char,
    value: *const c_char,
}

/// Does something with a request that is not over.
///
/// # Safety
///
/// The application is what the header says.
unsafe fn with(
    app: *mut Handle,
    request: Request,
    act: impl FnOnce(&mut Application, RequestId) -> Result<()>,
) -> c_int {
    call_int(|| {
        // SAFETY: as the caller says.
        let app = unsafe { application(app) }?;
        let id = request.in_app(app)?;
        act(app, id)?;
        Ok(0)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exos_answer_begin(
    app: *mut Handle,
    request: Request,
    status: c_int,
    fields: *const Field,
    count: usize,
    length: i64,
) -> c_int {
    let begin = |app: &mut Application, id| {
        let status = u16::try_from(status)
            .ok()
            .filter(|it| (200..600).contains(it));
        let status = status.ok_or(Failure::new(Code::Argument, "a status is 200 to 599"))?;
        if fields.is_null() && count > 0 {
            return Err(Failure::null("the fields' pointer"));
        }
        let mut head = Head::new(status);
        for index in 0..count {
            // SAFETY: there are as many fields, as the header says.
            let field = unsafe { &*fields.add(index) };
            // SAFETY: texts, as the header says.
            let name = unsafe { text(field.name, "a field's name") }?;
            // SAFETY: as above.
            let value = unsafe { text(field.value, "a field's value") }?;
            let name = str::from_utf8(name)
                .map_err(|_| Failure::new(Code::Argument, "a field's name is no text"))?;
            head = head.field(name, value);
        }
        let length = u64::try_from(length).ok();
        let head = length.into_iter().fold(head, Head::length);
        app.begin(id, &head);
        Ok(())
    };
    // SAFETY: as the header says.
    unsafe { with(app, request, begin) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exos_answer_send_piece(
    app: *mut Handle,
    request: Request,
    kept: *const Piece,
) -> c_int {
    let send = |app: &mut Application, id| {
        // SAFETY: as the header says.
        let kept = unsafe { piece(kept) }?;
        app.send_kept(id, kept.clone());
        Ok(())
    };
    // SAFETY: as the header says.
    unsafe { with(app, request, send) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exos_answer_send(
    app: *mut Handle,
    request: Request,
    from: *const c_char,
    len: usize,
) -> c_int {
    let send = |app: &mut Application, id| {
        // SAFETY: there are as many bytes, as the header says.
        let from = unsafe { bytes(from, len) }?;
        app.send(id, app.pool().copy(from)?);
        Ok(())
    };
    // SAFETY: as the header says.
    unsafe { with(app, request, send) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exos_answer_queued(app: *const Handle, request: Request) -> i64 {
    // SAFETY: as the header says.
    call(|| Ok(unsafe { application(app) }?.queued(request.into()) as i64))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exos_answer_end(app: *mut Handle, request: Request) -> c_int {
    let end = |app: &mut Application, id| {
        app.end(id);
        Ok(())
    };
    // SAFETY: as the header says.
    unsafe { with(app, request, end) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exos_answer_give_up(app: *mut Handle, request: Request) -> c_int {
    let give_up = |app: &mut Application, id| {
        app.give_up(id);
        Ok(())
    };
    // SAFETY: as the header says.
    unsafe { with(app, request, give_up) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exos_answer_say(
    app: *mut Handle,
    request: Request,
    line: *const c_char,
) -> c_int {
    let say = |app: &mut Application, id| {
        // SAFETY: a text, as the header says.
        let line = unsafe { text(line, "the line") }?;
        app.say(id, &String::from_utf8_lossy(line));
        Ok(())
    };
    // SAFETY: as the header says.
    unsafe { with(app, request, say) }
}
