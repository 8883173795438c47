//! What tcpdump calls operations, responses and types of records, and how it writes a time to live.

pub(super) const TYPE_A: u16 = 1;
pub(super) const TYPE_NS: u16 = 2;
pub(super) const TYPE_CNAME: u16 = 5;
pub(super) const TYPE_SOA: u16 = 6;
pub(super) const TYPE_PTR: u16 = 12;
pub(super) const TYPE_MX: u16 = 15;
pub(super) const TYPE_TXT: u16 = 16;
pub(super) const TYPE_AAAA: u16 = 28;
pub(super) const TYPE_SRV: u16 = 33;
pub(super) const TYPE_DNAME: u16 = 39;
pub(super) const TYPE_OPT: u16 = 41;

/// By operation code; a query has none.
pub(super) const OPERATIONS: [&str; 16] = [
    "",
    " inv_q",
    " stat",
    " op3",
    " notify",
    " update",
    " op6",
    " op7",
    " op8",
    " updateA",
    " updateD",
    " updateDA",
    " updateM",
    " updateMA",
    " zoneInit",
    " zoneRef",
];

/// By response code.
pub(super) const RESPONSES: [&str; 16] = [
    "",
    " FormErr",
    " ServFail",
    " NXDomain",
    " NotImp",
    " Refused",
    " YXDomain",
    " YXRRSet",
    " NXRRSet",
    " NotAuth",
    " NotZone",
    " Resp11",
    " Resp12",
    " Resp13",
    " Resp14",
    " NoChange",
];

/// The type of a record, if it is one of those that are common.
pub(super) fn type_name(kind: u16) -> Option<&'static str> {
    Some(match kind {
        TYPE_A => "A",
        TYPE_NS => "NS",
        TYPE_CNAME => "CNAME",
        TYPE_SOA => "SOA",
        TYPE_PTR => "PTR",
        13 => "HINFO",
        TYPE_MX => "MX",
        TYPE_TXT => "TXT",
        TYPE_AAAA => "AAAA",
        TYPE_SRV => "SRV",
        35 => "NAPTR",
        TYPE_DNAME => "DNAME",
        TYPE_OPT => "OPT",
        43 => "DS",
        46 => "RRSIG",
        47 => "NSEC",
        48 => "DNSKEY",
        50 => "NSEC3",
        52 => "TLSA",
        64 => "SVCB",
        65 => "HTTPS",
        251 => "IXFR",
        252 => "AXFR",
        255 => "ANY",
        257 => "CAA",
        _ => return None,
    })
}

/// Weeks, days, hours, minutes, seconds, without those that are zero.
pub(super) fn time_to_live(secs: u32) -> String {
    if secs == 0 {
        return "0s".to_owned();
    }
    let units = [
        (604_800, "w"),
        (86_400, "d"),
        (3600, "h"),
        (60, "m"),
        (1, "s"),
    ];
    let mut rest = secs;
    let mut shown = String::new();
    for (size, unit) in units {
        if rest >= size {
            shown += &format!("{}{unit}", rest / size);
            rest %= size;
        }
    }
    shown
}
