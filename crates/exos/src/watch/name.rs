//! What a program is called where its packets and sockets are shown.

use std::ffi::OsString;
use std::path::Path;

/// The name that others see: that of the command, of a program with several.
pub(crate) fn program_name() -> String {
    name_of(std::env::args_os())
}

fn name_of(words: impl Iterator<Item = OsString>) -> String {
    let mut words = words.map(|word| word.to_string_lossy().into_owned());
    let last = |path: String| {
        let file = Path::new(&path).file_name();
        file.map_or(path.clone(), |name| name.to_string_lossy().into_owned())
    };
    let name = last(words.next().unwrap_or_default());
    match words.next() {
        // An unmodified program, by its own name.
        Some(command) if name == "exos" && command == "run" => {
            match words.skip_while(|word| word != "--").nth(1) {
                Some(program) => format!("run:{}", last(program)),
                None => command,
            }
        }
        Some(command) if name == "exos" && !command.starts_with('-') => command,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_called_by_what_they_do() {
        for (line, name) in [
            ("/usr/bin/exos serve --listen 80", "serve"),
            (
                "exos run --link xdp:eth0 -- /usr/sbin/nginx -c f",
                "run:nginx",
            ),
            ("exos run --preload", "run"),
            ("exos --version", "exos"),
            ("/opt/own", "own"),
            ("own run -- nginx", "own"),
            ("", ""),
        ] {
            let words = line.split(' ').map(OsString::from);
            assert_eq!(name_of(words), name, "{line}");
        }
    }
}
