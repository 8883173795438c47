use super::*;

/// A record of an application's, with this much padding.
fn record(kind: u8, content: &[u8], padding: u8) -> Vec<u8> {
    let len = (content.len() as u16).to_be_bytes();
    let mut record = vec![1, kind, 0, 1, len[0], len[1], padding, 0];
    record.extend_from_slice(content);
    record.extend(vec![0xee; usize::from(padding)]);
    record
}

/// What is for the client, what is for the operator, whether the first is whole, and how it ends.
type Read = (Vec<u8>, Vec<u8>, bool, Option<Ending>);

/// What is read of bytes that come in pieces of this length: each stream whole, and how it ends.
fn read(bytes: &[u8], step: usize) -> Result<Read, RecordError> {
    let mut decoder = Decoder::default();
    let (mut out, mut err, mut is_whole, mut ending) = (Vec::new(), Vec::new(), false, None);
    for part in bytes.chunks(step) {
        let mut rest = part;
        loop {
            let (count, piece) = decoder.next(rest)?;
            rest = &rest[count..];
            match piece {
                None => break,
                Some(Piece::Stdout(bytes)) => out.extend_from_slice(bytes),
                Some(Piece::StdoutEnd) => is_whole = true,
                Some(Piece::Stderr(bytes)) => err.extend_from_slice(bytes),
                Some(Piece::End(how)) => ending = Some(how),
            }
        }
        assert!(rest.is_empty());
    }
    Ok((out, err, is_whole, ending))
}

#[test]
fn records_are_read_wherever_they_are_cut() {
    let long = vec![b'x'; 3000];
    let all = [
        record(STDOUT, b"Status: 200\r\n\r\n", 1),
        record(STDERR, b"a warning", 7),
        record(STDOUT, &long, 0),
        record(STDERR, b"", 0),
        record(STDOUT, b"end", 255),
        record(STDOUT, b"", 3),
        record(END_REQUEST, &[0, 0, 0, 9, 0, 0, 0, 0], 5),
    ]
    .concat();
    let wanted = [&b"Status: 200\r\n\r\n"[..], &long, b"end"].concat();
    for step in (1..40).chain([100, 1000, all.len()]) {
        let (out, err, is_whole, ending) = read(&all, step).unwrap();
        assert_eq!(
            (out, err),
            (wanted.clone(), b"a warning".to_vec()),
            "{step}"
        );
        assert_eq!((is_whole, ending), (true, Some(Ending::Complete)));
    }
}

#[test]
fn what_is_no_answer_is_refused() {
    let end = |status| record(END_REQUEST, &[0, 0, 0, 0, status, 0, 0, 0], 0);
    for (bytes, wanted) in [
        (b"HTTP/1.1 200 OK\r\n".to_vec(), RecordError::Version(b'H')),
        (vec![1, STDOUT, 0, 2, 0, 0, 0, 0], RecordError::Request(2)),
        (vec![1, STDOUT, 0, 0, 0, 0, 0, 0], RecordError::Request(0)),
        (record(11, b"12345678", 0), RecordError::Kind(11)),
        (record(STDOUT + 2, b"", 0), RecordError::Kind(8)),
        (
            record(END_REQUEST, b"1234567", 1),
            RecordError::EndLength(7),
        ),
        (end(4), RecordError::EndStatus(4)),
        (
            [record(STDOUT, b"", 0), record(STDOUT, b"x", 0)].concat(),
            RecordError::BehindEnd,
        ),
    ] {
        for step in [1, 3, 100] {
            assert_eq!(read(&bytes, step).err(), Some(wanted), "{bytes:?}");
        }
    }
    assert_eq!(read(&end(2), 100).unwrap().3, Some(Ending::Overloaded));
    assert_eq!(read(&end(1), 1).unwrap().3, Some(Ending::Refused(1)));
}

#[test]
fn a_stream_is_cut_into_records_of_whole_words() {
    let mut out = Vec::new();
    begin(&mut out, true);
    assert_eq!(out, [1, 1, 0, 1, 0, 8, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0]);
    out.clear();
    part(&mut out, Stream::Stdin, &[]);
    assert!(out.is_empty(), "an empty record would end the stream");
    part(&mut out, Stream::Stdin, &vec![7; CONTENT_LEN_MAX + 3]);
    assert_eq!(out.len(), 8 + CONTENT_LEN_MAX + 8 + 8);
    assert_eq!(out[8 + CONTENT_LEN_MAX..][..8], [1, 5, 0, 1, 0, 3, 5, 0]);
    out.clear();
    end(&mut out, Stream::Params);
    assert_eq!(out, [1, 4, 0, 1, 0, 0, 0, 0]);
}

#[test]
fn lengths_of_variables_take_one_byte_or_four() {
    let mut out = Vec::new();
    pair(&mut out, b"A", &[&[b'v'; 127]]);
    assert_eq!(out[..3], [1, 127, b'A']);
    out.clear();
    pair(&mut out, b"A", &[&[b'v'; 128]]);
    assert_eq!(out[..6], [1, 0x80, 0, 0, 128, b'A']);
    assert_eq!(out.len(), 6 + 128);
}
