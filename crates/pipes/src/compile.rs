//! Makes one loop of a list of pipes (`compile_pl` of *ASHs*, section 4.3): each word is loaded once, goes through all pipes, and is stored
//! once.
//!
//! The code goes through the message by 64 bytes, in registers of 128 bits where the order of words does not matter, and then by 8. The
//! fewer than 8 at a part's end go through [`List::passes`]' steps. Words of different gauges need no conversion: each pipe works on all
//! words in a register at once.

use std::sync::Arc;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I64, I64X2};
use cranelift_codegen::ir::{InstBuilder, MemFlags, Type, Value};
use cranelift_frontend::{FunctionBuilder, Variable};
use exos_jit::Function;

use crate::error::PipeError;
use crate::lower::Steps;
use crate::passes::{List, PIPES_MAX};
use crate::pipe::{Pipe, fold, ones_add};
use crate::state::State;

/// Bytes of a step of the large loop.
const STRIDE: i64 = 64;

/// A list of pipes as machine code. It is cheap to clone.
#[derive(Clone, Debug)]
pub struct Loop {
    list: List,
    copy: Arc<Function>,
    in_place: Arc<Function>,
}

impl Loop {
    /// Compiles a list.
    ///
    /// # Errors
    ///
    /// There is no machine code for this machine, or no memory for it.
    pub fn compile(list: List) -> Result<Self, PipeError> {
        let copy = Arc::new(function(&list, true)?);
        let in_place = match list.modifies() {
            true => copy.clone(),
            false => Arc::new(function(&list, false)?),
        };
        Ok(Self {
            list,
            copy,
            in_place,
        })
    }

    /// What it was made of.
    pub fn list(&self) -> &List {
        &self.list
    }

    /// Passes the next part of a message on its way to a destination of its length.
    ///
    /// # Errors
    ///
    /// As [`List::passes`], or the lengths differ. Nothing is written.
    pub fn copy(&self, from: &[u8], to: &mut [u8], state: &mut State) -> Result<(), PipeError> {
        if from.len() != to.len() {
            return Err(PipeError::Lengths(from.len(), to.len()));
        }
        state.part(&self.list, from.len())?;
        let (from, from_end) = from.split_at(from.len() & !7);
        let (to, to_end) = to.split_at_mut(from.len());
        let mut registers = self.before(state);
        let (ours, theirs) = (from.as_ptr(), to.as_mut_ptr());
        // SAFETY: `Body` reads and writes this many bytes, a multiple of 8, of both, which are as long and borrowed; and a register
        // for each pipe.
        unsafe {
            self.copy
                .call(ours, theirs, from.len(), registers.as_mut_ptr())
        };
        self.after(&registers, state);
        to_end.copy_from_slice(from_end);
        self.list.each(to_end, state.registers_mut());
        Ok(())
    }

    /// Passes the next part of a message in place. It is not written to if no pipe modifies.
    ///
    /// # Errors
    ///
    /// As [`List::passes`].
    pub fn in_place(&self, part: &mut [u8], state: &mut State) -> Result<(), PipeError> {
        state.part(&self.list, part.len())?;
        let (whole, end) = part.split_at_mut(part.len() & !7);
        let mut registers = self.before(state);
        let at = whole.as_mut_ptr();
        // SAFETY: as in `copy`; each step loads a word before it stores it, so that source and destination may be one.
        unsafe {
            self.in_place
                .call(at, at, whole.len(), registers.as_mut_ptr())
        };
        self.after(&registers, state);
        self.list.each(end, state.registers_mut());
        Ok(())
    }

    /// The code's registers: sums of this part alone, and of hashes what they have come to.
    fn before(&self, state: &State) -> [u64; PIPES_MAX] {
        let mut registers = [0; PIPES_MAX];
        let all = self.list.pipes().iter().zip(state.registers());
        for (to, (pipe, from)) in registers.iter_mut().zip(all) {
            if !pipe.commutative() {
                *to = *from;
            }
        }
        registers
    }

    fn after(&self, registers: &[u64; PIPES_MAX], state: &mut State) {
        let all = self.list.pipes().iter().zip(registers);
        for ((pipe, from), to) in all.zip(state.registers_mut()) {
            match pipe {
                // Of words with their low byte first: turned round, the sum is that of words in the network's order.
                Pipe::Checksum => {
                    let sum = (fold(*from) as u16).swap_bytes();
                    *to = ones_add(*to, u64::from(sum));
                }
                Pipe::Sum(_) => *to = to.wrapping_add(*from),
                Pipe::Hash(_) => *to = *from,
                Pipe::Swap(_) | Pipe::Xor(..) | Pipe::And(..) | Pipe::Or(..) => {}
            }
        }
    }
}

