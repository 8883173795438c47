//! The handlers that the kernel runs for a program.

use std::sync::Arc;

use exos_ash::Checked;
use exos_host::bpf::MappedArray;

/// The handlers of datagrams that the kernel runs for us.
#[derive(Default)]
pub(crate) struct InKernelHandlers(pub(super) Vec<One>);

#[derive(Clone)]
pub(super) struct One {
    pub(super) port: u16,
    pub(super) handler: Checked,
    pub(super) memory: Arc<MappedArray>,
}

impl InKernelHandlers {
    /// Others are in their place, or none.
    pub(crate) fn were_replaced(&mut self) {
        self.0.clear();
    }

    /// Those of other ports than this.
    pub(super) fn others(&self, port: u16) -> Vec<One> {
        let others = self.0.iter().filter(|one| one.port != port);
        others.cloned().collect()
    }
}
