//! What the options ask of the library, and what they refuse.

use std::path::PathBuf;

use exos::via::Mode;
use exos::{Daemon, LinkKind, Role};

use super::*;

fn args(link: Option<&str>, via: Option<&str>, xokd: Option<&str>) -> LinkArgs {
    LinkArgs {
        link: link.map(|name| name.parse().unwrap()),
        via: via.map(|name| name.parse().unwrap()),
        xokd: xokd.map(PathBuf::from),
        ..LinkArgs::default()
    }
}

/// What is wrong with these options for a program on this many cores, with these pools.
fn refusal(args: &LinkArgs, cores: u32, pools: &[&str]) -> String {
    let needs = Needs {
        cores,
        pools: pools.iter().map(|pool| pool.parse().unwrap()).collect(),
        ..Needs::new(Role::Serve(vec![80]))
    };
    args.attachment(&needs).unwrap_err().to_string()
}

fn link(args: &LinkArgs) -> LinkKind {
    let needs = Needs::new(Role::Serve(vec![80]));
    args.attachment(&needs).unwrap().link
}

#[test]
fn link_names() {
    let xdp = |interface: &str, queue| LinkName::Xdp {
        interface: interface.into(),
        queue,
    };
    assert_eq!("xdp:eth0".parse(), Ok(xdp("eth0", None)));
    assert_eq!("xdp:eth0:0".parse(), Ok(xdp("eth0", Some(0))));
    assert_eq!("xdp:eth0:3".parse(), Ok(xdp("eth0", Some(3))));
    assert_eq!("tap:t0".parse(), Ok(LinkName::Tap("t0".into())));
    assert_eq!("packet:e0".parse(), Ok(LinkName::Packet("e0".into())));
    for bad in [
        "",
        "eth0",
        "xdp:",
        "tap:",
        "packet:",
        "foo:eth0",
        "xdp:eth0:x",
    ] {
        let error = bad.parse::<LinkName>().unwrap_err();
        assert!(error.contains("write xdp:INTERFACE"), "{bad}: {error}");
    }
}

#[test]
fn contradictions_are_refused_in_the_words_of_the_options() {
    let none = || args(Some("xdp:eth0"), None, None);
    let address = || LinkArgs {
        address: vec!["10.0.0.1/24".parse().unwrap()],
        ..none()
    };
    let refused = |args: LinkArgs, says: &str| {
        let error = refusal(&args, 1, &[]);
        assert!(error.contains(says), "{error}");
    };
    refused(none(), "give --address ADDRESS/PREFIX");
    let mut both = address();
    both.share_address = true;
    refused(both, "leave --address");
    let mut family = address();
    family.gateway.push("fd00::1".parse().unwrap());
    refused(family, "give an --address of that family");
    let mut tap = args(Some("tap:t0"), None, None);
    tap.share_address = true;
    refused(tap, "--share-address needs an interface");
    let mut packet = args(Some("packet:e0"), None, None);
    packet.address = address().address;
    assert!(refusal(&packet, 2, &[]).contains("one core's"));
    packet.share_address = true;
    refused(packet, "instead of --share-address");
    let mut own = args(None, Some("none"), None);
    assert_eq!(link(&own), LinkKind::own());
    own.address = address().address;
    refused(own, "brings its addresses with it");
    let mut lent = args(None, Some("xokd"), Some("/nowhere"));
    lent.gateway.push("10.0.0.2".parse().unwrap());
    refused(lent, "--via none");
    let shared = LinkArgs {
        share_address: true,
        ..none()
    };
    let connects = Needs::new(Role::Connect(Vec::new()));
    let error = shared.attachment(&connects).unwrap_err().to_string();
    assert!(error.contains("must be known who"), "{error}");
    assert!(refusal(&shared, 1, &["10.9.0.0/16"]).contains("instead of --share-address"));
    let lent = args(None, Some("xokd"), Some("/nowhere"));
    assert!(refusal(&lent, 1, &["10.9.0.0/16"]).contains("--via none"));
    let pools = Needs {
        pools: vec!["10.9.0.0/16".parse().unwrap(), "fd01::/64".parse().unwrap()],
        ..Needs::new(Role::Connect(Vec::new()))
    };
    let own = args(None, Some("none"), None);
    assert!(own.attachment(&pools).is_ok());
}

