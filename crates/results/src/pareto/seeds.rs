//! Mean and deviation over seeds.

use std::path::{Path, PathBuf};

use network::cost::Counts;
use recipes::recipe::Recipe;
use serde::Serialize;

use super::Group;
use crate::ResultRecord;

/// Results of one recipe that differ in their seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SeedsLine {
    /// Their network.
    pub network: String,
    /// Which method made it.
    pub method: String,
    /// What is compared and gated.
    #[serde(flatten)]
    pub counts: Counts,
    /// In order.
    pub seeds: Vec<u64>,
    /// How many results there are: more than seeds where one was run again. Those of one seed count as their mean.
    pub runs: usize,
    /// Of the accuracies of the seeds, in percent.
    pub mean: f64,
    /// The sample's standard deviation.
    pub deviation: f64,
    /// Who taught, each once; empty where nobody did.
    pub teachers: Vec<PathBuf>,
    /// Results of the same recipe that are in no line, because another teacher taught a seed that is here.
    pub left_out: usize,
}

impl SeedsLine {
    /// `hrn-2x5x3x:m=8, 26,112 ReLUs by snl`.
    pub fn title(&self) -> String {
        format!("{}, {} by {}", self.network, self.counts, self.method)
    }

    /// What must be known to read it: seeds that were run again, other teachers; empty where there is nothing.
    pub fn remarks(&self) -> String {
        let again = self.runs - self.seeds.len();
        let left_out = match self.left_out {
            0 => None,
            1 => Some("1 result with another teacher is left out".to_owned()),
            count => Some(format!("{count} results with other teachers are left out")),
        };
        let remarks = [
            (self.teachers.len() > 1).then(|| {
                let names: Vec<_> = self.teachers.iter().map(|path| path.display().to_string()).collect();
                format!("their teachers differ ({})", names.join(", "))
            }),
            (again > 0).then(|| format!("{} runs, those of one seed count as their mean", self.runs)),
            left_out,
        ];
        remarks.into_iter().flatten().collect::<Vec<_>>().join("; ")
    }

    /// `1, 2, 3`.
    pub(super) fn seeds_text(&self) -> String {
        self.seeds.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }

    pub(super) fn mean_text(&self) -> String {
        format!("{:.2}", self.mean)
    }

    pub(super) fn deviation_text(&self) -> String {
        format!("{:.2}", self.deviation)
    }
}

impl Group {
    /// One line for each recipe with several seeds.
    ///
    /// Who taught may differ from seed to seed, for a teacher is trained with a seed too; the line says so. Where a seed comes
    /// with several teachers, it is the teachers that are compared there: then each teacher's seeds have a line of their own.
    pub fn seeds(&self) -> Vec<SeedsLine> {
        let mut alike: Vec<(Key, Vec<&ResultRecord>)> = Vec::new();
        for record in self.points.iter().map(|point| &point.record) {
            let key = Key::of(record);
            match alike.iter_mut().find(|(known, _)| *known == key) {
                Some((_, records)) => records.push(record),
                None => alike.push((key, vec![record])),
            }
        }
        alike.iter().flat_map(|(_, records)| lines(records)).collect()
    }
}

/// What results have in common that differ in nothing but their seeds and, perhaps, their teachers.
#[derive(PartialEq)]
struct Key {
    method: String,
    network: String,
    counts: Counts,
    recipe: Recipe,
}

impl Key {
    fn of(record: &ResultRecord) -> Self {
        let mut recipe = record.recipe.clone();
        (recipe.title, recipe.seed, recipe.data.directory) = (String::new(), 0, None);
        // What an optimization made for itself lies in its own folder, whatever that is called.
        let own = |path: &Path| match folder(&record.checkpoint) {
            Some(folder) => path.strip_prefix(folder).unwrap_or(path).to_owned(),
            None => path.to_owned(),
        };
        if let Some(start) = &mut recipe.start {
            start.checkpoint = own(&start.checkpoint);
        }
        if let Some(mask) = &mut recipe.mask {
            mask.file = own(&mask.file);
        }
        if let Some(teacher) = &mut recipe.teacher {
            teacher.checkpoint = PathBuf::new();
        }
        Self {
            method: record.method.clone(),
            network: record.network.clone(),
            counts: record.counts(),
            recipe,
        }
    }
}

