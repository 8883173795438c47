//! Header compression beside a decoder and an encoder of others' (loona-hpack).

use exos_http2::hpack::{Decoder, DynamicEncoder, encoder};
use exos_http2::limits::SENT_TABLE_LEN;
use proptest::prelude::*;

type Field = (Vec<u8>, Vec<u8>);

fn decoded(decoder: &mut Decoder, block: &[u8]) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    let field = |name: &[u8], value: &[u8]| fields.push((name.to_vec(), value.to_vec()));
    decoder.decode(block, field).ok()?;
    Some(fields)
}

fn field() -> impl Strategy<Value = Field> {
    let names = prop_oneof![
        Just(b":path".to_vec()),
        Just(b"accept-encoding".to_vec()),
        Just(b"x-a".to_vec()),
        prop::collection::vec(any::<u8>(), 1..20),
    ];
    (names, prop::collection::vec(any::<u8>(), 0..60))
}

/// What happens to an encoder.
#[derive(Clone, Debug)]
enum Step {
    Block(Vec<Field>),
    Resize(usize),
}

/// Few different fields, so that they come again, and some that do not.
fn step() -> impl Strategy<Value = Step> {
    let known = (0..6usize, 0..5u8).prop_map(|(name, value)| {
        let names = ["server", "date", "etag", "set-cookie", ":status", "x-y"];
        let value = vec![b'0' + value; 1 << (2 * value)];
        (names[name].into(), value)
    });
    let fields = prop::collection::vec(prop_oneof![8 => known, 1 => field()], 1..8);
    prop_oneof![
        8 => fields.prop_map(Step::Block),
        1 => prop_oneof![Just(0), 1..400usize, Just(1 << 16)].prop_map(Step::Resize),
    ]
}

proptest! {
    /// What another encoder makes, with a table that fills and from which entries go, is decoded.
    #[test]
    fn blocks_of_others_are_decoded(lists in prop::collection::vec(prop::collection::vec(field(), 0..12), 1..20)) {
        let (mut theirs, mut ours) = (loona_hpack::Encoder::new(), Decoder::new(4096));
        for fields in lists {
            let all = fields.iter().map(|(name, value)| (&name[..], &value[..]));
            let block = theirs.encode(all);
            prop_assert_eq!(decoded(&mut ours, &block), Some(fields));
        }
    }

    /// What ours makes is decoded by another.
    #[test]
    fn blocks_of_ours_are_decoded(fields in prop::collection::vec((field(), any::<bool>()), 0..20)) {
        let mut block = Vec::new();
        for ((name, value), is_kept) in &fields {
            match is_kept {
                true => encoder::push_kept(&mut block, name, value),
                false => encoder::push(&mut block, name, value),
            }
        }
        let wanted: Vec<Field> = fields.into_iter().map(|(field, _)| field).collect();
        prop_assert_eq!(loona_hpack::Decoder::new().decode(&block).ok(), Some(wanted.clone()));
        prop_assert_eq!(decoded(&mut Decoder::new(4096), &block), Some(wanted));
    }

    /// What ours makes for a peer with a table, whose size changes, is decoded by another, block by block; and is no longer than
    /// without, but for what is said of the size.
    #[test]
    fn blocks_for_a_peer_are_decoded(steps in prop::collection::vec(step(), 1..60)) {
        let (mut ours, mut theirs) = (DynamicEncoder::default(), loona_hpack::Decoder::new());
        theirs.set_max_allowed_table_size(SENT_TABLE_LEN);
        let mut resizes = 0;
        for step in steps {
            let fields = match step {
                Step::Resize(len_max) => {
                    ours.set_len_max(len_max);
                    resizes = 6;
                    continue;
                }
                Step::Block(fields) => fields,
            };
            let mut parts = [Vec::new(), Vec::new()];
            for (at, (name, value)) in fields.iter().enumerate() {
                encoder::push(&mut parts[usize::from(2 * at > fields.len())], name, value);
            }
            let [begin, rest] = &parts;
            let coded = ours.encode(&[begin, rest]);
            prop_assert!(coded.len() <= begin.len() + rest.len() + resizes);
            resizes = 0;
            prop_assert_eq!(theirs.decode(coded).ok(), Some(fields));
        }
    }

    /// Of any bytes both say the same, but for sizes of tables and long numbers, about which ours is stricter.
    #[test]
    fn verdicts_agree(block in prop::collection::vec(any::<u8>(), 0..60)) {
        let mut theirs = loona_hpack::Decoder::new();
        theirs.set_max_allowed_table_size(4096);
        let ours = decoded(&mut Decoder::new(4096), &block);
        if let Some(ours) = ours {
            // A size at the end is sound (RFC 7541 does not say otherwise), and refused by theirs.
            match theirs.decode(&block) {
                Ok(theirs) => prop_assert_eq!(theirs, ours),
                Err(error) => prop_assert_eq!(error, loona_hpack::decoder::DecoderError::SizeUpdateAtEnd),
            }
        }
    }
}
