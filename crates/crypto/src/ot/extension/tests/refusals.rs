//! What is refused, and what attacks would give if it were not.

use super::*;

#[test]
fn corrections_of_another_chunk_are_refused() {
    for depth in Depth::ALL {
        let (mut sender, mut receiver) = states(depth);
        let choices = SecretBits::from_bools(&[false; 128]);
        drop(receiver.next_chunk(1).unwrap());
        let (corrections, _) = receiver.extend(choices).unwrap();
        assert_eq!(sender.extend(&corrections).unwrap_err(), OtError::Inconsistent);
    }
}

#[test]
fn one_wrong_bit_anywhere_is_refused() {
    for depth in Depth::ALL {
        let count = 300;
        // The first, second and last tree, the masking transfers, the hash of the choices, the digest.
        let strips = 38 * depth.trees();
        let check = strips + 16 * depth.trees();
        let places = [
            0,
            37,
            38,
            strips - 1,
            strips,
            strips + 84,
            check - 1,
            check,
            check + 15,
            check + 16,
            check + 47,
        ];
        for position in places {
            let (mut sender, mut receiver) = states(depth);
            let (corrections, _) = receiver.extend(SecretBits::random(count, &mut generator(4))).unwrap();
            let mut bytes = corrections.to_bytes().to_vec();
            bytes[position] ^= 1;
            let corrections = Corrections::from_bytes(count, depth, &bytes).unwrap();
            assert_eq!(sender.extend(&corrections).unwrap_err(), OtError::Inconsistent, "byte {position}");
        }
    }
}

/// A receiver whose trees do not fit its sums: whichever way the sender walks, it finds out.
#[test]
fn trees_that_were_grown_wrong_are_refused() {
    for depth in Depth::ALL {
        let mut generator = generator(9);
        let offset = CorrelationOffset::random(&mut generator);
        let (pairs, chosen) = ideal::base_transfers(tree::base_choices(depth, &offset), &mut generator);
        let cpu = CpuFeatures::available();
        let (sums, mut receiver) = CorrelatedReceiver::from_base(SESSION, depth, &pairs, &mut generator, cpu);
        let mut bytes = sums.to_bytes();
        // Both sums of one level of one tree.
        bytes[64 * 9] ^= 1;
        bytes[64 * 9 + 32] ^= 1;
        let sums = tree::TreeSums::from_bytes(&bytes).unwrap();
        let mut sender = CorrelatedSender::from_base(SESSION, depth, offset, &chosen, &sums, cpu);
        let (corrections, _) = receiver.extend(SecretBits::random(200, &mut generator)).unwrap();
        assert_eq!(sender.extend(&corrections).unwrap_err(), OtError::Inconsistent);
    }
}

/// The two corrections' sum, when it is the same for every tree.
fn common_sum(first: &Corrections, second: &Corrections) -> Option<Vec<u8>> {
    let strips = first.strips_length();
    let size = strips / first.depth.trees();
    let sum: Vec<u8> =
        first.bytes[..strips].iter().zip(&second.bytes[..strips]).map(|(one, other)| one ^ other).collect();
    sum.chunks_exact(size).all(|strip| *strip == sum[..size]).then(|| sum[..size].to_vec())
}

#[test]
fn attack_a_state_used_twice_shows_the_sum_of_the_choices() {
    for depth in Depth::ALL {
        let (_, mut receiver) = states(depth);
        let choices = [7, 8].map(|seed| SecretBits::random(1000, &mut generator(seed)));
        let expected: Vec<u8> =
            choices[0].expose().iter().zip(choices[1].expose()).map(|(one, other)| one ^ other).collect();

        // What a clone, a saved file or a rewound counter would amount to.
        let first = receiver.next_chunk(1000).unwrap();
        let rewound = ReceiverChunk::twin_for_attack(&first);
        let [first_choices, second_choices] = &choices;
        let mut labels = vec![0; 1000];
        let first = first.extend_into(first_choices, &mut labels).unwrap();
        let second = rewound.extend_into(second_choices, &mut labels).unwrap();
        assert_eq!(common_sum(&first, &second), Some(expected), "the sender reads the sum off two messages");

        // The state as it is: the next chunk comes from elsewhere.
        let third = receiver.next_chunk(1000).unwrap().extend_into(second_choices, &mut labels).unwrap();
        assert_eq!(common_sum(&first, &third), None);
        assert_eq!(common_sum(&second, &third), None);
    }
}

#[test]
fn corrections_of_wrong_length_are_refused() {
    for depth in Depth::ALL {
        let message = OtMessage::Corrections;
        for count in [1, 8, 9, 2048, 2049] {
            let expected = Corrections::byte_length(count, depth);
            for sent in [0, expected - 1, expected + 1, expected + 32] {
                let refused = Corrections::from_bytes(count, depth, &vec![0; sent]).unwrap_err();
                assert_eq!(refused, OtError::MessageLength { message, expected, sent });
            }
            assert_eq!(Corrections::from_bytes(count, depth, &vec![0; expected]).unwrap().count(), count);
        }
    }
}

