//! Programs that want a core and do nothing with it.

use crate::stage::helper::{Helper, say_ready};
use exos_host::Result;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// One of them.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Busy {
    /// When it ends by itself.
    pub seconds: f64,
}

impl Helper for Busy {
    const NAME: &'static str = "busy";
    type Measured = ();

    fn run(self) -> Result<()> {
        say_ready()?;
        let (begin, length) = (Instant::now(), Duration::from_secs_f64(self.seconds));
        while begin.elapsed() < length {
            std::hint::spin_loop();
        }
        Ok(())
    }
}
