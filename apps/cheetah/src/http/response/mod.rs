//! What a response is put together of, by its request and its document alone.
//!
//! | file | what is in it |
//! |---|---|
//! | [`kept`] | what is kept of upstreams' answers: parts and heads |
//! | [`opening`] | the first lines: status, server, date, connection |
//! | [`decision`] | the document, a part of it, or nothing: preconditions ([`conditional`]), then ranges ([`range`]) |
//! | [`tail`] | what is read from a file while it is sent |
//! | [`head`] | where the head ends; heads for a single response |

pub(crate) mod conditional;
pub(crate) mod decision;
pub(crate) mod head;
pub(crate) mod kept;
pub(crate) mod opening;
pub(crate) mod range;
pub(crate) mod tail;
