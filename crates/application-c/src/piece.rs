//! Pieces: bytes in an application's pool, which a program keeps.

use crate::application::{Handle, application};
use crate::failure::{Code, Failure, Result, call_int};
use crate::handle::{Borrowed, Owned, bytes, give, give_none};
use exos_application::Application;
use exos_iolite::Aggregate;
use std::ffi::{c_char, c_int};

/// What C knows as `exos_piece`.
pub(crate) type Piece = Owned<Aggregate>;

/// What a pointer to a piece is to.
///
/// # Safety
///
/// As the header says: it is NULL, or was made and not freed. Nothing that this returns is kept beyond a call.
pub(crate) unsafe fn piece<'a>(piece: *const Piece) -> Result<Borrowed<'a, Aggregate>> {
    // SAFETY: as the caller says.
    unsafe { Piece::of(piece, "the piece") }
}

/// A copy of bytes in the application's pool.
pub(crate) fn copy(app: &Application, bytes: &[u8]) -> Result<Aggregate> {
    let shape = app.pool().shape();
    if bytes.len() as u64 > u64::from(shape.buffer_len) * u64::from(shape.buffers) {
        let words = "these are more bytes than the pool holds";
        return Err(Failure::new(Code::Argument, words));
    }
    Ok(app.pool().copy(bytes)?)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exos_piece_make(
    app: *mut Handle,
    from: *const c_char,
    len: usize,
    out: *mut *mut Piece,
) -> c_int {
    call_int(|| {
        // SAFETY: there is room, as the header says.
        unsafe { give_none(out) }?;
        // SAFETY: as the header says.
        let app = unsafe { application(app) }?;
        // SAFETY: there are as many bytes, as the header says.
        let from = unsafe { bytes(from, len) }?;
        let piece = copy(&app, from)?;
        // SAFETY: there is room, as the header says.
        unsafe { give(out, Piece::hand_out(piece)) }?;
        Ok(0)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exos_piece_free(piece: *mut Piece) -> c_int {
    call_int(|| {
        if !piece.is_null() {
            // SAFETY: it was made and not freed, as the header says.
            drop(unsafe { Piece::take_back(piece, "the piece") }?);
        }
        Ok(0)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exos_piece_len(from: *const Piece) -> usize {
    let mut len = 0;
    call_int(|| {
        // SAFETY: as the header says.
        len = unsafe { piece(from) }?.len();
        Ok(0)
    });
    len
}
