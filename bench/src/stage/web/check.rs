//! A check that a server answers with the right document: speed counts only when it is right.

use crate::limits::{ANSWER_TIMEOUT, POLL_INTERVAL, START_TIMEOUT};
use crate::stage::request::{Size, body};
use crate::stage::session::Stage;
use exos_host::netns::NetNs;
use exos_host::{Error, Result};
use std::fmt::Display;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, SocketAddrV4, TcpStream};
use std::time::Instant;

/// Waits until a server answers, asked from a namespace, with the whole document and nothing else; `is_running` is an error when
/// it has ended.
pub(crate) fn await_document(
    stage: &Stage,
    netns: &NetNs,
    (server, address): (impl Display, SocketAddrV4),
    size: Size,
    mut is_running: impl FnMut() -> Result<()>,
) -> Result<()> {
    let end = Instant::now() + START_TIMEOUT;
    let document = size.document();
    loop {
        stage.go_on()?;
        is_running()?;
        match netns.run(|| get(address.into(), &document))? {
            Ok(answer) => return check_answer(server, &answer, size),
            Err(_) if Instant::now() < end => std::thread::sleep(POLL_INTERVAL),
            Err(e) => return Err(Error::io(format!("no answer comes from {server}"), e)),
        }
    }
}

/// One request on a connection of its own; everything that came back.
fn get(address: SocketAddr, document: &str) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_TIMEOUT)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    write!(
        stream,
        "GET /{document} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        address.ip()
    )?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    if answer.is_empty() {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(answer)
}

/// An answer must be status 200 and the document, byte for byte: speed counts only when it is right.
fn check_answer(server: impl Display, answer: &[u8], size: Size) -> Result<()> {
    let wrong = |what: String| {
        Err(Error::new(format!(
            "{server} answers wrongly to /{}: {what}",
            size.document()
        )))
    };
    let Some(head) = answer.windows(4).position(|w| w == b"\r\n\r\n") else {
        return wrong("no end of the head".to_owned());
    };
    let status = answer.split(|&b| b == b'\r').next().unwrap_or_default();
    if !status.starts_with(b"HTTP/1.1 200 ") {
        return wrong(String::from_utf8_lossy(status).into_owned());
    }
    let (got, expected) = (&answer[head + 4..], body(size));
    if got.len() != expected.len() {
        return wrong(format!("{} bytes instead of {}", got.len(), expected.len()));
    }
    match got.iter().zip(&expected).position(|(a, b)| a != b) {
        Some(at) => wrong(format!("another byte at {at}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::web::Server;

    #[test]
    fn only_the_whole_document_is_right() {
        let size = Size::of_bytes(100);
        let with = |head: &str, body: &[u8]| [head.as_bytes(), body].concat();
        let right = with(
            "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n",
            &body(size),
        );
        check_answer(Server::Exos, &right, size).expect("right");
        let mut other = right.clone();
        *other.last_mut().expect("not empty") ^= 1;
        for (answer, said) in [
            (other, "another byte at 99"),
            (right[..right.len() - 1].to_vec(), "99 bytes instead of 100"),
            (
                with("HTTP/1.1 404 Not Found\r\n\r\n", b""),
                "HTTP/1.1 404 Not Found",
            ),
            (b"HTTP/1.1 200 OK\r\n".to_vec(), "no end of the head"),
        ] {
            let error = check_answer(Server::Exos, &answer, size).expect_err(said);
            assert!(error.what.contains(said), "{error}");
        }
    }
}
