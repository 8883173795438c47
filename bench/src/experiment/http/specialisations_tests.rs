//! Cells and rows of made-up runs.

use super::*;
use crate::experiment::http::report_tests::run;
use crate::report::tests::assert_has_rows;
use crate::stage::request::Connection;
use clap::{Parser as _, ValueEnum as _};

#[derive(clap::Parser)]
struct Cli {
    #[command(flatten)]
    http: HttpArgs,
}

fn names_of(line: &str) -> Vec<String> {
    let words = ["bench"].into_iter().chain(line.split_whitespace());
    let cli = Cli::try_parse_from(words).expect("a valid command line");
    cells(&cli.http).iter().map(Cell::to_string).collect()
}

#[test]
fn what_is_taken_away_is_all_that_the_server_can_do_without() {
    let known = exos_cheetah::connections::Specialisation::value_variants();
    let known = known.iter().filter_map(clap::ValueEnum::to_possible_value);
    let mut known: Vec<String> = known.map(|value| value.get_name().to_owned()).collect();
    known.sort();
    let mut all = ALL.to_vec();
    all.sort_unstable();
    assert_eq!(all, known);
}

#[test]
fn which_cells_there_are() {
    let all = names_of("");
    assert_eq!(all.len(), 14, "{all:?}");
    assert_eq!(all[1], "specialisations/packets/plain/new/100");
    let wrk: Vec<_> = all.iter().filter(|name| name.contains("wrk")).collect();
    let of_segments = ["new/10K", "new/100K", "persistent/10K", "persistent/100K"];
    let of_segments = of_segments.map(|end| format!("specialisations/wrk/offload/{end}"));
    assert_eq!(wrk, of_segments.iter().collect::<Vec<_>>());
    for (line, count) in [
        ("--quick", 6),
        ("--only specialisations/packets/plain/new", 5),
        ("--groups documents", 0),
        ("--servers nginx,sockets", 0),
        ("--clients packets", 10),
        ("--clients wrk", 14),
        ("--sizes 1M --connection new", 2),
        ("--wire offload", 4),
    ] {
        assert_eq!(names_of(line).len(), count, "{line}");
    }
}

#[test]
fn how_the_server_is_set_up() {
    let both = [Server::Exos, Server::Sockets];
    let small = Variant::of(SEGMENT, &both);
    let names: Vec<String> = small.iter().map(|variant| variant.to_string()).collect();
    let expected = [
        "exos",
        "exos without packet-merging",
        "exos without merged-cache",
        "exos without precomputed-checksums",
        "exos without precomputed-headers",
        "exos without all",
        "exos-sockets",
    ];
    assert_eq!(names, expected);
    assert_eq!(small[2].setup().without, ["merged-cache"]);
    assert_eq!(small[5].setup().without, ALL);
    let large = Variant::of(Size::of_bytes(10_240), &both[..1]);
    assert!(large.contains(&Variant::Without(SUPER_PACKETS)));
    assert!(!large.contains(&Variant::Sockets), "nobody asked for it");
}

/// A cell with everything at 12,000 requests a second, and so much without.
pub(in crate::experiment::http) fn specialised(size: Size) -> Specialised {
    let load = Load {
        client: Client::Packets,
        wire: WireKind::Plain,
        connection: Connection::New,
        size,
    };
    let rate = |variant: Variant| match variant {
        Variant::Everything => 12_000,
        Variant::Without("packet-merging") => 8000,
        Variant::Without(_) => 10_000,
        Variant::WithoutAll => 6000,
        Variant::Sockets => 3000,
    };
    let variants = Variant::of(size, &[Server::Exos, Server::Sockets]);
    // `run` lasts two seconds.
    let runs = |variant: &Variant| [90, 100, 110].map(|part| run(rate(*variant) * part / 50));
    let measured = variants
        .iter()
        .map(|variant| Outcome::of(variant.to_string(), runs(variant).to_vec()));
    Specialised::new(load, measured.collect())
}

#[test]
fn each_is_worth_what_is_lost_without_it() {
    let case = specialised(Size::of_bytes(100));
    let worth: Vec<_> = case
        .worth
        .iter()
        .map(|w| (w.what, w.ratio.median))
        .collect();
    let expected = [
        ("direct", 2.0),
        ("packet-merging", 1.5),
        ("merged-cache", 1.2),
        ("precomputed-checksums", 1.2),
        ("precomputed-headers", 1.2),
        ("all", 2.0),
        ("total", 4.0),
    ];
    assert_eq!(worth, expected);
    let json = serde_json::to_value(&case.worth[1]).expect("plain data");
    assert_eq!(json["what"], "packet-merging");
    assert_eq!(json["theirs"], "exos without packet-merging");
}

#[test]
fn the_table_has_sizes_across() {
    let cases = [100, 102_400].map(|bytes| specialised(Size::of_bytes(bytes)));
    let rows = [
        "packets/plain/new 100 100K",
        "requests/s, exos 12000 12000",
        "direct access, by sockets 2.00 2.00",
        "super-packets - 1.20",
        "total, by sockets 4.00 4.00",
    ];
    assert_has_rows(&matrix(&cases).text(), &rows);
}
