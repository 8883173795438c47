//! How all experiments measure: cell after cell, and in each run of a cell the contenders in turn.

use crate::experiment::figure::{Figure, Figures};
use crate::report::{Contender, Table, Tabular};
use crate::stage::Stage;
use exos_host::{Error, Result};
use indicatif::ProgressDrawTarget;
use std::fmt::Display;

/// An error where no cell was asked for.
pub(crate) fn some_cells<C>(cells: Vec<C>) -> Result<Vec<C>> {
    match cells.is_empty() {
        true => Err(Error::new("no cell has such a name").mend("see --list")),
        false => Ok(cells),
    }
}

/// Measures cell after cell, with this many contenders in each, and shows what came of each when it is done.
pub(crate) fn measure_cells<T, C: Tabular>(
    stage: &Stage,
    cells: &[T],
    contenders: usize,
    mut measure: impl FnMut(&T) -> Result<Vec<C>>,
) -> Result<Vec<C>> {
    let progress = &stage.progress;
    progress.reset();
    progress.set_length((cells.len() * contenders * stage.runs as usize) as u64);
    progress.set_draw_target(ProgressDrawTarget::stderr());
    let mut all = Vec::new();
    for cell in cells {
        let cases = measure(cell)?;
        progress.suspend(|| eprint!("{}", Table::of(&cases).rows_text()));
        all.extend(cases);
    }
    progress.finish_and_clear();
    Ok(all)
}

/// Measures all cells once, then all again, as often as asked for, so that drift of the machine meets all alike. Where it cannot go on,
/// it shows what it has measured until then.
pub(crate) fn in_rounds<T>(
    stage: &Stage,
    cells: &[T],
    name: impl Fn(&T) -> String,
    mut measure: impl FnMut(&T, &mut Figures) -> Result<()>,
) -> Result<Vec<Figure>> {
    let progress = &stage.progress;
    progress.set_length((cells.len() * stage.runs as usize) as u64);
    progress.set_draw_target(ProgressDrawTarget::stderr());
    let mut figures = Figures::default();
    for _ in 0..stage.runs {
        for cell in cells {
            progress.set_message(name(cell));
            if let Err(error) = measure(cell, &mut figures) {
                let until_then = figures.into_vec();
                if !until_then.is_empty() {
                    progress.suspend(|| eprint!("{}", Table::of(&until_then).text()));
                }
                return Err(error);
            }
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    Ok(figures.into_vec())
}

/// Measures the contenders of a cell in turn, as often as asked for: what disturbs the machine for a while disturbs all of
/// them. Each turn begins with what `before` does, which all contenders are given. Returns what came of that in each run, and
/// the runs of each contender.
pub(crate) fn in_turn<B, C: Display, R>(
    stage: &Stage,
    cell: impl Display,
    contenders: &[C],
    mut before: impl FnMut(u32) -> Result<B>,
    mut measure: impl FnMut(&B, &C) -> Result<R>,
) -> Result<(Vec<B>, Vec<Vec<R>>)> {
    let mut beginnings = Vec::new();
    let mut runs: Vec<Vec<R>> = contenders.iter().map(|_| Vec::new()).collect();
    for run in 0..stage.runs {
        stage.progress.set_message(cell.to_string());
        let beginning = before(run)?;
        for (contender, runs) in contenders.iter().zip(&mut runs) {
            let message = format!("{cell}, {contender}");
            stage.progress.set_message(message);
            runs.push(measure(&beginning, contender)?);
            stage.progress.inc(1);
        }
        beginnings.push(beginning);
    }
    Ok((beginnings, runs))
}

/// Measures the contenders of a cell in turn, as [`in_turn`] does, with nothing before; what each did.
pub(crate) fn compare<C: Display, O: Contender>(
    stage: &Stage,
    cell: impl Display,
    contenders: &[C],
    name: impl Fn(&C) -> O::Who,
    mut measure: impl FnMut(&C) -> Result<O::Run>,
) -> Result<Vec<O>> {
    let (_, runs) = in_turn(
        stage,
        cell,
        contenders,
        |_| Ok(()),
        |(), contender| measure(contender),
    )?;
    Ok(outcomes_of(contenders, runs, name))
}

/// What each of some did in its runs.
pub(crate) fn outcomes_of<C, O: Contender>(
    contenders: &[C],
    runs: Vec<Vec<O::Run>>,
    name: impl Fn(&C) -> O::Who,
) -> Vec<O> {
    let each = contenders.iter().zip(runs);
    each.map(|(contender, runs)| O::of(name(contender), runs))
        .collect()
}
