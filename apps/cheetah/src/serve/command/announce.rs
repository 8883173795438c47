//! What a person is told at the start: what is served, and where.

use std::io::Write as _;
use std::time::Duration;

use exos::{Error, Exos};
use exos_program::{Stream, inside_hint, reachable_addresses};

use crate::config::Config;
use crate::serve::on_packets::StackServer;
use crate::serve::options::place_of_addresses;
use crate::serve::server_loop::Carried as _;
use crate::serve::sites;

/// Tell a person where the site is, which is inside of a user namespace or not.
pub(in crate::serve) fn announce(
    server: &StackServer,
    config: &Config,
    is_inside: bool,
    cores: &[usize],
) -> Result<(), Error> {
    let (exos, place) = (&server.exos, place_of_addresses(config));
    for line in sites::describe(config, server.cheetah().server().sites()) {
        exos_program::info!("exos serve: {line}");
    }
    if cores.len() > 1 {
        let cores = sites::list(cores);
        exos_program::info!("exos serve: on cores {cores}, which share the interface's queues");
    }
    exos_program::info!("exos serve: {}", exos.describe_link());
    for address in reachable_addresses(exos) {
        let url = url(address, config.port);
        match place {
            Stream::Output => exos_program::say!("{url}"),
            Stream::Error => exos_program::info!("exos serve: {url}"),
        }
    }
    if is_inside {
        show_from_inside(exos, config.port)?;
    }
    Ok(())
}

pub(in crate::serve) fn url(ip: std::net::IpAddr, port: u16) -> String {
    let host = if ip.is_ipv6() {
        format!("[{ip}]")
    } else {
        ip.to_string()
    };
    if port == 80 {
        format!("http://{host}/")
    } else {
        format!("http://{host}:{port}/")
    }
}

/// Without privilege the site is inside a user namespace: say how to get there, and show from a
/// thread inside that it answers the kernel's own TCP.
fn show_from_inside(exos: &Exos, port: u16) -> Result<(), Error> {
    let Some(ip) = exos
        .stack
        .addresses()
        .iter()
        .map(|a| a.addr)
        .find(std::net::IpAddr::is_ipv4)
    else {
        return Ok(());
    };
    exos_program::info!(
        "exos serve: without root this runs over a TAP device in a user namespace; AF_XDP needs root (sudo)"
    );
    exos_program::info!("exos serve: from another terminal of yours:");
    let fetch = format!("curl -i {}", url(ip, port));
    exos_program::info!("    {}", inside_hint(&fetch));
    let address = std::net::SocketAddr::new(ip, port);
    std::thread::Builder::new()
        .name("first-request".into())
        .spawn(move || match first_request(address) {
            Ok(answer) => {
                exos_program::info!("exos serve: a kernel socket inside was answered:\n{answer}")
            }
            Err(e) => {
                exos_program::warn!("exos serve: a kernel socket inside was not answered: {e}")
            }
        })
        .map_err(|e| Error::io("cannot start a thread", e))?;
    Ok(())
}

/// Fetch the first page with the kernel's TCP; gives the head and the page's title.
fn first_request(address: std::net::SocketAddr) -> std::io::Result<String> {
    use std::io::Read as _;
    let mut socket = std::net::TcpStream::connect_timeout(&address, Duration::from_secs(30))?;
    socket.set_read_timeout(Some(Duration::from_secs(30)))?;
    write!(
        socket,
        "GET / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let title = body
        .split_once("<title>")
        .and_then(|(_, rest)| rest.split_once("</title>"))
        .map_or("", |t| t.0);
    let head: Vec<String> = head.lines().map(|line| format!("    {line}")).collect();
    Ok(format!(
        "{}\n    ({} bytes, titled {title:?})",
        head.join("\n"),
        body.len()
    ))
}
