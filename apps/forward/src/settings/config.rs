//! The configuration file of `exos forward --config`: all that the command line says, in TOML.
//!
//! It becomes the same [`Wanted`] as the command line does. Every error names its line; all are told at once.
//! `dist/forward.toml` has every key, and `docs/forward.md` what they mean.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use clap::ValueEnum;
use exos_program::config::link::{CORES_MAX, LinkTables, links};
use exos_program::config::{ConfigErrors, Number, Source, Text, tables, text_of, user};
use exos_program::units::parse_duration;
use serde::Deserialize;
use toml::Spanned;

use crate::health::{Ask, Codes, HealthArgs};
use crate::limits::{CHECKS_IN_A_ROW_MAX, CONFIG_LEN_MAX, FLOWS_DEFAULT, FLOWS_MAX, RESOLVE_EVERY};
use crate::settings::wanted::{Service, Wanted};
use crate::settings::written::{ListenAddress, Named, To, interval};

/// The whole file.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(super) struct File {
    flows: Option<Number>,
    pub(super) keep: Option<Text>,
    pub(super) control: Option<Text>,
    in_kernel: bool,
    user: Option<Text>,
    pub(super) metrics: Option<Text>,
    balance: Option<Text>,
    affinity: Option<Text>,
    no_server: Option<Text>,
    resolve: Option<Text>,
    pub(super) link: LinkTables,
    check: Option<Spanned<CheckTable>>,
    passive: PassiveTable,
    pub(super) service: Vec<Spanned<ServiceTable>>,
}

/// `[check]`: how servers are checked.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default, expecting = "a table: [check]")]
pub(super) struct CheckTable {
    how: Option<Text>,
    port: Option<Number>,
    interval: Option<Text>,
    timeout: Option<Text>,
    rise: Option<Number>,
    fall: Option<Number>,
    host: Option<Text>,
    status: Option<Text>,
    body: Option<Text>,
}

/// `[passive]`: when servers rest.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default, expecting = "a table: [passive]")]
pub(super) struct PassiveTable {
    failures: Option<Number>,
    window: Option<Text>,
    rest: Option<Text>,
}

/// `[[service]]`: where clients come to, and the servers there.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default, expecting = "a table: [[service]]")]
pub(super) struct ServiceTable {
    pub(super) listen: Vec<Text>,
    reach: Option<Text>,
    pub(super) to: Vec<Text>,
}

/// What a file wants.
///
/// # Errors
///
/// All that is wrong with it.
pub fn read(file: &Path) -> Result<Wanted, ConfigErrors> {
    parse(file, &text_of(file, CONFIG_LEN_MAX)?)
}

/// What a text wants.
#[cfg(test)]
pub fn of_text(text: &str) -> Result<Wanted, ConfigErrors> {
    parse(Path::new("f.toml"), text)
}

/// What the text of a file wants.
pub(super) fn parse(file: &Path, text: &str) -> Result<Wanted, ConfigErrors> {
    let source = Source::new(file, text);
    let tables: File = tables::read(&source);
    let flows = tables.flows.as_ref();
    let flows = flows.and_then(|n| source.number(n, 1, i64::from(FLOWS_MAX)));
    let wanted = Wanted {
        user: user(&source, tables.user.as_ref()),
        links: links(&source, &tables.link).into(),
        cores: cores(&source, &tables.link),
        flows: flows.map_or(FLOWS_DEFAULT, |n| n as u32),
        keep: tables.keep.as_ref().map(|path| path.get_ref().into()),
        control: tables.control.as_ref().map(|path| path.get_ref().into()),
        in_kernel: tables.in_kernel,
        metrics: metrics_at(&source, tables.metrics.as_ref()),
        balance: choice(&source, tables.balance.as_ref()),
        affinity: choice(&source, tables.affinity.as_ref()),
        no_server: choice(&source, tables.no_server.as_ref()),
        resolve: resolve(&source, tables.resolve.as_ref()),
        health: health(&source, tables.check.as_ref(), &tables.passive),
        services: tables.service.iter().map(|s| service(&source, s)).collect(),
    };
    if wanted.services.is_empty() {
        source.note_missing_whole("there is nothing to forward; add a [[service]]");
    }
    source.finish(wanted)
}

