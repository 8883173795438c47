//! An application that is not the limit: each of its threads takes a connection of FastCGI, reads a request, writes the answer that
//! it has, and takes the next, as the processes of php-fpm do. What it says and what comes is one system call each. Where that is wanted one
//! thread answers over buffers that it shares with the server instead.

use crate::stage::helper::{Helper, say_ready};
use crate::stage::request::{Size, body};
use exos_application::{Answer, Application, Head, Request};
use exos_host::{Error, Result, error::Context as _};
use exos_iolite::{Pool, Shape};
use serde::{Deserialize, Serialize};
use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;

/// The types of FastCGI's records.
const BEGIN_REQUEST: u8 = 1;
const END_REQUEST: u8 = 3;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;

const HEADER_LEN: usize = 8;
/// In the flags of a request: its connection stays open.
const KEEP_CONNECTION: u8 = 1;
/// Content of a record: a multiple of eight.
const CONTENT_LEN_MAX: usize = 65_528;

/// It answers every request with the document of a size.
#[derive(Serialize, Deserialize)]
pub(crate) struct Responder {
    /// Where it listens.
    pub socket: PathBuf,
    /// Where it listens for servers that share its buffers, if it does.
    pub shared: Option<PathBuf>,
    /// These get a copy of the document for each request.
    pub is_fresh: bool,
    pub size_bytes: u64,
    /// Connections that it serves at once.
    pub threads: u32,
}

impl Helper for Responder {
    const NAME: &'static str = "fastcgi-responder";
    type Measured = ();

    fn run(self) -> Result<()> {
        if let Some(shared) = self.shared {
            return share(&shared, Size::of_bytes(self.size_bytes), self.is_fresh);
        }
        let what = || format!("cannot listen at {}", self.socket.display());
        let listener = UnixListener::bind(&self.socket).context(what)?;
        // More than the 128 of the library: all that a server opens at once.
        rustix::net::listen(&listener, 4096)
            .map_err(std::io::Error::from)
            .context(what)?;
        let answer = answer(Size::of_bytes(self.size_bytes));
        say_ready()?;
        thread::scope(|threads| {
            for _ in 0..self.threads {
                threads.spawn(|| {
                    while let Ok((stream, _)) = listener.accept() {
                        let _ = serve(&stream, &answer);
                    }
                });
            }
        });
        Ok(())
    }
}

/// Answers requests over shared buffers: with a document that stays, or with a copy of it.
fn share(socket: &Path, size: Size, is_fresh: bool) -> Result<()> {
    let failed = |error: exos_iolite::Error| Error::new(format!("shared buffers: {error}"));
    let mut application = Application::listen(socket, Shape::of(1024)).map_err(failed)?;
    let document = body(size);
    let kept = application.pool().copy(&document).map_err(failed)?;
    say_ready()?;
    let answer = |_: &Request, pool: &Pool| {
        let answer = Answer::new(Head::new(200).field("Content-Type", "text/html"));
        Ok(match is_fresh {
            true => answer.fresh(pool.copy(&document)?),
            false => answer.kept(kept.clone()),
        })
    };
    application.serve(answer).map_err(failed)
}

/// Answers the requests of a connection until it ends, or its client wants it to.
fn serve(mut stream: &UnixStream, answer: &[u8]) -> std::io::Result<()> {
    let mut buffer = Vec::with_capacity(64 * 1024);
    let mut part = vec![0; 64 * 1024];
    loop {
        let keeps = loop {
            if let Some((len, keeps)) = request(&buffer) {
                buffer.drain(..len);
                break keeps;
            }
            match stream.read(&mut part)? {
                0 => return Ok(()),
                count => buffer.extend_from_slice(&part[..count]),
            }
        };
        stream.write_all(answer)?;
        if !keeps {
            return Ok(());
        }
    }
}

/// The length of a whole request, up to the end of its body, and whether its connection stays open.
fn request(bytes: &[u8]) -> Option<(usize, bool)> {
    let (mut at, mut keeps) = (0, false);
    loop {
        let header = bytes.get(at..at + HEADER_LEN)?;
        let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let content = bytes.get(at + HEADER_LEN..at + HEADER_LEN + len)?;
        at += HEADER_LEN + len + usize::from(header[6]);
        match (header[1], content) {
            (BEGIN_REQUEST, [_, _, flags, ..]) => keeps = flags & KEEP_CONNECTION != 0,
            (STDIN, []) => return (at <= bytes.len()).then_some((at, keeps)),
            _ => {}
        }
    }
}

fn push_record(out: &mut Vec<u8>, kind: u8, content: &[u8]) {
    let [high, low] = (content.len() as u16).to_be_bytes();
    let padding = content.len().wrapping_neg() % 8;
    out.extend([1, kind, 0, 1, high, low, padding as u8, 0]);
    out.extend_from_slice(content);
    out.extend_from_slice(&[0; 8][..padding]);
}

/// The answer to each request, whole.
fn answer(size: Size) -> Vec<u8> {
    let head = format!(
        "Content-Type: text/html\r\nContent-Length: {}\r\n\r\n",
        size.bytes()
    );
    let said = [head.into_bytes(), body(size)].concat();
    let mut out = Vec::new();
    for content in said.chunks(CONTENT_LEN_MAX) {
        push_record(&mut out, STDOUT, content);
    }
    push_record(&mut out, STDOUT, &[]);
    push_record(&mut out, END_REQUEST, &[0; 8]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(keeps: bool) -> Vec<u8> {
        let mut out = Vec::new();
        push_record(
            &mut out,
            BEGIN_REQUEST,
            &[0, 1, u8::from(keeps), 0, 0, 0, 0, 0],
        );
        // Variables and a body, which it does not look at.
        for (kind, content) in [
            (4, &b"\x01\x01ab"[..]),
            (4, b""),
            (STDIN, b"body"),
            (STDIN, b""),
        ] {
            push_record(&mut out, kind, content);
        }
        out
    }

    #[test]
    fn requests_are_answered_until_one_wants_the_end() {
        let answer = answer(Size::of_bytes(100_000));
        let (mut client, server) = UnixStream::pair().expect("a pair");
        let wanted = answer.repeat(3);
        let served = thread::spawn(move || serve(&server, &answer).expect("it ends well"));
        let requests = [asked(true), asked(true), asked(false)].concat();
        let mut writer = client.try_clone().expect("a descriptor");
        thread::spawn(move || {
            requests
                .chunks(7)
                .for_each(|part| writer.write_all(part).expect("it reads"))
        });
        let mut got = Vec::new();
        client.read_to_end(&mut got).expect("it writes, and closes");
        served.join().expect("no panic");
        assert!(got == wanted);
    }

    #[test]
    fn a_request_is_whole_with_the_end_of_its_body() {
        let whole = asked(true);
        for cut in 0..whole.len() {
            assert_eq!(request(&whole[..cut]), None, "{cut}");
        }
        let more = [&whole[..], b"more"].concat();
        assert_eq!(request(&more), Some((whole.len(), true)));
    }
}