fn function(list: &List, store: bool) -> Result<Function, PipeError> {
    let described =
        exos_jit::compile(|build, parameters| Body::begin(build, parameters, list, store).all());
    described.map_err(|why| PipeError::Machine(why.to_string()))
}

/// The function: bytes from 0 on, below the length that it is given, of source and destination, and the registers.
struct Body<'a, 'b, 'l> {
    build: &'a mut FunctionBuilder<'b>,
    pipes: &'l [Pipe],
    store: bool,
    from: Value,
    to: Value,
    length: Value,
    registers: Value,
    at: Variable,
}

impl<'a, 'b, 'l> Body<'a, 'b, 'l> {
    fn begin(
        build: &'a mut FunctionBuilder<'b>,
        [from, to, length, registers]: [Value; 4],
        list: &'l List,
        store: bool,
    ) -> Self {
        let at = build.declare_var(I64);
        let zero = build.ins().iconst(I64, 0);
        build.def_var(at, zero);
        Self {
            build,
            pipes: list.pipes(),
            store,
            from,
            to,
            length,
            registers,
            at,
        }
    }

    fn all(mut self) {
        let words = self.load_registers();
        let large = self.build.ins().band_imm(self.length, -STRIDE);
        match self.pipes.iter().all(|pipe| pipe.commutative()) {
            true => {
                let lanes = self.zero_lanes();
                self.repeat(I64X2, &lanes, large, STRIDE);
                self.add_lanes(&lanes, &words);
            }
            false => self.repeat(I64, &words, large, STRIDE),
        }
        self.repeat(I64, &words, self.length, 8);
        self.store_registers(&words);
        let nothing = self.build.ins().iconst(I64, 0);
        self.build.ins().return_(&[nothing]);
    }

    /// While the position is below this end, which is that many strides away: all values of a stride.
    fn repeat(&mut self, width: Type, registers: &[Variable], end: Value, stride: i64) {
        let [head, body, behind] = [(); 3].map(|()| self.build.create_block());
        self.build.ins().jump(head, &[]);
        self.build.switch_to_block(head);
        let at = self.build.use_var(self.at);
        let more = self.build.ins().icmp(IntCC::UnsignedLessThan, at, end);
        self.build.ins().brif(more, body, &[], behind, &[]);
        self.build.switch_to_block(body);
        let from = self.build.ins().iadd(self.from, at);
        let to = self.build.ins().iadd(self.to, at);
        for offset in (0..stride as i32).step_by(width.bytes() as usize) {
            self.value(width, registers, (from, to), offset);
        }
        let next = self.build.ins().iadd_imm(at, stride);
        self.build.def_var(self.at, next);
        self.build.ins().jump(head, &[]);
        self.build.switch_to_block(behind);
    }

    fn value(&mut self, width: Type, registers: &[Variable], at: (Value, Value), offset: i32) {
        let (from, to) = at;
        let value = self.build.ins().load(width, MemFlags::new(), from, offset);
        let value = Steps::new(self.build, width).pipes(self.pipes, registers, value);
        if self.store {
            self.build.ins().store(MemFlags::new(), value, to, offset);
        }
    }

    fn load_registers(&mut self) -> Vec<Variable> {
        let load = |number| {
            let value = self
                .build
                .ins()
                .load(I64, MemFlags::new(), self.registers, 8 * number);
            let variable = self.build.declare_var(I64);
            self.build.def_var(variable, value);
            variable
        };
        (0..self.pipes.len() as i32).map(load).collect()
    }

    fn store_registers(&mut self, words: &[Variable]) {
        for (number, variable) in (0..).zip(words) {
            let value = self.build.use_var(*variable);
            self.build
                .ins()
                .store(MemFlags::new(), value, self.registers, 8 * number);
        }
    }

    fn zero_lanes(&mut self) -> Vec<Variable> {
        let zero = self.build.ins().iconst(I64, 0);
        let zero = self.build.ins().splat(I64X2, zero);
        let begin = |_| {
            let variable = self.build.declare_var(I64X2);
            self.build.def_var(variable, zero);
            variable
        };
        self.pipes.iter().map(begin).collect()
    }

    fn add_lanes(&mut self, lanes: &[Variable], words: &[Variable]) {
        for (lane, word) in lanes.iter().zip(words) {
            let both = self.build.use_var(*lane);
            let low = self.build.ins().extractlane(both, 0);
            let high = self.build.ins().extractlane(both, 1);
            let old = self.build.use_var(*word);
            let sum = self.build.ins().iadd(low, high);
            let new = self.build.ins().iadd(old, sum);
            self.build.def_var(*word, new);
        }
    }
}
