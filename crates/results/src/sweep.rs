//! The front of a sweep, by the folders of the runs that are done.
//!
//! Workers on several machines may end a run at the same time. So nobody adds to the file: each makes it again from all that
//! is there, in the order of the plan, and looks again afterwards. The same runs give the same bytes, whoever made them.

use std::path::Path;

use recipes::file::write_shared;
use recipes::method::Job;

use crate::{ParetoFront, RECORDS, RecordError, RecordFile, ResultRecord};

/// The file of a sweep's front.
pub const FRONT: &str = "front.json";

/// How many results there are, and those that no other beats.
///
/// # Errors
/// When a file of records cannot be used.
pub fn front_of(jobs: &[Job]) -> Result<(usize, Vec<ResultRecord>), RecordError> {
    let (mut results, mut front) = (0, ParetoFront::default());
    for file in jobs.iter().map(|job| job.folder.join(RECORDS)).filter(|file| file.is_file()) {
        for record in RecordFile::open(&file)?.records {
            results += 1;
            front.insert(record.comparisons(), record.float_accuracy, record);
        }
    }
    Ok((results, front.points().iter().map(|(_, _, record)| record.clone()).collect()))
}

/// Writes the front into the folder of a sweep; how many results there are, and the front.
///
/// # Errors
/// When records cannot be used or the file cannot be written.
pub fn write_front(jobs: &[Job], out: &Path) -> Result<(usize, Vec<ResultRecord>), RecordError> {
    loop {
        let (results, front) = front_of(jobs)?;
        let text =
            serde_json::to_string_pretty(&front).expect("results hold only names, numbers, lists and tables");
        write_shared(&out.join(FRONT), text)?;
        // Another worker may have written an older front after a newer one; whoever came last sees all runs.
        if front_of(jobs)?.0 == results {
            return Ok((results, front));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::example;
    use recipes::recipe::Recipe;

    const RECIPE: &str = "[data]\nset = \"cifar100\"\n[network]\nname = \"resnet18\"\n[training]\nepochs = 3\nbatch = 8\n\
                          [optimize]\nmethod = \"snl\"\nbudget = 5000\n";

    fn job(out: &Path, name: &str) -> Job {
        Job {
            name: name.to_owned(),
            folder: out.join(name),
            recipe: Recipe::from_toml(RECIPE).unwrap(),
            needs: None,
            is_teacher: false,
        }
    }

    fn finish(job: &Job, relus: u64, accuracy: f64) {
        let record = example(&job.name, relus, accuracy);
        let text = serde_json::json!({ "records": [record] }).to_string();
        write_shared(&job.folder.join(RECORDS), text).unwrap();
    }

    #[test]
    fn the_front_does_not_depend_on_who_ended_first() {
        let fronts = [[0, 1, 2], [2, 1, 0]].map(|order| {
            let out = tempfile::tempdir().unwrap();
            let jobs = ["a", "b", "c"].map(|name| job(out.path(), name));
            assert_eq!(write_front(&jobs, out.path()).unwrap().0, 0);
            for index in order {
                // Two are equal, so that their order could depend on time.
                finish(&jobs[index], [100, 100, 200][index], [60.0, 60.0, 70.0][index]);
                write_front(&jobs, out.path()).unwrap();
            }
            let (results, front) = write_front(&jobs, out.path()).unwrap();
            assert_eq!((results, front.len()), (3, 3));
            std::fs::read_to_string(out.path().join(FRONT)).unwrap()
        });
        assert_eq!(fronts[0], fronts[1]);
    }
}