#[test]
fn several_cores_need_a_queue_each() {
    let with = |link: &str| LinkArgs {
        address: vec!["192.0.2.7/24".parse().unwrap()],
        ..args(Some(link), None, None)
    };
    assert!(refusal(&with("tap:exos0"), 2, &[]).contains("one queue here"));
    assert!(refusal(&with("xdp:lo:1"), 2, &[]).contains("without the queue"));
    let lent = args(None, Some("xokd"), Some("/nowhere"));
    let needs = |role| Needs {
        cores: 2,
        ..Needs::new(role)
    };
    let refused = lent.attachment(&needs(Role::Connect(Vec::new())));
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("a program for each core")
    );
    let LinkKind::Daemon(daemon) = lent.attachment(&needs(Role::Serve(vec![80]))).unwrap().link
    else {
        panic!("the daemon lends it");
    };
    assert_eq!(daemon.cores, 2);
}

#[test]
fn a_port_is_shared_through_the_daemon_by_programs_that_serve() {
    let shared = LinkArgs {
        reuse_port: true,
        ..args(None, Some("xokd"), Some("/nowhere"))
    };
    let LinkKind::Daemon(daemon) = link(&shared) else {
        panic!("another link");
    };
    assert!(daemon.reuse_port);
    let connects = Needs::new(Role::Connect(Vec::new()));
    let error = shared.attachment(&connects).unwrap_err().to_string();
    assert!(error.contains("for a port that is served"), "{error}");
    let elsewhere = LinkArgs {
        reuse_port: true,
        ..args(None, Some("none"), None)
    };
    assert!(refusal(&elsewhere, 1, &[]).contains("--via xokd"));
}

#[test]
fn who_lends_the_link() {
    let daemon = |interface: Option<&str>| {
        LinkKind::from(Daemon {
            interface: interface.map(str::to_owned),
            socket: "/nowhere".into(),
            ..Daemon::new(Role::Serve(vec![80]))
        })
    };
    let tap = |via: Option<&str>| {
        let mut tap = args(Some("tap:t0"), via, Some("/nowhere"));
        tap.address.push("192.0.2.7/24".parse().unwrap());
        tap
    };
    let is_tap = |link: LinkKind| matches!(link, LinkKind::Tap(tap) if tap.name == "t0");
    let there = Some("/nowhere");
    assert_eq!(link(&args(None, Some("xokd"), there)), daemon(None));
    assert_eq!(
        link(&args(None, Some("xokd:eth1"), there)),
        daemon(Some("eth1"))
    );
    let named = args(Some("xokd:eth1"), None, there);
    assert_eq!(link(&named), daemon(Some("eth1")));
    assert!(named.is_lent().unwrap());
    let contradiction = args(Some("xokd:eth1"), Some("none"), there);
    assert!(refusal(&contradiction, 1, &[]).contains("asks no daemon"));
    assert_eq!(link(&args(None, None, there)), daemon(None));
    assert!(is_tap(link(&tap(None))) && is_tap(link(&tap(Some("none")))));
    assert_eq!(link(&args(None, Some("none"), there)), LinkKind::own());
    assert!(refusal(&tap(Some("xokd")), 1, &[]).contains("give one of them"));
    for bad in ["", "xok", "xokd:", "none:eth0"] {
        assert!(bad.parse::<ViaName>().is_err(), "{bad}");
    }
}

