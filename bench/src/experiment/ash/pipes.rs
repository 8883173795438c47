//! Copies of a message (Table 4), and what is saved by doing all that is done to its bytes in one loop (Table 5).

use crate::experiment::figure::{Figures, Goal};
use exos::pipes::comparison::{Place, Ways, rates};
use exos_host::{Error, Result};

/// Measures messages of a length.
pub(super) fn compare(bytes: u32, figures: &mut Figures) -> Result<()> {
    for (place, name) in [(Place::Cache, "cache"), (Place::Memory, "memory")] {
        let rates = rates(bytes as usize, place).map_err(|why| Error::new(why.to_string()))?;
        // Without AVX2 there is nothing to compare with.
        let Some(rates) = rates else { break };
        let name = format!("pipes/{bytes}/{name}");
        figures.add(format!("{name}/copy"), "MB/s", rates.copy);
        figures.add(format!("{name}/two-copies"), "MB/s", rates.twice);
        for (job, ways) in [("sum", rates.sum), ("sum-and-swap", rates.swap)] {
            add(&format!("{name}/{job}"), ways, figures);
        }
    }
    Ok(())
}

fn add(name: &str, ways: Ways, figures: &mut Figures) {
    figures.add(format!("{name}/passes"), "MB/s", ways.passes);
    figures.add(format!("{name}/one-loop"), "MB/s", ways.one_loop);
    figures.add(format!("{name}/by-hand"), "MB/s", ways.by_hand);
    let ratio = ways.one_loop / ways.passes;
    figures.add_goal(format!("{name}/ratio"), "", Goal::AtLeast(1.0), ratio);
}
