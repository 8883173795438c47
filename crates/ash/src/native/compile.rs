//! Cranelift: a function is described to it, and compiled for this machine.
//!
//! All functions have one form ([`Function::call`]): from bytes, to bytes, with words beside them. What is unsafe is their call, for
//! only who described a function knows what it reads and writes.

use std::ffi::c_void;

use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{AbiParam, Function as Described, Signature, UserFuncName, Value};
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use exos_jit::Executable;

/// Why there is no machine code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable(String);

impl std::fmt::Display for Unavailable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unavailable {}

fn because(why: impl ToString) -> Unavailable {
    Unavailable(why.to_string())
}

/// From, to, length, words.
type Entry = unsafe extern "C" fn(*const u8, *mut u8, usize, *mut u64) -> u64;

/// A function's code.
#[derive(Debug)]
pub(super) struct Function(Executable);

impl Function {
    /// Runs it. Returns its word.
    ///
    /// # Safety
    ///
    /// What the function reads and writes, as it was described, is there for the call, and for it alone where it is not read and written
    /// atomically.
    pub(super) unsafe fn call(
        &self,
        from: *const u8,
        to: *mut u8,
        length: usize,
        words: *mut u64,
    ) -> u64 {
        // SAFETY: `compile` gives all functions these parameters and this result, and they begin with their first byte.
        let entry = unsafe { std::mem::transmute::<*const c_void, Entry>(self.0.at()) };
        // SAFETY: the caller's promise.
        unsafe { entry(from, to, length, words) }
    }
}

/// Compiles a function that `describe` describes: from the first instruction on, with its parameters (from, to, length, words) given; each
/// of its ways ends with one word returned. It refers to nothing by name. Its blocks are sealed here.
///
/// # Errors
///
/// This machine is no x86-64, the processor lacks what Cranelift wants, or there is no memory for the code.
pub(super) fn compile(
    describe: impl FnOnce(&mut FunctionBuilder<'_>, [Value; 4]),
) -> Result<Function, Unavailable> {
    // Others want what was written to be told to what fetches instructions; or have the high byte first.
    if !cfg!(target_arch = "x86_64") {
        return Err(because("machine code is made for x86-64 only"));
    }
    let isa = isa()?;
    let mut signature = Signature::new(isa.default_call_conv());
    signature.params = vec![AbiParam::new(I64); 4];
    signature.returns = vec![AbiParam::new(I64)];
    let described = Described::with_name_signature(UserFuncName::default(), signature);
    let mut context = Context::for_function(described);
    let mut builders = FunctionBuilderContext::new();
    let mut build = FunctionBuilder::new(&mut context.func, &mut builders);
    let entry = build.create_block();
    build.append_block_params_for_function_params(entry);
    build.switch_to_block(entry);
    let parameters = std::array::from_fn(|number| build.block_params(entry)[number]);
    describe(&mut build, parameters);
    build.seal_all_blocks();
    build.finalize();
    let compiled = context.compile(&*isa, &mut ControlPlane::default());
    let compiled = compiled.map_err(|error| because(error.inner))?;
    assert!(
        compiled.buffer.relocs().is_empty(),
        "it refers to nothing by name"
    );
    let mapped = Executable::new(compiled.code_buffer());
    mapped.map(Function).map_err(because)
}

fn isa() -> Result<OwnedTargetIsa, Unavailable> {
    let mut flags = settings::builder();
    flags.set("opt_level", "speed").map_err(because)?;
    let isa = cranelift_native::builder().map_err(because)?;
    isa.finish(settings::Flags::new(flags)).map_err(because)
}
