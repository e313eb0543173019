//! What a sweep has to do, in an order in which it can be done: teachers that several runs share first, each once.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::{SweepRun, own_teacher};
use crate::file::read_text;
use crate::recipe::{Recipe, TeacherSection};

/// The file in which an optimization notes whose folder it is.
pub const RECIPE: &str = "recipe.toml";
/// The folder of the teachers that runs of a sweep share.
pub const TEACHERS: &str = "teachers";
/// The longest such note.
const MAX_NOTE_BYTES: u64 = 1 << 20;

/// One thing to train. It has a folder of its own, so that several workers can share the list.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Different for every job.
    pub name: String,
    /// Where it goes.
    pub folder: PathBuf,
    /// With an `[optimize]` section or without one.
    pub recipe: Recipe,
    /// The job that must be done before it.
    pub needs: Option<String>,
    /// Whether others need it, and it is no result itself.
    pub is_teacher: bool,
}

impl Job {
    /// The jobs of a sweep with a folder for everything. A sweep of one has that folder for itself.
    ///
    /// Runs that would train the same teacher get one that is trained before them. A run that was begun with a teacher of
    /// its own keeps it.
    pub fn of_sweep(runs: Vec<SweepRun>, out: &Path) -> Vec<Self> {
        if let [_] = runs.as_slice() {
            let alone = |run: SweepRun| Self {
                name: run.name,
                folder: out.to_owned(),
                recipe: run.recipe,
                needs: None,
                is_teacher: false,
            };
            return runs.into_iter().map(alone).collect();
        }
        let teachers: Vec<Option<Recipe>> = runs.iter().map(|run| shareable_teacher(run, out)).collect();
        let mut jobs: Vec<Self> = Vec::new();
        let mut students = Vec::with_capacity(runs.len());
        for (run, teacher) in runs.into_iter().zip(&teachers) {
            let mut job = Self {
                folder: out.join(&run.name),
                name: run.name,
                recipe: run.recipe,
                needs: None,
                is_teacher: false,
            };
            let others = teachers.iter().filter(|other| *other == teacher).count();
            if let (Some(teacher), true) = (teacher, others > 1) {
                let name = teacher_name(teacher);
                let folder = out.join(TEACHERS).join(&name);
                job.recipe.teacher = Some(TeacherSection::new(&folder));
                job.needs = Some(name.clone());
                if !jobs.iter().any(|known| known.name == name) {
                    jobs.push(Self { name, folder, recipe: teacher.clone(), needs: None, is_teacher: true });
                }
            }
            students.push(job);
        }
        jobs.extend(students);
        jobs
    }
}

/// The teacher that a run would train for itself; nothing where it has begun to.
fn shareable_teacher(run: &SweepRun, out: &Path) -> Option<Recipe> {
    let mut teacher = own_teacher(&run.recipe)?;
    let note = read_text(&out.join(&run.name).join(RECIPE), MAX_NOTE_BYTES).ok();
    let noted = note.and_then(|text| Recipe::from_toml(&text).ok());
    if noted.is_some_and(|noted| noted.teacher.is_none()) {
        return None;
    }
    teacher.title = format!("the teacher {}", teacher.network.name);
    Some(teacher)
}

/// A name that no teacher of another recipe has, and that stays when others come to it.
pub fn teacher_name(teacher: &Recipe) -> String {
    let plain = |character: char| if character.is_ascii_alphanumeric() { character } else { '-' };
    let network: String = teacher.network.name.chars().map(plain).collect();
    let digest = blake3::hash(teacher.to_toml().as_bytes()).to_hex();
    format!("teacher-{network}-seed{}-{}", teacher.seed, &digest[..6])
}

