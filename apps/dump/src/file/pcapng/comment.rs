//! Program, slot and verdict of a packet as a comment: `exos: slot 3, program serve, verdict slot`, or
//! for a drop `exos: slot 3, program serve, dropped tx_bad_source`.
//!
//! A program's name is its owner's choice, so that it may hold anything but what would end it: commas
//! and control characters are written as `_`.

use std::borrow::Cow;
use std::rc::Rc;

use crate::packet::{Origin, Verdict};

const PREFIX: &str = "exos: ";

/// The comment for a packet; `None` when there is nothing to say.
#[must_use]
pub fn write(origin: &Origin) -> Option<String> {
    let mut parts = Vec::new();
    if let Some(slot) = origin.slot {
        parts.push(format!("slot {slot}"));
    }
    if let Some(program) = &origin.program {
        let plain = |c: char| if c == ',' || c.is_control() { '_' } else { c };
        let name: String = program.chars().map(plain).collect();
        parts.push(format!("program {name}"));
    }
    if let Some(Verdict { name, is_drop }) = &origin.verdict {
        let word = if *is_drop { "dropped" } else { "verdict" };
        parts.push(format!("{word} {name}"));
    }
    (!parts.is_empty()).then(|| PREFIX.to_owned() + &parts.join(", "))
}

/// Takes what a comment says into an origin. Comments of others say nothing.
pub fn read(comment: &str, origin: &mut Origin) {
    let Some(parts) = comment.strip_prefix(PREFIX) else {
        return;
    };
    for part in parts.split(", ") {
        let Some((word, value)) = part.split_once(' ') else {
            continue;
        };
        match word {
            "slot" => origin.slot = value.parse().ok(),
            "program" => origin.program = Some(Rc::from(value)),
            "verdict" | "dropped" => {
                origin.verdict = Some(Verdict {
                    name: Cow::Owned(value.to_owned()),
                    is_drop: word == "dropped",
                });
            }
            _ => {}
        }
    }
}
