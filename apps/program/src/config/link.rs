//! The link: `[link]`, which says what the flags of every program say.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use exos::{Prefixed, Route};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::source::Source;
use super::spanned::{Number, Text};
use crate::{LinkArgs, LinkName, NamedLink, ViaName, mode};

/// More cores than any machine has.
pub const CORES_MAX: i64 = 4096;

/// A number, or several.
#[derive(Deserialize)]
#[serde(untagged, expecting = "write a number, or a list of such")]
pub enum Numbers {
    /// One.
    One(i64),
    /// Several.
    Many(Vec<i64>),
}

/// `[link]`: where packets come from.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default, expecting = "a table: [link]")]
pub struct LinkTable {
    /// `--link`.
    pub name: Option<Text>,
    /// `--via`.
    pub via: Option<Text>,
    /// `--mode`.
    pub mode: Option<Text>,
    /// `--xokd`.
    pub xokd: Option<String>,
    /// `--address`.
    pub addresses: Vec<Text>,
    /// `--gateway`.
    pub gateways: Vec<Text>,
    /// `--route`.
    pub routes: Vec<Text>,
    /// `--share-address`.
    pub share_address: bool,
    /// `--reuse-port`.
    pub reuse_port: bool,
    /// Without: `--no-segmentation`.
    pub segmentation: Option<bool>,
    /// `--core`.
    pub core: Option<Spanned<Numbers>>,
    /// On how many cores a program runs that can run on several.
    pub cores: Option<Number>,
}

/// `[link]`, or a `[[link]]` for each of several, for a program that runs on several.
#[derive(Default)]
pub struct LinkTables(pub Vec<LinkTable>);

impl<'de> Deserialize<'de> for LinkTables {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrSeveral;

        impl<'de> Visitor<'de> for OneOrSeveral {
            type Value = LinkTables;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table: [link], or [[link]] for each of several")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<LinkTables, A::Error> {
                let table = LinkTable::deserialize(MapAccessDeserializer::new(map))?;
                Ok(LinkTables(vec![table]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut tables: A) -> Result<LinkTables, A::Error> {
                let mut all = Vec::new();
                while let Some(table) = tables.next_element()? {
                    all.push(table);
                }
                Ok(LinkTables(all))
            }
        }

        deserializer.deserialize_any(OneOrSeveral)
    }
}

impl LinkTables {
    /// The first, which says what is about the program as a whole.
    pub fn first(&self) -> Option<&LinkTable> {
        self.0.first()
    }
}

/// What the flags of the command line say of several links.
pub fn links(source: &Source, tables: &LinkTables) -> LinkArgs {
    let Some((first, others)) = tables.0.split_first() else {
        return LinkArgs::default();
    };
    let several = !others.is_empty();
    if several && first.name.is_none() {
        source.note_missing_whole(
            "one of several [[link]] has no name; add name = \"xdp:INTERFACE\"",
        );
    }
    let others = others.iter().filter_map(|table| other(source, table));
    LinkArgs {
        others: others.collect(),
        ..link(source, first)
    }
}

/// A link beside the first.
fn other(source: &Source, table: &LinkTable) -> Option<NamedLink> {
    let places = [
        table.via.as_ref().map(Spanned::span),
        table.mode.as_ref().map(Spanned::span),
        table.core.as_ref().map(Spanned::span),
        table.cores.as_ref().map(Spanned::span),
    ];
    for place in places.iter().flatten() {
        source.note(
            place,
            "write this in the first [[link]]: it is about all of them",
        );
    }
    let is_elsewhere = table.xokd.is_some() || table.segmentation.is_some() || table.share_address;
    if is_elsewhere {
        source.note_missing_whole(
            "share_address, segmentation and xokd are about all links; write them in the first [[link]]",
        );
    }
    let Some(name) = &table.name else {
        source.note_missing_whole(
            "one of several [[link]] has no name; add name = \"xdp:INTERFACE\"",
        );
        return None;
    };
    Some(NamedLink {
        name: source.value(name, str::parse::<LinkName>)?,
        address: addresses(source, &table.addresses),
        gateway: gateways(source, &table.gateways),
        route: routes(source, &table.routes),
    })
}

/// What the flags of the command line say.
pub fn link(source: &Source, table: &LinkTable) -> LinkArgs {
    let (name, via, how) = (&table.name, &table.via, &table.mode);
    LinkArgs {
        link: name
            .as_ref()
            .and_then(|t| source.value(t, str::parse::<LinkName>)),
        others: Vec::new(),
        via: via
            .as_ref()
            .and_then(|t| source.value(t, str::parse::<ViaName>)),
        mode: how.as_ref().and_then(|t| source.value(t, mode)),
        xokd: table.xokd.as_ref().map(PathBuf::from),
        address: addresses(source, &table.addresses),
        gateway: gateways(source, &table.gateways),
        route: routes(source, &table.routes),
        share_address: table.share_address,
        reuse_port: table.reuse_port,
        no_segmentation: table.segmentation == Some(false),
        core: table
            .core
            .as_ref()
            .map_or_else(Vec::new, |core| named(source, core)),
    }
}

fn addresses(source: &Source, texts: &[Text]) -> Vec<Prefixed> {
    let address = |t| source.value(t, str::parse::<Prefixed>);
    texts.iter().filter_map(address).collect()
}

fn gateways(source: &Source, texts: &[Text]) -> Vec<IpAddr> {
    texts.iter().filter_map(|t| source.value(t, ip)).collect()
}

fn routes(source: &Source, texts: &[Text]) -> Vec<Route> {
    let route = |t| source.value(t, str::parse::<Route>);
    texts.iter().filter_map(route).collect()
}

/// The cores that are named.
fn named(source: &Source, core: &Spanned<Numbers>) -> Vec<usize> {
    let numbers = match core.get_ref() {
        Numbers::One(one) => std::slice::from_ref(one),
        Numbers::Many(several) => &several[..],
    };
    let number = |n: &i64| source.number(&Spanned::new(core.span(), *n), 0, CORES_MAX);
    numbers
        .iter()
        .filter_map(number)
        .map(|n| n as usize)
        .collect()
}

fn ip(text: &str) -> Result<IpAddr, String> {
    let help = "write one as 192.0.2.1 or 2001:db8::1";
    text.parse()
        .map_err(|_| format!("{text:?} is no address; {help}"))
}
