//! What passes between a server and an application that shares its buffers, as the input says.

use exos_application::Request;
use exos_application::asking::{Content, Link};
use exos_application::record::{Decoder, HEADER_LEN, Header};
use exos_iolite::{Aggregate, Options, Pool, Receiver, Sender, Shape, Slice, Trust};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;

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

/// What a server took of the answer to a request.
#[derive(Debug, Default, PartialEq, Eq)]
struct Answer {
    said: Vec<u8>,
    head: Vec<u8>,
    length: Option<u32>,
    content: Vec<u8>,
    is_whole: bool,
}

/// Requests that the server makes: their numbers begin with 1.
const REQUESTS: usize = 3;

/// Answers are the same however what the application says is cut, and no more of them is content than came.
pub fn answers(bytes: &[u8]) {
    let all = answered(bytes, bytes.len().max(1));
    let content: usize = all.0.iter().map(|answer| answer.content.len()).sum();
    assert!(content <= bytes.len());
    for step in [1 + bytes.len() / 7, 16] {
        assert_eq!(answered(bytes, step), all, "in parts of {step}");
    }
}

/// What a server has of an application that says these bytes in parts of this length; whether it is content with it.
fn answered(bytes: &[u8], step: usize) -> ([Answer; REQUESTS], bool) {
    let path = format!("exos-answers-{:?}.sock", std::thread::current().id());
    let path = std::env::temp_dir().join(format!("{}-{path}", std::process::id()));
    let listener = UnixListener::bind(&path).expect("a socket");
    let mut link: Link<usize> = Link::connect(&path).expect("it listens");
    std::fs::remove_file(&path).expect("its socket");
    let (requests, answers) = accept(&listener);
    let _requests = Receiver::accept(requests, Trust::Untrusted).expect("a pipe");
    let pool = Pool::new("exos-fuzz", Shape::of(8)).expect("memory");
    let mut sender = Sender::connect(answers, &pool, Options::default()).expect("a pipe");
    let numbers: [u32; REQUESTS] = std::array::from_fn(|n| link.reserve(n).expect("there are few"));
    numbers
        .iter()
        .for_each(|number| link.ask(*number, b"", false));
    link.flush();
    let mut got: [Answer; REQUESTS] = Default::default();
    for part in bytes.chunks(step) {
        let mut data = pool.copy(part).expect("room");
        while !data.is_empty() && link.failure().is_none() {
            sender.write(&mut data).expect("it takes all");
            link.look(true);
            take(&mut link, numbers, &mut got);
        }
    }
    (got, link.failure().is_none())
}

/// Hears all that has come, and takes it.
fn take(link: &mut Link<usize>, numbers: [u32; REQUESTS], got: &mut [Answer; REQUESTS]) {
    loop {
        while let Some(n) = link.poll() {
            let answer = &mut got[n];
            while let Some(part) = link.take(numbers[n]) {
                answer.said.extend(part.said);
                if let Some(head) = part.head {
                    answer.head.extend(&*head.bytes);
                    answer.length = head.length;
                }
                match part.content {
                    Some(Content::Bytes(bytes)) => answer.content.extend(bytes),
                    Some(Content::Slice(slice)) => answer.content.extend(slice.as_bytes()),
                    None => {}
                }
                answer.is_whole |= part.is_last;
            }
        }
        if !link.flush() || link.failure().is_some() {
            return;
        }
        link.look(false);
    }
}

/// Accepts a server, and hears its first words: the sockets of requests and of answers.
pub fn accept(listener: &UnixListener) -> (OwnedFd, OwnedFd) {
    let (requests, _) = listener.accept().expect("a server");
    let mut bytes = [0; 16];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    recvmsg(&requests, &mut parts, &mut ancillary, RecvFlags::empty()).expect("a hello");
    let mut fds = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    (requests.into(), fds.next().expect("a descriptor"))
}