/// `cores` of `[link]`.
fn cores(source: &Source, tables: &LinkTables) -> Option<u32> {
    let cores = source.number(tables.first()?.cores.as_ref()?, 1, CORES_MAX);
    cores.map(|cores| cores as u32)
}

fn service(source: &Source, table: &Spanned<ServiceTable>) -> Service {
    let ServiceTable { listen, reach, to } = table.get_ref();
    for (list, what) in [
        (listen, "listen = [\"192.0.2.7:80\"]"),
        (to, "to = [\"192.0.2.8\"]"),
    ] {
        if list.is_empty() {
            source.note_missing(
                &table.span(),
                format!("the service is not whole; add {what}"),
            );
        }
    }
    let listen = listen.iter();
    let listen = listen.filter_map(|text| source.value(text, str::parse::<ListenAddress>));
    let to = to.iter().filter_map(|text| {
        Some(match source.value(text, str::parse::<To>)? {
            To::Named(named) => To::Named(Named {
                line: source.line(&text.span()),
                ..named
            }),
            at => at,
        })
    });
    Service::new(listen.collect(), choice(source, reach.as_ref()), to)
}

fn resolve(source: &Source, text: Option<&Text>) -> Duration {
    let given = text.and_then(|text| source.value(text, interval));
    given.unwrap_or_else(|| interval(RESOLVE_EVERY).expect("a time"))
}

fn metrics_at(source: &Source, text: Option<&Text>) -> Option<SocketAddr> {
    source.value(text?, |text: &str| {
        let help = || format!("{text:?} is no place; write for example 127.0.0.1:9102");
        text.parse::<SocketAddr>().map_err(|_| help())
    })
}

/// One of the values that an option has.
fn choice<T: ValueEnum + Default>(source: &Source, text: Option<&Text>) -> T {
    let parse = |text: &str| {
        T::from_str(text, false).map_err(|_| {
            let all = T::value_variants().iter().filter_map(T::to_possible_value);
            let names: Vec<String> = all.map(|v| format!("{:?}", v.get_name())).collect();
            format!("{text:?} is not known here; write {}", names.join(" or "))
        })
    };
    text.and_then(|text| source.value(text, parse))
        .unwrap_or_default()
}

fn health(
    source: &Source,
    check: Option<&Spanned<CheckTable>>,
    passive: &PassiveTable,
) -> HealthArgs {
    let mut health = HealthArgs::default();
    if let Some(table) = check {
        active(source, table, &mut health);
    }
    let PassiveTable {
        failures,
        window,
        rest,
    } = passive;
    let failures = failures.as_ref();
    let failures = failures.and_then(|n| source.number(n, 0, i64::from(CHECKS_IN_A_ROW_MAX)));
    health.passive = failures.map_or(health.passive, |n| n as u32);
    health.passive_window = duration(source, window).unwrap_or(health.passive_window);
    health.passive_rest = duration(source, rest).unwrap_or(health.passive_rest);
    health
}

/// Checks that are made of servers, rather than drawn from what clients do.
fn active(source: &Source, table: &Spanned<CheckTable>, health: &mut HealthArgs) {
    let CheckTable {
        how,
        port,
        interval,
        timeout,
        rise,
        fall,
        host,
        status,
        body,
    } = table.get_ref();
    match how {
        Some(how) => health.check = source.value(how, str::parse::<Ask>).map(Some),
        None => source.note_missing(&table.span(), "add how = \"tcp\", or \"http:/PATH\""),
    }
    let port = port.as_ref();
    let port = port.and_then(|n| source.number(n, 1, i64::from(u16::MAX)));
    health.check_port = port.map(|port| port as u16);
    health.check_interval = duration(source, interval).unwrap_or(health.check_interval);
    health.check_timeout = duration(source, timeout);
    let count = |n: &Number| source.number(n, 1, i64::from(CHECKS_IN_A_ROW_MAX));
    let counts = [
        (rise, &mut health.check_rise),
        (fall, &mut health.check_fall),
    ];
    for (given, value) in counts {
        *value = given.as_ref().and_then(count).map_or(*value, |n| n as u32);
    }
    let given = |text: &Option<Text>, read: fn(&str) -> Result<String, String>| {
        text.as_ref().and_then(|t| source.value(t, read))
    };
    health.check_host = given(host, crate::health::word);
    health.check_body = given(body, crate::health::text);
    let codes = status.as_ref();
    let codes = codes.and_then(|t| source.value(t, str::parse::<Codes>));
    if let Some(codes) = codes {
        health.check_status = codes;
    }
    if let Err(error) = health.rule() {
        source.note(&table.span(), error.to_string());
    }
}

