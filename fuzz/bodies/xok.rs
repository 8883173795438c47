//! What the fuzz target of the daemon's protocol checks of any bytes.
//!
//! The file is included by the fuzz target and by `crates/xok/tests/corpus.rs`, which replays the corpus with a
//! stable compiler; it depends on nothing but `exos_xok`.

use exos_xok::Request;
use exos_xok::limits::MESSAGE_BYTES_MAX;
use exos_xok::message::FromDaemon;

/// Bytes are refused with a sentence, or mean one message, whose bytes they are.
pub fn message(data: &[u8]) {
    let data = &data[..data.len().min(MESSAGE_BYTES_MAX)];
    match Request::decode(data) {
        Ok((tag, request)) => assert_eq!(request.encode(tag), data),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    match FromDaemon::decode(data) {
        Ok(said) => assert_eq!(said.encode(), data),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
