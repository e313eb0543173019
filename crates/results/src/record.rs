//! What a result was and how it came about: one JSON object that another person can check.

mod compared;
mod private_timing;

use std::path::Path;

use network::cost::{Cost, Counts};
use serde::{Deserialize, Serialize};

use recipes::checkpoint::{Checkpoint, CheckpointError};
use recipes::recipe::{NetworkSection, Recipe};

pub use compared::Compared;
pub use private_timing::{PrivateTiming, Setting};

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
    /// ReLUs; where signs are shared, comparisons and gated values.
    #[serde(flatten)]
    pub compared: Compared,
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
        let before = full.map_or(Cost::of(&spec).relus, |full| Cost::of(&full).relus);
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
            compared: Compared::new(cost.counts(), before, accuracy),
            macs: cost.macs,
            measured_on: measured_on.to_owned(),
            float_accuracy: accuracy,
            test_accuracy: test,
            integer_accuracy: None,
            integer_images: None,
            model: None,
            private: Vec::new(),
            checkpoint: path.display().to_string(),
            recipe: state.recipe.clone(),
        })
    }

    /// What is compared and gated.
    pub fn counts(&self) -> Counts {
        self.compared.counts
    }

    /// Signs that are computed: its ReLUs, where no signs are shared.
    pub fn comparisons(&self) -> u64 {
        self.compared.counts.comparisons
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
            |record: &Self| (record.network.clone(), record.counts(), record.seed, record.float_accuracy);
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

    /// Notes a measurement; an earlier one with the same link and threads goes, and so do those of another model. Random
    /// weights never take the place of the trained ones, unless those ran an earlier protocol.
    pub fn note_timing(&mut self, timing: PrivateTiming) -> Noted {
        let version = timing.comparable_version();
        let is_better = |old: &PrivateTiming| !old.random_weights && old.comparable_version() == version;
        if timing.random_weights && self.private.iter().any(is_better) {
            return Noted::No;
        }
        self.private.retain(|old| !timing.repeats(old) && old.digest == timing.digest);
        self.private.push(timing);
        Noted::Yes
    }
}

/// What became of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Noted {
    /// It is in the record.
    Yes,
    /// It is not: the trained weights were measured with the same protocol.
    No,
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
            compared: Compared::new(Counts { comparisons: relus, gated_values: 0 }, 557_056, accuracy),
            macs: 555_468_800,
            measured_on: "test".to_owned(),
            float_accuracy: accuracy,
            test_accuracy: Some(accuracy),
            integer_accuracy: None,
            integer_images: None,
            model: None,
            private: Vec::new(),
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
            first_offline_bytes: None,
            further_offline_bytes: None,
            rounds: 12,
            protocol_version: Some(4),
            exact_relus: false,
            class_only: false,
            link: link.to_owned(),
            threads: 1,
            processor: "a processor".to_owned(),
            work_s: Default::default(),
            repeat: 3,
            digest: digest.to_owned(),
            random_weights: false,
        }
    }

    #[test]
    fn a_newer_measurement_takes_the_place_of_the_one_it_repeats() {
        let mut record = example("a", 1000, 50.0);
        let _ = record.note_timing(timing(0.5, "loopback", "m"));
        let _ = record.note_timing(timing(0.9, "lan", "m"));
        let _ = record.note_timing(timing(0.4, "loopback", "m"));
        let online: Vec<f64> = record.private.iter().map(|timing| timing.online_s).collect();
        assert_eq!(online, [0.9, 0.4]);
        // What another processor takes stands beside it.
        let elsewhere =
            PrivateTiming { processor: "another processor".to_owned(), ..timing(0.3, "loopback", "m") };
        let _ = record.note_timing(elsewhere);
        assert_eq!(record.private.len(), 3);
        // Figures of one model say nothing about another.
        record.note_model(FrozenModel { file: "n.sordino".into(), digest: "n".into() }, 49.5, 10_000);
        assert!(record.private.is_empty() && record.integer_accuracy == Some(49.5));
    }

    #[test]
    fn a_record_takes_from_another_only_what_it_lacks() {
        let (mut record, mut other) = (example("a", 1000, 50.0), example("b", 1000, 50.0));
        other.note_model(FrozenModel { file: "n.sordino".into(), digest: "n".into() }, 49.5, 10_000);
        let _ = other.note_timing(timing(0.5, "lan", "n"));
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
        assert!(text.contains("\"relus\":1000") && !text.contains("comparisons"), "{text}");
        assert_eq!(serde_json::from_str::<ResultRecord>(&text).unwrap(), example("a", 1000, 50.0));
    }

    #[test]
    fn random_weights_are_noted_where_trained_ones_were_not_measured() {
        let version =
            |version: u16, timing: PrivateTiming| PrivateTiming { protocol_version: Some(version), ..timing };
        let random = |digest| PrivateTiming { random_weights: true, ..timing(0.2, "loopback", digest) };
        let mut record = example("a", 1000, 50.0);
        assert_eq!(record.note_timing(version(4, timing(0.5, "loopback", "trained"))), Noted::Yes);
        // Version 5 does the same for a further image.
        assert_eq!(record.note_timing(version(5, random("r"))), Noted::No);
        assert_eq!(record.private[0].digest, "trained");
        assert_eq!(record.note_timing(version(2, timing(0.5, "loopback", "trained"))), Noted::Yes);
        assert_eq!(record.note_timing(version(5, random("r"))), Noted::Yes);
        assert_eq!(record.note_timing(version(5, random("s"))), Noted::Yes);
        assert_eq!(record.private, [version(5, random("s"))]);
        assert_eq!(record.private[0].setting(), version(4, timing(0.1, "loopback", "s")).setting());
        assert_eq!(record.note_timing(version(5, timing(0.5, "lan", "trained"))), Noted::Yes);
        assert_eq!(record.private.len(), 1);
    }

    #[test]
    fn a_measurement_without_a_version_stays_without() {
        let old = PrivateTiming { protocol_version: None, ..timing(0.5, "lan", "m") };
        let text = serde_json::to_string(&old).unwrap();
        assert!(!text.contains("protocol_version"), "{text}");
        assert_eq!(serde_json::from_str::<PrivateTiming>(&text).unwrap(), old);
        assert!(old.setting().to_string().starts_with("protocol not noted, lan"), "{}", old.setting());
        assert_ne!(old.setting(), timing(0.5, "lan", "m").setting());
        let noted = PrivateTiming { further_offline_bytes: Some(1), ..old.clone() };
        assert_eq!((old.total_bytes(), noted.total_bytes()), (14_321_000 + 50_987_000, 14_321_001));
    }
}
