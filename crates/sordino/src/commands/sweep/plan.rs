//! What a sweep has to do.

use std::io::Write;

use recipes::method::Job;
use results::reproduce::predicted_minutes;
use serde::Serialize;

use crate::commands::{Answer, write_json};

/// What `--plan --json` says of a job.
#[derive(Serialize)]
struct Planned<'a> {
    name: &'a str,
    folder: String,
    /// `teacher`, or the method.
    kind: &'a str,
    network: &'a str,
    budget: Option<String>,
    seed: u64,
    /// What must be done before it.
    needs: Option<&'a str>,
    /// Predicted on one H200, with a teacher that is its own; nothing where the network cannot be built yet.
    gpu_minutes: Option<f64>,
}

/// Lists the jobs in an order in which they can be done.
pub(super) fn write(jobs: &[Job], json: bool, out: &mut dyn Write) -> anyhow::Result<Answer> {
    let planned: Vec<Planned<'_>> = jobs.iter().map(|job| planned(job, jobs)).collect();
    if json {
        return write_json(out, &planned);
    }
    for job in &planned {
        let budget = match (&job.budget, job.kind) {
            (Some(budget), _) => format!("budget {budget}, "),
            (None, "teacher") => format!("{}, ", job.network),
            (None, _) => "budget all, ".to_owned(),
        };
        write!(out, "{}: {}, {budget}seed {}", job.name, job.kind, job.seed)?;
        if let Some(minutes) = job.gpu_minutes {
            let minutes = if minutes < 0.1 { "under 0.1".to_owned() } else { format!("{minutes:.1}") };
            write!(out, ", {minutes} GPU minutes")?;
        }
        writeln!(out, "{}", job.needs.map_or_else(String::new, |needs| format!(", after {needs}")))?;
    }
    Ok(Answer::Yes)
}

fn planned<'a>(job: &'a Job, jobs: &'a [Job]) -> Planned<'a> {
    let section = job.recipe.optimize.as_ref();
    let teacher = jobs.iter().find(|other| Some(&other.name) == job.needs.as_ref());
    Planned {
        name: &job.name,
        folder: job.folder.display().to_string(),
        kind: section.map_or("teacher", |section| section.method()),
        network: &job.recipe.network.name,
        budget: section.and_then(|section| section.budget()).map(|budget| budget.to_string()),
        seed: job.recipe.seed,
        needs: job.needs.as_deref(),
        gpu_minutes: predicted_minutes(&job.recipe, teacher.map(|teacher| &teacher.recipe)).ok(),
    }
}