/// The part of the jobs that is asked for, with the teachers that it needs; all of them where nothing is asked for.
///
/// # Errors
/// When no job has a name that is asked for.
pub fn select(jobs: &[Job], only: &[String], shard: Option<Shard>) -> Result<Vec<Job>, SelectError> {
    for name in only {
        if !jobs.iter().any(|job| job.name == *name) {
            return Err(SelectError::unknown(name, jobs));
        }
    }
    let runs: Vec<&Job> = jobs.iter().filter(|job| !job.is_teacher).collect();
    let is_in_shard = |job: &Job| match shard {
        None => true,
        Some(shard) => {
            let place = runs.iter().position(|run| run.name == job.name);
            place.is_some_and(|place| place % shard.count == shard.index - 1)
        }
    };
    let is_named = |job: &Job| only.is_empty() || only.contains(&job.name);
    let is_wanted = |job: &Job| is_named(job) && is_in_shard(job);
    let is_needed = |job: &Job| {
        jobs.iter().any(|other| is_wanted(other) && other.needs.as_deref() == Some(job.name.as_str()))
    };
    Ok(jobs.iter().filter(|job| is_wanted(job) || is_needed(job)).cloned().collect())
}

/// One of several equal parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Which one, from 1.
    index: usize,
    /// Of how many.
    count: usize,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts =
            text.split_once('/').and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
        match parts {
            Some((index, count)) if (1..=count).contains(&index) => Ok(Self { index, count }),
            _ => Err("expected a part and how many there are, such as 1/3 for the first of three".to_owned()),
        }
    }
}

impl std::fmt::Display for Shard {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", self.index, self.count)
    }
}

/// A name that no job has.
#[derive(Debug, thiserror::Error)]
#[error("there is no run {name:?}{near}; expected one of {}", listed(.names))]
pub struct SelectError {
    name: String,
    near: String,
    /// Those that there are.
    names: Vec<String>,
}

impl SelectError {
    fn unknown(name: &str, jobs: &[Job]) -> Self {
        let names: Vec<String> = jobs.iter().map(|job| job.name.clone()).collect();
        let near = names.iter().max_by(|one, other| {
            strsim::jaro_winkler(one, name).total_cmp(&strsim::jaro_winkler(other, name))
        });
        let near = near.map_or_else(String::new, |near| format!("; the nearest name is {near:?}"));
        Self { name: name.to_owned(), near, names }
    }
}

/// All names, or the first of many and how many more there are.
fn listed(names: &[String]) -> String {
    match names.len().checked_sub(NAMES).filter(|more| *more > 0) {
        None => names.join(", "),
        Some(more) => format!("{}, and {more} more", names[..NAMES].join(", ")),
    }
}