/// What the command line says comes before what a file says, and a link is taken from one of them whole.
#[test]
fn the_command_line_comes_before_a_file() {
    let file = || LinkArgs {
        link: Some("tap:t1".parse().unwrap()),
        address: vec!["192.0.2.1/24".parse().unwrap()],
        core: vec![1],
        ..LinkArgs::default()
    };
    let said = LinkArgs::default().or(file());
    assert_eq!(said.link, Some(LinkName::Tap("t1".into())));
    assert_eq!((said.address.len(), said.core), (1, vec![1]));
    let lent = args(None, Some("xokd"), None).or(file());
    assert_eq!((lent.link, lent.via), (None, Some(ViaName::Xokd(None))));
    assert_eq!(lent.address, file().address);
    let mine = LinkArgs {
        address: vec!["192.0.2.2/24".parse().unwrap()],
        core: vec![0],
        ..args(Some("tap:t0"), None, None)
    };
    let both = mine.clone().or(file());
    assert_eq!((both.link, both.core), (mine.link, vec![0]));
    assert_eq!(both.address, mine.address);
}

#[test]
fn modes_are_of_a_link_that_is_lent() {
    assert_eq!(mode("shared"), Ok(Mode::Shared));
    assert_eq!(mode("direct"), Ok(Mode::Direct(None)));
    assert_eq!(mode("direct:3"), Ok(Mode::Direct(Some(3))));
    for bad in ["", "auto", "direct:", "direct:x", "shared:1", "direct:-1"] {
        assert!(mode(bad).is_err(), "{bad}");
    }
    let lent = LinkArgs {
        mode: Some(Mode::Shared),
        ..args(None, Some("xokd"), Some("/nowhere"))
    };
    assert!(matches!(
        link(&lent),
        LinkKind::Daemon(Daemon {
            mode: Mode::Shared,
            ..
        })
    ));
    for own in [
        args(Some("tap:t0"), None, None),
        args(None, Some("none"), None),
    ] {
        let own = LinkArgs {
            mode: Some(Mode::Shared),
            ..own
        };
        let error = refusal(&own, 1, &[]);
        assert!(error.contains("--mode"), "{error}");
    }
}

/// A program with these options.
#[derive(clap::Parser)]
struct Program {
    #[command(flatten)]
    link: SharingLinkArgs<true>,
}

fn parse(line: &str) -> Result<LinkArgs, String> {
    use clap::Parser as _;
    let words = std::iter::once("program").chain(line.split_whitespace());
    let program = Program::try_parse_from(words);
    program.map(|it| it.link.0).map_err(|e| e.to_string())
}

/// An interface, its addresses and its gateways, for each link.
fn summary(args: &LinkArgs) -> Vec<String> {
    let each = args.each().unwrap();
    let text = |link: &LinkArgs| {
        let name = link.link.as_ref().map_or("none", LinkName::interface);
        let addresses = link.address.iter().map(ToString::to_string);
        let gateways = link.gateway.iter().map(ToString::to_string);
        let shared = link.share_address.then(|| "shared".to_owned());
        let words = addresses.chain(gateways).chain(shared);
        std::iter::once(name.to_owned())
            .chain(words)
            .collect::<Vec<_>>()
            .join(" ")
    };
    each.iter().map(text).collect()
}

#[test]
fn addresses_and_gateways_belong_to_the_link_before_them() {
    let both = "--link xdp:eth0 --address 192.0.2.7/24 --address 2001:db8::7/64 --core 1 --link xdp:eth1:3 \
                --gateway 198.51.100.1 --address=198.51.100.7/24";
    assert_eq!(
        summary(&parse(both).unwrap()),
        [
            "eth0 192.0.2.7/24 2001:db8::7/64",
            "eth1 198.51.100.7/24 198.51.100.1"
        ]
    );
    // With one link the order says nothing, and without any the addresses are the daemon's.
    for (one, is) in [
        (
            "--address 192.0.2.7/24 --link xdp:eth0 --gateway 192.0.2.1",
            "eth0 192.0.2.7/24 192.0.2.1",
        ),
        ("--address 192.0.2.7/24", "none 192.0.2.7/24"),
        ("", "none"),
    ] {
        assert_eq!(summary(&parse(one).unwrap()), [is]);
    }
    let twice = parse("--via xokd:eth0 --via xokd:eth1").unwrap_err();
    assert!(twice.contains("one part of one interface"), "{twice}");
    let early = parse("--address 192.0.2.7/24 --link xdp:eth0 --link xdp:eth1").unwrap_err();
    assert!(
        early.contains("--address 192.0.2.7/24 stands before"),
        "{early}"
    );
    let shared = parse("--share-address --link xdp:eth0 --link xdp:eth1 --address 192.0.2.7/24");
    assert_eq!(
        summary(&shared.unwrap()),
        ["eth0 shared", "eth1 192.0.2.7/24"]
    );
}

