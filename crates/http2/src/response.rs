//! What of a response's fields matters to a client that counts: the status and the length of the content.

/// What the fields of a response say, or trailers, which have no status. Those of interim responses are told by their status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: Option<u16>,
    /// The length of the content.
    pub length: Option<u64>,
    /// They are none of a response.
    pub is_wrong: bool,
}

impl Answer {
    /// Takes the next field.
    pub fn field(&mut self, name: &[u8], value: &[u8]) {
        match name {
            b":status" => {
                let status = number(value).filter(|it| value.len() == 3 && *it >= 100);
                self.is_wrong |= status.is_none() || self.status.is_some();
                self.status = status.map(|status| status as u16);
            }
            // Only that one is a response's (RFC 9113 §8.3.2).
            [b':', ..] | [] => self.is_wrong = true,
            b"content-length" => {
                let length = number(value);
                let differs = self.length.is_some() && self.length != length;
                self.is_wrong |= length.is_none() || differs;
                self.length = length;
            }
            _ => self.is_wrong |= name.iter().any(u8::is_ascii_uppercase),
        }
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    let are_digits = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(digits).ok().filter(|_| are_digits)?;
    text.parse().ok()
}
