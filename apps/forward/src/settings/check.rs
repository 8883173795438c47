//! `exos forward --config FILE --check`: what would keep a forwarder with this file from starting, as far as can be seen without
//! starting one.
//!
//! What the text says wrong is told first, and alone: the rest would follow from it. Then what it names is looked at: the interface,
//! addresses and routes, names, whether services fit together, and files. Nothing is made, and nobody but the host's resolver is asked.

use std::net::{SocketAddr, TcpListener};
use std::ops::Range;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use exos::Error;
use exos_host::netlink::Netlink;
use exos_program::config::{ConfigErrors, Source, Text, tables, text_of};
use exos_program::{LinkArgs, LinkName};
use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::net::SocketAddrUnix;
use toml::Spanned;

use crate::kept;
use crate::limits::CONFIG_LEN_MAX;
use crate::program::lent;
use crate::service::Services;
use crate::settings::config::{File, ServiceTable, parse};
use crate::settings::names::{Known, resolve_first};
use crate::settings::options::ForwardArgs;
use crate::settings::setup::{
    check_cores, check_link, check_links, check_options, listens, trial_stacks,
};
use crate::settings::wanted::Wanted;
use crate::settings::written::To;

/// Whether a forwarder would start with a file and these options.
///
/// # Errors
///
/// All that would keep it from that.
pub fn check(file: &Path, args: &ForwardArgs) -> Result<(), ConfigErrors> {
    let text = text_of(file, CONFIG_LEN_MAX)?;
    let mut wanted = args.over(parse(file, &text)?);
    let source = Source::new(file, &text);
    let tables: File = tables::read(&source);
    let is_lent = wanted.links.first().is_lent().unwrap_or(false);
    let whole = check_options(&wanted, wanted.in_kernel, is_lent);
    let whole = whole.into_iter().chain([check_cores(&wanted)]);
    for error in whole.filter_map(Result::err) {
        source.note_missing_whole(error.to_string());
    }
    if is_lent {
        // How long their networks are the daemon knows, and where routes lead.
        lent::name_addresses(&mut wanted);
    }
    look_at_link(&source, &tables, &wanted);
    look_at_names(&source, &tables.service, &mut wanted);
    look_at_services(&source, &tables.service, &wanted, is_lent);
    let as_user = wanted.user.as_user(|| {
        look_at_files(&source, &tables, &wanted);
        Ok(())
    });
    if let Err(error) = as_user {
        source.note_missing_whole(error.to_string());
    }
    source.finish(())
}

/// Notes an error with what can be done about it.
fn note(source: &Source, at: &Range<usize>, what: impl ToString) {
    source.note(at, what.to_string());
}

fn look_at_link(source: &Source, tables: &File, wanted: &Wanted) {
    let is_there = |link: &LinkArgs| match &link.link {
        // What the daemon lends it alone knows.
        None | Some(LinkName::Xokd(_)) => Ok(()),
        Some(name) => Netlink::new()?.link_by_name(name.interface()).map(drop),
    };
    let tell = |found: Result<(), Error>, place: usize| {
        let name = tables.link.0.get(place).and_then(|link| link.name.as_ref());
        match (found, name.map(Spanned::span)) {
            (Ok(()), _) => {}
            (Err(error), Some(at)) => note(source, &at, error),
            (Err(error), None) => source.note_missing_whole(error.to_string()),
        }
    };
    let links = wanted.links.all();
    let mut are_good = true;
    for (place, link) in links.iter().enumerate() {
        let found = check_link(link).and_then(|()| is_there(link));
        are_good &= found.is_ok();
        tell(found, place);
    }
    if are_good {
        tell(check_links(&wanted.links), links.len() - 1);
    }
}

