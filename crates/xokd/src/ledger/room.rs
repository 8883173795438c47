//! How many grants a user may have, beside all others that there are.
//!
//! Of each holder: what is shared counts as often. What is kept for a successor counts as its user's.

use super::denied::Denied;
use super::grant::Owner;
use crate::limits::{
    DIVIDED, DIVIDED_PER_USER_MAX, ECHOES, ECHOES_PER_USER_MAX, GRANTS, GRANTS_PER_USER_MAX,
};
use crate::pool::{Pool, Standing};

/// Who has some, and how many.
pub(super) type Taken<'a> = (&'a Owner, usize);

/// Refuses the asker one grant more, beside these, when its user has too many or leaves too few to others.
pub(super) fn check_grants(asker: &Owner, taken: &[Taken<'_>]) -> Result<(), Denied> {
    let things = "grants";
    let mine = check_bounds(asker, taken, (things, GRANTS_PER_USER_MAX, &GRANTS))?;
    let part = GRANTS.check_part(asker.standing, things, mine, standings(taken));
    part.map_err(Denied::Limit)
}

/// Refuses the asker one identifier of echo requests more, beside these.
pub(super) fn check_echoes(asker: &Owner, taken: &[Taken<'_>]) -> Result<(), Denied> {
    let things = "identifiers of echo requests";
    check_bounds(asker, taken, (things, ECHOES_PER_USER_MAX, &ECHOES)).map(drop)
}

/// Refuses the asker one divided port more, beside these of the interface.
pub(super) fn check_divided(asker: &Owner, taken: &[Taken<'_>]) -> Result<(), Denied> {
    let things = "ports that several programs share";
    check_bounds(asker, taken, (things, DIVIDED_PER_USER_MAX, &DIVIDED)).map(drop)
}

/// The bound of each user and of all; returns how many the asker's user has.
fn check_bounds(
    asker: &Owner,
    taken: &[Taken<'_>],
    (things, most, pool): (&str, usize, &Pool),
) -> Result<usize, Denied> {
    let mine = taken.iter().filter(|(o, _)| o.who.uid == asker.who.uid);
    let mine = mine.map(|(_, count)| count).sum();
    if mine >= most {
        let text = format!("the programs of this user have {mine} {things}; release some");
        return Err(Denied::Limit(text));
    }
    let room = pool.check(asker.standing, things, standings(taken));
    room.map_err(Denied::Limit)?;
    Ok(mine)
}

fn standings(taken: &[Taken<'_>]) -> impl Iterator<Item = (Standing, usize)> {
    taken.iter().map(|(owner, count)| (owner.standing, *count))
}
