//! What a folder holds, what is wrong with it, and where the official release comes from.

use std::path::Path;

use network::text::{counted, with_causes};

use super::{DataError, DataKind, DataPair, DataRequest, Dataset, FoundSet, find, folder, open, packed};

/// How many unusable images are named.
const NAMED: usize = 10;

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
    let found = match find(directory) {
        Ok(found) => found,
        Err(error) => return Survey { kind: None, findings: not_found(&error) },
    };
    let kind = found.kind;
    let mut findings = vec![Finding::Good(found.to_string())];
    match open(&DataRequest { side, ..DataRequest::new(kind) }, Some(directory)) {
        Ok(pair) => describe(kind, &pair, &mut findings),
        Err(error) => {
            findings.extend(faults(&found, &error));
            findings.push(Finding::Odd(kind.source()));
        }
    }
    Survey { kind: Some(kind), findings }
}

/// What is there instead of one set, and where sets come from.
fn not_found(error: &DataError) -> Vec<Finding> {
    if let DataError::Several { found, .. } = error {
        let sets = found.iter().map(|set| Finding::Odd(set.to_string()));
        let several = Finding::Wrong(format!("{} sets; name the folder of one", found.len()));
        return [several].into_iter().chain(sets).collect();
    }
    let known = [DataKind::Cifar10, DataKind::Cifar100, DataKind::TinyImageNet, DataKind::Folder];
    let sources = known.map(|kind| Finding::Odd(format!("{}: {}", kind.name(), kind.source())));
    [Finding::Wrong(with_causes(error))].into_iter().chain(sources).collect()
}

/// Why a set cannot be used. Where an image cannot, all others are tried, too.
fn faults(found: &FoundSet, error: &DataError) -> Vec<Finding> {
    if !matches!(error, DataError::Image { .. }) || found.form == packed::FORM {
        return vec![Finding::Wrong(with_causes(error))];
    }
    let listing = match found.kind {
        DataKind::TinyImageNet => folder::list_tiny_imagenet(&found.folder),
        _ => folder::list_folder(&found.folder),
    };
    let Ok(listing) = listing else { return vec![Finding::Wrong(with_causes(error))] };
    let files = [listing.training, listing.test].concat();
    let bad = folder::unusable(&files);
    let mut findings = vec![Finding::Wrong(format!(
        "{} of {} cannot be used",
        bad.len(),
        counted(files.len() as u64, "image")
    ))];
    findings.extend(bad.iter().take(NAMED).map(|(_, error)| Finding::Wrong(with_causes(error))));
    findings
}

fn describe(kind: DataKind, pair: &DataPair, findings: &mut Vec<Finding>) {
    let Dataset { shape, classes, .. } = &pair.training;
    let (training, test) = (pair.training.len(), pair.test.len());
    findings.push(Finding::Good(format!(
        "{} and {} of {shape} in {}",
        counted(training as u64, "training image"),
        counted(test as u64, "test image"),
        class_count(classes.len())
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
        let have = if empty.len() == 1 { "has" } else { "have" };
        let text = format!("{} {have} no {name} image, such as {names}", class_count(empty.len()));
        return vec![if set.is_empty() || name == "training" {
            Finding::Wrong(text)
        } else {
            Finding::Odd(text)
        }];
    }
    match least == most {
        true => {
            let images = counted(least as u64, &format!("{name} image"));
            vec![Finding::Good(format!("{images} in every class"))]
        }
        false => vec![Finding::Odd(format!("from {least} to {most} {name} images in a class"))],
    }
}

/// `1 class`, `200 classes`.
fn class_count(count: usize) -> String {
    if count == 1 { "1 class".to_owned() } else { format!("{count} classes") }
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
    fn all_files_that_are_no_images_are_counted_and_the_first_are_named() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(scratch.path().join("a")).unwrap();
        for number in 0..12 {
            image::RgbImage::new(4, 4).save(scratch.path().join(format!("a/{number:02}.png"))).unwrap();
            std::fs::write(scratch.path().join(format!("a/{number:02}.jpg")), "text").unwrap();
        }
        let survey = survey(scratch.path(), Some(4));
        assert!(!survey.is_usable());
        assert!(
            survey.findings.contains(&Finding::Wrong("12 of 24 images cannot be used".into())),
            "{survey:?}"
        );
        let text = format!("{survey:?}");
        assert_eq!(text.matches("is no usable image").count(), NAMED, "{text}");
        assert!(text.contains("expected your own images") && !text.contains("official"), "{text}");
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
