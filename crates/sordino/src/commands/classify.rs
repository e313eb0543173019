//! `sordino classify IMAGE… --server ADDRESS`: asks a server about images it never sees.
//!
//! Answers are printed as they come, a batch at a time: what is known when the server dies is known.

mod report;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use inference::InferenceError;
use inference::client::Answer as Learned;
use inference::connection::refusal::RefusalCode;
use inference::requests::MAX_COUNT;
use inference::transcript::Traffic;
use network::image::Image;
use network::text::with_causes;

use super::Answer;
use super::interrupt::Interrupt;
use super::link::Link;
use super::prepare::KeyArguments;
use super::progress::OfflineProgress;
use super::rates::KnownRates;
use super::reach::ServerArguments;
use crate::image_files::{ImageFileError, NamedImages, load_image, named_images};
use crate::report::{counted, printable};
use client::prepared_file::PreparedFile;
use client::{ClientError, Cost, PrivateClient, seconds_now};
use report::{Printer, Skipped, Totals};
use service::{ByteSize, process_memory};

/// Measuring the link takes ten round trips and two megabytes: it must be little beside what is sent.
const WORTH_MEASURING: u64 = 32_000_000;
/// From here on a predicted time says whose it is.
const LONG: Duration = Duration::from_secs(10);
/// How many unusable images an error names.
const NAMED: usize = 10;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Images (PNG, JPEG, WebP, GIF, BMP, TIFF), or folders of them; - is one image from standard input.
    #[arg(value_name = "IMAGE", required = true)]
    images: Vec<PathBuf>,
    #[command(flatten)]
    server: ServerArguments,
    /// Use inferences from this file, made by `sordino prepare`: the offline work is done. The file knows its model.
    #[arg(long, value_name = "FILE")]
    prepared: Option<PathBuf>,
    #[command(flatten)]
    key: KeyArguments,
    /// The most images that share round trips; fewer do where memory is short, or the server takes fewer at once.
    #[arg(long, default_value_t = 16, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_COUNT)))]
    batch: u32,
    /// Pass over images that cannot be used, and say so at the end, with exit code 1.
    #[arg(long)]
    skip_bad: bool,
    /// How many of the best classes to show.
    #[arg(long, default_value_t = 5, value_name = "COUNT", value_parser = super::at_least_one)]
    top: u64,
    /// Print JSON, one object at the end.
    #[arg(long)]
    json: bool,
    /// Print JSON, one object a line for each image, as answers come.
    #[arg(long, conflicts_with = "json")]
    json_lines: bool,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    process_memory::protect();
    let NamedImages { paths, notes } = named_images(&arguments.images)?;
    notes.iter().for_each(|line| note(line));
    let open = |path: &PathBuf| arguments.key.open(path, arguments.server.patience());
    let mut file = arguments.prepared.as_ref().map(open).transpose()?;
    if let (Some(path), Some(file)) = (&arguments.prepared, &file) {
        arguments.server.expect_model_of(path, file)?;
    }
    let mut client = arguments.server.connect_for(file.as_ref())?;
    let (images, skipped) = load(&paths, &client, arguments.skip_bad)?;
    expect_enough(file.as_ref(), images.len())?;
    let (cost, is_link_known) = price(arguments, &mut client, images.len() as u64)?;
    announce(&client, &cost, images.len(), is_link_known);
    let mut printer = Printer::new(out, arguments, skipped)?;
    let mut totals = Totals::new(cost, is_link_known, images.len() as u64);
    let outcome = classify_all(arguments, &mut client, file.as_mut(), &images, &mut printer, &mut totals);
    let outcome = outcome.map_err(|error| arguments.server.explain(error));
    let done = printer.answered();
    // Whatever ended it, what is known by now is said.
    let said = printer.finish(&mut client, &totals, outcome.as_ref().err());
    let ended = client.finish();
    outcome.with_context(|| format!("{done} of {} images were classified", images.len()))?;
    let has_skipped = said?;
    ended?;
    Ok(if has_skipped { Answer::No } else { Answer::Yes })
}

