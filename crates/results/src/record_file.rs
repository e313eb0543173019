//! Records on disk: read from any run, amended by what is measured later.
//!
//! ```text
//! records.json        what `sordino optimize` found: several records
//! record.json         one record, of one run
//! front.json          the front of a sweep: a list of records
//! checkpoints/        a run that no method made: its record follows from its last checkpoint
//! DIR/*/              a sweep, or any folder of runs
//! recipe.toml         of an optimization; where its records.json is missing it has not ended, and its parts are no results
//! ```

use std::path::{Component, Path, PathBuf};

use recipes::checkpoint::{Checkpoint, CheckpointError, Part};
use recipes::file::{FileError, read_text, write_whole};
use recipes::method::{RECIPE, TEACHERS};
use serde_json::Value;

use crate::ResultRecord;

/// The file of the results of an optimization.
pub const RECORDS: &str = "records.json";
/// The file of one result.
pub const RECORD: &str = "record.json";
/// The longest file of records.
const MAX_FILE_BYTES: u64 = 64 << 20;
/// How deep runs are looked for: a sweep, its runs, their parts.
const MAX_DEPTH: usize = 3;

/// A record and where its run is.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// What the result is.
    pub record: ResultRecord,
    /// The checkpoint, where it is still to be found.
    pub checkpoint: Option<PathBuf>,
    /// The mask that its recipe names, where that is still to be found.
    pub mask: Option<PathBuf>,
}

/// The records of a run's folder, of a folder of runs, or of a file.
///
/// # Errors
/// When there are none, or a file of them cannot be used.
pub fn collect(path: &Path) -> Result<Vec<RunRecord>, RecordError> {
    if !path.exists() {
        return Err(RecordError::Missing { path: path.into() });
    }
    let mut found = Vec::new();
    gather(path, MAX_DEPTH, &mut found)?;
    match found.is_empty() {
        true => Err(RecordError::NoRuns { path: path.into() }),
        false => Ok(found),
    }
}

fn gather(path: &Path, depth: usize, found: &mut Vec<RunRecord>) -> Result<(), RecordError> {
    if let Some(file) = own_file(path) {
        let file = RecordFile::read(&file)?;
        for record in file.records {
            found.push(located(record, &file.path)?);
        }
        return Ok(());
    }
    if let Ok(checkpoint) = recipes::checkpoint::find(path) {
        found.push(RunRecord { record: describe(path)?, checkpoint: Some(checkpoint), mask: None });
        return Ok(());
    }
    if depth == 0 || path.join(RECIPE).is_file() {
        return Ok(());
    }
    let unreadable = FileError::on("read", path);
    let mut inside = Vec::new();
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        inside.push(entry.map_err(unreadable)?.path());
    }
    inside.sort();
    // What a sweep trains for its runs is none of its results.
    inside.retain(|path| path.is_dir() && path.file_name().is_none_or(|name| name != TEACHERS));
    inside.iter().try_for_each(|path| gather(path, depth - 1, found))
}

/// A record of a file, with its run and its mask where they are still to be found.
fn located(mut record: ResultRecord, file: &Path) -> Result<RunRecord, RecordError> {
    let folder = file.parent().unwrap_or(Path::new(""));
    let is_run = |path: &Path| recipes::checkpoint::find(path).is_ok();
    // A run of the same name elsewhere may be somebody else's.
    let is_its_run = |path: &Path| {
        is_run(path) && describe(path).is_ok_and(|other| other.float_accuracy == record.float_accuracy)
    };
    let named = Path::new(&record.checkpoint);
    let elsewhere = || Some(named.to_owned()).filter(|path| is_its_run(path));
    let checkpoint = beneath(named, folder, is_run).or_else(elsewhere);
    let mask = record.recipe.mask.as_ref();
    let mask = mask.and_then(|mask| beneath(&mask.file, folder, Path::is_file));
    // What was measured later may stand in the run's own record alone.
    let own = checkpoint.as_deref().map(|checkpoint| run_of(checkpoint).join(RECORD));
    if let Some(own) = own.filter(|own| own.is_file() && own != file) {
        RecordFile::read(&own)?.records.iter().for_each(|own| record.take_measurements(own));
    }
    Ok(RunRecord { record, checkpoint, mask })
}

/// The file of records that a path stands for.
fn own_file(path: &Path) -> Option<PathBuf> {
    if path.is_file() {
        return Some(path.to_owned());
    }
    [RECORDS, RECORD].map(|name| path.join(name)).into_iter().find(|file| file.is_file())
}