/// Names have addresses, which take their place.
fn look_at_names(source: &Source, tables: &[Spanned<ServiceTable>], wanted: &mut Wanted) {
    let mut known = Known::default();
    match resolve_first(wanted) {
        Ok((answers, _)) => answers.into_iter().for_each(|answer| {
            known.note(answer);
        }),
        Err(error) => source.note_missing_whole(error.to_string()),
    }
    let texts = tables.iter().flat_map(|table| &table.get_ref().to);
    for text in texts {
        if let Ok(To::Named(named)) = text.get_ref().parse()
            && let Some(why) = known.why_not(&named.name)
        {
            note(source, &text.span(), why);
        }
    }
    for service in &mut wanted.services {
        service
            .named
            .retain(|named| known.why_not(&named.name).is_none());
    }
    match known.filled(wanted) {
        Ok(filled) => *wanted = filled,
        Err(error) => source.note_missing_whole(error.to_string()),
    }
}

fn look_at_services(
    source: &Source,
    tables: &[Spanned<ServiceTable>],
    wanted: &Wanted,
    is_lent: bool,
) {
    let stacks = match is_lent {
        true => Vec::new(),
        false => trial_stacks(wanted),
    };
    let stacks: Vec<_> = stacks.iter().collect();
    let mut services = Services::default();
    for (table, service) in tables.iter().zip(&wanted.services) {
        let listen = &table.get_ref().listen;
        for (text, place) in listen.iter().zip(&service.listen) {
            let ip = place.at.ip();
            if !wanted.links.have(ip) {
                let what = format!("{ip} is no address of ours; add it to addresses under [link]");
                source.note(&text.span(), what);
            }
        }
        match listens(std::slice::from_ref(service), &stacks) {
            Ok(listens) => {
                for (text, listen) in listen.iter().zip(listens) {
                    if let Err(misfit) = services.add_listener(&listen) {
                        note(source, &text.span(), misfit);
                    }
                }
            }
            Err(error) => note(source, &table.span(), error),
        }
    }
}

fn look_at_files(source: &Source, tables: &File, wanted: &Wanted) {
    if let Some(keep) = &tables.keep {
        look_at_kept(source, keep);
    }
    if let Some(control) = &tables.control {
        let path = Path::new(control.get_ref());
        look_at_socket(source, control, path);
        let mut above = path.ancestors().skip(1);
        look_at_folder(source, control, above.find(|folder| folder.exists()));
    }
    if let Some((text, at)) = tables.metrics.as_ref().zip(wanted.metrics) {
        look_at_metrics(source, text, at);
    }
}

/// What was kept can be read, or is not there.
fn look_at_kept(source: &Source, keep: &Text) {
    let path = Path::new(keep.get_ref());
    match std::fs::read(path) {
        Ok(bytes) => {
            if let Err(unreadable) = kept::read(&bytes) {
                note(source, &keep.span(), unreadable);
            }
        }
        Err(error) if path.exists() => {
            note(source, &keep.span(), format!("it cannot be read: {error}"));
        }
        Err(_) => {}
    }
    // Its folder is not made.
    look_at_folder(source, keep, path.ancestors().nth(1));
}

fn look_at_metrics(source: &Source, text: &Text, at: SocketAddr) {
    // A forwarder that runs with this file has it.
    let is_taken = |e: &std::io::Error| e.kind() == std::io::ErrorKind::AddrInUse;
    let refused = TcpListener::bind(at).err();
    if let Some(error) = refused.filter(|error| !is_taken(error)) {
        let what = format!("cannot listen there: {error}");
        source.note(&text.span(), what);
    } else if !at.ip().is_loopback() {
        let what = "this is not a loopback address; write for example 127.0.0.1:9102";
        source.note(&text.span(), what);
    }
}

/// A socket can be there: what is there is one, and its path is no longer than those of sockets may be.
fn look_at_socket(source: &Source, text: &Text, path: &Path) {
    let there = std::fs::symlink_metadata(path);
    if there.is_ok_and(|there| !there.file_type().is_socket()) {
        let what = "it is there, and is no socket; name another path";
        source.note(&text.span(), what);
    }
    if SocketAddrUnix::new(path).is_err() {
        let what = "it is longer than the path of a socket may be; name a shorter one";
        source.note(&text.span(), what);
    }
}

