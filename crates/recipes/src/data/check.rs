//! What a folder holds, what is wrong with it, and where the official release comes from.

use std::path::Path;

use network::text::with_causes;

use super::{DataError, DataKind, DataPair, DataRequest, Dataset, cifar, folder, open, packed};

/// What was found in a folder.
#[derive(Debug)]
pub struct Survey {
    /// The set it seems to be; nothing where it is none.
    pub kind: Option<DataKind>,
    /// What was found, good and bad.
    pub findings: Vec<Finding>,
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// As it should be.
    Good(String),
    /// It can be used, but the user should know.
    Odd(String),
    /// It cannot be used.
    Wrong(String),
}

impl Survey {
    /// Whether a run can use the folder.
    pub fn is_usable(&self) -> bool {
        self.kind.is_some() && !self.findings.iter().any(|finding| matches!(finding, Finding::Wrong(_)))
    }
}

/// Looks at a folder, reads all of it, and says what it found; images are resized to `side` where they have no fixed
/// size.
pub fn survey(directory: &Path, side: Option<usize>) -> Survey {
    let Some((kind, form)) = detect(directory) else {
        let mut findings = vec![Finding::Wrong(nothing(directory))];
        let known = [DataKind::Cifar10, DataKind::Cifar100, DataKind::TinyImageNet, DataKind::Folder];
        findings
            .extend(known.map(|kind| Finding::Odd(format!("{} comes from {}", kind.name(), kind.origin()))));
        return Survey { kind: None, findings };
    };
    let mut findings = vec![Finding::Good(format!("{}, {form}", kind.name()))];
    match open(&DataRequest { side, ..DataRequest::new(kind) }, Some(directory)) {
        Ok(pair) => describe(kind, &pair, &mut findings),
        Err(error) => {
            findings.push(Finding::Wrong(with_causes(&error)));
            findings.push(Finding::Odd(format!("the official release comes from {}", kind.origin())));
        }
    }
    Survey { kind: Some(kind), findings }
}

fn nothing(directory: &Path) -> String {
    if !directory.exists() {
        return format!("{} does not exist", directory.display());
    }
    if !directory.is_dir() {
        return format!("{} is no folder; unpack the archive and name the folder", directory.display());
    }
    format!("{} holds neither CIFAR, nor Tiny ImageNet, nor class folders with images", directory.display())
}

/// The set that a folder seems to hold, and its form.
fn detect(directory: &Path) -> Option<(DataKind, &'static str)> {
    for kind in [DataKind::Cifar10, DataKind::Cifar100] {
        if let Some(form) = cifar::is_there(kind, directory) {
            return Some((kind, form));
        }
    }
    if let Some(kind) = packed::kind_in(directory) {
        return Some((kind, "packed"));
    }
    if folder::find_tiny_imagenet(directory).is_some() {
        return Some((DataKind::TinyImageNet, "as released"));
    }
    match folder::find_parts(directory) {
        Ok((_, _, Some(_))) => Some((DataKind::Folder, "training and test images in class folders")),
        Ok((_, _, None)) => Some((DataKind::Folder, "class folders; a tenth of each class is the test set")),
        Err(DataError::UnknownClass { .. }) => {
            Some((DataKind::Folder, "training and test images in class folders"))
        }
        Err(_) => None,
    }
}

fn describe(kind: DataKind, pair: &DataPair, findings: &mut Vec<Finding>) {
    let Dataset { shape, classes, .. } = &pair.training;
    let (training, test) = (pair.training.len(), pair.test.len());
    findings.push(Finding::Good(format!(
        "{training} training and {test} test images of {shape} in {} classes",
        classes.len()
    )));
    let official = match kind {
        DataKind::Cifar10 | DataKind::Cifar100 => Some((50_000, 10_000)),
        DataKind::TinyImageNet => Some((100_000, 10_000)),
        DataKind::Folder | DataKind::Synthetic => None,
    };
    if let Some((full, full_test)) = official
        && (training, test) != (full, full_test)
    {
        findings.push(Finding::Wrong(format!(
            "the official release has {full} training and {full_test} test images: {}",
            kind.origin()
        )));
    }
    for (name, set) in [("training", &pair.training), ("test", &pair.test)] {
        findings.extend(unevenness(name, set));
    }
    findings.push(Finding::Good(format!(
        "normalized with mean {:?} and deviation {:?}",
        pair.training.mean, pair.training.deviation
    )));
}

/// Classes without images, and the range of their sizes.
fn unevenness(name: &str, set: &Dataset) -> Vec<Finding> {
    let mut counts = vec![0_usize; set.classes.len()];
    set.labels.iter().for_each(|label| counts[usize::from(*label)] += 1);
    let (least, most) =
        (counts.iter().min().copied().unwrap_or(0), counts.iter().max().copied().unwrap_or(0));
    let empty: Vec<&str> = counts
        .iter()
        .zip(&set.classes)
        .filter(|(count, _)| **count == 0)
        .map(|(_, class)| class.as_str())
        .collect();
    if !empty.is_empty() {
        let names = empty.iter().take(5).copied().collect::<Vec<_>>().join(", ");
        let text = format!("{} classes have no {name} image, such as {names}", empty.len());
        return vec![if set.is_empty() || name == "training" {
            Finding::Wrong(text)
        } else {
            Finding::Odd(text)
        }];
    }
    match least == most {
        true => vec![Finding::Good(format!("{least} {name} images in every class"))],
        false => vec![Finding::Odd(format!("from {least} to {most} {name} images in a class"))],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_folder_is_told_where_releases_come_from() {
        let scratch = tempfile::tempdir().unwrap();
        let survey = survey(scratch.path(), None);
        assert!(!survey.is_usable());
        let text = format!("{:?}", survey.findings);
        assert!(text.contains("cifar-100-binary.tar.gz") && text.contains("tiny-imagenet-200.zip"), "{text}");
        assert!(!super::survey(Path::new("/nowhere/at/all"), None).is_usable());
    }

    #[test]
    fn half_a_release_is_recognized_and_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let record = [vec![0, 5], vec![0; 3072]].concat();
        std::fs::write(scratch.path().join("train.bin"), &record).unwrap();
        std::fs::write(scratch.path().join("test.bin"), &record).unwrap();
        let survey = survey(scratch.path(), None);
        assert_eq!(survey.kind, Some(DataKind::Cifar100));
        assert!(!survey.is_usable());
        assert!(format!("{:?}", survey.findings).contains("official release has 50000"));
    }

    #[test]
    fn class_folders_are_counted() {
        let scratch = tempfile::tempdir().unwrap();
        for (class, count) in [("a", 20), ("b", 10)] {
            std::fs::create_dir_all(scratch.path().join(class)).unwrap();
            for number in 0..count {
                let path = scratch.path().join(class).join(format!("{number}.png"));
                image::RgbImage::new(4, 4).save(path).unwrap();
            }
        }
        let survey = survey(scratch.path(), Some(4));
        assert!(survey.is_usable(), "{survey:?}");
        assert!(survey.findings.contains(&Finding::Odd("from 9 to 18 training images in a class".into())));
    }
}