fn describe(path: &Path) -> Result<ResultRecord, RecordError> {
    let refused = |source| RecordError::Checkpoint { path: path.into(), source: Box::new(source) };
    let checkpoint = Checkpoint::load(path, Part::Description).map_err(refused)?;
    ResultRecord::of_checkpoint(&checkpoint, path).map_err(refused)
}

/// The run that a checkpoint belongs to; a run belongs to itself.
fn run_of(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| parent.file_name().is_some_and(|name| name == "checkpoints"));
    parent.and_then(Path::parent).unwrap_or(path)
}

/// The end of a path that a record names, beneath the record's folder: runs may be moved.
fn beneath(named: &Path, folder: &Path, is_there: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    let parts: Vec<_> = named.components().filter(|part| matches!(part, Component::Normal(_))).collect();
    let ends = (0..parts.len()).map(|first| folder.join(parts[first..].iter().collect::<PathBuf>()));
    ends.into_iter().find(|path| is_there(path))
}

/// A file of records that may be amended.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordFile {
    path: PathBuf,
    form: Form,
    /// What it holds.
    pub records: Vec<ResultRecord>,
}

/// How a file holds its records.
#[derive(Clone, Debug, PartialEq)]
enum Form {
    One,
    List,
    /// Beside other things, which stay.
    Beside(serde_json::Map<String, Value>),
}

impl RecordFile {
    /// The records of a file, or of a run's folder; a run that has none gets one when this is saved.
    ///
    /// # Errors
    /// When there is no such file or run, or it cannot be used.
    pub fn open(path: &Path) -> Result<Self, RecordError> {
        if let Some(file) = own_file(path) {
            return Self::read(&file);
        }
        if !path.is_dir() {
            return Err(RecordError::Missing { path: path.into() });
        }
        let run = run_of(path);
        match own_file(run) {
            Some(file) => Self::read(&file),
            None => Ok(Self { path: run.join(RECORD), form: Form::One, records: vec![describe(run)?] }),
        }
    }

    fn read(path: &Path) -> Result<Self, RecordError> {
        let text = read_text(path, MAX_FILE_BYTES)?;
        let damaged =
            |error: serde_json::Error| RecordError::Damaged { path: path.into(), reason: error.to_string() };
        let (form, records) = match serde_json::from_str::<Value>(&text).map_err(damaged)? {
            list @ Value::Array(_) => (Form::List, serde_json::from_value(list).map_err(damaged)?),
            Value::Object(mut table) if table.contains_key("records") => {
                let records = table.remove("records").unwrap_or_default();
                (Form::Beside(table), serde_json::from_value(records).map_err(damaged)?)
            }
            one => (Form::One, vec![serde_json::from_value(one).map_err(damaged)?]),
        };
        Ok(Self { path: path.into(), form, records })
    }

    /// The record that a frozen model was made from: the only one, or the only one of its network and count of comparisons.
    ///
    /// # Errors
    /// When the only record is of another network, or none or several could be meant.
    pub fn for_model(&mut self, network: &str, relus: u64) -> Result<&mut ResultRecord, RecordError> {
        let is_its = |record: &ResultRecord| record.network == network && record.comparisons() == relus;
        let count = self.records.iter().filter(|record| is_its(record)).count();
        let path = self.path.clone();
        let network_name = network.to_owned();
        match self.records.iter_mut().find(|record| is_its(record)) {
            Some(record) if count == 1 => Ok(record),
            _ => Err(RecordError::NotItsModel { path, network: network_name, relus, count }),
        }
    }