/// A folder has to be one where files can be made.
fn look_at_folder(source: &Source, path: &Text, folder: Option<&Path>) {
    let folder = match folder {
        Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
        Some(folder) => folder,
        None => return,
    };
    // By the rights to files that this thread has now, not those of the one that started the program.
    let may_write = accessat(CWD, folder, Access::WRITE_OK, AtFlags::EACCESS);
    let is_good = folder.is_dir() && may_write.is_ok();
    if !is_good {
        let what = format!(
            "no file can be made in {}; name another place",
            folder.display()
        );
        source.note(&path.span(), what);
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ForwardArgs,
    }

    /// What a text is told, by its lines.
    fn said(name: &str, text: &str) -> Vec<(usize, String)> {
        said_beside(name, text, &[])
    }

    /// What a text is told, by its lines, where these options are given too.
    fn said_beside(name: &str, text: &str, options: &[&str]) -> Vec<(usize, String)> {
        let words = ["forward", "--config", "file"];
        let line = Line::try_parse_from(words.iter().chain(options)).unwrap();
        let file = std::env::temp_dir().join(format!("check-{name}-{}", std::process::id()));
        std::fs::write(&file, text).unwrap();
        let said = check(&file, &line.args).err().map(|errors| errors.errors);
        std::fs::remove_file(&file).unwrap();
        let said = said.into_iter().flatten();
        said.map(|error| (error.line, error.what)).collect()
    }

    const GOOD: &str = "metrics = \"127.0.0.1:0\"\n[link]\nname = \"xdp:lo\"\naddresses = [\"10.10.0.20/24\"]\n\
                        [[service]]\nlisten = [\"10.10.0.20:80\"]\nto = [\"10.10.0.11\"]\n";

    #[test]
    fn a_good_file_is_told_nothing() {
        assert_eq!(said("good", GOOD), []);
    }

    /// Everything that a start would find is told at once, each with its line.
    #[test]
    fn each_mistake_has_its_line() {
        let text = "affinity = \"client\"\nbalance = \"least\"\nkeep = \"/proc/version/flows\"\nmetrics = \"192.0.2.9:1\"\n\
                    [link]\nname = \"xdp:nothere0\"\naddresses = [\"10.10.0.20/24\"]\n\
                    [[service]]\nlisten = [\"10.10.0.20:80\", \"10.10.0.21:80\"]\nto = [\"10.10.0.11\"]\n\
                    [[service]]\nlisten = [\"10.10.0.20:80\"]\nto = [\"192.0.2.1\"]\n\
                    [[service]]\nlisten = [\"10.10.0.20:81\"]\nto = [\"10.10.0.11\", \"10.10.0.11\"]\n\
                    [[service]]\nlisten = [\"10.10.0.20:80\"]\nto = [\"10.10.0.11\"]\n";
        let said = said("bad", text);
        for (line, wanted) in [
            (0, "keeps its server only"),
            (3, "no file can be made in"),
            (4, "cannot listen there"),
            (6, "there is no interface nothere0"),
            (9, "10.10.0.21 is no address of ours"),
            (11, "no route leads to 192.0.2.1"),
            (15, "is named twice"),
            (18, "is listened at twice"),
        ] {
            let found = |(at, what): &&(usize, String)| *at == line && what.contains(wanted);
            assert!(said.iter().any(|e| found(&e)), "{line}, {wanted}: {said:?}");
        }
        assert_eq!(said.len(), 8, "{said:?}");
    }

    /// Options that come before the file do so here as well.
    #[test]
    fn options_beside_the_file_count() {
        assert_eq!(
            said_beside(
                "link",
                &GOOD.replace("xdp:lo", "xdp:nothere0"),
                &["--link", "xdp:lo"]
            ),
            []
        );
        let tunnel = GOOD.to_owned() + "reach = \"tunnel\"\n";
        let said = said_beside("kernel", &tunnel, &["--in-kernel"]);
        assert!(
            said.iter()
                .any(|(_, what)| what.contains("leave --in-kernel out")),
            "{said:?}"
        );
    }

    /// On lent addresses too each server is of a family that is listened for.
    #[test]
    fn servers_of_lent_addresses_are_forwarded_to() {
        let text = GOOD.replace(
            "to = [\"10.10.0.11\"]",
            "to = [\"10.10.0.11\", \"fd10::11\"]",
        );
        let said = said_beside("lent", &text, &["--via", "xokd"]);
        let is_said = |(line, what): &(usize, String)| {
            *line == 5 && what.contains("nothing is forwarded to fd10::11")
        };
        assert!(said.iter().any(is_said), "{said:?}");
    }

    /// What a start refuses of files and links.
    #[test]
    fn what_a_start_refuses_is_not_good() {
        let scratch = std::env::temp_dir().join(format!("check-scratch-{}", std::process::id()));
        std::fs::create_dir(&scratch).unwrap();
        std::fs::write(scratch.join("plain"), "").unwrap();
        let here = scratch.to_str().unwrap();
        let long = "x".repeat(200);
        for (text, line, wanted) in [
            (
                format!("keep = \"{here}/none/flows\"\n{GOOD}"),
                1,
                "no file can be made in",
            ),
            (
                format!("control = \"{here}/plain\"\n{GOOD}"),
                1,
                "is no socket",
            ),
            (
                format!("control = \"{here}/{long}\"\n{GOOD}"),
                1,
                "longer than",
            ),
            (
                GOOD.replace("xdp:lo", "tap:t0"),
                3,
                "on an interface by AF_XDP",
            ),
            (
                GOOD.replace("[link]", "[link]\nshare_address = true"),
                4,
                "addresses of their own",
            ),
        ] {
            let said = said("files", &text);
            assert!(
                said.iter()
                    .any(|(at, what)| *at == line && what.contains(wanted)),
                "{text}: {said:?}"
            );
        }
        // A socket's folder is made.
        assert_eq!(
            said(
                "folder",
                &format!("control = \"{here}/none/control\"\n{GOOD}")
            ),
            []
        );
        std::fs::remove_dir_all(&scratch).unwrap();
    }

    /// Files are looked at with the rights of the user that the forwarder becomes.
    #[test]
    fn files_are_those_of_the_user() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let scratch = std::env::temp_dir().join(format!("check-owner-{}", std::process::id()));
        std::fs::create_dir(&scratch).unwrap();
        let text = format!("keep = \"{}/flows\"\n{GOOD}", scratch.display());
        assert_eq!(said("root", &text), []);
        let said = said_beside("user", &text, &["--user", "65534:65534"]);
        assert_eq!((said.len(), said[0].0), (1, 1), "{said:?}");
        std::fs::remove_dir(&scratch).unwrap();
    }

    /// A name that nobody knows (RFC 6761 §6.4) has its line, and no other error follows from it.
    #[test]
    fn a_name_that_cannot_be_resolved_has_its_line() {
        let text = GOOD.replace(
            "to = [\"10.10.0.11\"]",
            "to = [\"10.10.0.11\",\n\"web.invalid:80\"]",
        );
        let said = said("name", &text);
        assert_eq!((said.len(), said[0].0), (1, 8), "{said:?}");
        assert!(
            said[0].1.contains("web.invalid cannot be resolved"),
            "{said:?}"
        );
    }

    /// What the text itself says wrong is told without what would follow from it.
    #[test]
    fn what_cannot_be_read_is_told_alone() {
        let text = GOOD
            .replace("xdp:lo", "xdp:nothere0")
            .replace("metrics = \"127.0.0.1:0\"", "flows = 0");
        let said = said("text", &text);
        assert_eq!((said.len(), said[0].0), (1, 1), "{said:?}");
    }
}