/// The folder of all that a result came of: it holds the run that the checkpoint is of.
fn folder(checkpoint: &str) -> Option<&Path> {
    let path = Path::new(checkpoint);
    let in_run = path.parent().filter(|parent| parent.file_name().is_some_and(|name| name == "checkpoints"));
    in_run.map_or(Some(path), Path::parent)?.parent()
}

fn teacher(record: &ResultRecord) -> Option<&Path> {
    record.recipe.teacher.as_ref().map(|teacher| teacher.checkpoint.as_path())
}

/// Who taught, each once, in the order of the results.
fn teachers<'a>(records: &[&'a ResultRecord]) -> Vec<&'a Path> {
    let mut teachers = Vec::new();
    for path in records.iter().filter_map(|record| teacher(record)) {
        if !teachers.contains(&path) {
            teachers.push(path);
        }
    }
    teachers
}

/// The lines of results that have one key.
fn lines(records: &[&ResultRecord]) -> Vec<SeedsLine> {
    let repeats = |one: &&&ResultRecord| {
        records.iter().any(|other| other.seed == one.seed && teacher(other) != teacher(one))
    };
    if !records.iter().any(|record| repeats(&record)) {
        return line(records).into_iter().collect();
    }
    let of_teacher = |path: &Path| -> Vec<&ResultRecord> {
        records.iter().filter(|record| teacher(record) == Some(path)).copied().collect()
    };
    let mut lines: Vec<SeedsLine> =
        teachers(records).into_iter().filter_map(|path| line(&of_teacher(path))).collect();
    let left_out = records.len() - lines.iter().map(|line| line.runs).sum::<usize>();
    lines.iter_mut().for_each(|line| line.left_out = left_out);
    lines
}