/// What an image costs, and whether the link is known: it was named, or so much is to be sent that it was measured. Who waits
/// for little waits no longer for a figure.
fn price(arguments: &Arguments, client: &mut PrivateClient, images: u64) -> anyhow::Result<(Cost, bool)> {
    let named = arguments.server.link;
    let cost = client.cost_on(named.unwrap_or(Link::LOOPBACK).speed());
    let cost = if arguments.prepared.is_some() { cost.prepared() } else { cost };
    if named.is_some() || cost.for_images(images).bytes() < WORTH_MEASURING {
        return Ok((cost, named.is_some()));
    }
    Ok((Cost { link: client.cost()?.link, ..cost }, true))
}

/// Too few inferences are noticed before any is used.
fn expect_enough(file: Option<&PreparedFile>, images: usize) -> anyhow::Result<()> {
    let Some(file) = file else { return Ok(()) };
    let left = file.remaining(seconds_now())?;
    if (left as usize) < images {
        return Err(ClientError::TooFewPrepared { left, images }.into());
    }
    Ok(())
}

fn classify_all(
    arguments: &Arguments,
    client: &mut PrivateClient,
    mut file: Option<&mut PreparedFile>,
    images: &[Named<'_>],
    printer: &mut Printer<'_>,
    totals: &mut Totals,
) -> anyhow::Result<()> {
    let mut size = batch_size(&totals.cost, arguments);
    let progress = OfflineProgress::start_with_lines(client.session_mut().plan(), images.len());
    let interrupt = Interrupt::listen(progress.speaker())?;
    attend(client, &progress);
    let (start, mut rest) = (Instant::now(), images);
    while !rest.is_empty() {
        interrupt.check()?;
        let batch = &rest[..size.min(rest.len())];
        let answers = classify_batch(client, file.as_deref_mut(), batch, &mut totals.online);
        totals.wall = start.elapsed();
        if batch.len() > 1 && answers.as_ref().is_err_and(is_limit) {
            size = batch.len() / 2;
            progress.speaker()(&format!(
                "the server takes fewer images at once; goes on with {size} at a time"
            ));
            totals.end_session(client);
            *client = connect_again(arguments, client, file.as_deref())?;
            attend(client, &progress);
            progress.set_done(images.len() - rest.len());
            continue;
        }
        let mut described = batch.iter().zip(answers?);
        // Flushed before the bar comes back: its line has no end.
        progress.pause(|| {
            described.try_for_each(|((path, _), answer)| printer.print(path, &answer, client))?;
            printer.flush()
        })?;
        rest = &rest[batch.len()..];
    }
    progress.finish();
    Ok(())
}

/// Has the bar show what the client does.
fn attend(client: &mut PrivateClient, progress: &OfflineProgress) {
    client.session_mut().watch(progress.watcher());
    let speaker = progress.speaker();
    client.on_waiting(move |ahead| speaker(&format!("waiting: {ahead} in line")));
}

/// Whether more was asked for than the server gives to one client.
fn is_limit(error: &ClientError) -> bool {
    matches!(
        error,
        ClientError::Inference(InferenceError::Refused { refusal, .. }) if refusal.code == RefusalCode::Limit
    )
}

/// A new session with the same model: a server that refused something has ended the old one.
fn connect_again(
    arguments: &Arguments,
    client: &mut PrivateClient,
    file: Option<&PreparedFile>,
) -> anyhow::Result<PrivateClient> {
    let mut again = arguments.server.connect_for(file)?;
    let before = client.session_mut().agreement();
    if let Some(what) = before.difference(again.session_mut().agreement()) {
        bail!("the server's model is another than a moment ago: {what} differs; ask again");
    }
    Ok(again)
}

fn classify_batch(
    client: &mut PrivateClient,
    file: Option<&mut PreparedFile>,
    batch: &[Named<'_>],
    online: &mut Duration,
) -> Result<Vec<Learned>, ClientError> {
    let images: Vec<_> = batch.iter().map(|(_, image)| image.clone()).collect();
    if file.is_none() {
        client.prepare(images.len() as u32)?;
    }
    let image_known = Instant::now();
    let answers = match file {
        Some(file) => client.classify_from(file, &images),
        None => client.classify_batch(&images),
    };
    *online += image_known.elapsed();
    answers
}

/// An image and the file it comes from.
type Named<'a> = (&'a Path, Image);

/// The images as the network takes them. One that cannot be used is passed over where that was asked for; else nothing is
/// sent at all.
fn load<'a>(
    paths: &'a [PathBuf],
    client: &PrivateClient,
    skips_bad: bool,
) -> anyhow::Result<(Vec<Named<'a>>, Vec<Skipped>)> {
    let input = client.outline().input;
    let (mut images, mut bad) = (Vec::new(), Vec::new());
    for path in paths {
        match load_image(path, input) {
            Ok(image) => images.push((path.as_path(), image)),
            Err(error) => bad.push((path, error)),
        }
    }
    if images.is_empty() || !skips_bad {
        refuse_bad(bad, paths.len())?;
        return Ok((images, Vec::new()));
    }
    let skipped = |(path, error): (&PathBuf, ImageFileError)| {
        let error = with_causes(&error);
        note(&format!("skipped: {error}"));
        Skipped { file: path.clone(), error }
    };
    Ok((images, bad.into_iter().map(skipped).collect()))
}

