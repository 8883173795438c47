//! What the server must answer, and the comparison with what it does.

/// Why an answer is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// Another status than 200.
    Status,
    /// Not the document's bytes, another length, more than was asked for, or a head in pieces.
    Content,
}

/// A document, and what the head before it looks like.
#[derive(Debug)]
pub(super) struct Expected {
    body: Vec<u8>,
    /// The last head that was read, which the next one is likely to equal: it changes once a second, with its date.
    head: Vec<u8>,
}

/// How much of an answer has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Progress {
    head: bool,
    body: usize,
}

impl Expected {
    /// A document of which this is the content.
    pub fn new(body: Vec<u8>) -> Self {
        Self {
            body,
            head: Vec::new(),
        }
    }

    /// Takes in what came next; true when the answer is whole.
    pub fn take(&mut self, progress: &mut Progress, mut data: &[u8]) -> Result<bool, Fault> {
        if !progress.head && !data.is_empty() {
            data = &data[self.head_len(data)?..];
            progress.head = true;
        }
        let end = progress.body + data.len();
        let body = &self.body;
        if body.get(progress.body..end) != Some(data) {
            return Err(Fault::Content);
        }
        progress.body = end;
        Ok(progress.head && end == body.len())
    }

    /// Bytes of the head that the data begins with.
    fn head_len(&mut self, data: &[u8]) -> Result<usize, Fault> {
        if !self.head.is_empty() && data.starts_with(&self.head) {
            return Ok(self.head.len());
        }
        let end = data.windows(4).position(|window| window == b"\r\n\r\n");
        let head = &data[..end.ok_or(Fault::Content)? + 4];
        if !head.starts_with(b"HTTP/1.1 200 ") {
            return Err(Fault::Status);
        }
        if content_length(head) != Some(self.body.len()) {
            return Err(Fault::Content);
        }
        self.head.clear();
        self.head.extend_from_slice(head);
        Ok(head.len())
    }

    /// Bytes of a whole answer.
    pub fn answer_len(&self) -> usize {
        self.head.len() + self.body.len()
    }

    /// Bytes of a head, when one has been seen.
    pub fn seen_head_len(&self) -> usize {
        self.head.len()
    }
}

fn content_length(head: &[u8]) -> Option<usize> {
    let mut lines = head.split(|byte| *byte == b'\n').skip(1);
    lines.find_map(|line| {
        let (name, value) = line.split_at_checked(line.iter().position(|b| *b == b':')?)?;
        let value = std::str::from_utf8(&value[1..]).ok()?.trim();
        let is_length = name.eq_ignore_ascii_case(b"content-length");
        is_length.then(|| value.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(status: &str, length: usize) -> Vec<u8> {
        format!("HTTP/1.1 {status}\r\nDate: x\r\nCONTENT-length: {length}\r\n\r\n").into_bytes()
    }

    #[test]
    fn an_answer_is_whole_with_its_last_byte_however_it_comes() {
        let mut expected = Expected::new(b"0123456789".to_vec());
        let answer = [&head("200 OK", 10)[..], b"0123456789"].concat();
        let head_len = answer.len() - 10;
        // Twice: with a head that is read, and one that equals the last.
        for _ in 0..2 {
            for cut in head_len..answer.len() {
                let mut progress = Progress::default();
                assert_eq!(expected.take(&mut progress, &answer[..cut]), Ok(false));
                assert_eq!(expected.take(&mut progress, &answer[cut..]), Ok(true));
            }
            assert_eq!(expected.seen_head_len(), head_len);
        }
        let mut progress = Progress::default();
        assert_eq!(expected.take(&mut progress, b""), Ok(false));
        let mut empty = Expected::new(Vec::new());
        let answer = head("200 OK", 0);
        assert_eq!(empty.take(&mut Progress::default(), &answer), Ok(true));
    }

    #[test]
    fn what_is_not_the_document_is_no_answer() {
        let with = |head: Vec<u8>, body: &[u8]| [&head[..], body].concat();
        for (answer, fault) in [
            (with(head("200 OK", 10), b"0123456780"), Fault::Content),
            (with(head("200 OK", 10), b"0123456789a"), Fault::Content),
            (with(head("200 OK", 11), b"0123456789"), Fault::Content),
            (with(head("404 Not Found", 10), b""), Fault::Status),
            (b"HTTP/1.1 200 OK\r\nContent-".to_vec(), Fault::Content),
            (
                b"HTTP/1.1 200 OK\r\n\r\n0123456789".to_vec(),
                Fault::Content,
            ),
        ] {
            let mut expected = Expected::new(b"0123456789".to_vec());
            let taken = expected.take(&mut Progress::default(), &answer);
            assert_eq!(taken, Err(fault), "{}", String::from_utf8_lossy(&answer));
        }
    }
}
