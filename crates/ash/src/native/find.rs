//! A look-up in a table, which the code calls.

use std::sync::atomic::AtomicU64;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{
    AbiParam, InstBuilder, Signature, StackSlotData, StackSlotKind, Value,
};

use super::Generator;
use crate::code::{Find, RegionKind};
use crate::table::{SLOT, Table};

impl Generator<'_, '_> {
    /// The word under the key that the message has there.
    pub(super) fn look_up(&mut self, find: &Find) -> Value {
        let number = usize::from(find.table);
        let region = &self.handler.regions[number];
        let RegionKind::Table(key_max) = region.kind else {
            unreachable!("checked: a table");
        };
        let (from, length) = (self.word(&find.from), self.word(&find.length));
        let key = self.part(from, length);
        let start = i64::from(self.layout.start(number));
        let table = self.build.ins().iadd_imm(self.memory, start);
        let shape = [region.count, key_max].map(|of| self.constant(of.into()));
        let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, 8, 3);
        let slot = self.build.create_sized_stack_slot(slot);
        let word = self.build.ins().stack_addr(I64, slot, 0);
        let has = self.call([table, shape[0], shape[1], key, length, word]);
        let zero = self.constant(0);
        let has_none = self.compare(IntCC::Equal, has, zero);
        self.give_up_if(has_none);
        self.build.ins().stack_load(I64, slot, 0)
    }

    /// Calls [`find`].
    fn call(&mut self, arguments: [Value; 6]) -> Value {
        let mut signature = Signature::new(self.build.func.signature.call_conv);
        signature.params = vec![AbiParam::new(I64); 6];
        signature.returns = vec![AbiParam::new(I64)];
        let signature = self.build.import_signature(signature);
        let callee: Finder = find;
        let callee = self.constant(callee as usize as i64);
        let call = self
            .build
            .ins()
            .call_indirect(signature, callee, &arguments);
        self.build.inst_results(call)[0]
    }
}

type Finder = unsafe extern "C" fn(*const AtomicU64, u64, u64, *const u8, usize, *mut u64) -> u64;

/// 1 and the word under a key; 0 if there is none, or its entry is changing.
///
/// # Safety
///
/// The table has as many slots, for such keys; the key has its bytes, and there is room for the word.
unsafe extern "C" fn find(
    table: *const AtomicU64,
    count: u64,
    key_max: u64,
    key: *const u8,
    length: usize,
    word: *mut u64,
) -> u64 {
    let words = count as usize * (u64::from(SLOT) + key_max) as usize / 8;
    // SAFETY: the caller's promise; the memory's words are atomic, and outlive the call.
    let words = unsafe { std::slice::from_raw_parts(table, words) };
    // SAFETY: a part of the message, which is borrowed for the call.
    let key = unsafe { std::slice::from_raw_parts(key, length) };
    let table = Table::new(words, count as u32, key_max as u32);
    let Some(found) = table.get(key) else {
        return 0;
    };
    // SAFETY: the code's own stack.
    unsafe { word.write(found) };
    1
}
