//! Pieces: bytes in an application's pool, which a program keeps.

use crate::application::{Handle, application};
use crate::failure::{Failure, Result, call_int};
use crate::handle::{Owned, bytes, give};
use exos_iolite::Aggregate;
use std::ffi::{c_char, c_int};

/// What C knows as `exos_piece`.
pub(crate) type Piece = Owned<Aggregate>;

/// What a pointer to a piece is to.
///
/// # Safety
///
/// As the header says: it is NULL, or was made and not freed. Nothing that this returns is kept beyond a call.
pub(crate) unsafe fn piece<'a>(piece: *const Piece) -> Result<&'a Aggregate> {
    // SAFETY: as the caller says.
    unsafe { Piece::of(piece, "the piece") }.map(|piece| &*piece)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exos_piece_make(
    app: *mut Handle,
    from: *const c_char,
    len: usize,
    out: *mut *mut Piece,
) -> c_int {
    call_int(|| {
        // SAFETY: as the header says.
        let app = unsafe { application(app) }?;
        // SAFETY: there are as many bytes, as the header says.
        let from = unsafe { bytes(from, len) }?;
        if out.is_null() {
            return Err(Failure::null("where to put the piece"));
        }
        let piece = app.pool().copy(from)?;
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
