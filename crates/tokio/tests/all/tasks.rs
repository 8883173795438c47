//! Tasks that read and write, beside others of tokio's.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::thread;
use std::time::Duration;

use exos::names::{Config, Families};
use exos_tokio::{Names, TcpListener, TcpStream, UdpSocket, block_on, lookup};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use crate::common::{ANY, PATIENCE, attach};

const CLIENTS: u32 = 40;

#[test]
fn many_tasks_echo_at_once() {
    let Some((net, ours, _)) = attach("many_tasks_echo_at_once") else {
        return;
    };
    let listener = TcpListener::bind(&net, ANY).unwrap();
    let at = SocketAddr::new(ours, listener.local_addr().unwrap().port());
    let (ended, end) = tokio::sync::oneshot::channel();
    let clients = thread::spawn(move || {
        let open = |_| std::net::TcpStream::connect_timeout(&at, PATIENCE).unwrap();
        let mut sockets: Vec<_> = (0..CLIENTS).map(open).collect();
        for round in 1..=3_u32 {
            let bytes = vec![round as u8; 5000 * round as usize];
            for socket in &mut sockets {
                socket.write_all(&bytes).unwrap();
            }
            for socket in &mut sockets {
                socket.set_read_timeout(Some(PATIENCE)).unwrap();
                let mut back = vec![0; bytes.len()];
                socket.read_exact(&mut back).unwrap();
                assert!(back == bytes);
            }
        }
        for socket in &mut sockets {
            socket.shutdown(Shutdown::Write).unwrap();
            assert_eq!(
                socket.read(&mut [0]).unwrap(),
                0,
                "the echo ends behind our end"
            );
        }
        ended.send(()).unwrap();
    });
    let serving = async {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::task::spawn_local(async move {
                let mut bytes = [0; 4096];
                loop {
                    let count = stream.read(&mut bytes).await.unwrap();
                    if count == 0 {
                        return;
                    }
                    stream.write_all(&bytes[..count]).await.unwrap();
                }
            });
        }
    };
    block_on(&net, async {
        tokio::select! {
            () = serving => {}
            ended = end => ended.unwrap(),
        }
    })
    .unwrap();
    clients.join().unwrap();
}

/// A future that is dropped between two polls has taken nothing, and the socket goes on.
#[test]
fn a_dropped_read_loses_nothing() {
    let Some((net, _, theirs)) = attach("a_dropped_read_loses_nothing") else {
        return;
    };
    let listener = std::net::TcpListener::bind((theirs, 0)).unwrap();
    let at = listener.local_addr().unwrap();
    let serving = thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        for byte in 0..50 {
            socket.write_all(&[byte]).unwrap();
            thread::sleep(Duration::from_millis(1));
        }
    });
    let all = block_on(&net, async {
        let mut stream = TcpStream::connect(&net, at).await.unwrap();
        let mut all = Vec::new();
        loop {
            let mut bytes = [0; 7];
            // Most of these run out of time.
            match timeout(Duration::from_micros(300), stream.read(&mut bytes)).await {
                Err(_) => {}
                Ok(Ok(0)) => break all,
                Ok(read) => all.extend_from_slice(&bytes[..read.unwrap()]),
            }
        }
    });
    serving.join().unwrap();
    assert_eq!(all.unwrap(), (0..50).collect::<Vec<u8>>());
}

/// A task that another thread wakes writes while the stack sleeps: what it wrote leaves at once.
#[test]
fn a_write_wakes_the_sleeping_stack() {
    let Some((net, _, theirs)) = attach("a_write_wakes_the_sleeping_stack") else {
        return;
    };
    let listener = std::net::TcpListener::bind((theirs, 0)).unwrap();
    let at = listener.local_addr().unwrap();
    let (wake, mut woken) = tokio::sync::mpsc::unbounded_channel();
    let serving = thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut times = Vec::new();
        for _ in 0..20 {
            // The stack has gone to sleep, for up to a second.
            thread::sleep(Duration::from_millis(5));
            let began = std::time::Instant::now();
            wake.send(()).unwrap();
            socket.read_exact(&mut [0]).unwrap();
            times.push(began.elapsed());
        }
        // Alone the longest sleep would bring it each time, or nothing at all. A machine that stands still brings a few late.
        let late = times.iter().filter(|it| it.as_millis() >= 900).count();
        assert!(late <= 3, "{times:?}");
    });
    block_on(&net, async {
        let mut stream = TcpStream::connect(&net, at).await.unwrap();
        while woken.recv().await.is_some() {
            stream.write_all(b"x").await.unwrap();
        }
    })
    .unwrap();
    serving.join().unwrap();
}

