//! Single operations and small networks against onnxruntime: its answers are stored in `fixtures/cases.bin`, which
//! `fixtures/make.py` makes.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::collections::BTreeMap;
use std::path::Path;

use network::freeze::{FreezeOptions, freeze};
use network::image::{Image, Normalization};
use network::inference_model::ImageFormat;
use network::reference::{self, float};
use network::walk::Network;
use serde::Deserialize;
use sordino_onnx::{ImportOptions, Imported, import_file};

const CASES: &[u8] = include_bytes!("fixtures/cases.bin");
/// Of the largest logit.
const TOLERANCE: f32 = 1e-3;

#[derive(Deserialize)]
struct Header {
    name: String,
    note: String,
    model: usize,
    input: usize,
    output: usize,
    beside: BTreeMap<String, usize>,
}

struct Case {
    name: String,
    note: String,
    imported: Result<Imported, String>,
    input: Vec<f32>,
    output: Vec<f32>,
}

/// All cases, each imported from a folder of its own.
fn cases() -> Vec<Case> {
    let mut rest = CASES;
    let mut cases = Vec::new();
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| *byte == b'\n').unwrap();
        let header: Header = serde_json::from_slice(&rest[..end]).unwrap();
        rest = &rest[end + 1..];
        let mut take = |bytes: usize| {
            let (taken, left) = rest.split_at(bytes);
            rest = left;
            taken
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.onnx");
        std::fs::write(&path, take(header.model)).unwrap();
        let (input, output) = (floats(take(header.input)), floats(take(header.output)));
        for (name, bytes) in &header.beside {
            std::fs::write(folder.path().join(name), take(*bytes)).unwrap();
        }
        let imported = import_file(&path, &ImportOptions::default()).map_err(|error| error.to_string());
        cases.push(Case { name: header.name, note: header.note, imported, input, output });
    }
    cases
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// The input as the network takes it: channel by channel, and with what was taken out of the network done.
fn prepared(case: &Case, imported: &Imported) -> Vec<f32> {
    let shape = imported.network.input();
    let (channels, pixels) = (shape.channels, shape.pixels() as usize);
    let mut image = case.input.clone();
    if case.name.starts_with("channels-last-input") {
        let place = |index: usize| index % pixels * channels + index / pixels;
        image = (0..image.len()).map(|index| case.input[place(index)]).collect();
    }
    if let Some(normalization) = &imported.normalization {
        for (index, value) in image.iter_mut().enumerate() {
            let channel = index / pixels;
            *value = *value * normalization.scale[channel] + normalization.shift[channel];
        }
    }
    image
}