/// How many cannot be used, then a line for each with its reason.
fn refuse_bad(mut bad: Vec<(&PathBuf, ImageFileError)>, all: usize) -> anyhow::Result<()> {
    let count = bad.len();
    if count == 1 && all == 1 {
        return bad.pop().map_or(Ok(()), |(_, only)| Err(only.into()));
    }
    if count == 0 {
        return Ok(());
    }
    let mut lines: Vec<_> = bad.iter().take(NAMED).map(|(_, error)| with_causes(error)).collect();
    if count > NAMED {
        lines.push(format!("and {} more", count - NAMED));
    }
    let advice = if count == all { "" } else { "; --skip-bad passes over such" };
    bail!("{count} of {all} images cannot be used{advice}:\n  {}", lines.join("\n  "))
}

/// As many images as share round trips within the memory.
fn batch_size(cost: &Cost, arguments: &Arguments) -> usize {
    let fitting = arguments.server.max_memory.0 / cost.memory.max(1);
    fitting.clamp(1, arguments.batch.into()) as usize
}

/// Says what it will cost; asks nothing.
fn announce(client: &PrivateClient, cost: &Cost, images: usize, is_link_known: bool) {
    let all = cost.for_images(images as u64);
    let bytes = |traffic: &Traffic| traffic.bytes_up + traffic.bytes_down;
    let offline = match bytes(&all.offline) {
        0 => String::new(),
        bytes => format!("{} offline, ", ByteSize(bytes)),
    };
    let KnownRates { processor, rates } = KnownRates::load();
    let time = all.offline_time(&rates) + all.online_time(&rates);
    let about = match time.as_secs_f64() {
        seconds if seconds < 0.1 => "less than 0.1".to_owned(),
        seconds => format!("about {seconds:.1}"),
    };
    let link = match is_link_known {
        true => format!(
            " on a link of {:.0} Mb/s down, {:.0} Mb/s up, {:.1} ms round trip",
            cost.link.down * 8e-6,
            cost.link.up * 8e-6,
            cost.link.round_trip.as_secs_f64() * 1e3,
        ),
        false => " and the link".to_owned(),
    };
    // Who waits for long asks what the figure is worth.
    let rates = match time >= LONG {
        true => format!("; computing as on {processor}"),
        false => String::new(),
    };
    note(&format!(
        "{}: {}: {offline}{} online, {about} s{link}{rates}",
        client.model(),
        counted(images as u64, "image"),
        ByteSize(bytes(&all.online)),
    ));
}

/// Progress goes to stderr; nothing can be done when that is closed.
fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", printable(text));
}
