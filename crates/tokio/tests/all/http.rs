//! hyper on our sockets: the example's server with a client of the kernel's, and hyper's client with a server of the kernel's.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::thread;

use exos_tokio::{LocalExecutor, TcpListener, TcpStream, block_on};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::rt::Executor as _;

use crate::common::{ANY, PATIENCE, attach};

#[path = "../../examples/hyper_server.rs"]
#[allow(dead_code)] // Its `main`.
mod hyper_server;

#[test]
fn a_hyper_server_serves_the_kernels_clients() {
    let Some((net, ours, _)) = attach("a_hyper_server_serves_the_kernels_clients") else {
        return;
    };
    let listener = TcpListener::bind(&net, ANY).unwrap();
    let at = SocketAddr::new(ours, listener.local_addr().unwrap().port());
    let (ended, end) = tokio::sync::oneshot::channel();
    let asking = thread::spawn(move || {
        let mut socket = std::net::TcpStream::connect_timeout(&at, PATIENCE).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut answers = Vec::new();
        for connection in ["keep-alive", "keep-alive", "close"] {
            write!(
                socket,
                "GET / HTTP/1.1\r\nHost: x\r\nConnection: {connection}\r\n\r\n"
            )
            .unwrap();
        }
        socket.read_to_end(&mut answers).unwrap();
        ended.send(()).unwrap();
        String::from_utf8(answers).unwrap()
    });
    block_on(&net, async {
        tokio::select! {
            ended = hyper_server::run(listener) => ended.unwrap(),
            ended = end => ended.unwrap(),
        }
    })
    .unwrap();
    let answers = asking.join().unwrap();
    assert_eq!(
        answers.matches("HTTP/1.1 200 OK\r\n").count(),
        3,
        "{answers}"
    );
    assert_eq!(answers.matches(&"x".repeat(1024)).count(), 3);
}

#[test]
fn hypers_client_asks_the_kernels_server() {
    let Some((net, _, theirs)) = attach("hypers_client_asks_the_kernels_server") else {
        return;
    };
    let listener = std::net::TcpListener::bind((theirs, 0)).unwrap();
    let at = listener.local_addr().unwrap();
    let body = "0123456789".repeat(50_000);
    let sent = body.clone();
    let serving = thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            socket.read_exact(&mut byte).unwrap();
            request.push(byte[0]);
        }
        write!(
            socket,
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{sent}",
            sent.len()
        )
        .unwrap();
        String::from_utf8(request).unwrap()
    });
    let got = block_on(&net, async {
        let stream = TcpStream::connect(&net, at).await.unwrap();
        let (mut sender, connection) = http1::handshake(stream).await.unwrap();
        LocalExecutor.execute(async move { connection.await.unwrap() });
        let request = hyper::Request::get("/path").header("Host", "x");
        let request = request.body(Empty::<Bytes>::new()).unwrap();
        let answer = sender.send_request(request).await.unwrap();
        answer.into_body().collect().await.unwrap().to_bytes()
    });
    assert!(
        serving
            .join()
            .unwrap()
            .starts_with("GET /path HTTP/1.1\r\n")
    );
    assert!(got.unwrap() == body.as_bytes());
}
