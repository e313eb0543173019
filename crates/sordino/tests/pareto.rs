//! `sordino pareto` and `sordino reproduce` as a user meets them; no trainer needed.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::process::{Command, Output};

use serde_json::Value;
use sordino::network::mask::{ActivationMask, Bits, SiteMask};
use sordino::network::spec::NetworkSpec;
use sordino::network::walk::Operation;
use sordino::network::weights::{FloatWeights, LayerWeights};
use sordino::recipes::array::Array;
use sordino::recipes::checkpoint::{Arrays, Checkpoint, State};
use sordino::recipes::data::{SyntheticSize, synthetic};
use sordino::recipes::recipe::Recipe;

use support::scratch::ScratchFolder;

/// The root of the source.
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn sordino(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sordino")).args(arguments).output().unwrap()
}

fn answer(arguments: &[&str]) -> String {
    let output = sordino(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&answer(arguments)).unwrap()
}

fn refusal(arguments: &[&str]) -> String {
    let output = sordino(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// A run as training leaves it, with random weights and every third ReLU kept where it has a mask.
fn write_run(folder: &str, accuracy: f64, is_masked: bool) {
    let recipe = "title = \"a run\"\n[data]\nset = \"synthetic\"\n[network]\nname = \"resnet10:m=2\"\n[training]\n\
                  epochs = 3\nbatch = 8\n";
    let recipe = Recipe::from_toml(recipe).unwrap();
    let data = synthetic(&SyntheticSize { training: 1, test: 1, ..SyntheticSize::default() }).training;
    let spec = recipe.network.build(data.shape, data.classes.len()).unwrap();
    let mut state = State::new(recipe, &spec, data.classes.clone(), data.normalization());
    (state.epoch, state.accuracy) = (3, [("test".to_owned(), accuracy)].into());
    let thirds = |count: u64| SiteMask::Pixels(Bits::collect((0..count).map(|index| index % 3 == 0)));
    let masks = spec.walk().sites().iter().map(|site| thirds(site.shape.scalars())).collect();
    let mask = is_masked.then(|| ActivationMask::new(&spec, masks).unwrap().to_bytes());
    let weights = arrays_of(&spec, &FloatWeights::random(&spec, 3));
    let checkpoint = Checkpoint { state, weights, optimizer: Arrays::new(), mask };
    checkpoint.save(std::path::Path::new(folder), 1 << 20).unwrap();
}

fn arrays_of(spec: &NetworkSpec, weights: &FloatWeights) -> Arrays {
    let mut arrays = Arrays::new();
    for step in spec.walk().steps() {
        let mut put = |part: &str, shape: &[usize], values: &[f32]| {
            arrays.insert(format!("{}.{part}", step.name), Array::from_floats(shape, values));
        };
        match (&step.operation, weights.layer(&step.name)) {
            (Operation::Conv(conv), Some(LayerWeights::Linear { weights, .. })) => {
                put("weight", &[conv.outputs, conv.inputs / conv.groups, conv.filter, conv.filter], weights);
            }
            (_, Some(LayerWeights::Linear { weights, biases })) => {
                put("weight", &[biases.len(), weights.len() / biases.len()], weights);
                put("bias", &[biases.len()], biases);
            }
            (_, Some(LayerWeights::BatchNorm { scale, shift, mean, variance })) => {
                let parts = ["weight", "bias", "running_mean", "running_var"];
                for (part, values) in parts.into_iter().zip([scale, shift, mean, variance]) {
                    put(part, &[values.len()], values);
                }
            }
            _ => {}
        }
    }
    arrays
}

#[test]
fn what_is_measured_later_joins_the_record_and_the_page() {
    let scratch = ScratchFolder::new("measured");
    let (masked, full, model, page) =
        (scratch.at("runs/masked"), scratch.at("runs/full"), scratch.at("m.sordino"), scratch.at("p.html"));
    write_run(&masked, 0.8125, true);
    write_run(&full, 0.75, false);

    // As trained: nothing is frozen, nothing is measured, and the masked run beats the full one.
    let text = answer(&["pareto", &scratch.at("runs")]);
    assert!(text.contains("1 of 2 on the front") && text.contains("81.25%"), "{text}");
    assert_eq!(text.matches("not measured").count(), 3, "{text}");

    answer(&["freeze", &masked, "-o", &model, "--accuracy-images", "8", "--record"]);
    let record = || -> Value {
        serde_json::from_str(&std::fs::read_to_string(format!("{masked}/record.json")).unwrap()).unwrap()
    };
    assert_eq!(record()["integer_images"], 8);
    let tried = json(&["evaluate", &model, "--record", &masked, "--images", "20", "--json"]);
    assert_eq!((&tried["images"], &tried["digest"]), (&20.into(), &record()["model"]["digest"]));
    let percent = 100.0 * tried["integer_accuracy"].as_f64().unwrap();
    assert_eq!(record()["integer_accuracy"].as_f64(), Some(percent));
    assert_eq!(percent, 100.0 * tried["correct"].as_f64().unwrap() / 20.0);

    let bench = json(&["bench", "private", &model, "--repeat", "1", "--record", &masked, "--json"]);
    let timing = &record()["private"][0];
    assert_eq!(timing["online_s"], bench["online"]["wall_s"]);
    assert_eq!(
        timing["offline_bytes"].as_u64().unwrap(),
        bench["offline"]["bytes_up"].as_u64().unwrap() + bench["offline"]["bytes_down"].as_u64().unwrap()
    );

    // It says which protocol it belongs to, and what the images of a session take.
    assert_eq!(timing["protocol_version"], bench["protocol_version"]);
    assert_eq!(timing["further_offline_bytes"], bench["predicted"]["later_offline_bytes"]);
    let text = answer(&["pareto", &scratch.at("runs")]);
    assert!(text.contains("measured with protocol ") && text.contains("1 of 2 not measured"), "{text}");
    assert!(!text.contains("several versions"), "{text}");

    let groups = json(&["pareto", &scratch.at("runs"), "-o", &page, "--json"]);
    let points = groups[0]["points"].as_array().unwrap();
    assert_eq!(points.len(), 2);
    assert_eq!((&points[0]["on_front"], &points[0]["private"][0]), (&true.into(), timing));
    assert_eq!(points[0]["detail"]["masks"].as_array().unwrap().len(), 9);
    assert!(points[1].get("private").is_none());
    let page = std::fs::read_to_string(page).unwrap();
    let online = format!("{:.1}", 1e3 * timing["online_s"].as_f64().unwrap());
    assert!(page.contains(&format!(">{online}</td>")) && page.contains(">not measured</td>"));
    assert_eq!(page.matches("data:image/png").count(), 9);
}

/// Signets beside our results: comparisons and gated values apart, and never ReLUs alone.
#[test]
fn shared_signs_stand_beside_relus_by_their_comparisons() {
    let root = |name: &str| format!("{}/../../{name}", env!("CARGO_MANIFEST_DIR"));
    let text = answer(&["pareto", &root("results"), &root("records/signets")]);
    assert!(text.contains("accuracy against comparisons") && text.contains("gated values"), "{text}");
    // The paper prints 13.1K for 13,056 ReLUs.
    let row = text.lines().find(|line| line.contains("39,168")).unwrap();
    assert!(row.contains("13,056") && row.contains("68.25% (DeepReShape, 13.1K)"), "{row}");
    let groups = json(&["pareto", &root("records/signets"), "--json"]);
    for point in groups[0]["points"].as_array().unwrap() {
        assert!(point["comparisons"].is_u64() && point["gated_values"].is_u64(), "{point}");
        assert!(point.get("relus").is_none() && point.get("relus_before").is_none(), "{point}");
    }
}

/// What the page shows, as data: means over seeds, printed points, and the front by multiply-adds.
#[test]
fn the_data_of_the_page_are_in_the_json_too() {
    let root = |name: &str| format!("{}/../../{name}", env!("CARGO_MANIFEST_DIR"));
    let folders = [root("results"), root("records/seeds")];
    let groups = json(&["pareto", &folders[0], &folders[1], "--json"]);
    let line = &groups[0]["seeds"][0];
    assert_eq!((&line["relus"], &line["seeds"]), (&26_112.into(), &serde_json::json!([1, 2, 3])));
    assert_eq!(line["teachers"].as_array().unwrap().len(), 2);
    let papers = groups[0]["papers"].as_array().unwrap();
    assert!(["SNL", "SENet"].iter().all(|name| papers.iter().any(|point| point["paper"] == *name)));
    let points = groups[0]["points"].as_array().unwrap();
    let on_front = points.iter().filter(|point| point["on_multiply_adds_front"] == true).count();
    assert!(0 < on_front && on_front < points.len(), "{on_front}");
    let text = answer(&["pareto", &folders[0], &folders[1]]);
    assert!(text.contains("over 3 seeds, deviation 0.17; their teachers differ"), "{text}");
    assert!(text.contains(&format!("{on_front} on that against multiply-adds (m)")), "{text}");
}

#[test]
fn what_cannot_be_noted_is_refused() {
    let scratch = ScratchFolder::new("refused");
    let (run, other, model) = (scratch.at("run"), scratch.at("other"), scratch.at("m.sordino"));
    write_run(&run, 0.5, false);
    write_run(&other, 0.5, true);
    answer(&["freeze", &run, "-o", &model, "--accuracy-images", "2"]);
    let text = refusal(&["evaluate", &model, "--record", &other, "--images", "2"]);
    assert!(text.contains("0 records") && text.contains("frozen from"), "{text}");
    let text = refusal(&["bench", "private", "resnet10:m=2", "--record", &run, "--batch", "2"]);
    assert!(text.contains("one image at a time"), "{text}");
    let text = refusal(&["bench", "private", "hrn-2x5x3x:m=2", "--record", &other, "--repeat", "1"]);
    assert!(text.contains("0 records"), "{text}");
    let text = refusal(&["evaluate", &model]);
    assert!(text.contains("--data") && text.contains("--record"), "{text}");
    let text = refusal(&["pareto", &scratch.at("nowhere")]);
    assert!(text.contains("nothing at"), "{text}");
    assert!(!std::path::Path::new(&scratch.at("run/record.json")).exists());
}

#[test]
fn the_papers_tables_are_listed_without_a_trainer() {
    let list = json(&["reproduce", "--list", "--json"]);
    let rivals = list["rivals"].as_array().unwrap();
    let senet = |rival: &&Value| rival["paper"] == "SENet" && rival["data"] == "CIFAR-100";
    assert_eq!(rivals.iter().filter(senet).count(), 8);
    let list = list["tables"].as_array().unwrap();
    assert!(list.len() > 40, "{}", list.len());
    let table = list.iter().find(|entry| entry["id"] == "deepreshape-table-5").unwrap();
    let run = |row: &str| {
        let runs = table["runs"].as_array().unwrap();
        runs.iter().find(|run| run["row"] == row && run["way"] == "dkd").unwrap()
    };
    assert_eq!(
        (&run("2x5x3x m=8")["relus"], &run("2x5x3x m=8")["paper_relus"]),
        (&26_112.into(), &"26.1K".into())
    );
    assert_eq!(run("2x5x3x m=8")["paper_accuracy"], 72.65);
    assert_eq!(run("2x5x3x m=8")["ours"]["seed"], 1);
    // Whatever was not run has no value.
    assert!(run("2x5x3x m=16, reuse 16")["ours"].is_null());
    assert!(answer(&["reproduce", "--list"]).contains("not yet run"));
    let text = answer(&["reproduce", "deepreshape-table-5", "--row", "m=8", "--dry-run"]);
    assert!(text.contains("72.65%") && text.contains("2 networks"), "{text}");
}

#[test]
fn rows_become_recipes_that_can_be_used() {
    let scratch = ScratchFolder::new("recipes");
    let folder = scratch.at("recipes");
    let written = answer(&["reproduce", "snl-table-2", "--row", "49.9K", "--recipes", &folder]);
    let files: Vec<_> = written.lines().collect();
    assert_eq!(files.len(), 2, "{written}");
    let teacher = Recipe::from_file(std::path::Path::new(files[0])).unwrap();
    let student = Recipe::from_file(std::path::Path::new(files[1])).unwrap();
    assert!(teacher.optimize.is_none() && student.optimize.is_some());
    assert_eq!(teacher.network.name, student.network.name);
    // The same again: all files are named.
    let again = ["reproduce", "snl-table-2", "--row", "49.9K", "--recipes", &folder];
    assert_eq!(answer(&again), written);
    std::fs::write(files[1], "something else").unwrap();
    let text = refusal(&again);
    assert!(text.contains(files[1]) && text.contains("holds another recipe"), "{text}");
    assert_eq!(std::fs::read_to_string(files[1]).unwrap(), "something else");
    assert_eq!(answer(&["reproduce"]), answer(&["reproduce", "--list"]));
    let rows = json(&["reproduce", "snl-table-2", "--row", "49.9K", "--out", &folder, "--watch", "--json"]);
    assert!(rows.as_array().unwrap().iter().any(|row| row["state"] == "queued"), "{rows}");
    let text = answer(&["reproduce", "snl-table-2", "--row", "49.9K", "--dry-run"]);
    assert!(
        text.contains("ResNet18-49-9K-SNL\n") && text.contains("teachers: teacher-resnet18-seed1-"),
        "{text}"
    );
    let text = refusal(&["reproduce", "snl-table-2", "--row", "49.9K", "--watch", "--only", "wrong"]);
    assert!(
        text.contains("expected one of teacher-resnet18-seed1-") && text.contains("ResNet18-49-9K-SNL"),
        "{text}"
    );
    let text = refusal(&["reproduce", "--watch"]);
    assert!(text.contains("--watch needs a table or figure"), "{text}");
    let text = refusal(&["reproduce", "--row", "m=8"]);
    assert!(text.contains("--row needs a table or figure"), "{text}");
    let text = refusal(&["reproduce", "snl-tabel-2"]);
    assert!(text.contains("snl-table-2"), "{text}");
    let text = refusal(&["reproduce", "snl-table-2", "--row", "nothing"]);
    assert!(text.contains("--dry-run"), "{text}");
}

#[test]
fn the_results_that_come_with_the_source_are_measured_to_the_end() {
    let results = concat!(env!("CARGO_MANIFEST_DIR"), "/../../results");
    let groups = json(&["pareto", results, "--json"]);
    let points = groups[0]["points"].as_array().unwrap();
    assert_eq!((groups.as_array().unwrap().len(), points.len()), (1, 12));
    for point in points {
        let title = &point["title"];
        assert!(point["integer_accuracy"].is_f64() && point["integer_images"] == 10_000, "{title}");
        assert!(point["private"][0]["online_s"].as_f64().unwrap() > 0.0, "{title}");
        assert!(point["private"][0]["protocol_version"].is_u64(), "{title}");
        assert!(point["private_fronts"][0]["total_bytes"].is_boolean(), "{title}");
        assert!(!point["detail"]["layers"].as_array().unwrap().is_empty(), "{title}");
    }
}

/// What a model that ships does is told by its note and by the record of its network.
#[test]
fn records_name_the_models_that_ship_and_agree_with_their_notes() {
    let read =
        |path: String| -> Value { serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap() };
    for (record, model) in [
        ("hybrenet-13k-cifar100", "hybrenet-13k-cifar100"),
        ("hybrenet-26k-cifar100", "hybrenet-26k-cifar100"),
        ("hybrenet-52k-cifar100", "hybrenet-52k-cifar100"),
        ("signet-lean", "signet-lean-cifar100"),
    ] {
        let note = read(format!("{SOURCE}/models/{model}.frozen.json"));
        let record = read(format!("{SOURCE}/results/{record}/record.json"));
        assert_eq!(record["model"]["digest"], note["digest"], "{model}");
        let of_note = 100.0 * note["accuracy"]["integer"].as_f64().unwrap();
        assert!((record["integer_accuracy"].as_f64().unwrap() - of_note).abs() < 1e-6, "{model}");
    }
}

#[test]
fn models_are_checked_against_the_notes_beside_them() {
    let scratch = ScratchFolder::new("check");
    let (models, pictures) = (scratch.at("models"), scratch.at("pictures"));
    for (part, count) in [("train", 1), ("val", 4)] {
        for (class, shade) in [("dark", 20_u8), ("light", 200)] {
            let folder = format!("{pictures}/{part}/{class}");
            std::fs::create_dir_all(&folder).unwrap();
            for index in 0..count {
                let color = image::Rgb([shade, 10 * index, shade / 2]);
                image::RgbImage::from_pixel(16, 16, color).save(format!("{folder}/{index}.png")).unwrap();
            }
        }
    }
    std::fs::create_dir_all(&models).unwrap();
    let model = format!("{models}/tiny.sordino");
    answer(&["freeze", "resnet10:m=2", "--input", "16", "--classes", "2", "-o", &model]);
    let tried = json(&["evaluate", &model, "--data", &pictures, "--json"]);
    let note = |digest: &Value, accuracy: Value| {
        let note = serde_json::json!({ "digest": digest, "accuracy": { "images": 8, "integer": accuracy } });
        std::fs::write(format!("{models}/tiny.frozen.json"), note.to_string()).unwrap();
    };
    let check = ["reproduce", "--check", "--models", &models, "--data", &pictures];
    note(&tried["digest"], tried["integer_accuracy"].clone());
    let text = answer(&check);
    assert!(
        text.contains("tiny.sordino") && text.contains("holds") && text.contains("1 of 1 models"),
        "{text}"
    );
    let part = json(&[&check[..], &["--accuracy-images", "2", "--json"]].concat());
    assert_eq!((&part[0]["verdict"], &part[0]["images"]), (&"agrees".into(), &2.into()));
    let negative = |expected: &str| {
        let output = sordino(&check);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(expected) && text.contains("0 of 1 models"), "{text}");
    };
    let share = tried["integer_accuracy"].as_f64().unwrap();
    // A record that names the file must say the same; one of another file says nothing of it.
    let record = |digest: &Value, share: f64| {
        let text =
            std::fs::read_to_string(format!("{SOURCE}/results/resnet18-cifar100/record.json")).unwrap();
        let mut record: Value = serde_json::from_str(&text).unwrap();
        record["model"] = serde_json::json!({ "file": "tiny.sordino", "digest": digest });
        (record["integer_accuracy"], record["integer_images"]) = ((100.0 * share).into(), 8.into());
        std::fs::create_dir_all(scratch.at("results")).unwrap();
        std::fs::write(scratch.at("results/record.json"), record.to_string()).unwrap();
    };
    record(&tried["digest"], share);
    assert_eq!(json(&[&check[..], &["--json"]].concat())[0]["recorded"], share);
    record(&tried["digest"], if share > 0.5 { share - 0.125 } else { share + 0.125 });
    negative("its record differs");
    record(&"00".into(), 0.0);
    answer(&[&check[..], &["--records", &scratch.at("results")]].concat());
    let text = refusal(&[&check[..], &["--records", &scratch.at("nowhere")]].concat());
    assert!(text.contains("nothing at"), "{text}");
    for flag in ["--watch", "--slurm", "--out=o", "--device=cpu", "--shard-mib=5"] {
        let text = refusal(&[&check[..], &[flag]].concat());
        assert!(text.contains("--check") && text.contains(flag.split('=').next().unwrap()), "{text}");
    }
    note(&tried["digest"], (if share > 0.5 { share - 0.125 } else { share + 0.125 }).into());
    negative("differs");
    note(&"00".into(), share.into());
    negative("another file than its note says");
    let text = refusal(&["reproduce", "--check", "--models", &models]);
    assert!(text.contains("there are 1") && text.contains("--data DIR"), "{text}");
    let text = refusal(&["reproduce", "--check", "--models", &pictures, "--data", &pictures]);
    assert!(text.contains("no frozen models"), "{text}");
}
