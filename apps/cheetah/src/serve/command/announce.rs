//! What a person is told at the start: what is served, and where.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::IpAddr;
use std::time::Duration;

use exos::{Error, Exos};
use exos_program::{Stream, inside_hint};

use super::interfaces::Interface;
use super::options::place_of_addresses;
use crate::applications::Address;
use crate::config::{Config, Root, SiteConfig};
use crate::connections::Carried as _;
use crate::serve::cores::on_packets::StackServer;
use crate::site::hosts::{HostName, Unknown};
use crate::site::{Site, Sites};

/// Upstreams of a site that are told.
const UPSTREAMS_SHOWN: usize = 8;

/// Tell a person where the site is, which is inside of a user namespace or not.
pub(super) fn announce(
    server: &StackServer,
    config: &Config,
    is_inside: bool,
    interfaces: &[Interface],
) -> Result<(), Error> {
    let (exos, place) = (&server.exos, place_of_addresses(config));
    for line in describe(config, server.cheetah().server().sites()) {
        exos_program::info!("exos serve: {line}");
    }
    if config.in_kernel && server.cheetah().server().sites().has_access_rules() {
        exos_program::warn!(
            "exos serve: the kernel answers no requests for paths that rules of access are about"
        );
    }
    for interface in interfaces {
        tell_of(interface, interfaces.len() == 1);
        for address in &interface.addresses {
            say(place, &url(*address, config.port));
            if let Some(tls) = &config.tls {
                say(place, &https_url(*address, tls.port));
            }
        }
    }
    if is_inside {
        show_from_inside(exos, config.port)?;
    }
    Ok(())
}

/// An address of the site.
pub(super) fn say(place: Stream, url: &str) {
    match place {
        Stream::Output => exos_program::say!("{url}"),
        Stream::Error => exos_program::info!("exos serve: {url}"),
    }
}

/// What the interface is, and which cores have it.
fn tell_of(interface: &Interface, is_alone: bool) {
    let (cores, description) = (list(&interface.cores), &interface.description);
    match &interface.cores[..] {
        [_, _, ..] if is_alone => {
            exos_program::info!("exos serve: on cores {cores}, each with a share of what comes");
        }
        [_, _, ..] => {
            return exos_program::info!(
                "exos serve: {description}, on cores {cores}, which share its queues"
            );
        }
        _ if is_alone => {}
        _ => return exos_program::info!("exos serve: {description}, on core {cores}"),
    }
    exos_program::info!("exos serve: {description}");
}

/// Numbers for people.
pub(super) fn list(cores: &[usize]) -> String {
    let cores: Vec<String> = cores.iter().map(usize::to_string).collect();
    cores.join(", ")
}

/// What is served, for people, a line for each site.
pub(super) fn describe(config: &Config, sites: &Sites) -> Vec<String> {
    let sites = config.sites.iter().zip(sites.iter()).enumerate();
    let line = |(at, (site, loaded)): (usize, (&SiteConfig, &Site))| {
        let is_alone = config.sites.len() == 1 && config.unknown_hosts == Unknown::Default;
        let names: Vec<String> = site.names.iter().map(HostName::to_string).collect();
        let default = (at == config.default_site).then(|| "other hosts".to_owned());
        let default = default.filter(|_| config.unknown_hosts == Unknown::Default);
        let names: Vec<String> = names.into_iter().chain(default).collect();
        match is_alone {
            true => describe_one(site, loaded),
            false => format!("{}: {}", names.join(", "), describe_one(site, loaded)),
        }
    };
    sites.map(line).collect()
}

fn describe_one(site: &SiteConfig, loaded: &Site) -> String {
    let documents = describe_documents(site, loaded);
    let rules = site.settings.applications.iter();
    let upstreams: BTreeSet<String> = rules
        .filter(|rule| rule.application.proxy.is_some())
        .flat_map(|rule| rule.application.addresses.iter().map(Address::to_string))
        .collect();
    match upstreams.len() {
        0 => documents,
        count => {
            let shown: Vec<String> = upstreams.into_iter().take(UPSTREAMS_SHOWN).collect();
            let more = if count > UPSTREAMS_SHOWN { ", ..." } else { "" };
            format!("{documents}; by upstreams: {}{more}", shown.join(", "))
        }
    }
}

fn describe_documents(site: &SiteConfig, loaded: &Site) -> String {
    let (listed, listed_len) = loaded.listed();
    let count = loaded.document_count() + listed;
    let megabytes = (loaded.content_len() + listed_len) as f64 / 1e6;
    match &site.root {
        Root::Directory(d) if listed > 0 => format!(
            "{count} documents of {}, {megabytes:.1} MB; {listed} of them are read when they are asked for",
            d.display()
        ),
        Root::Directory(d) => format!("{count} documents of {}, {megabytes:.1} MB", d.display()),
        Root::Example => format!("the example site, {count} documents, {megabytes:.1} MB"),
        Root::Nowhere => "no documents".to_owned(),
    }
}

pub(super) fn url(ip: IpAddr, port: u16) -> String {
    let host = host(ip);
    if port == 80 {
        format!("http://{host}/")
    } else {
        format!("http://{host}:{port}/")
    }
}

pub(super) fn https_url(ip: IpAddr, port: u16) -> String {
    let host = host(ip);
    match port {
        443 => format!("https://{host}/"),
        port => format!("https://{host}:{port}/"),
    }
}

fn host(ip: IpAddr) -> String {
    match ip.is_ipv6() {
        true => format!("[{ip}]"),
        false => ip.to_string(),
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
