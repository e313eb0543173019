//! Correlations and chunks; refusals and attacks are in `refusals.rs`.

mod refusals;

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

/// What a session says and gets, so that a change of the streams does not go unnoticed.
#[test]
fn messages_and_labels_are_as_they_were() {
    let digests = Depth::ALL.map(|depth| {
        let (mut sender, mut receiver) = states(depth);
        let mut hasher = blake3::Hasher::new();
        for count in [1000, 3001] {
            let (corrections, chosen) =
                receiver.extend(SecretBits::random(count, &mut generator(4))).unwrap();
            hasher.update(corrections.to_bytes());
            let zero = sender.extend(&corrections).unwrap();
            for label in chosen.labels().iter().chain(zero.labels()) {
                hasher.update(&label.to_le_bytes());
            }
        }
        hasher.finalize().to_hex()[..16].to_owned()
    });
    assert_eq!(digests, ["e4b02a93e6903293", "dfde9b60a0f5261a"]);
}
