//! General filters behind the exact grants: each is a program of its own, which the program at the device calls.

use super::CONFIG_TAPS;
use crate::ebpf::{Condition, Emit, Label, Reg, Size};
use crate::filter::Filter;
use crate::gate::code::splice::splice;
use crate::gate::code::{Code, SLOT, STRAY, Side, TAPS, scratch};
use crate::gate::limits::GENERALS_MAX;
use crate::gate::maps::MapFds;
use crate::program::{CompileError, Program, xdp};

/// Offset in [`crate::gate::Config`].
const CONFIG_GENERALS: i16 = 20;

/// The program of one slot's general filter, at `index` of `generals`: packets that no exact grant covers and that
/// match go to `slot`, others on to the programs behind it. See [`crate::gate`].
pub fn general(
    maps: &MapFds,
    index: u32,
    filter: &Filter,
    slot: u32,
) -> Result<Program, CompileError> {
    assert!(index < GENERALS_MAX, "general filter {index}");
    let mut code = Code::new(maps, Side::In);
    let ends = code.ends();
    let [matched, missed, lost] = [(); 3].map(|()| code.label());
    splice(&mut code, filter, matched)?;
    code.jump(missed);
    code.bind(matched);
    code.resume(lost);
    code.set(Reg::R1, slot as i32);
    code.put(SLOT, Reg::R1);
    code.jump(ends.deliver);
    code.bind(missed);
    code.call_any(maps.generals, index + 1..GENERALS_MAX);
    code.resume(lost);
    code.emit_strays(ends);
    code.bind(lost);
    code.set(Reg::R0, xdp::PASS);
    code.exit();
    code.emit_used_ends(ends);
    Ok(Program::new(code.close()))
}

impl Code<'_> {
    /// Programs of general filters, if there are any; they do not come back.
    pub(super) fn call_generals(&mut self) {
        let none = self.label();
        self.lookup_index(self.maps.config, 0, none);
        self.load(Size::Word, Reg::R1, Reg::R0, CONFIG_GENERALS);
        self.jump_if(Reg::R1, Condition::Equal, 0, none);
        self.lookup_index(self.maps.scratch, self.side.scratch_index(), none);
        self.leave(STRAY, scratch::STRAY);
        self.call_any(self.maps.generals, 0..GENERALS_MAX);
        self.bind(none);
    }

    /// Fields of a program that was called: to `lost` when the maps are not there, which they are.
    fn resume(&mut self, lost: Label) {
        self.clear();
        self.measure();
        self.lookup_index(self.maps.scratch, self.side.scratch_index(), lost);
        self.resume_field(STRAY, scratch::STRAY);
        self.lookup_index(self.maps.config, 0, lost);
        self.load(Size::Word, Reg::R1, Reg::R0, CONFIG_TAPS);
        self.put(TAPS, Reg::R1);
    }
}
