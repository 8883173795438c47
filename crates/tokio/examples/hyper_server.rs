//! An HTTP server: hyper on a stack of its own.
//!
//! `cargo build -p exos-tokio --example hyper_server`, then `sudo target/debug/examples/hyper_server 80`: it serves on an
//! interface pair of its own, and says at which address. `hyper_server 80 eth0` serves at the addresses of that interface, beside
//! the host, and `hyper_server 80 --kernel` by the kernel's sockets, to compare.

use std::convert::Infallible;
use std::env::args;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use exos::{Attachment, OwnPair, Role, SharedInterface};
use exos_tokio::{Net, TcpListener};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};

/// What is served, at every path.
const DOCUMENT: [u8; 1024] = [b'x'; 1024];

async fn answer(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::new(Bytes::from_static(&DOCUMENT))))
}

/// Serves one connection. What goes wrong with it is its client's concern.
async fn serve(io: impl hyper::rt::Read + hyper::rt::Write + Unpin + 'static) {
    let _ = http1::Builder::new()
        .serve_connection(io, service_fn(answer))
        .await;
}

/// Serves all who connect, for ever.
pub async fn run(listener: TcpListener) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::task::spawn_local(serve(stream));
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let usage = "usage: hyper_server PORT [INTERFACE | --kernel]";
    let port: u16 = args().nth(1).ok_or(usage)?.parse()?;
    let link: Attachment = match args().nth(2).as_deref() {
        None => OwnPair::new().into(),
        Some("--kernel") => return by_the_kernel(port),
        Some(interface) => SharedInterface::new(interface, Role::Serve(vec![port])).into(),
    };
    let net = Net::attach(link)?;
    let listener = TcpListener::bind(&net, (Ipv4Addr::UNSPECIFIED, port))?;
    let ours: Option<IpAddr> = net.with(|exos| exos.stack.addresses().first().map(|a| a.addr));
    println!(
        "serving at http://{}/",
        SocketAddr::new(ours.ok_or("no address")?, port)
    );
    exos_tokio::block_on(&net, run(listener))??;
    Ok(())
}

/// What `main` does, on tokio's own sockets and the same kind of runtime.
fn by_the_kernel(port: u16) -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let tasks = tokio::task::LocalSet::new();
    tasks.block_on(&runtime, async {
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await?;
        println!("serving by the kernel's sockets at port {port}");
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tokio::task::spawn_local(serve(hyper_util::rt::TokioIo::new(stream)));
        }
    })
}