fn duration(source: &Source, text: &Option<Text>) -> Option<Duration> {
    source.value(text.as_ref()?, parse_duration)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forwarder::NoServer;
    use crate::packets::reach::Reach;
    use crate::service::Balance;

    const EXAMPLE: &str = include_str!("../../../../dist/forward.toml");

    fn errors(text: &str) -> Vec<(usize, String)> {
        let errors = parse(Path::new("f.toml"), text).err().map(|e| e.errors);
        let errors = errors.into_iter().flatten();
        errors.map(|e| (e.line, e.what)).collect()
    }

    /// The example is whole: what it says is what the options say when they are left out, but for what has no default.
    #[test]
    fn the_example_stands() {
        let wanted = parse(Path::new("dist/forward.toml"), EXAMPLE).unwrap();
        assert_eq!(
            (wanted.flows, wanted.balance),
            (FLOWS_DEFAULT, Balance::Maglev)
        );
        assert_eq!(wanted.no_server, NoServer::Reset);
        assert!(!wanted.in_kernel);
        assert_eq!(interval(RESOLVE_EVERY), Ok(wanted.resolve));
        assert_eq!(wanted.services.len(), 2);
        assert_eq!(wanted.services[0].reach, Reach::Nat);
        let plain = HealthArgs::default();
        assert_eq!(wanted.health.check_interval, plain.check_interval);
        assert_eq!(wanted.health.check_status, plain.check_status);
        assert_eq!(wanted.health.passive_rest, plain.passive_rest);
        assert!(wanted.health.rule().unwrap().is_some());
    }

    /// Each of several links has its own.
    #[test]
    fn links_have_tables_of_their_own() {
        let text = "[[link]]\nname = \"xdp:eth0\"\naddresses = [\"10.0.0.7/24\"]\ngateways = [\"10.0.0.1\"]\ncore = 1\n\
                    [[link]]\nname = \"xdp:eth1\"\naddresses = [\"10.0.1.7/24\", \"fd00::7/64\"]\n\
                    [[service]]\nlisten = [\"10.0.0.7:80\"]\nto = [\"10.0.1.8\"]\n";
        let links = of_text(text).unwrap().links;
        let of = |link: &exos_program::LinkArgs| (link.address.len(), link.gateway.len());
        let all: Vec<_> = links.all().iter().map(of).collect();
        assert_eq!(all, [(1, 1), (2, 0)]);
        assert_eq!(links.first().core, [1]);
    }

    /// Several cores are named, or counted.
    #[test]
    fn a_file_says_on_which_cores() {
        let service = "[[service]]\nlisten = [\"10.0.0.1:80\"]\nto = [\"10.0.0.2\"]\n";
        let allowed = [0, 2, 3];
        for (link, wanted) in [
            ("", &[][..]),
            ("core = 3\n", &[3]),
            ("cores = 2\n", &[0, 2]),
            ("cores = 2\ncore = 2\n", &[2, 3]),
            ("core = [3, 0]\n", &[3, 0]),
        ] {
            let read = of_text(&format!("{service}[link]\n{link}")).unwrap();
            assert_eq!(read.places(&allowed).unwrap(), wanted, "{link}");
        }
        let many = of_text(&format!("{service}[link]\ncores = 4\n")).unwrap();
        let refused = many.places(&allowed).unwrap_err().to_string();
        assert!(refused.contains("give --cores 3"), "{refused}");
    }

    #[test]
    fn every_error_names_its_line_and_what_to_write() {
        let service = "[[service]]\nlisten = [\"10.0.0.1:80\"]\nto = [\"10.0.0.2\"]\n";
        for (text, line, said) in [
            ("", 0, "add a [[service]]"),
            ("[[service]]\nto = [\"10.0.0.2\"]\n", 1, "add listen ="),
            (
                "[[service]]\nlisten = [\"x\"]\nto = [\"10.0.0.2\"]\n",
                2,
                "192.0.2.7:80",
            ),
            (
                "[[service]]\nlisten = [\"10.0.0.1:80\"]\nto = [\"10.0.0.2,x\"]\n",
                3,
                "weight",
            ),
            (
                &format!("colour = 1\n{service}"),
                1,
                "there is no key `colour` here",
            ),
            (
                &format!("user = \"nobody-of-this-name\"\n{service}"),
                1,
                "there is no user",
            ),
            (
                &format!("in_kernel = \"yes\"\n{service}"),
                1,
                "true or false",
            ),
            (&format!("flows = 0\n{service}"), 1, "from 1 to 16777216"),
            (
                &format!("flows = \"many\"\n{service}"),
                1,
                "write a whole number",
            ),
            (
                &format!("affinity = \"port\"\n{service}"),
                1,
                "\"connection\" or \"client\"",
            ),
            (
                &format!("resolve = \"often\"\n{service}"),
                1,
                "or 0 for never",
            ),
            (
                "[[service]]\nlisten = [\"10.0.0.1:80\"]\nto = [\"web:0\"]\n",
                3,
                "is no server",
            ),
            (
                &format!("metrics = \"9102\"\n{service}"),
                1,
                "127.0.0.1:9102",
            ),
            (
                &format!("balance = \"fair\"\n{service}"),
                1,
                "\"maglev\" or \"least\" or \"round-robin\"",
            ),
            (
                &format!("{service}reach = \"fast\"\n"),
                4,
                "\"nat\" or \"transparent\" or \"direct\" or \"tunnel\"",
            ),
            (&format!("{service}[check]\nport = 80\n"), 4, "add how ="),
            (
                &format!("{service}[check]\nhow = \"udp\"\n"),
                5,
                "tcp or http:/PATH",
            ),
            (
                &format!("{service}[check]\nhow = \"tcp\"\ntimeout = \"9s\"\n"),
                4,
                "before the next begins",
            ),
            (
                &format!("{service}[check]\nhow = \"tcp\"\ninterval = \"often\"\n"),
                6,
                "as 20ms does",
            ),
            (
                &format!("{service}[check]\nhow = \"http:/\"\nbody = \"\"\n"),
                6,
                "write the text to look for",
            ),
            (
                &format!("{service}[check]\nhow = \"http:/\"\nhost = \"a\\r\\nX: y\"\n"),
                6,
                "is no host",
            ),
            (
                &format!("{service}[passive]\nfailures = 1001\n"),
                5,
                "from 0 to 1000",
            ),
            (&format!("{service}[link]\ncores = 0\n"), 5, "from 1 to"),
            (
                &format!("{service}[link]\naddresses = [\"here\"]\n"),
                5,
                "here",
            ),
            (&format!("{service}[link]\ncolour = 1\n"), 5, "no key"),
            (
                &format!("{service}[[link]]\n[[link]]\ncolour = 1\n"),
                6,
                "no key",
            ),
            (
                &format!("{service}[[link]]\n[[link]]\ncore = 1\n"),
                6,
                "in the first [[link]]",
            ),
            (
                &format!("link = \"xdp:eth0\"\n{service}"),
                1,
                "write a table: [link]",
            ),
        ] {
            let all = errors(text);
            let found = all
                .iter()
                .any(|(at, what)| *at == line && what.contains(said));
            assert!(found, "{text}: {all:?}");
        }
    }
}