    /// Writes the file again; it is whole at any time.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn save(&self) -> Result<(), RecordError> {
        let value = serde_json::to_value(&self.records);
        let text = value.and_then(|records| match (&self.form, records) {
            (Form::One, Value::Array(mut records)) => serde_json::to_string_pretty(&records.pop()),
            (Form::Beside(table), records) => {
                let mut table = table.clone();
                table.insert("records".to_owned(), records);
                serde_json::to_string_pretty(&table)
            }
            (_, records) => serde_json::to_string_pretty(&records),
        });
        let text = text.expect("records hold only names, numbers, lists and tables");
        Ok(write_whole(&self.path, text)?)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Records that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A file that could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// Nothing there.
    #[error("there is nothing at {}; expected the folder of a run or of a sweep, or a records.json", path.display())]
    Missing {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// A folder without runs.
    #[error(
        "{} holds no run; expected checkpoints, records.json or record.json in it or in folders beneath it (an optimization \
         that has not ended, or only found the criticality, has no results)",
        path.display()
    )]
    NoRuns {
        /// The folder.
        path: PathBuf,
    },
    /// It holds no records.
    #[error("{} holds no usable records: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A run whose checkpoint cannot be used.
    #[error("the run at {} cannot be described", path.display())]
    Checkpoint {
        /// The run.
        path: PathBuf,
        /// Why.
        source: Box<CheckpointError>,
    },
    /// No record of this model, or several.
    #[error(
        "{} has {count} records of {network} with {relus} comparisons (ReLUs, where none are shared), expected one; name the record.json or the folder of the \
         run that the model was frozen from", path.display()
    )]
    NotItsModel {
        /// The file.
        path: PathBuf,
        /// The model's network.
        network: String,
        /// Its comparisons.
        relus: u64,
        /// How many fit.
        count: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::{example, timing};

    fn write(path: &Path, value: &Value) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, value.to_string()).unwrap();
    }

    fn value(title: &str, relus: u64) -> Value {
        serde_json::to_value(example(title, relus, 70.0)).unwrap()
    }

    #[test]
    fn records_are_found_in_files_runs_and_folders_of_runs() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        let several = serde_json::json!({ "records": [value("a", 10), value("b", 20)], "criticality": [1] });
        write(&at("sweep/first/records.json"), &several);
        // What a finished optimization trained on the way is no result.
        write(&at("sweep/first/teacher/record.json"), &value("teacher", 99));
        write(&at("sweep/second/record.json"), &value("c", 30));
        // Nor is it in one that was interrupted.
        write(&at("sweep/third/teacher/record.json"), &value("teacher", 99));
        std::fs::write(at("sweep/third/recipe.toml"), "").unwrap();
        write(&at("front.json"), &serde_json::json!([value("d", 40)]));
        let titles = |path: &str| -> Vec<String> {
            collect(&at(path)).unwrap().into_iter().map(|found| found.record.title).collect()
        };
        assert_eq!(titles("sweep"), ["a", "b", "c"]);
        assert_eq!(titles("sweep/second/record.json"), ["c"]);
        assert_eq!(titles("front.json"), ["d"]);
    }

    #[test]
    fn what_a_record_names_is_looked_for_beneath_it_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        let mask = "runs/a/settled/mask.sordino-mask";
        std::fs::create_dir_all(at("elsewhere/runs/a/settled")).unwrap();
        std::fs::write(at("elsewhere").join(mask), "somebody else's").unwrap();
        std::fs::create_dir_all(at("results/a")).unwrap();
        let named = at("elsewhere").join(mask);
        assert_eq!(beneath(&named, &at("results/a"), Path::is_file), None);
        std::fs::write(at("results/a/mask.sordino-mask"), "its own").unwrap();
        let found = beneath(&named, &at("results/a"), Path::is_file);
        assert_eq!(found, Some(at("results/a/mask.sordino-mask")));
    }

    #[test]
    fn a_checkpoint_belongs_to_its_run() {
        assert_eq!(run_of(Path::new("runs/a/checkpoints/epoch-000012")), Path::new("runs/a"));
        assert_eq!(run_of(Path::new("runs/a")), Path::new("runs/a"));
    }

    #[test]
    fn what_is_no_record_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        let refusal = |name: &str| collect(&at(name)).unwrap_err().to_string();
        assert!(refusal("nowhere").contains("nothing at"));
        std::fs::create_dir_all(at("empty/inside")).unwrap();
        assert!(refusal("empty").contains("holds no run"));
        write(&at("begun/teacher/record.json"), &value("teacher", 99));
        std::fs::write(at("begun/recipe.toml"), "").unwrap();
        assert!(refusal("begun").contains("has not ended"));
        write(&at("odd.json"), &serde_json::json!({ "records": [{ "title": "half" }] }));
        assert!(refusal("odd.json").contains("method"), "{}", refusal("odd.json"));
    }

    #[test]
    fn a_file_is_amended_and_the_rest_of_it_stays() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join(RECORDS);
        let several = serde_json::json!({ "records": [value("a", 10), value("b", 20), value("c", 20)], "criticality": [1] });
        write(&path, &several);
        let mut file = RecordFile::open(scratch.path()).unwrap();
        assert!(file.for_model("resnet18", 20).unwrap_err().to_string().contains("has 2 records"));
        assert!(file.for_model("vgg16", 10).unwrap_err().to_string().contains("has 0 records"));
        let _ = file.for_model("resnet18", 10).unwrap().note_timing(timing(0.5, "lan", "m"));
        file.save().unwrap();
        let text: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(text["criticality"], several["criticality"]);
        assert_eq!(text["records"][0]["private"][0]["online_s"], 0.5);
        assert_eq!(text["records"][1], several["records"][1]);
    }
}
