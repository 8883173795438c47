//! What a handler must keep to, so that it is bounded and never half done.
//!
//! Accepted is a handler whose every way ends with a verdict, uses only what has been given a value, and does not give the message
//! up once anything has had an effect: whatever can fail comes before the first change of memory. So a message is dealt with whole or
//! goes to the program as it came, and no code has to take back what was done (*ASHs*, section 3.2: "the ASH itself is responsible").
//! What it costs is counted when it is accepted, and not while it runs.

mod bounds;
mod budget;
mod cost;
mod error;
mod flow;
mod known;
mod size;

use std::collections::HashSet;

pub(crate) use self::budget::Budget;
pub use self::error::CheckError;
use crate::code::{Handler, Region, RegionKind, VariableKind};
use crate::limits::{
    CODE_MAX, KEY_MAX, MEMORY_MAX, NAME_MAX, REGIONS_MAX, STEPS_MAX, TEXT_MAX, VARIABLES_MAX,
};
use crate::table::BUCKET;
use crate::text::is_name;

/// A handler that may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    handler: Handler,
    steps: u64,
    instructions: u64,
    longest_reply: Option<u16>,
    room: u16,
}

impl Checked {
    /// The handler.
    pub fn handler(&self) -> &Handler {
        &self.handler
    }

    /// Steps that a message takes at most.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Instructions that the kernel's program has at most, without those that find messages and send replies.
    pub fn instructions(&self) -> u64 {
        self.instructions
    }

    /// Bytes of a reply at most; `None` if it never replies.
    pub fn longest_reply(&self) -> Option<u16> {
        self.longest_reply
    }

    /// Bytes that a message probably has: those that it needs on each way, if they are few.
    pub(crate) fn likely_length(&self) -> i32 {
        cost::likely_length(&self.handler.body)
    }

    /// Bytes that a message's place needs beforehand, so that each reply which may be longer than the message has room.
    pub(crate) fn room(&self) -> u16 {
        self.room
    }

    /// Whether the kernel's program has a message's packet end with the message, however long its replies are.
    pub(crate) fn is_cut(&self) -> bool {
        self.longest_reply.is_some() && self.room == 0
    }

    /// The length of all replies, if they have one.
    pub(crate) fn reply_length(&self) -> Option<u16> {
        cost::reply_length(&self.handler.body)
    }
}

/// Accepts a handler.
///
/// # Errors
///
/// It could fail half done, has no end, uses what has no value, or is larger than the [limits](crate::limits).
pub fn check(handler: Handler) -> Result<Checked, CheckError> {
    of_whole(declarations(&handler))?;
    flow::follow(&handler)?;
    let steps = cost::steps(&handler);
    if steps > STEPS_MAX {
        let what = format!("a message may take more than the {STEPS_MAX} steps that are allowed");
        return of_whole(Err(what));
    }
    let instructions = size::instructions(&handler.body);
    if instructions > CODE_MAX {
        let what = format!(
            "the handler becomes {instructions} instructions; {CODE_MAX} are allowed: use repetitions"
        );
        return of_whole(Err(what));
    }
    let text = handler.to_string().len();
    if text > TEXT_MAX {
        let what = format!("the handler is {text} bytes of text; {TEXT_MAX} are allowed");
        return of_whole(Err(what));
    }
    Ok(Checked {
        longest_reply: cost::longest_reply(&handler.body),
        room: cost::room(&handler.body, 0),
        handler,
        steps,
        instructions,
    })
}

fn of_whole<T>(result: Result<T, String>) -> Result<T, CheckError> {
    result.map_err(|what| CheckError {
        statement: None,
        what,
    })
}

fn declarations(handler: &Handler) -> Result<(), String> {
    if handler.name.len() > NAME_MAX || !is_name(&handler.name) {
        return Err(format!(
            "{:?} is no name of a handler: a letter, then letters, digits and _, {NAME_MAX} at most, and no word of the language",
            handler.name
        ));
    }
    if handler.regions.len() > REGIONS_MAX {
        return Err(format!("a handler has at most {REGIONS_MAX} regions"));
    }
    handler.regions.iter().try_for_each(region)?;
    let bytes = |region: &Region| u64::from(region.count) * u64::from(region.stride());
    let all: u64 = handler.regions.iter().map(bytes).sum();
    if all > MEMORY_MAX {
        return Err(format!(
            "the regions have {all} bytes together; {MEMORY_MAX} are allowed"
        ));
    }
    if handler.variables.len() > VARIABLES_MAX {
        return Err(format!("a handler has at most {VARIABLES_MAX} variables"));
    }
    let names = handler.regions.iter().map(|region| &region.name);
    names_apart(names)?;
    names_apart(handler.variables.iter().map(|variable| &variable.name))?;
    let exists = |kind| match kind {
        VariableKind::Word => true,
        VariableKind::Place(region) => usize::from(region) < handler.regions.len(),
    };
    match handler.variables.iter().find(|v| !exists(v.kind)) {
        Some(variable) => Err(format!("{} is a place of no region", variable.name)),
        None => Ok(()),
    }
}

fn names_apart<'a>(names: impl Iterator<Item = &'a String>) -> Result<(), String> {
    let mut seen = HashSet::new();
    for name in names {
        if !is_name(name) {
            return Err(format!(
                "{name:?} is no name: a letter, then letters, digits and _, and no word of the language"
            ));
        }
        if !seen.insert(name) {
            return Err(format!("there are two of the name {name}"));
        }
    }
    Ok(())
}

fn region(region: &Region) -> Result<(), String> {
    let name = &region.name;
    match region.kind {
        _ if region.count == 0 => Err(format!("{name} has nothing in it")),
        RegionKind::Rows(bytes)
            if bytes == 0 || bytes % 8 != 0 || u64::from(bytes) > MEMORY_MAX =>
        {
            Err(format!("a row of {name} has a multiple of 8 bytes"))
        }
        RegionKind::Table(key) if key == 0 || key % 8 != 0 || key > KEY_MAX => Err(format!(
            "a key of {name} has a multiple of 8 bytes, {KEY_MAX} at most"
        )),
        RegionKind::Table(_) if !region.count.is_power_of_two() || region.count < BUCKET => Err(
            format!("{name} has a power of two of slots, {BUCKET} at least"),
        ),
        _ => Ok(()),
    }
}
