//! A server that does with each connection what a script says, on threads of its own, and counts what it was asked.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::net::{Shutdown, sockopt};

/// What is done with a connection; its end is the connection's.
pub type Script = fn(&mut Peer);

/// A connection's client.
pub struct Peer {
    stream: TcpStream,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    connections: AtomicU64,
    requests: AtomicU64,
}

impl Peer {
    /// Takes in the next request, which has no body, and says its number on the server, from zero; `None` when the client
    /// has had enough.
    pub fn request(&mut self) -> Option<u64> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            match self.stream.read(&mut byte) {
                Ok(1..) => head.push(byte[0]),
                Ok(0) | Err(_) => return None,
            }
        }
        Some(self.counts.requests.fetch_add(1, Ordering::SeqCst))
    }

    /// Says this. A client that has gone does not hear it.
    pub fn say(&mut self, text: &str) {
        let _ = self.stream.write_all(text.as_bytes());
    }

    /// Says this and finishes, in one segment.
    pub fn say_last(&mut self, text: &str) {
        sockopt::set_tcp_cork(&self.stream, true).expect("a socket of TCP");
        self.say(text);
        let _ = rustix::net::shutdown(&self.stream, Shutdown::Write);
    }

    /// Waits until the client has gone.
    pub fn hold(&mut self) {
        while self.stream.read(&mut [0; 512]).is_ok_and(|n| n > 0) {}
    }

    pub fn sleep(&mut self, millis: u64) {
        std::thread::sleep(Duration::from_millis(millis));
    }

    /// The connection ends with a reset.
    pub fn reset(&mut self) {
        let at_once = Some(Duration::ZERO);
        sockopt::set_socket_linger(&self.stream, at_once).expect("a socket of TCP");
    }
}

/// The server.
pub struct Server {
    listener: Arc<TcpListener>,
    accepting: JoinHandle<Vec<JoinHandle<()>>>,
    counts: Arc<Counts>,
}

impl Server {
    pub fn start(script: Script) -> Self {
        let listener = TcpListener::bind("0.0.0.0:0").expect("a port is free");
        let listener = Arc::new(listener);
        let counts = Arc::new(Counts::default());
        let (all, counted) = (Arc::clone(&listener), Arc::clone(&counts));
        let accepting = std::thread::spawn(move || {
            let mut served = Vec::new();
            while let Ok((stream, _)) = all.accept() {
                stream.set_nodelay(true).expect("a socket of TCP");
                counted.connections.fetch_add(1, Ordering::SeqCst);
                let counts = Arc::clone(&counted);
                let mut peer = Peer { stream, counts };
                served.push(std::thread::spawn(move || script(&mut peer)));
            }
            served
        });
        Self {
            listener,
            accepting,
            counts,
        }
    }

    pub fn url(&self) -> String {
        let port = self.listener.local_addr().expect("it is bound").port();
        format!("http://127.0.0.1:{port}/")
    }

    /// Ends it; how many connections and requests there were.
    pub fn end(self) -> (u64, u64) {
        rustix::net::shutdown(&*self.listener, Shutdown::Both).expect("it listens");
        for served in self.accepting.join().expect("it accepts to the end") {
            served.join().expect("a script ends well");
        }
        let count = |of: &AtomicU64| of.load(Ordering::SeqCst);
        (
            count(&self.counts.connections),
            count(&self.counts.requests),
        )
    }
}
