//! Correlations, chunks, refusals, and the attack that the state's design excludes.

use proptest::prelude::*;

use super::*;
use crate::cpu::CpuFeatures;
use crate::ot::values::{CorrelationOffset, SecretBits};
use crate::ot::{ideal, tree};
use crate::random::{Generator, Seed};

const SESSION: SessionId = SessionId([1; 32]);

fn generator(seed: u8) -> Generator {
    Seed::from_bytes([seed; 32]).generator()
}

fn states_on(cpu: CpuFeatures, depth: Depth) -> (CorrelatedSender, CorrelatedReceiver) {
    let mut generator = generator(1);
    let offset = CorrelationOffset::random(&mut generator);
    ideal::extension_on(cpu, depth, SESSION, offset, &mut generator)
}

fn states(depth: Depth) -> (CorrelatedSender, CorrelatedReceiver) {
    states_on(CpuFeatures::available(), depth)
}

fn levels() -> Vec<CpuFeatures> {
    let all = CpuFeatures::detect();
    vec![CpuFeatures::PORTABLE, all.limited_to("avx2"), all]
}

fn assert_correlated(sender: &[u128], receiver: &[u128], offset: u128, choices: &SecretBits) {
    assert_eq!((sender.len(), receiver.len()), (choices.count(), choices.count()));
    for (index, (zero, chosen)) in sender.iter().zip(receiver).enumerate() {
        assert_eq!(zero ^ chosen, offset * u128::from(choices.bit(index)), "transfer {index}");
    }
}

fn exchange(
    sender: &mut CorrelatedSender,
    receiver: &mut CorrelatedReceiver,
    choices: SecretBits,
) -> Vec<u128> {
    let count = choices.count();
    let (corrections, chosen) = receiver.extend(choices).unwrap();
    let (depth, check) = (receiver.depth(), if receiver.depth() == Depth::Four { 560 } else { 304 });
    assert_eq!(corrections.to_bytes().len(), depth.trees() * count.div_ceil(8) + check);
    let corrections = Corrections::from_bytes(count, depth, corrections.to_bytes()).unwrap();
    let zero = sender.extend(&corrections).unwrap();
    assert_correlated(zero.labels(), chosen.labels(), sender.offset().expose(), chosen.choices());
    zero.labels().to_vec()
}

