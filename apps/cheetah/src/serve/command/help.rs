//! The help of `exos serve` in sections: what most people need first, the rest by subject.
//!
//! Options come from several structs, some of which other programs have too, so the order is given to the finished command.

use clap::Arg;

/// What most people need, in this order, ahead of the sections.
const COMMON: [&str; 10] = [
    "config", "check", "link", "address", "port", "listing", "cache", "cores", "log", "status",
];

/// The sections, in the order in which the command has their first options: clap keeps to that.
const SECTIONS: [(&str, &[&str]); 9] = [
    (
        "Link",
        &[
            "user",
            "via",
            "mode",
            "xokd",
            "gateway",
            "route",
            "share_address",
            "reuse_port",
            "no_segmentation",
            "core",
            "syn_handler",
            "in_kernel",
        ],
    ),
    (
        "TCP",
        &["congestion", "ecn", "no_sack", "receive_buffer", "nagle"],
    ),
    ("Access log", &["format"]),
    ("Status", &["allow", "json"]),
    (
        "Limits",
        &[
            "max_connections",
            "max_peer_connections",
            "max_peer_streams",
            "min_read_rate",
            "min_head_rate",
            "shutdown_timeout",
            "proxy_protocol",
        ],
    ),
    (
        "HTTPS",
        &[
            "tls_cert",
            "tls_key",
            "tls_self_signed",
            "tls_port",
            "tls_early_data",
            "tls_log_keys",
            "http3",
        ],
    ),
    (
        "Automatic certificates (ACME)",
        &[
            "acme",
            "acme_name",
            "acme_directory",
            "acme_staging",
            "acme_ca",
            "acme_state",
            "acme_challenge",
            "acme_dns_hook",
        ],
    ),
    (
        "Content",
        &["file_cache", "no_http2", "fastcgi", "application", "proxy"],
    ),
    ("To compare", &["sockets", "without"]),
];

/// An option in its section.
pub fn in_section(arg: Arg) -> Arg {
    match place(&arg) {
        Some((heading, order)) => arg.help_heading(heading).display_order(order),
        None => arg,
    }
}

/// The section of an option, none for the common ones, and its place among all.
fn place(arg: &Arg) -> Option<(Option<&'static str>, usize)> {
    let id = arg.get_id().as_str();
    let common = COMMON.iter().position(|common| *common == name_of(id));
    let section = SECTIONS
        .iter()
        .enumerate()
        .find_map(|(at, (heading, ids))| {
            let place = ids.iter().position(|known| *known == id)?;
            Some((Some(*heading), 100 * (at + 1) + place))
        });
    common.map(|place| (None, place)).or(section)
}

/// Two structs call theirs otherwise than their flag.
fn name_of(id: &str) -> &str {
    match id {
        "file" => "log",
        "path" => "status",
        id => id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::ServeArgs;
    use clap::{Args as _, Command};

    #[test]
    fn every_option_has_its_place() {
        let mut command = ServeArgs::augment_args(Command::new("serve")).mut_args(in_section);
        let options = || command.get_arguments().filter(|arg| !arg.is_positional());
        let places = options().filter_map(|arg| place(arg));
        let sections: usize = SECTIONS.iter().map(|(_, ids)| ids.len()).sum();
        assert_eq!(
            places.count(),
            COMMON.len() + sections,
            "all that are named are there"
        );
        let strays = options()
            .filter(|arg| place(arg).is_none())
            .map(Arg::get_id);
        assert_eq!(
            strays.collect::<Vec<_>>(),
            [""; 0],
            "and all that are there are named"
        );
        for help in [command.render_help(), command.render_long_help()] {
            let help = help.to_string();
            let at = |text: &str| {
                help.find(text)
                    .unwrap_or_else(|| panic!("no {text} in {help}"))
            };
            assert!(at("--config") < at("--status <") && at("--status <") < at("\nLink:"));
            let headings = SECTIONS.map(|(heading, _)| at(&format!("\n{heading}:")));
            assert!(headings.is_sorted(), "{help}");
        }
    }
}