/// Nothing where there is one seed alone.
fn line(records: &[&ResultRecord]) -> Option<SeedsLine> {
    let mut seeds: Vec<u64> = records.iter().map(|record| record.seed).collect();
    seeds.sort_unstable();
    seeds.dedup();
    let first = records.first().filter(|_| seeds.len() > 1)?;
    let of_seed = |seed: &u64| {
        let accuracies = records.iter().filter(|record| record.seed == *seed);
        mean(&accuracies.map(|record| record.accuracy().0).collect::<Vec<_>>())
    };
    let accuracies: Vec<f64> = seeds.iter().map(of_seed).collect();
    let mut in_order = records.to_vec();
    in_order.sort_by_key(|record| record.seed);
    Some(SeedsLine {
        network: first.network.clone(),
        method: first.method.clone(),
        counts: first.counts(),
        runs: records.len(),
        mean: mean(&accuracies),
        deviation: deviation(&accuracies),
        teachers: teachers(&in_order).into_iter().map(Path::to_owned).collect(),
        left_out: 0,
        seeds,
    })
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (values.len() - 1) as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use recipes::recipe::{Recipe, TeacherSection};

    use super::SeedsLine;
    use crate::pareto::groups;
    use crate::record::tests::example;
    use crate::{ResultRecord, RunRecord, collect};

    fn run(seed: u64, relus: u64, accuracy: f64) -> ResultRecord {
        let mut record = example("a network", relus, accuracy);
        (record.seed, record.recipe.seed) = (seed, seed);
        record
    }

    fn taught(teacher: &str, record: ResultRecord) -> ResultRecord {
        let recipe = Recipe { teacher: Some(TeacherSection::new(teacher)), ..record.recipe };
        ResultRecord { recipe, ..record }
    }

    fn lines(records: Vec<ResultRecord>) -> Vec<SeedsLine> {
        let run = |record| RunRecord { record, checkpoint: None, mask: None };
        groups(records.into_iter().map(run).collect())
            .unwrap()
            .iter()
            .flat_map(|group| group.seeds())
            .collect()
    }

    #[test]
    fn seeds_of_one_recipe_have_a_mean_and_a_deviation() {
        let mut other = run(4, 26_112, 60.0);
        other.recipe.training.epochs = 100;
        // The figures of the 26,112-ReLU network; another schedule is another recipe.
        let lines = lines(vec![run(3, 26_112, 72.79), run(1, 26_112, 72.54), run(2, 26_112, 72.46), other]);
        let [line] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!((&line.seeds[..], line.runs, line.remarks().as_str()), (&[1, 2, 3][..], 3, ""));
        assert!((line.mean - 72.5967).abs() < 1e-3 && (line.deviation - 0.1721).abs() < 1e-3);
    }

    #[test]
    fn what_differs_in_more_than_its_seed_is_no_seed_of_it() {
        // Two budgets with two seeds each: two lines.
        let two = lines(vec![
            run(1, 25_000, 70.0),
            run(2, 25_000, 71.0),
            run(1, 50_000, 74.0),
            run(2, 50_000, 75.0),
        ]);
        assert_eq!(two.iter().map(|line| line.mean).collect::<Vec<_>>(), [70.5, 74.5]);
        let changed = |change: &dyn Fn(&mut ResultRecord)| {
            let mut other = run(2, 25_000, 71.0);
            change(&mut other);
            lines(vec![run(1, 25_000, 70.0), other]).len()
        };
        assert_eq!(changed(&|_| {}), 1);
        assert_eq!(changed(&|other| other.method = "senet".to_owned()), 0);
        assert_eq!(changed(&|other| other.recipe.data.held_out = Some(5)), 0);
        assert_eq!(changed(&|other| other.recipe.data.directory = Some("images".into())), 1);
        assert_eq!(changed(&|other| other.recipe = taught("t", other.clone()).recipe), 0);
    }

    #[test]
    fn starts_and_masks_that_a_result_made_for_itself_are_alike_and_others_are_not() {
        let run = |seed: u64, start: &str| {
            let mut record = run(seed, 25_000, 70.0 + seed as f64);
            record.checkpoint = format!("runs/a-seed{seed}/trained/checkpoints/epoch-000080");
            let sections = format!(
                "[start]\ncheckpoint = \"{start}\"\n[mask]\nfile = \"{start}/mask\"\n{}",
                record
                    .recipe
                    .to_toml()
                    .split_once("[data]")
                    .map(|(_, rest)| format!("[data]{rest}"))
                    .unwrap()
            );
            record.recipe = Recipe::from_toml(&format!("seed = {seed}\n{sections}")).unwrap();
            record
        };
        assert_eq!(lines(vec![run(1, "runs/a-seed1/settled"), run(2, "runs/a-seed2/settled")]).len(), 1);
        assert_eq!(lines(vec![run(1, "runs/b/settled"), run(2, "runs/b/settled")]).len(), 1);
        assert_eq!(lines(vec![run(1, "runs/b/settled"), run(2, "runs/c/settled")]).len(), 0);
    }

    #[test]
    fn teachers_of_several_seeds_may_differ_and_are_named() {
        let lines = lines(vec![taught("t1", run(1, 100, 70.0)), taught("t2", run(2, 100, 71.0))]);
        let [line] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!((&line.seeds[..], line.left_out), (&[1, 2][..], 0));
        assert_eq!(line.remarks(), "their teachers differ (t1, t2)");
    }

    #[test]
    fn teachers_of_one_seed_are_apart_and_what_has_no_second_seed_is_left_out() {
        let records = vec![
            taught("t1", run(1, 100, 70.0)),
            taught("t1", run(2, 100, 71.0)),
            taught("t2", run(1, 100, 80.0)),
        ];
        let lines = lines(records.clone());
        let [line] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!((&line.teachers[..], line.mean, line.left_out), (&["t1".into()][..], 70.5, 1));
        assert_eq!(line.remarks(), "1 result with another teacher is left out");
        let both = self::lines([records, vec![taught("t2", run(3, 100, 82.0))]].concat());
        let means: Vec<_> = both.iter().map(|line| (line.mean, line.left_out)).collect();
        assert_eq!(means, [(81.0, 0), (70.5, 0)]);
    }

    #[test]
    fn a_seed_that_was_run_again_counts_once_with_all_its_runs() {
        let lines = lines(vec![run(1, 100, 70.0), run(1, 100, 72.0), run(2, 100, 73.0)]);
        let [line] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!((&line.seeds[..], line.runs, line.mean), (&[1, 2][..], 3, 72.0));
        assert_eq!(line.remarks(), "3 runs, those of one seed count as their mean");
    }

    #[test]
    fn our_three_seeds_are_a_line_that_says_that_a_teacher_differs() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let found = ["results", "records/seeds"].iter().flat_map(|it| collect(&root.join(it)).unwrap());
        let lines = groups(found.collect()).unwrap()[0].seeds();
        let [line] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!((line.counts.comparisons, &line.seeds[..], line.runs), (26_112, &[1, 2, 3][..], 3));
        assert!((line.mean - 72.60).abs() < 5e-3 && line.remarks().contains("teachers differ"), "{line:?}");
    }
}