#[test]
fn what_two_links_may_not_have_in_common() {
    for (line, says) in [
        ("--link xdp:eth0 --link xdp:eth0", "eth0 is named twice"),
        ("--link xdp:eth0:0 --link xdp:eth0:1", "eth0 is named twice"),
        (
            "--link xdp:a --address 192.0.2.7/24 --link xdp:b --address 192.0.2.7/25",
            "192.0.2.7 is given twice",
        ),
        (
            "--link xdp:a --address 192.0.2.7/24 --link xdp:b --address 192.0.2.8/24 --share-address",
            "--share-address is for a link without",
        ),
        (
            "--link xdp:a --address 192.0.2.7/24 --link packet:b --address 198.51.100.7/24",
            "each of them by AF_XDP",
        ),
        (
            "--link tap:t0 --address 192.0.2.7/24 --link xdp:b --address 198.51.100.7/24",
            "each of them by AF_XDP",
        ),
    ] {
        let error = parse(line).unwrap().each().unwrap_err().to_string();
        assert!(error.contains(says), "{line}: {error}");
    }
}

#[test]
fn each_of_several_links_is_asked_for() {
    let args = parse("--link xdp:eth0 --address 192.0.2.7/24 --link xdp:eth1").unwrap();
    let needs = [
        Needs::new(Role::Serve(vec![80])),
        Needs::new(Role::Serve(vec![80])),
    ];
    let error = args.attachments(&needs).unwrap_err().to_string();
    assert!(error.contains("on eth1: no address"), "{error}");
    let error = args.attachment(&needs[0]).unwrap_err().to_string();
    assert!(error.contains("one interface"), "{error}");
    let args = LinkArgs {
        share_address: true,
        ..args
    };
    let wanted = args.attachments(&needs).unwrap();
    let names: Vec<_> = wanted.iter().map(|w| w.link.interface()).collect();
    assert_eq!(names, [Some("eth0"), Some("eth1")]);
    let lent = parse("--via xokd --link xdp:eth0 --link xdp:eth1 --share-address").unwrap();
    let error = lent.attachments(&needs).unwrap_err().to_string();
    assert!(error.contains("are two links"), "{error}");
}

/// A link that is named on the command line comes without any of the file's.
#[test]
fn several_links_of_a_file_are_replaced_whole() {
    let file = || {
        parse("--link xdp:a --address 192.0.2.7/24 --link xdp:b --address 198.51.100.7/24").unwrap()
    };
    assert_eq!(summary(&LinkArgs::default().or(file())).len(), 2);
    let one = parse("--link xdp:c").unwrap().or(file());
    assert_eq!(summary(&one), ["c 192.0.2.7/24"]);
    let lent = parse("--via none").unwrap().or(file());
    assert_eq!(lent.count(), 1);
}

/// Help shows what a program takes: an address or a port is shared by those that know whose packets are theirs.
#[test]
fn programs_take_what_they_can_do() {
    use clap::{Args, Command};

    fn taken<T: Args>() -> Vec<&'static str> {
        let command = T::augment_args(Command::new("program"));
        let has = |id: &&str| command.get_arguments().any(|arg| arg.get_id() == id);
        let all = ["link", "share_address", "reuse_port"].into_iter();
        all.filter(has).collect()
    }

    assert_eq!(taken::<LinkArgs>(), ["link"]);
    assert_eq!(taken::<SharingLinkArgs<false>>(), ["link", "share_address"]);
    assert_eq!(
        taken::<SharingLinkArgs<true>>(),
        ["link", "share_address", "reuse_port"]
    );
    let args = parse("--reuse-port --share-address").unwrap();
    assert!(args.reuse_port && args.share_address);
    let args = parse("--via xokd").unwrap();
    assert!(!args.reuse_port && !args.share_address);
}