/// So many names are listed.
const NAMES: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "[data]\nset = \"synthetic\"\n[network]\nname = \"resnet10:m=2\"\n[training]\nepochs = 3\nbatch = 50\n";

    fn runs(budgets: &[u64], seeds: &[u64]) -> Vec<SweepRun> {
        let pairs = budgets.iter().flat_map(|budget| seeds.iter().map(move |seed| (budget, seed)));
        let run = |(budget, seed): (&u64, &u64)| SweepRun {
            name: format!("a-{budget}-seed{seed}"),
            recipe: Recipe::from_toml(&format!(
                "seed = {seed}\ntitle = \"a {budget}\"\n{RUN}[optimize]\nmethod = \"snl\"\nbudget = {budget}"
            ))
            .unwrap(),
        };
        pairs.map(run).collect()
    }

    fn names(jobs: &[Job]) -> Vec<&str> {
        jobs.iter().map(|job| job.name.as_str()).collect()
    }

    #[test]
    fn a_teacher_that_runs_share_is_trained_once_and_first() {
        let jobs = Job::of_sweep(runs(&[100, 200], &[1, 2]), Path::new("out"));
        assert_eq!(jobs.len(), 6);
        assert!(jobs[..2].iter().all(|job| job.is_teacher && job.needs.is_none()));
        assert!(jobs[0].name.starts_with("teacher-resnet10-m-2-seed1-"), "{}", jobs[0].name);
        for job in &jobs[2..] {
            let teacher = jobs.iter().find(|other| Some(&other.name) == job.needs.as_ref()).unwrap();
            assert_eq!(teacher.recipe.seed, job.recipe.seed);
            assert_eq!(job.recipe.teacher.as_ref().unwrap().checkpoint, teacher.folder);
        }
    }

    #[test]
    fn a_run_that_shares_with_nobody_has_its_teacher_for_itself() {
        let jobs = Job::of_sweep(runs(&[100], &[1, 2]), Path::new("out"));
        assert_eq!(names(&jobs), ["a-100-seed1", "a-100-seed2"]);
        assert!(jobs.iter().all(|job| job.recipe.teacher.is_none()));
        let alone = Job::of_sweep(runs(&[100], &[1]), Path::new("out"));
        assert_eq!(alone[0].folder, Path::new("out"));
    }

    #[test]
    fn a_run_that_was_begun_with_its_own_teacher_keeps_it() {
        let out = tempfile::tempdir().unwrap();
        let runs = runs(&[100, 200, 300], &[1]);
        let folder = out.path().join(&runs[0].name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(RECIPE), runs[0].recipe.to_toml()).unwrap();
        let jobs = Job::of_sweep(runs, out.path());
        assert_eq!(jobs.len(), 4);
        assert_eq!(jobs[1].recipe.teacher, None);
        assert!(jobs[2].needs.is_some() && jobs[2].needs == jobs[3].needs);
    }

    #[test]
    fn shards_are_disjoint_complete_and_come_with_their_teachers() {
        let jobs = Job::of_sweep(runs(&[100, 200, 300], &[1, 2]), Path::new("out"));
        let mut all = Vec::new();
        for index in 1..=4 {
            let shard = format!("{index}/4").parse().unwrap();
            let part = select(&jobs, &[], Some(shard)).unwrap();
            for job in &part {
                assert!(job.needs.is_none() || part.iter().any(|it| Some(&it.name) == job.needs.as_ref()));
            }
            all.extend(part.into_iter().filter(|job| !job.is_teacher).map(|job| job.name));
        }
        all.sort_unstable();
        let mut expected: Vec<_> =
            jobs.iter().filter(|job| !job.is_teacher).map(|job| job.name.clone()).collect();
        expected.sort_unstable();
        assert_eq!(all, expected);
        for wrong in ["0/3", "4/3", "1", "a/b", "1/0"] {
            assert!(wrong.parse::<Shard>().unwrap_err().contains("1/3"), "{wrong}");
        }
    }

    #[test]
    fn one_run_is_chosen_by_name_with_its_teacher_and_a_wrong_name_is_refused() {
        let jobs = Job::of_sweep(runs(&[100, 200], &[1, 2]), Path::new("out"));
        let one = select(&jobs, &["a-200-seed2".to_owned()], None).unwrap();
        assert_eq!(names(&one), [jobs[1].name.as_str(), "a-200-seed2"]);
        let teacher = select(&jobs, std::slice::from_ref(&jobs[0].name), None).unwrap();
        assert_eq!(names(&teacher), [jobs[0].name.as_str()]);
        let error = select(&jobs, &["a-200-seed".to_owned()], None).unwrap_err().to_string();
        let all = names(&jobs).join(", ");
        assert_eq!(
            error,
            format!(
                "there is no run \"a-200-seed\"; the nearest name is \"a-200-seed2\"; expected one of {all}"
            )
        );
        let many = Job::of_sweep(runs(&[100, 200], &(1..=10).collect::<Vec<_>>()), Path::new("out"));
        let error = select(&many, &["b".to_owned()], None).unwrap_err().to_string();
        assert!(error.contains(&many[11].name) && !error.contains(&many[12].name), "{error}");
        assert!(error.ends_with(", and 18 more"), "{error}");
    }
}
