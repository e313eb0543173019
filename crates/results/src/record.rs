//! What a result was and how it came about: one JSON object that another person can check.

use std::path::Path;

use network::cost::Cost;
use serde::{Deserialize, Serialize};

use recipes::checkpoint::{Checkpoint, CheckpointError};
use recipes::recipe::{NetworkSection, Recipe};

/// One trained network of few ReLUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultRecord {
    /// What to call it.
    pub title: String,
    /// Which method made it.
    pub method: String,
    /// The network as reduced.
    pub network: String,
    /// What everything was drawn from.
    pub seed: u64,
    /// Scalars that pass through a ReLU.
    pub relus: u64,
    /// What the network had before.
    pub relus_before: u64,
    /// Multiply-adds.
    pub macs: u64,
    /// Which images the accuracies are on: `test` or `held-out`.
    pub measured_on: String,
    /// In percent, last epoch.
    pub float_accuracy: f64,
    /// In percent, on the test images, last epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_accuracy: Option<f64>,
    /// In percent, of the frozen model; absent until it is frozen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integer_accuracy: Option<f64>,
    /// How many test images that is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integer_images: Option<u64>,
    /// The frozen model; absent until it is frozen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<FrozenModel>,
    /// What private inference with the frozen model took, once for each link and number of threads; measured, never
    /// estimated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub private: Vec<PrivateTiming>,
    /// Percent of accuracy per thousand ReLUs (the papers' Acc./ReLU).
    pub accuracy_per_kilorelu: f64,
    /// Where the checkpoint is.
    pub checkpoint: String,
    /// All that the last run needed.
    pub recipe: Recipe,
}

/// A model that was frozen from the checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrozenModel {
    /// Where it was written.
    pub file: String,
    /// Its BLAKE3 digest, which names it.
    pub digest: String,
}

/// One measurement of private inference (`sordino bench private`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PrivateTiming {
    /// From the image to the logits, in seconds of wall time.
    pub online_s: f64,
    /// What is done before the image is there.
    pub offline_s: f64,
    /// Payload in both directions.
    pub online_bytes: u64,
    /// The same offline.
    pub offline_bytes: u64,
    /// Changes of direction online.
    pub rounds: u64,
    /// The link between the parties.
    pub link: String,
    /// Threads of each party.
    pub threads: usize,
    /// The processor of both parties.
    pub processor: String,
    /// Of so many inferences it is the median.
    pub repeat: usize,
    /// Whose: the model's digest.
    pub digest: String,
}

impl ResultRecord {
    /// What a trained run is, from the description in its checkpoint: for runs that no method made.
    ///
    /// # Errors
    /// When the checkpoint holds no usable network.
    pub fn of_checkpoint(checkpoint: &Checkpoint, path: &Path) -> Result<Self, CheckpointError> {
        let state = &checkpoint.state;
        let spec = checkpoint.spec()?;
        let mask = checkpoint.mask(&spec)?;
        let cost = mask.as_ref().map_or_else(|| Cost::of(&spec), |mask| Cost::masked(&spec, mask));
        let full = NetworkSection::named(&state.recipe.network.name);
        let full = full.build(state.input, state.classes.len());
        let share = |set: &str| state.accuracy.get(set).copied().map(percent);
        let (test, held_out) = (share("test"), share("held-out"));
        // Choices are made on held-out images wherever there are some.
        let accuracy = held_out.or(test).unwrap_or(0.0);
        let measured_on = if held_out.is_some() { "held-out" } else { "test" };
        Ok(Self {
            title: match state.recipe.title.as_str() {
                "" => spec.name().to_owned(),
                title => title.to_owned(),
            },
            method: if mask.is_some() { "masked".to_owned() } else { "train".to_owned() },
            network: spec.name().to_owned(),
            seed: state.recipe.seed,
            relus: cost.relus,
            relus_before: full.map_or(Cost::of(&spec).relus, |full| Cost::of(&full).relus),
            macs: cost.macs,
            measured_on: measured_on.to_owned(),
            float_accuracy: accuracy,
            test_accuracy: test,
            integer_accuracy: None,
            integer_images: None,
            model: None,
            private: Vec::new(),
            accuracy_per_kilorelu: Self::per_kilorelu(accuracy, cost.relus),
            checkpoint: path.display().to_string(),
            recipe: state.recipe.clone(),
        })
    }

    /// The accuracy to compare by, in percent, and the images it is on: test images where there are figures of them.
    pub fn accuracy(&self) -> (f64, &str) {
        match self.test_accuracy {
            Some(accuracy) => (accuracy, "test"),
            None => (self.float_accuracy, &self.measured_on),
        }
    }

    /// Notes a frozen model and what it does on test images. Timings of another model go.
    pub fn note_model(&mut self, model: FrozenModel, accuracy: f64, images: u64) {
        self.private.retain(|timing| timing.digest == model.digest);
        self.model = Some(model);
        self.integer_accuracy = Some(accuracy);
        self.integer_images = Some(images);
    }

