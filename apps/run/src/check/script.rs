//! The first line of a script: which program runs it (execve(2), env(1)).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// What a `#!` line says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub interpreter: PathBuf,
    /// All that stands behind it, as one.
    pub argument: Option<OsString>,
}

/// The line of a file that begins with `head`; nothing where there is none.
pub(super) fn line(head: &[u8]) -> Option<Line> {
    let rest = head.strip_prefix(b"#!")?;
    let rest = rest.split(|byte| *byte == b'\n').next()?.trim_ascii();
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | 0);
    let end = rest.iter().position(is_space).unwrap_or(rest.len());
    let (interpreter, argument) = rest.split_at(end);
    let argument = argument.trim_ascii();
    (!interpreter.is_empty()).then(|| Line {
        interpreter: Path::new(OsStr::from_bytes(interpreter)).to_owned(),
        argument: (!argument.is_empty()).then(|| OsStr::from_bytes(argument).to_owned()),
    })
}

/// What `env` is asked for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Env {
    /// The program that it becomes, where that can be said without doing all that it does: it has quotes, escapes and variables
    /// of its own, and looks for the program in the environment that it makes.
    pub program: Option<OsString>,
    /// It passes nothing of the environment on.
    pub is_empty: bool,
}

impl Line {
    /// What it asks of `env`, if the interpreter is that.
    pub fn env(&self) -> Option<Env> {
        if self.interpreter.file_name() != Some(OsStr::new("env")) {
            return None;
        }
        let argument = self.argument.as_deref().unwrap_or_default().as_bytes();
        // Without -S all of it is one word.
        let split = [&b"-S"[..], b"-vS", b"--split-string="];
        let split = split
            .iter()
            .find_map(|option| argument.strip_prefix(*option));
        let words: Vec<&[u8]> = match split {
            None => vec![argument],
            Some(words) => words.split(u8::is_ascii_whitespace).collect(),
        };
        let is_empties = |word: &&&[u8]| matches!(**word, b"-" | b"-i" | b"--ignore-environment");
        let words: Vec<&[u8]> = words.into_iter().filter(|word| !word.is_empty()).collect();
        let empties = words.iter().take_while(is_empties).count();
        let program = words.get(empties).filter(|word| is_plain(word));
        Some(Env {
            program: program.map(|word| OsStr::from_bytes(word).to_owned()),
            // Behind other options too.
            is_empty: words.iter().any(|word| is_empties(&word)),
        })
    }
}

/// Whether a word is a program's name as it stands: no option, assignment or comment, and nothing in it that `env` replaces.
fn is_plain(word: &[u8]) -> bool {
    !word.starts_with(b"-") && !word.iter().any(|byte| b"=\"'\\$#".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(head: &str) -> Option<(String, Option<String>)> {
        let text = |words: OsString| words.into_string().expect("text");
        line(head.as_bytes()).map(|l| (text(l.interpreter.into()), l.argument.map(text)))
    }

    #[test]
    fn lines_are_read_as_the_kernel_does() {
        for (head, interpreter, argument) in [
            ("#!/bin/sh", "/bin/sh", None),
            ("#! /bin/sh -e  \necho", "/bin/sh", Some("-e")),
            (
                "#!\t/usr/bin/perl\t-w -T\r\n",
                "/usr/bin/perl",
                Some("-w -T"),
            ),
            ("#!python\n", "python", None),
        ] {
            let expected = (interpreter.to_owned(), argument.map(str::to_owned));
            assert_eq!(of(head), Some(expected), "{head:?}");
        }
        for head in [
            "",
            "#",
            "#!",
            "#! \n/bin/sh",
            "echo\n#!/bin/sh",
            " #!/bin/sh",
        ] {
            assert_eq!(of(head), None, "{head:?}");
        }
    }

    #[test]
    fn env_becomes_the_program_that_it_is_told() {
        for (head, program, is_empty) in [
            ("#!/usr/bin/env python3", Some("python3"), false),
            ("#!/usr/bin/env -S python3 -u", Some("python3"), false),
            ("#!/usr/bin/env -S -i perl -w", Some("perl"), true),
            ("#!/usr/bin/env -S -u B -i perl", None, true),
            ("#!/usr/bin/env -S -i A=1 perl", None, true),
            ("#!/usr/bin/env -S PATH=/x/bin:/bin tool", None, false),
            ("#!/usr/bin/env -S \"python3\" -u", None, false),
            ("#!/usr/bin/env -S 'python3'", None, false),
            ("#!/usr/bin/env -S ${HOME}/tool x", None, false),
            ("#!/usr/bin/env -S py\\thon3", None, false),
            ("#!/usr/bin/env -S -C / tool", None, false),
            ("#!/usr/bin/env -S", None, false),
            ("#!/usr/bin/env", None, false),
            // As env does it: a program of that name.
            ("#!/usr/bin/env python3 -u", Some("python3 -u"), false),
        ] {
            let env = line(head.as_bytes()).and_then(|line| line.env());
            let program = program.map(OsString::from);
            assert_eq!(env, Some(Env { program, is_empty }), "{head:?}");
        }
        assert_eq!(line(b"#!/bin/sh").and_then(|line| line.env()), None);
    }
}
