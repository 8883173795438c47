//! Receiving through pipes.

use std::io::{ErrorKind, Write as _};
use std::net::{Shutdown, SocketAddr};

use exos::net::{TcpStream, UdpSocket};
use exos::pipes::{Gauge, List, Loop, Pipe};
use exos::wire::Sum;

use super::{attach, ours};
use crate::common::PATIENCE;

fn compile<const N: usize>(pipes: [Pipe; N]) -> Loop {
    Loop::compile(List::new(pipes.to_vec()).unwrap()).unwrap()
}

/// Datagrams of any length, each a message of its own, or together one as long as they have whole words.
#[test]
fn datagrams_come_through_pipes() {
    let Some((net, host)) = attach("datagrams_come_through_pipes") else {
        return;
    };
    let socket = UdpSocket::bind(&net, (ours(&net), 0)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let at = socket.local_addr().unwrap();
    let sender = std::net::UdpSocket::bind((host, 0)).unwrap();
    let from = sender.local_addr().unwrap();
    let mut into = [0; 2000];

    let pipes = compile([Pipe::Checksum, Pipe::Xor(Gauge::One, 0x5a)]);
    for length in [0, 1, 31, 32, 33, 500, 1471, 1472] {
        let sent: Vec<u8> = (0..length).map(|i| (i * 7 % 251) as u8).collect();
        sender.send_to(&sent, at).unwrap();
        let mut state = pipes.list().state();
        let came = socket.recv_through(&pipes, &mut state, &mut into).unwrap();
        assert_eq!(came, (length, from));
        let meant: Vec<u8> = sent.iter().map(|byte| byte ^ 0x5a).collect();
        assert_eq!(into[..length], meant);
        assert_eq!(state.register(0), Some(Sum::of(&sent).value().into()));
    }

    let pipes = compile([Pipe::Sum(Gauge::Four), Pipe::Swap(Gauge::Four)]);
    let mut state = pipes.list().state();
    for (sent, sum) in [
        (&[0, 0, 1, 0, 0, 0, 0, 2][..], 0x102),
        (&[0, 0, 0, 3], 0x105),
    ] {
        sender.send_to(sent, at).unwrap();
        socket.recv_through(&pipes, &mut state, &mut into).unwrap();
        assert_eq!(state.register(0), Some(sum));
    }
    assert_eq!(into[..8], [3, 0, 0, 0, 2, 0, 0, 0]);
    sender.send_to(&[1, 2, 3], at).unwrap();
    let partial = socket.recv_through(&pipes, &mut state, &mut into);
    assert_eq!(partial.unwrap_err().kind(), ErrorKind::InvalidData);
    assert_eq!(state.register(0), Some(0x105), "it was dropped");
    socket.set_nonblocking(true).unwrap();
    let none = socket.recv_through(&pipes, &mut state, &mut into);
    assert_eq!(none.unwrap_err().kind(), ErrorKind::WouldBlock);
}

/// A word that has come in part waits, and a stream that ends in one is told apart from one that ends.
#[test]
fn a_stream_gives_whole_words_until_its_end() {
    let Some((net, host)) = attach("a_stream_gives_whole_words_until_its_end") else {
        return;
    };
    let listener = std::net::TcpListener::bind((host, 0)).unwrap();
    let connect = |at: SocketAddr| {
        let stream = TcpStream::connect(&net, at).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        (stream, listener.accept().unwrap().0)
    };
    let at = listener.local_addr().unwrap();
    let mut into = [0; 64];
    let waits = |stream: &TcpStream| {
        let time = std::time::Duration::from_millis(20);
        stream.set_read_timeout(Some(time)).unwrap();
    };

    let pipes = compile([Pipe::Sum(Gauge::Eight)]);
    let (stream, mut peer) = connect(at);
    let mut state = pipes.list().state();
    let small = stream.read_through(&pipes, &mut state, &mut into[..7]);
    assert_eq!(small.unwrap_err().kind(), ErrorKind::InvalidInput);
    peer.write_all(&[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]).unwrap();
    let mut read = |stream: &TcpStream| stream.read_through(&pipes, &mut state, &mut into);
    assert_eq!(read(&stream).unwrap(), 8);
    waits(&stream);
    assert_eq!(read(&stream).unwrap_err().kind(), ErrorKind::WouldBlock);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    peer.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read(&stream).unwrap(), 3, "the last word is in part");
    assert_eq!(read(&stream).unwrap(), 0);
    assert_eq!(state.register(0), Some(1));

    let pipes = compile([Pipe::Swap(Gauge::Four)]);
    let (stream, mut peer) = connect(at);
    let mut state = pipes.list().state();
    peer.write_all(&[1, 2, 3, 4, 5]).unwrap();
    drop(peer);
    let mut read = || stream.read_through(&pipes, &mut state, &mut into);
    assert_eq!(read().unwrap(), 4);
    assert_eq!(read().unwrap_err().kind(), ErrorKind::InvalidData);
    assert_eq!(into[..4], [4, 3, 2, 1]);
}