#[test]
fn corrections_with_bits_beyond_the_last_transfer_are_refused() {
    for depth in Depth::ALL {
        let message = OtMessage::Corrections;
        for count in [1, 9, 2047, 2051] {
            let (length, size) = (Corrections::byte_length(count, depth), strips_length(count, depth));
            for position in [size - 1, size - (count % BLOCK).div_ceil(8) - 1] {
                let mut bytes = vec![0; length];
                bytes[position] = 0x80;
                let refused = Corrections::from_bytes(count, depth, &bytes).unwrap_err();
                assert_eq!(refused, OtError::PaddingBits { message, transfers: count });
            }
        }
        for count in [2048, 2056] {
            assert!(
                Corrections::from_bytes(count, depth, &vec![0xff; Corrections::byte_length(count, depth)])
                    .is_ok()
            );
        }
    }
}

#[test]
fn chunks_without_transfers_or_above_the_limit_are_refused() {
    for depth in Depth::ALL {
        let (mut sender, mut receiver) = states(depth);
        for requested in [0, MAXIMUM_CHUNK + 1] {
            let refused = OtError::ChunkSize { requested, limit: MAXIMUM_CHUNK };
            assert_eq!(sender.next_chunk(requested).unwrap_err(), refused);
            assert_eq!(receiver.next_chunk(requested).unwrap_err(), refused);
            assert_eq!(Corrections::from_bytes(requested, depth, &[]).unwrap_err(), refused);
        }
    }
}

#[test]
fn counts_that_do_not_match_the_chunk_are_refused() {
    for depth in Depth::ALL {
        let (mut sender, mut receiver) = states(depth);
        let refused = OtError::ItemCount { expected: 10, given: 11 };
        let choices = SecretBits::random(11, &mut generator(9));
        assert_eq!(
            receiver.next_chunk(10).unwrap().extend_into(&choices, &mut [0; 10]).unwrap_err(),
            refused
        );
        assert_eq!(
            receiver.next_chunk(11).unwrap().extend_into(&choices, &mut [0; 10]).unwrap_err(),
            OtError::ItemCount { expected: 11, given: 10 }
        );
        let (corrections, _) = receiver.extend(choices).unwrap();
        assert_eq!(sender.next_chunk(10).unwrap().extend(&corrections).unwrap_err(), refused);
    }
}

/// A receiver and a sender that were told different depths never get as far as labels.
#[test]
fn sides_of_different_depths_refuse_each_other() {
    let [four, eight] = Depth::ALL;
    for (ours, theirs) in [(four, eight), (eight, four)] {
        let ((mut sender, _), (_, mut receiver)) = (states(ours), states(theirs));
        let (corrections, _) = receiver.extend(SecretBits::random(1000, &mut generator(4))).unwrap();
        let expected = Corrections::byte_length(1000, ours);
        let refused = Corrections::from_bytes(1000, ours, corrections.to_bytes()).unwrap_err();
        let sent = corrections.to_bytes().len();
        assert_eq!(refused, OtError::MessageLength { message: OtMessage::Corrections, expected, sent });
        let refused = sender.extend(&corrections).unwrap_err();
        assert_eq!(refused, OtError::Depth { expected: ours, given: theirs });
    }
}

#[test]
fn attack_sums_that_fit_one_turn_pass_only_where_the_path_takes_it() {
    for depth in Depth::ALL {
        // The two sums of one level of one tree, one of them wrong: what the sender does not open does not hurt it.
        let results = [0, 1].map(|side| {
            let mut generator = generator(9);
            let offset = CorrelationOffset::random(&mut generator);
            let turn = (tree::base_choices(depth, &offset) >> 9 & 1) as usize;
            let (pairs, chosen) = ideal::base_transfers(tree::base_choices(depth, &offset), &mut generator);
            let cpu = CpuFeatures::available();
            let (sums, mut receiver) =
                CorrelatedReceiver::from_base(SESSION, depth, &pairs, &mut generator, cpu);
            let mut bytes = sums.to_bytes();
            bytes[64 * 9 + 32 * side] ^= 1;
            let sums = tree::TreeSums::from_bytes(&bytes).unwrap();
            let mut sender = CorrelatedSender::from_base(SESSION, depth, offset, &chosen, &sums, cpu);
            let (corrections, _) = receiver.extend(SecretBits::random(200, &mut generator)).unwrap();
            (side == turn, sender.extend(&corrections).map(drop))
        });
        for (is_opened, result) in results {
            assert_eq!(result, if is_opened { Err(OtError::Inconsistent) } else { Ok(()) });
        }
    }
}
