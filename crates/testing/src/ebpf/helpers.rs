//! Functions of the kernel that the programs call: as far as they need them.

use std::borrow::Borrow;
use std::sync::atomic::AtomicU64;

use super::insn::Insn;
use super::layout::{CONTEXT, MAPS};
use super::machine::{Map, Program, Run};

/// `enum bpf_func_id`.
const MAP_LOOKUP_ELEM: i32 = 1;
const KTIME_GET_NS: i32 = 5;
const TAIL_CALL: i32 = 12;
const REDIRECT: i32 = 23;
const CSUM_DIFF: i32 = 28;
const KTIME_GET_COARSE_NS: i32 = 160;
const XDP_GET_BUFF_LEN: i32 = 188;
const XDP_LOAD_BYTES: i32 = 189;

/// The verdict `XDP_REDIRECT`.
const XDP_REDIRECT: u64 = 4;
const EINVAL: i64 = 22;

impl<W: Borrow<AtomicU64>> Program<'_, W> {
    /// Calls a helper. Its arguments are lost; a function of the kernel that is none is unknown here.
    pub(super) fn call(&self, run: &mut Run, insn: Insn) {
        if insn.src != 0 {
            run.refuse("a call of no helper");
        }
        let result = match insn.imm {
            MAP_LOOKUP_ELEM => Some(self.look_up(run)),
            KTIME_GET_NS | KTIME_GET_COARSE_NS => Some(run.now_ns),
            TAIL_CALL => {
                self.go_on(run);
                None
            }
            REDIRECT => match run.get(2) {
                0 => Some(XDP_REDIRECT),
                _ => run.refuse("a redirection with flags"),
            },
            CSUM_DIFF => Some(self.sum(run)),
            XDP_GET_BUFF_LEN => Some(run.packet.len() as u64),
            XDP_LOAD_BYTES => Some(self.load_bytes(run)),
            number => run.refuse(&format!("unknown helper {number}")),
        };
        run.registers[..6].fill(None);
        run.registers[0] = result;
    }

    /// `void *bpf_map_lookup_elem(map, key)`, of an array or a table.
    fn look_up(&self, run: &Run) -> u64 {
        let map = run.get(1);
        let at = match self.maps.get(map.wrapping_sub(MAPS) as usize) {
            Some((_, Map::Table { keys, .. })) => {
                let len = keys.first().map_or(0, Vec::len);
                let key = self.bytes(run, run.get(2), len);
                keys.iter().position(|one| one == key).map(|at| at as u32)
            }
            _ => {
                let key = self.bytes(run, run.get(2), 4).first_chunk();
                Some(u32::from_ne_bytes(*key.expect("four bytes")))
            }
        };
        at.and_then(|at| self.value(run, map, at)).unwrap_or(0)
    }

    /// `long bpf_tail_call(ctx, prog_array, index)`: there is no such program, and this one goes on.
    fn go_on(&self, run: &Run) {
        let map = run.get(2).wrapping_sub(MAPS);
        let is_right = matches!(self.maps.get(map as usize), Some((_, Map::Programs)));
        if run.get(1) != CONTEXT || !is_right {
            run.refuse("a tail call by other than the context and programs");
        }
        run.get(3);
    }

    /// `s64 bpf_csum_diff(from, from_size, to, to_size, seed)`, of what is added alone. Kernels give the sum more or less
    /// folded; they agree as sums do.
    fn sum(&self, run: &Run) -> u64 {
        let [from, from_len, to, len, seed] = [1, 2, 3, 4, 5].map(|register| run.get(register));
        if (from, from_len) != (0, 0) || len % 4 != 0 {
            run.refuse("a difference that takes something away, or is not of words");
        }
        let words = self.bytes(run, to, len as usize).as_chunks::<4>().0;
        let words = words.iter().map(|word| u32::from_ne_bytes(*word));
        let sum = words.fold(seed & 0xffff_ffff, |sum, word| sum + u64::from(word));
        let sum = (sum & 0xffff_ffff) + (sum >> 32);
        (sum & 0xffff_ffff) + (sum >> 32)
    }

    /// `long bpf_xdp_load_bytes(xdp_md, offset, buf, len)`, to the stack.
    fn load_bytes(&self, run: &mut Run) -> u64 {
        let [context, from, to, len] = [1, 2, 3, 4].map(|register| run.get(register));
        if context != CONTEXT {
            run.refuse("no context");
        }
        let (from, len) = (from as u32 as usize, len as u32 as usize);
        let Some(bytes) = run.packet.get(from..from + len) else {
            return -EINVAL as u64;
        };
        let bytes = bytes.to_vec();
        self.stack_bytes(run, to, len).copy_from_slice(&bytes);
        0
    }
}