#[test]
fn labels_are_correlated_for_odd_counts_on_every_level() {
    for (cpu, depth) in levels().into_iter().flat_map(|cpu| Depth::ALL.map(|depth| (cpu, depth))) {
        let (mut sender, mut receiver) = states_on(cpu, depth);
        for count in [1, 7, 8, 9, 127, 128, 129, 1000, 2047, 2048, 2049, 4096, 5000] {
            exchange(&mut sender, &mut receiver, SecretBits::random(count, &mut generator(2)));
        }
        exchange(&mut sender, &mut receiver, SecretBits::from_bools(&[true; 300]));
        exchange(&mut sender, &mut receiver, SecretBits::from_bools(&[false; 300]));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_run_of_chunks_stays_correlated(
        counts in prop::collection::vec(1..6000_usize, 1..6),
        depth in prop::sample::select(&Depth::ALL[..]),
        seed: u8,
    ) {
        let (mut sender, mut receiver) = states(depth);
        for count in counts {
            exchange(&mut sender, &mut receiver, SecretBits::random(count, &mut generator(seed)));
        }
    }
}

#[test]
fn a_hundred_thousand_and_a_full_chunk_are_correlated() {
    for depth in Depth::ALL {
        let (mut sender, mut receiver) = states(depth);
        for count in [100_003, MAXIMUM_CHUNK] {
            exchange(&mut sender, &mut receiver, SecretBits::random(count, &mut generator(3)));
        }
    }
}

#[test]
fn every_level_makes_the_same_messages_and_labels() {
    let run = |cpu, depth| {
        let (mut sender, mut receiver) = states_on(cpu, depth);
        let (corrections, chosen) = receiver.extend(SecretBits::random(3001, &mut generator(4))).unwrap();
        let zero = sender.extend(&corrections).unwrap();
        (corrections, chosen.labels().to_vec(), zero.labels().to_vec())
    };
    for depth in Depth::ALL {
        let results: Vec<_> = levels().into_iter().map(|cpu| run(cpu, depth)).collect();
        assert!(results.windows(2).all(|pair| pair[0] == pair[1]));
    }
}

#[test]
fn sides_on_different_processors_agree() {
    for depth in Depth::ALL {
        let (mut sender, _) = states_on(CpuFeatures::PORTABLE, depth);
        let (_, mut receiver) = states_on(CpuFeatures::detect(), depth);
        exchange(&mut sender, &mut receiver, SecretBits::random(4321, &mut generator(5)));
    }
}

#[test]
fn no_two_chunks_share_a_place_of_the_streams() {
    for depth in Depth::ALL {
        let (mut sender, mut receiver) = states(depth);
        let mut labels = Vec::new();
        for count in [128, 2048, 384, 2440] {
            labels.extend(exchange(&mut sender, &mut receiver, SecretBits::from_bools(&vec![true; count])));
        }
        let all = labels.len();
        labels.sort_unstable();
        labels.dedup();
        assert_eq!(labels.len(), all);
    }
}

#[test]
fn chunks_may_be_worked_on_in_any_order() {
    for depth in Depth::ALL {
        let (mut sender, mut receiver) = states(depth);
        let counts = [500, 3000, 1];
        let receiver_chunks: Vec<_> =
            counts.iter().map(|&count| receiver.next_chunk(count).unwrap()).collect();
        let mut sender_chunks: Vec<_> =
            counts.iter().map(|&count| sender.next_chunk(count).unwrap()).collect();
        let offset = sender.offset().expose();
        for chunk in receiver_chunks.into_iter().rev() {
            let choices = SecretBits::random(chunk.count(), &mut generator(6));
            let mut chosen = vec![0; chunk.count()];
            let corrections = chunk.extend_into(&choices, &mut chosen).unwrap();
            let chunk = sender_chunks.pop().unwrap();
            let mut zero = vec![0; chunk.count()];
            std::thread::scope(|scope| {
                scope.spawn(|| chunk.extend_into(&corrections, &mut zero).unwrap());
            });
            assert_correlated(&zero, &chosen, offset, &choices);
        }
    }
}

#[test]
fn choices_may_come_after_the_work() {
    for depth in Depth::ALL {
        for count in [1, 9, 2047, 2048, 2049, 5000] {
            let choices = SecretBits::random(count, &mut generator(6));
            let run = |is_late: bool| {
                let (_, mut receiver) = states(depth);
                let (chunk, mut labels) = (receiver.next_chunk(count).unwrap(), vec![0; count]);
                let corrections = match is_late {
                    true => chunk.expand_into(&mut labels).unwrap().correct(&choices, &labels).unwrap(),
                    false => chunk.extend_into(&choices, &mut labels).unwrap(),
                };
                (corrections, labels)
            };
            assert_eq!(run(true), run(false));
        }
        let (_, mut receiver) = states(depth);
        let expanded = receiver.next_chunk(10).unwrap().expand_into(&mut [0; 10]).unwrap();
        let refused = expanded.correct(&SecretBits::random(11, &mut generator(6)), &[0; 10]).unwrap_err();
        assert_eq!(refused, OtError::ItemCount { expected: 10, given: 11 });
    }
}

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

#[test]
fn an_exhausted_state_asks_for_new_base_transfers() {
    let mut counter = Counter { session: SESSION, next_cipher: MAXIMUM_TRANSFERS / 128 - 3 };
    assert_eq!(counter.take(257).unwrap_err(), OtError::Exhausted { requested: 257, left: 384 });
    assert!(counter.take(129).is_ok());
    assert_eq!(counter.take(1).unwrap_err(), OtError::Exhausted { requested: 1, left: 0 });
}

#[test]
fn states_print_nothing() {
    for depth in Depth::ALL {
        let (mut sender, mut receiver) = states(depth);
        assert_eq!(format!("{sender:?} {receiver:?}"), "CorrelatedSender(..) CorrelatedReceiver(..)");
        let chunks = (sender.next_chunk(1).unwrap(), receiver.next_chunk(1).unwrap());
        assert_eq!(format!("{chunks:?}"), "(SenderChunk(..), ReceiverChunk(..))");
    }
}

#[test]
fn lengths_are_those_of_the_book() {
    let lengths = |depth| [1, 2048, 1 << 18].map(|count| Corrections::byte_length(count, depth));
    assert_eq!(lengths(Depth::Four), [32 + 560, 8192 + 560, (4 << 18) + 560]);
    assert_eq!(lengths(Depth::Eight), [16 + 304, 4096 + 304, (2 << 18) + 304]);
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
