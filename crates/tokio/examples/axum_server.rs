//! An HTTP server: axum on several cores, with a stack and a tokio runtime to each, on an interface pair of its own.
//!
//! `cargo build -p exos-tokio --example axum_server`, then `sudo target/debug/examples/axum_server 80 2`: it serves by two cores, and
//! says at which address. `curl http://ADDRESS/core` several times.
//!
//! axum asks for listeners and streams that may go to another thread (`Send`). Ours stay in the thread of their stack, and so do
//! axum's tasks, whose runtime is of that thread: [`SendWrapper`] promises it, and panics if it were not so.

use std::env::args;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::thread;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use axum::serve::Listener;
use exos::{Exos, OwnPair};
use exos_tokio::{Net, TcpListener, TcpStream};
use send_wrapper::SendWrapper;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// A listener of this thread's, for axum.
struct OfThread(SendWrapper<TcpListener>);

impl Listener for OfThread {
    type Io = Stream;
    type Addr = SocketAddr;

    fn accept(&mut self) -> impl Future<Output = (Stream, SocketAddr)> + Send {
        SendWrapper::new(async {
            let (stream, peer) = self.0.accept().await.expect("it has no errors");
            (Stream(SendWrapper::new(stream)), peer)
        })
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// A connection of this thread's.
struct Stream(SendWrapper<TcpStream>);

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        AsyncRead::poll_read(Pin::new(&mut *self.0), cx, into)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        AsyncWrite::poll_write(Pin::new(&mut *self.0), cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_flush(Pin::new(&mut *self.0), cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_shutdown(Pin::new(&mut *self.0), cx)
    }
}

/// What is served: which core has the connection, and how many requests all cores have answered.
fn pages(core: usize, answered: &Arc<AtomicU64>) -> Router {
    let name = move || async move { format!("core {core}\n") };
    let count = |State(answered): State<Arc<AtomicU64>>| async move {
        format!("{}\n", answered.fetch_add(1, Ordering::Relaxed) + 1)
    };
    let routes = Router::new().route("/core", get(name));
    let routes = routes.route("/count", get(count));
    routes.with_state(Arc::clone(answered))
}

/// Serves on all cores until `end` is told. The first core stays in this thread.
pub fn run(mut first: Exos, port: u16, end: &watch::Receiver<()>) -> Result<(), Error> {
    let others = first.take_cores();
    let answered = Arc::new(AtomicU64::new(0));
    let answered = &answered;
    thread::scope(|scope| {
        let threads: Vec<_> = (2..)
            .zip(others)
            // A stack cannot move between threads: `start` makes it in the thread that it is to stay in.
            .map(|(core, stack)| {
                let (end, pages) = (end.clone(), pages(core, answered));
                scope.spawn(move || serve(stack.start()?, port, pages, end))
            })
            .collect();
        serve(first, port, pages(1, answered), end.clone())?;
        let mut ends = threads.into_iter().map(|thread| thread.join());
        ends.try_for_each(|end| end.expect("no core panics"))
    })
}

/// One core: its stack, its runtime, and axum as ever.
fn serve(exos: Exos, port: u16, pages: Router, mut end: watch::Receiver<()>) -> Result<(), Error> {
    let net = Net::new(exos);
    let listener = TcpListener::bind(&net, (Ipv4Addr::UNSPECIFIED, port))?;
    exos_tokio::block_on(&net, async {
        axum::serve(OfThread(SendWrapper::new(listener)), pages)
            .with_graceful_shutdown(async move {
                // Also where nobody is left to tell it.
                let _ = end.changed().await;
            })
            .await
    })??;
    Ok(())
}

fn main() -> Result<(), Error> {
    let usage = "usage: axum_server PORT CORES";
    let port = args().nth(1).ok_or(usage)?.parse()?;
    let cores = args().nth(2).ok_or(usage)?.parse()?;
    let exos = Exos::attach(OwnPair::new().with_cores(cores))?;
    for address in exos.stack.addresses() {
        println!("serving at http://{}/", SocketAddr::new(address.addr, port));
    }
    let (_to_end, end) = watch::channel(());
    run(exos, port, &end)
}
