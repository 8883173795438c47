//! What passes between a server and an application that shares its buffers, as the input says.

use exos_application::Request;
use exos_application::record::{Decoder, HEADER_LEN, Header};
use exos_iolite::{Aggregate, Slice};

fn local(bytes: &[u8]) -> Slice {
    exos_buf::Buffer::from(bytes.to_vec()).whole().into()
}

/// The records of these bytes, cut into parts of this length: headers and lengths; whether all of them are records.
fn read(bytes: &[u8], step: usize) -> (Vec<(Header, usize)>, bool) {
    let (mut decoder, mut data) = (Decoder::default(), Aggregate::new());
    let (mut records, mut len) = (Vec::new(), 0);
    for part in bytes.chunks(step) {
        data.append(local(part));
        loop {
            match decoder.next(&mut data) {
                Ok(Some(piece)) => {
                    len += piece.bytes.len();
                    if piece.is_end {
                        records.push((piece.header, std::mem::take(&mut len)));
                    }
                }
                Ok(None) => break,
                Err(_) => return (records, false),
            }
        }
        // Nothing is kept but a header that has begun.
        assert!(data.is_empty() && decoder.is_at_end());
    }
    (records, true)
}

/// Records are the same however they are cut, and are as long as they say.
pub fn records(bytes: &[u8]) {
    let all = read(bytes, bytes.len().max(1));
    for step in [1, 2, 7, 15, 16, 17, 64] {
        assert!(read(bytes, step) == all, "in parts of {step}");
    }
    let mut len = 0;
    for (header, content) in &all.0 {
        assert_eq!(header.len as usize, *content);
        assert_eq!(bytes[len..len + HEADER_LEN], header.bytes());
        len += HEADER_LEN + content;
    }
    assert!(len <= bytes.len());
}

/// Variables lie within what came, in order.
pub fn variables(bytes: &[u8]) {
    let request = Request::new(bytes.to_vec(), false);
    let said: usize = request
        .variables()
        .map(|(name, value)| 2 + name.len() + value.len())
        .sum();
    assert!(said <= bytes.len());
    if let Some((name, value)) = request.variables().next()
        && let Ok(name) = str::from_utf8(name)
    {
        assert_eq!(request.variable(name), Some(value));
    }
}
