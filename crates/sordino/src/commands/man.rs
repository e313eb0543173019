//! `sordino man`: the manual pages.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Args, Command, CommandFactory};
use clap_mangen::Man;

use super::{Answer, CommandLine};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The verb whose page is printed, such as freeze or optimize snl [default: the main page].
    verb: Vec<String>,
    /// Write one page per verb into this folder instead of printing one.
    #[arg(long, value_name = "DIR", conflicts_with = "verb")]
    dir: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    match &arguments.dir {
        None => Man::new(page(&arguments.verb)?).render(out)?,
        Some(dir) => {
            std::fs::create_dir_all(dir)
                .and_then(|()| clap_mangen::generate_to(CommandLine::command(), dir))
                .with_context(|| format!("cannot write manual pages to {}", dir.display()))?;
        }
    }
    Ok(Answer::Yes)
}

/// The command that a verb names, called as it is typed.
fn page(verb: &[String]) -> anyhow::Result<Command> {
    let mut command = CommandLine::command();
    let mut title = command.get_name().to_owned();
    for word in verb {
        let Some(inner) = command.find_subcommand(word) else {
            let known: Vec<_> = command.get_subcommands().map(Command::get_name).collect();
            bail!("`{title}` has no verb {word:?}; it has: {}", known.join(", "));
        };
        title = format!("{title} {word}");
        command = inner.clone();
    }
    Ok(command.display_name(title.replace(' ', "-")).bin_name(title))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(verb: &[&str]) -> anyhow::Result<String> {
        let verb = verb.iter().map(ToString::to_string).collect();
        let mut out = Vec::new();
        run(&Arguments { verb, dir: None }, &mut out)?;
        Ok(String::from_utf8(out)?)
    }

    #[test]
    fn every_verb_has_a_page() {
        assert!(printed(&[]).unwrap().contains("sordino"));
        assert!(printed(&["freeze"]).unwrap().contains("calibrate"));
        let nested = printed(&["optimize", "snl"]).unwrap();
        assert!(nested.contains("sordino optimize snl"), "{nested}");
        let error = printed(&["optimize", "snail"]).unwrap_err().to_string();
        assert!(
            error.contains("`sordino optimize` has no verb \"snail\"") && error.contains("snl"),
            "{error}"
        );
    }
}