#[test]
fn every_operation_answers_as_onnxruntime_does() {
    let cases = cases();
    assert!(cases.len() >= 110, "{} cases", cases.len());
    let mut faults = Vec::new();
    for case in &cases {
        let imported = match &case.imported {
            Ok(imported) => imported,
            Err(error) => {
                faults.push(format!("{}: {error}", case.name));
                continue;
            }
        };
        let network = &imported.network;
        let trace = float::run(network, network.weights(), None, &prepared(case, imported)).unwrap();
        let largest = case.output.iter().fold(0.1_f32, |largest, value| largest.max(value.abs()));
        let tolerance = if case.note == "half" { 5e-3 } else { TOLERANCE };
        let is_close = |(came, expected): (&f32, &f32)| (came - expected).abs() <= tolerance * largest;
        if trace.logits().len() != case.output.len() || !trace.logits().iter().zip(&case.output).all(is_close)
        {
            faults.push(format!("{}: {:?}, expected {:?}", case.name, trace.logits(), case.output));
        }
    }
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn notes_and_normalization_come_where_they_should() {
    for case in cases() {
        let Ok(imported) = case.imported else { panic!("{}", case.name) };
        let is_left_out = imported.notes.iter().any(|note| note.contains("at the end is left out"));
        assert_eq!(is_left_out, case.note == "left out", "{}: {:?}", case.name, imported.notes);
        if case.note == "normalization" {
            assert!(imported.normalization.is_some(), "{}", case.name);
        }
    }
}

#[test]
fn what_is_taken_for_granted_about_pixels_is_what_is_done() {
    let note = |name: &str, mean: Option<Vec<f32>>, deviation: Option<Vec<f32>>| {
        let case = cases().into_iter().find(|case| case.name == name).unwrap();
        case.imported.unwrap().pixel_note(&Normalization { mean, deviation }).unwrap_or_default()
    };
    let usual = |missing: &str| {
        format!(
            "pixels are normalized with the usual {missing} of CIFAR-10; name the {missing} that your network was trained with"
        )
    };
    assert_eq!(note("conv", None, None), usual("mean and deviation"));
    assert_eq!(note("conv", Some(vec![0.5; 3]), None), usual("deviation"));
    assert_eq!(note("conv", None, Some(vec![0.5; 3])), usual("mean"));
    assert_eq!(note("conv", Some(vec![0.5; 3]), Some(vec![0.5; 3])), "");
    // No channel of CIFAR's stands for the only one of a gray picture.
    let gray = note("one-channel", None, None);
    assert!(
        gray.contains("0.5 and 0.25 as mean and deviation, for want of usual ones for images of 1 channel;"),
        "{gray}"
    );
    assert!(note("torch-normalized-script", None, None).contains("expect them from 0 to 1"));
}

/// Frozen on random images, the integers say what the floats say, within what rounding allows.
#[test]
fn every_case_freezes_and_its_integers_agree() {
    for case in cases() {
        let Ok(Imported { network, .. }) = case.imported else { panic!("{}", case.name) };
        let images: Vec<Image> = (0..3).map(|seed| Image::random(network.input(), seed)).collect();
        let frozen = freeze(&network, network.weights(), None, &images, &FreezeOptions::default());
        let (model, report) = frozen.unwrap_or_else(|error| panic!("{}: {error}", case.name));
        assert_eq!(report.overflow_count(), 0, "{}", case.name);
        let format = ImageFormat::usual(network.input().channels);
        let unit = f64::powi(2.0, i32::try_from(model.outline().logit_fraction()).unwrap());
        for image in &images {
            let expected = float::run(&network, network.weights(), None, &format.normalize(image)).unwrap();
            let largest = expected.logits().iter().fold(1.0_f32, |largest, value| largest.max(value.abs()));
            for (logit, expected) in reference::run(&model, image).unwrap().iter().zip(expected.logits()) {
                let difference = (*logit as f64 / unit - f64::from(*expected)).abs();
                assert!(difference < 0.1 * f64::from(largest), "{}: {logit} {expected}", case.name);
            }
        }
    }
}

#[test]
fn a_file_cut_anywhere_is_refused_or_read() {
    let folder = tempfile::tempdir().unwrap();
    let header_end = CASES.iter().position(|byte| *byte == b'\n').unwrap();
    let header: Header = serde_json::from_slice(&CASES[..header_end]).unwrap();
    let model = &CASES[header_end + 1..][..header.model];
    for end in (0..model.len()).step_by(7) {
        // Fields are in any order, so that a file without its end may still be a network.
        drop(sordino_onnx::import(
            &model[..end],
            &sordino_onnx::ExternalFiles::in_folder(folder.path()),
            &ImportOptions::default(),
        ));
    }
    let error = import_file(Path::new("/nonexistent.onnx"), &ImportOptions::default()).unwrap_err();
    assert!(error.to_string().contains("cannot read"), "{error}");
}

#[test]
fn bits_turned_anywhere_never_panic() {
    let mut rest = CASES;
    let mut number = 0_usize;
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| *byte == b'\n').unwrap();
        let header: Header = serde_json::from_slice(&rest[..end]).unwrap();
        let total = header.model + header.input + header.output + header.beside.values().sum::<usize>();
        let model = &rest[end + 1..][..header.model];
        rest = &rest[end + 1 + total..];
        for turn in 0..40 {
            let mut damaged = model.to_vec();
            number =
                number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407 + turn);
            let place = (number >> 33) % damaged.len();
            damaged[place] ^= 1 << (number >> 61);
            if let Ok(imported) = sordino_onnx::import(
                &damaged,
                &sordino_onnx::ExternalFiles::none(),
                &ImportOptions::default(),
            ) {
                assert!(imported.network.walk().classes() >= 1);
            }
        }
    }
}

/// What the fuzzer starts from is understood by the importer.
#[test]
fn seeds_of_the_fuzzer_are_models() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/onnx_model");
    let seeds: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(seeds.len() >= 8);
    for seed in seeds {
        import_file(&seed, &ImportOptions::default())
            .unwrap_or_else(|error| panic!("{}: {error}", seed.display()));
    }
}