#[test]
fn errors_come_as_from_the_kernel() {
    let Some((net, _, theirs)) = attach("errors_come_as_from_the_kernel") else {
        return;
    };
    let listener = std::net::TcpListener::bind((theirs, 0)).unwrap();
    let at = listener.local_addr().unwrap();
    let resetting = thread::spawn(move || {
        let (socket, _) = listener.accept().unwrap();
        // What was not read makes the end a reset.
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.peek(&mut [0]).unwrap();
    });
    let (reset, refused) = block_on(&net, async {
        let mut stream = TcpStream::connect(&net, at).await.unwrap();
        stream.write_all(b"unread").await.unwrap();
        let reset = stream.read(&mut [0; 10]).await.unwrap_err();
        assert_eq!(
            stream.read(&mut [0; 10]).await.unwrap(),
            0,
            "an error is told once"
        );
        let broken = stream.write(b"more").await.unwrap_err();
        assert_eq!(broken.kind(), ErrorKind::BrokenPipe);
        // A port that no other test is given meanwhile.
        let nobody = SocketAddr::new(at.ip(), 1);
        (reset, TcpStream::connect(&net, nobody).await.unwrap_err())
    })
    .unwrap();
    resetting.join().unwrap();
    assert_eq!(reset.kind(), ErrorKind::ConnectionReset);
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn datagrams_are_awaited() {
    let Some((net, ours, theirs)) = attach("datagrams_are_awaited") else {
        return;
    };
    let socket = UdpSocket::bind(&net, ANY).unwrap();
    let at = SocketAddr::new(ours, socket.get_ref().local_addr().unwrap().port());
    let asking = thread::spawn(move || {
        let socket = std::net::UdpSocket::bind((theirs, 0)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.connect(at).unwrap();
        for text in ["hello", "", "again"] {
            socket.send(text.as_bytes()).unwrap();
            let mut bytes = [0; 100];
            let count = socket.recv(&mut bytes).unwrap();
            assert_eq!(&bytes[..count], text.as_bytes());
        }
    });
    block_on(&net, async {
        let mut bytes = [0; 100];
        for _ in 0..3 {
            let (count, from) = socket.recv_from(&mut bytes).await.unwrap();
            socket.send_to(&bytes[..count], from).unwrap();
        }
        // The last answer leaves with the next turn.
        tokio::task::yield_now().await;
    })
    .unwrap();
    net.turn().unwrap();
    asking.join().unwrap();
}

/// Polls both once, in this order.
async fn futures_are_pending(
    one: &mut (impl Future + Unpin),
    other: &mut (impl Future + Unpin),
) -> bool {
    std::future::poll_fn(|cx| {
        let one = std::pin::Pin::new(&mut *one).poll(cx).is_pending();
        let other = std::pin::Pin::new(&mut *other).poll(cx).is_pending();
        std::task::Poll::Ready(one && other)
    })
    .await
}

/// Two lookups at once share a resolver and, for one name, its queries. One is given up, the other goes on.
#[test]
fn names_are_awaited() {
    let Some((net, _, theirs)) = attach("names_are_awaited") else {
        return;
    };
    let server = std::net::UdpSocket::bind((theirs, 0)).unwrap();
    let mut config = Config::parse("nameserver 127.0.0.1", "", &|_| None);
    config.servers = vec![server.local_addr().unwrap()];
    let answering = thread::spawn(move || {
        let mut query = [0; 512];
        for _ in 0..2 {
            let (_, from) = server.recv_from(&mut query).unwrap();
            // There is no such name: the question alone, with the flags that say so.
            let end = 12 + query[12..].iter().position(|byte| *byte == 0).unwrap() + 5;
            (query[2], query[3]) = (0x81, 0x83);
            query[8..12].fill(0);
            server.send_to(&query[..end], from).unwrap();
        }
    });
    let names = Names::new(&net, config);
    let found = block_on(&net, async {
        let mut given_up = Box::pin(lookup(&names, "nowhere.example", Families::Both));
        let mut other = Box::pin(lookup(&names, "nowhere.example", Families::Both));
        assert!(futures_are_pending(&mut other, &mut given_up).await);
        // It was polled last: its task is the one that the sockets wake.
        drop(given_up);
        other.await
    });
    let missing = found.unwrap().unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound, "{missing}");
    answering.join().unwrap();
}

/// A name has two addresses, and nothing is at the first: the second answers.
#[test]
fn a_name_is_connected_to() {
    let Some((net, _, theirs)) = attach("a_name_is_connected_to") else {
        return;
    };
    let listener = std::net::TcpListener::bind((theirs, 0)).unwrap();
    let at = listener.local_addr().unwrap();
    let IpAddr::V4(address) = theirs else {
        panic!("the host's first address is IPv4");
    };
    let [a, b, c, d] = address.octets();
    let hosts = format!("{a}.{b}.{c}.{} peer\n{theirs} peer\n", d ^ 4);
    let names = Names::new(
        &net,
        Config::parse("nameserver 127.0.0.1", &hosts, &|_| None),
    );
    let answering = thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        socket.write_all(b"good day").unwrap();
    });
    let (peer, said, unknown) = block_on(&net, async {
        let mut stream = TcpStream::connect_name(&names, "peer", at.port())
            .await
            .unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).await.unwrap();
        let unknown = TcpStream::connect_name(&names, "peer..example", at.port()).await;
        (stream.peer_addr().unwrap(), said, unknown)
    })
    .unwrap();
    assert_eq!((peer, said.as_str()), (at, "good day"));
    assert!(unknown.is_err());
    answering.join().unwrap();
}
