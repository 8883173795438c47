//! What a slot may have of the link, one way: what the code in `gate/code/share.rs` computes.

use exos_filter::gate::layout::{Bucket, Share};
use exos_filter::gate::limits::{
    FADE_NS, FADE_SHIFT, PAUSE_SHIFT, PAUSES_MAX, PAUSES_PER_SEC, REFILL_NS_MAX, REFILL_NS_MIN,
};

/// Whether a packet of `bytes` may go: nothing beyond the ceiling; within the guarantee always; else from what others
/// leave unused, of which a slot has the less the more it has used of it lately, measured by its part and by what is
/// there. So it is divided by parts between those who want it, and all of it goes to one who wants it alone.
///
/// Buckets without a rate do not limit: a link without one is not divided.
pub fn police(share: &mut Share, link: &mut Bucket, bytes: u64, now: u64) -> bool {
    if share.ceiling.rate == 0 && link.rate == 0 {
        return true;
    }
    if share.ceiling.rate != 0 {
        refill(&mut share.ceiling, now);
        if share.ceiling.tokens <= 0 {
            return false;
        }
    }
    if link.rate != 0 {
        refill(link, now);
        if !is_guaranteed(&mut share.guarantee, bytes, now) && !may_use(share, link, bytes, now) {
            return false;
        }
        link.tokens -= bytes as i64;
    }
    if share.ceiling.rate != 0 {
        share.ceiling.tokens -= bytes as i64;
    }
    true
}

fn is_guaranteed(guarantee: &mut Bucket, bytes: u64, now: u64) -> bool {
    if guarantee.rate == 0 {
        return false;
    }
    refill(guarantee, now);
    let go = guarantee.tokens > 0;
    if go {
        guarantee.tokens -= bytes as i64;
    }
    go
}

/// Whether a packet may go from what others leave unused.
fn may_use(share: &mut Share, link: &Bucket, bytes: u64, now: u64) -> bool {
    let elapsed = now.wrapping_sub(share.since) as i64;
    if elapsed >= REFILL_NS_MIN as i64 {
        share.since = now;
        share.used = share.used.max(0);
        share.used -= (share.used * elapsed.min(FADE_NS as i64)) >> FADE_SHIFT;
    }
    if link.tokens <= 0 || share.used * 16 > link.tokens * share.part as i64 {
        return false;
    }
    share.used += bytes as i64;
    true
}

fn refill(bucket: &mut Bucket, now: u64) {
    let elapsed = now.wrapping_sub(bucket.last) as i64;
    if elapsed < REFILL_NS_MIN as i64 {
        return;
    }
    bucket.last = now;
    let room = bucket.burst as i64 - bucket.tokens;
    if room <= 0 {
        return;
    }
    let earned = if elapsed > REFILL_NS_MAX as i64 {
        bucket.rate * (elapsed as u64 >> PAUSE_SHIFT).min(PAUSES_MAX) / PAUSES_PER_SEC
    } else {
        bucket.rate * elapsed as u64 / 1_000_000_000
    };
    bucket.tokens += earned.min(room as u64) as i64;
}

mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A bucket of 4 ms.
    fn rate(bytes_per_second: u64) -> Bucket {
        Bucket {
            last: 1000 * MS,
            ..Bucket::new(bytes_per_second, bytes_per_second / 250)
        }
    }

    fn share(guarantee: u64, part: u64) -> Share {
        Share {
            guarantee: rate(guarantee),
            part: 16 * part,
            ..Share::default()
        }
    }

    /// Sends 1000 bytes as often as told; the bytes that may go in a second.
    fn throughput(shares: &mut [Share], link: &mut Bucket, every_us: &[u64]) -> Vec<u64> {
        let mut bytes = vec![0; shares.len()];
        for us in 0..1_000_000u64 {
            let now = 1000 * MS + us * 1000;
            for (i, share) in shares.iter_mut().enumerate() {
                let due = every_us[i] != 0 && us.is_multiple_of(every_us[i]);
                if due && police(share, link, 1000, now) {
                    bytes[i] += 1000;
                }
            }
        }
        bytes
    }

    fn assert_close(have: &[u64], want: &[u64]) {
        let close = |(have, want): (&u64, &u64)| have.abs_diff(*want) * 10 <= *want;
        assert!(have.iter().zip(want).all(close), "{have:?} is not {want:?}");
    }

    /// Who pauses has what the pause is worth, and not all that the bucket holds: at slow rates that is worth minutes.
    #[test]
    fn a_pause_earns_no_more_than_the_rate() {
        let mut bucket = Bucket {
            tokens: 0,
            last: 1000 * MS,
            ..Bucket::new(1000, 131_072)
        };
        refill(&mut bucket, 1200 * MS);
        assert!((199..=200).contains(&bucket.tokens), "{bucket:?}");
        refill(&mut bucket, 11_200 * MS);
        assert!((10_190..=10_200).contains(&bucket.tokens), "{bucket:?}");
        refill(&mut bucket, u64::MAX / 2);
        assert_eq!(bucket.tokens, 131_072);
    }

    /// 100 MB/s shared 1:1, one sends ten times what there is: both have their half.
    #[test]
    fn a_flood_takes_only_its_share() {
        let (mut shares, mut link) = ([share(50_000_000, 1); 2], rate(100_000_000));
        let bytes = throughput(&mut shares, &mut link, &[1, 10]);
        assert_close(&bytes, &[50_000_000, 50_000_000]);
    }

    /// What one leaves unused goes to the other, and comes back at once.
    #[test]
    fn an_idle_share_goes_to_others() {
        let (mut shares, mut link) = ([share(50_000_000, 1); 2], rate(100_000_000));
        let bytes = throughput(&mut shares, &mut link, &[1, 100]);
        assert_close(&bytes, &[90_000_000, 10_000_000]);
        let (mut shares, mut link) = ([share(50_000_000, 1); 2], rate(100_000_000));
        let bytes = throughput(&mut shares, &mut link, &[1, 0]);
        assert_close(&bytes, &[100_000_000, 0]);
    }

    #[test]
    fn weights_three_to_one() {
        let mut shares = [share(75_000_000, 3), share(25_000_000, 1)];
        let bytes = throughput(&mut shares, &mut rate(100_000_000), &[2, 2]);
        assert_close(&bytes, &[75_000_000, 25_000_000]);
    }

    /// Half of the link is nobody's: two who want it have it in equal parts, though one asks ten times as often.
    #[test]
    fn what_is_unused_is_divided_by_parts_and_not_by_who_asks_most() {
        let mut shares = [share(25_000_000, 1); 4];
        let bytes = throughput(&mut shares, &mut rate(100_000_000), &[1, 10, 0, 0]);
        assert_close(&bytes, &[50_000_000, 50_000_000, 0, 0]);
        let mut shares = [
            share(10_000_000, 1),
            share(30_000_000, 3),
            share(60_000_000, 6),
        ];
        let bytes = throughput(&mut shares, &mut rate(100_000_000), &[1, 2, 0]);
        assert_close(&bytes, &[25_000_000, 75_000_000, 0]);
    }

    /// Anyone who is alone has the whole link, also the least of very many.
    #[test]
    fn one_of_255_programs_alone_has_the_link() {
        let mut shares = [share(400_000, 1); 255];
        let mut every = [0; 255];
        every[7] = 5;
        let bytes = throughput(&mut shares, &mut rate(100_000_000), &every);
        assert_close(&bytes[7..8], &[100_000_000]);
    }

    /// A ceiling above the guarantee lets a program have what is spare, up to it.
    #[test]
    fn a_ceiling_holds_whatever_is_spare() {
        let capped = Share {
            ceiling: rate(70_000_000),
            ..share(50_000_000, 1)
        };
        let with = |link: Bucket, every: &[u64]| {
            throughput(&mut [capped, share(50_000_000, 1)], &mut { link }, every)
        };
        assert_close(&with(rate(100_000_000), &[1, 0]), &[70_000_000, 0]);
        assert_close(&with(rate(100_000_000), &[1, 5]), &[50_000_000, 50_000_000]);
        let unknown = Bucket::default();
        assert_close(&with(unknown, &[1, 1]), &[70_000_000, 1_000_000_000]);
    }

    /// Two CPUs that fade at once may take more than there is.
    #[test]
    fn less_than_nothing_used_is_nothing() {
        let mut share = Share {
            used: -5000,
            since: 1000 * MS,
            ..share(0, 1)
        };
        let link = &mut rate(100_000_000);
        assert!(police(&mut share, link, 1000, 1000 * MS));
        assert_eq!(share.used, -4000);
        assert!(police(&mut share, link, 1000, 1001 * MS));
        assert_eq!(share.used, 1000);
    }

    #[test]
    fn without_a_rate_nothing_is_limited() {
        let (mut share, mut link) = (Share::default(), Bucket::default());
        assert!(police(&mut share, &mut link, 1 << 30, 5));
        assert_eq!((share, link), Default::default());
    }
}