    /// Takes what another record of the same result knows and this one does not.
    pub(crate) fn take_measurements(&mut self, other: &Self) {
        let names =
            |record: &Self| (record.network.clone(), record.relus, record.seed, record.float_accuracy);
        if names(self) != names(other) {
            return;
        }
        if self.integer_accuracy.is_none() {
            self.integer_accuracy = other.integer_accuracy;
            self.integer_images = other.integer_images;
            self.model.clone_from(&other.model);
        }
        if self.private.is_empty() {
            self.private.clone_from(&other.private);
        }
    }

    /// Notes a measurement; an earlier one with the same link and threads goes.
    pub fn note_timing(&mut self, timing: PrivateTiming) {
        let same = |old: &PrivateTiming| (&old.link, old.threads) == (&timing.link, timing.threads);
        self.private.retain(|old| !same(old) && old.digest == timing.digest);
        self.private.push(timing);
    }

    /// Percent of accuracy per thousand ReLUs.
    pub fn per_kilorelu(accuracy: f64, relus: u64) -> f64 {
        accuracy / (relus.max(1) as f64 / 1000.0)
    }
}

/// A part of one in percent.
pub fn percent(part: f64) -> f64 {
    part * 100.0
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A record with figures that no other has.
    pub(crate) fn example(title: &str, relus: u64, accuracy: f64) -> ResultRecord {
        let recipe =
            "[data]\nset = \"cifar100\"\n[network]\nname = \"resnet18\"\n[training]\nepochs = 3\nbatch = 8\n";
        ResultRecord {
            title: title.to_owned(),
            method: "snl".to_owned(),
            network: "resnet18".to_owned(),
            seed: 7,
            relus,
            relus_before: 557_056,
            macs: 555_468_800,
            measured_on: "test".to_owned(),
            float_accuracy: accuracy,
            test_accuracy: Some(accuracy),
            integer_accuracy: None,
            integer_images: None,
            model: None,
            private: Vec::new(),
            accuracy_per_kilorelu: ResultRecord::per_kilorelu(accuracy, relus),
            checkpoint: "runs/none".to_owned(),
            recipe: Recipe::from_toml(recipe).unwrap(),
        }
    }

    /// A measurement with figures that no other has.
    pub(crate) fn timing(online_s: f64, link: &str, digest: &str) -> PrivateTiming {
        PrivateTiming {
            online_s,
            offline_s: 0.456,
            online_bytes: 14_321_000,
            offline_bytes: 50_987_000,
            rounds: 12,
            link: link.to_owned(),
            threads: 1,
            processor: "a processor".to_owned(),
            repeat: 3,
            digest: digest.to_owned(),
        }
    }

    #[test]
    fn accuracy_per_thousand_relus_is_that_of_the_tables() {
        // DeepReShape Table 5: 52.2K ReLUs, 77.14%.
        assert!((ResultRecord::per_kilorelu(77.14, 52_224) - 1.48).abs() < 0.005);
    }

    #[test]
    fn a_newer_measurement_takes_the_place_of_the_one_it_repeats() {
        let mut record = example("a", 1000, 50.0);
        record.note_timing(timing(0.5, "loopback", "m"));
        record.note_timing(timing(0.9, "lan", "m"));
        record.note_timing(timing(0.4, "loopback", "m"));
        let online: Vec<f64> = record.private.iter().map(|timing| timing.online_s).collect();
        assert_eq!(online, [0.9, 0.4]);
        // Figures of one model say nothing about another.
        record.note_model(FrozenModel { file: "n.sordino".into(), digest: "n".into() }, 49.5, 10_000);
        assert!(record.private.is_empty() && record.integer_accuracy == Some(49.5));
    }

    #[test]
    fn a_record_takes_from_another_only_what_it_lacks() {
        let (mut record, mut other) = (example("a", 1000, 50.0), example("b", 1000, 50.0));
        other.note_model(FrozenModel { file: "n.sordino".into(), digest: "n".into() }, 49.5, 10_000);
        other.note_timing(timing(0.5, "lan", "n"));
        record.take_measurements(&example("another network", 999, 50.0));
        record.take_measurements(&other);
        assert_eq!(
            (record.title.as_str(), record.integer_accuracy, record.private.len()),
            ("a", Some(49.5), 1)
        );
        other.note_model(FrozenModel { file: "o.sordino".into(), digest: "o".into() }, 40.0, 10_000);
        record.take_measurements(&other);
        assert_eq!(record.integer_accuracy, Some(49.5));
    }

    #[test]
    fn records_of_before_can_still_be_read() {
        let text = serde_json::to_string(&example("a", 1000, 50.0)).unwrap();
        assert!(!text.contains("private") && !text.contains("integer"));
        assert_eq!(serde_json::from_str::<ResultRecord>(&text).unwrap(), example("a", 1000, 50.0));
    }
}
