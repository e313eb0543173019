//! The script of a job: what Slurm is told, and the call that makes one run.

use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::SlurmArguments;

/// Seconds before the end of a job's time at which it is asked to stop.
const NOTICE: u32 = 90;

/// One array of jobs; a job alone is an array of one.
pub(super) struct Script<'a> {
    pub(super) name: String,
    /// Where logs go.
    pub(super) place: &'a Path,
    /// The file of the runs' names.
    pub(super) list: &'a Path,
    pub(super) tasks: usize,
    pub(super) program: PathBuf,
    pub(super) work_in: PathBuf,
    pub(super) worker: &'a [OsString],
    /// The job that must end well before.
    pub(super) after: Option<&'a str>,
}

impl Script<'_> {
    /// The script. The worker replaces the shell, so that Slurm's signals reach it.
    pub(super) fn text(&self, arguments: &SlurmArguments) -> anyhow::Result<String> {
        let limit = arguments.array_limit.map_or_else(String::new, |limit| format!("%{limit}"));
        let mut lines = vec![
            format!("--job-name={}", one_word(&self.name)),
            format!("--array=1-{}{limit}", self.tasks),
            format!("--output={}/%A_%a.log", self.place.to_str().context("the folder's name is no text")?),
            "--open-mode=append".to_owned(),
            "--requeue".to_owned(),
            format!("--signal=B:TERM@{NOTICE}"),
            "--nodes=1".to_owned(),
            "--ntasks=1".to_owned(),
        ];
        lines.extend(arguments.partition.as_ref().map(|name| format!("--partition={name}")));
        lines.extend(arguments.gres.as_ref().map(|list| format!("--gres={list}")));
        lines.extend(arguments.time_limit.as_ref().map(|time| format!("--time={time}")));
        lines.extend(self.after.map(|job| format!("--dependency=afterok:{job}")));
        let mut text = "#!/bin/sh\n".to_owned();
        for line in &lines {
            if line.contains(['\n', ' ', '"', '\'']) {
                bail!("{line:?} cannot stand in a script for Slurm; choose names without spaces and quotes");
            }
            writeln!(text, "#SBATCH {line}")?;
        }
        writeln!(text, "# Written by sordino; see its book, \"Sweeps on a cluster\".")?;
        writeln!(text, "cd {} || exit 2", quoted(self.work_in.as_os_str())?)?;
        writeln!(text, "run=$(sed -n \"${{SLURM_ARRAY_TASK_ID}}p\" {})", quoted(self.list.as_os_str())?)?;
        writeln!(text, "[ -n \"$run\" ] || exit 2")?;
        write!(text, "exec {}", quoted(self.program.as_os_str())?)?;
        for word in self.worker {
            write!(text, " {}", quoted(word)?)?;
        }
        writeln!(text, " --only \"$run\"")?;
        Ok(text)
    }
}

/// A word as the shell reads it unchanged.
fn quoted(word: &OsStr) -> anyhow::Result<String> {
    let text =
        word.to_str().with_context(|| format!("{} is no text, so no script can hold it", word.display()))?;
    Ok(format!("'{}'", text.replace('\'', "'\\''")))
}

fn one_word(name: &str) -> String {
    let plain = |character: char| {
        let is_plain = character.is_ascii_alphanumeric() || "-_.".contains(character);
        if is_plain { character } else { '-' }
    };
    name.chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(worker: &[OsString], arguments: &SlurmArguments) -> anyhow::Result<String> {
        Script {
            name: "sordino-a b".to_owned(),
            place: Path::new("/shared/out/slurm"),
            list: Path::new("/shared/out/slurm/2-runs.txt"),
            tasks: 15,
            program: PathBuf::from("/usr/bin/sordino"),
            work_in: PathBuf::from("/shared/it's mine"),
            worker,
            after: Some("17"),
        }
        .text(arguments)
    }

    fn arguments(partition: Option<&str>) -> SlurmArguments {
        SlurmArguments {
            slurm: true,
            partition: partition.map(str::to_owned),
            gres: Some("gpu:1".to_owned()),
            array_limit: Some(4),
            time_limit: None,
        }
    }

    #[test]
    fn a_script_says_all_that_was_asked_for_and_quotes_it() {
        let text = script(&["sweep".into(), "my sweep.toml".into()], &arguments(Some("gpu"))).unwrap();
        let expected = [
            "#SBATCH --job-name=sordino-a-b",
            "#SBATCH --array=1-15%4",
            "#SBATCH --requeue",
            "#SBATCH --partition=gpu",
            "#SBATCH --gres=gpu:1",
            "#SBATCH --dependency=afterok:17",
            "cd '/shared/it'\\''s mine' || exit 2",
            "exec '/usr/bin/sordino' 'sweep' 'my sweep.toml' --only \"$run\"",
        ];
        for line in expected {
            assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("--time"));
    }

    #[test]
    fn what_could_become_another_line_is_refused() {
        let error = script(&[], &arguments(Some("gpu\n#SBATCH --uid=0"))).unwrap_err().to_string();
        assert!(error.contains("cannot stand in a script"), "{error}");
    }
}
